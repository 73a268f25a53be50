"""EC2's machines, for EKS.

Sizes and local disks: https://aws.amazon.com/ec2/instance-types/ (m6i, g4, g5, g6, p4, p5, p6) and
https://docs.aws.amazon.com/ec2/latest/instancetypes/ac.html. EFA interfaces:
https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa.html and .../efa-acc-inst-types.html. All of them can
be in a cluster placement group: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/placement-strategies.html
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from muster.model.capacity import Capacity
from muster.model.machines.machine import Machine
from muster.model.providers import Provider
from muster.model.quantities import GIB, Bytes, Millicores

_FOR_CPUS: Final = frozenset({Capacity.ON_DEMAND, Capacity.SPOT, Capacity.RESERVATION})
_FOR_GPUS: Final = _FOR_CPUS | {Capacity.QUEUED}
_BLOCKS: Final = _FOR_GPUS | {Capacity.CAPACITY_BLOCK}

# vCPU, memory in GiB, GPUs, local disks, EFA interfaces.
_Row = tuple[int, int, int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Family:
    """Machines that are sold alike. Capacity blocks are sold of P4d, P5, P5e, P5en and P6 only:
    https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-capacity-blocks.html and
    https://docs.aws.amazon.com/pcs/latest/userguide/capacity-blocks.html
    """

    rows: dict[str, _Row]
    accelerator: str | None = None
    bought: frozenset[Capacity] = _FOR_GPUS
    unsourced: frozenset[Capacity] = frozenset()


_M6I: Final = _Family(
    bought=_FOR_CPUS,
    rows={
        "m6i.large": (2, 8, 0, 0, 0),
        "m6i.xlarge": (4, 16, 0, 0, 0),
        "m6i.2xlarge": (8, 32, 0, 0, 0),
        "m6i.4xlarge": (16, 64, 0, 0, 0),
        "m6i.8xlarge": (32, 128, 0, 0, 0),
    },
)
_G4DN: Final = _Family(
    accelerator="nvidia-tesla-t4",
    rows={
        "g4dn.xlarge": (4, 16, 1, 1, 0),
        "g4dn.2xlarge": (8, 32, 1, 1, 0),
        "g4dn.4xlarge": (16, 64, 1, 1, 0),
        "g4dn.8xlarge": (32, 128, 1, 1, 1),
        "g4dn.12xlarge": (48, 192, 4, 1, 1),
        "g4dn.16xlarge": (64, 256, 1, 1, 1),
        "g4dn.metal": (96, 384, 8, 2, 1),
    },
)
_G5: Final = _Family(
    accelerator="nvidia-a10g",
    rows={
        "g5.xlarge": (4, 16, 1, 1, 0),
        "g5.2xlarge": (8, 32, 1, 1, 0),
        "g5.4xlarge": (16, 64, 1, 1, 0),
        "g5.8xlarge": (32, 128, 1, 1, 1),
        "g5.12xlarge": (48, 192, 4, 1, 1),
        "g5.16xlarge": (64, 256, 1, 1, 1),
        "g5.24xlarge": (96, 384, 4, 1, 1),
        "g5.48xlarge": (192, 768, 8, 2, 1),
    },
)
_G6: Final = _Family(
    accelerator="nvidia-l4",
    rows={
        "g6.xlarge": (4, 16, 1, 1, 0),
        "g6.2xlarge": (8, 32, 1, 1, 0),
        "g6.4xlarge": (16, 64, 1, 1, 0),
        "g6.8xlarge": (32, 128, 1, 2, 1),
        "g6.12xlarge": (48, 192, 4, 4, 1),
        "g6.16xlarge": (64, 256, 1, 2, 1),
        "g6.24xlarge": (96, 384, 4, 4, 1),
        "g6.48xlarge": (192, 768, 8, 8, 1),
    },
)
_P4D: Final = _Family(
    accelerator="nvidia-tesla-a100", bought=_BLOCKS, rows={"p4d.24xlarge": (96, 1152, 8, 8, 4)}
)
_P4DE: Final = _Family(
    accelerator="nvidia-a100-80gb",
    bought=_BLOCKS,
    # The pages on capacity blocks name P4d and do not mention P4de.
    unsourced=frozenset({Capacity.CAPACITY_BLOCK}),
    rows={"p4de.24xlarge": (96, 1152, 8, 8, 4)},
)
_P5: Final = _Family(
    accelerator="nvidia-h100-80gb",
    bought=_BLOCKS,
    rows={"p5.4xlarge": (16, 256, 1, 1, 1), "p5.48xlarge": (192, 2048, 8, 8, 32)},
)
_P5E: Final = _Family(
    accelerator="nvidia-h200-141gb",
    bought=_BLOCKS,
    rows={"p5e.48xlarge": (192, 2048, 8, 8, 32), "p5en.48xlarge": (192, 2048, 8, 8, 16)},
)
_P6: Final = _Family(
    accelerator="nvidia-b200", bought=_BLOCKS, rows={"p6-b200.48xlarge": (192, 2048, 8, 8, 8)}
)
_FAMILIES: Final = (_M6I, _G4DN, _G5, _G6, _P4D, _P4DE, _P5, _P5E, _P6)


def eks_machines() -> Iterator[Machine]:
    for family in _FAMILIES:
        for name, (cpu, gib, gpus, disks, efa) in family.rows.items():
            yield Machine(
                name=name,
                provider=Provider.EKS,
                cpu=Millicores(cpu * 1000),
                memory=Bytes(gib * GIB),
                accelerator=family.accelerator,
                gpu_counts=(gpus,) if gpus else (),
                bought=family.bought,
                unsourced=family.unsourced,
                local_disks=disks,
                efa=efa,
                compact=True,
            )
