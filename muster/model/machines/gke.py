"""GKE's machines.

Sizes: https://cloud.google.com/compute/docs/general-purpose-machines,
https://cloud.google.com/compute/docs/accelerator-optimized-machines and
https://cloud.google.com/compute/docs/gpus (Google's "GB" of memory are GiB). T4s are attached to n1 machines,
1, 2 or 4 of them. Local disks are the bundled ones, which come with the machine whether wanted or not.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from muster.model.capacity import Capacity
from muster.model.machines.fabric import Fabric
from muster.model.machines.machine import Machine
from muster.model.providers import Provider
from muster.model.quantities import GIB, Bytes, Millicores

_FLEX: Final = frozenset({Capacity.QUEUED, Capacity.FLEX_START})
_FOR_CPUS: Final = frozenset({Capacity.ON_DEMAND, Capacity.SPOT, Capacity.RESERVATION})
_FOR_GPUS: Final = _FLEX | _FOR_CPUS
# a3-highgpu with fewer than 8 GPUs is sold as spot or flex-start only: .../accelerator-optimized-machines
_NEVER_ON_DEMAND: Final = _FLEX | {Capacity.SPOT}

# vCPU, memory in GiB, GPU counts, local disks.
_Row = tuple[int, int, tuple[int, ...], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Series:
    """Machines that are sold alike. Flex-start, and with it `queued`, takes every accelerator-optimized
    machine of the table: https://cloud.google.com/compute/docs/instances/about-flex-start-vms
    """

    rows: dict[str, _Row]
    accelerator: str | None = None
    bought: frozenset[Capacity] = _FOR_GPUS
    unsourced: frozenset[Capacity] = frozenset()
    compact: bool = True
    fabric: Fabric | None = None
    disk: str = "pd-balanced"


_E2: Final = _Series(
    bought=_FOR_CPUS,
    # E2 and N1 take no compact placement: https://cloud.google.com/compute/docs/instances/placement-policies-overview
    compact=False,
    rows={
        "e2-standard-2": (2, 8, (), 0),
        "e2-standard-4": (4, 16, (), 0),
        "e2-standard-8": (8, 32, (), 0),
        "e2-standard-16": (16, 64, (), 0),
        "e2-standard-32": (32, 128, (), 0),
    },
)
_N2: Final = _Series(
    bought=_FOR_CPUS,
    rows={
        "n2-standard-4": (4, 16, (), 0),
        "n2-standard-8": (8, 32, (), 0),
        "n2-standard-16": (16, 64, (), 0),
        "n2-standard-32": (32, 128, (), 0),
    },
)
_T4: Final = _Series(
    accelerator="nvidia-tesla-t4",
    # The page on flex-start names accelerator-optimized machines; n1 with attached GPUs is not one.
    unsourced=_FLEX,
    compact=False,
    rows={
        "n1-standard-4": (4, 15, (1, 2, 4), 0),
        "n1-standard-8": (8, 30, (1, 2, 4), 0),
        "n1-standard-16": (16, 60, (1, 2, 4), 0),
        "n1-standard-32": (32, 120, (1, 2, 4), 0),
    },
)
_L4: Final = _Series(
    accelerator="nvidia-l4",
    rows={
        "g2-standard-4": (4, 16, (1,), 0),
        "g2-standard-8": (8, 32, (1,), 0),
        "g2-standard-12": (12, 48, (1,), 0),
        "g2-standard-16": (16, 64, (1,), 0),
        "g2-standard-24": (24, 96, (2,), 0),
        "g2-standard-32": (32, 128, (1,), 0),
        "g2-standard-48": (48, 192, (4,), 0),
        "g2-standard-96": (96, 384, (8,), 0),
    },
)
_A100: Final = _Series(
    accelerator="nvidia-tesla-a100",
    rows={
        "a2-highgpu-1g": (12, 85, (1,), 0),
        "a2-highgpu-2g": (24, 170, (2,), 0),
        "a2-highgpu-4g": (48, 340, (4,), 0),
        "a2-highgpu-8g": (96, 680, (8,), 0),
        "a2-megagpu-16g": (96, 1360, (16,), 0),
    },
)
_A100_80: Final = _Series(
    accelerator="nvidia-a100-80gb",
    rows={
        "a2-ultragpu-1g": (12, 170, (1,), 1),
        "a2-ultragpu-2g": (24, 340, (2,), 2),
        "a2-ultragpu-4g": (48, 680, (4,), 4),
        "a2-ultragpu-8g": (96, 1360, (8,), 8),
    },
)
_H100_SMALL: Final = _Series(
    accelerator="nvidia-h100-80gb",
    bought=_NEVER_ON_DEMAND,
    rows={
        "a3-highgpu-1g": (26, 234, (1,), 2),
        "a3-highgpu-2g": (52, 468, (2,), 4),
        "a3-highgpu-4g": (104, 936, (4,), 8),
    },
)
_H100: Final = _Series(
    accelerator="nvidia-h100-80gb", fabric=Fabric.TCPX, rows={"a3-highgpu-8g": (208, 1872, (8,), 16)}
)
_H100_MEGA: Final = _Series(
    accelerator="nvidia-h100-mega-80gb",
    fabric=Fabric.TCPXO,
    rows={"a3-megagpu-8g": (208, 1872, (8,), 16)},
)
# Whether Google sells A3 Ultra and A4 without reservation, spot or flex-start is on no page that was found.
_NEWEST: Final = frozenset({Capacity.ON_DEMAND})
_H200: Final = _Series(
    accelerator="nvidia-h200-141gb",
    fabric=Fabric.RDMA,
    unsourced=_NEWEST,
    compact=False,
    # A3 Ultra and A4 take no Persistent Disk: https://cloud.google.com/compute/docs/disks/hyperdisks
    disk="hyperdisk-balanced",
    rows={"a3-ultragpu-8g": (224, 2952, (8,), 32)},
)
_B200: Final = _Series(
    accelerator="nvidia-b200",
    fabric=Fabric.RDMA,
    unsourced=_NEWEST,
    compact=False,
    disk="hyperdisk-balanced",
    rows={"a4-highgpu-8g": (224, 3968, (8,), 32)},
)
_SERIES: Final = (_E2, _N2, _T4, _L4, _A100, _A100_80, _H100_SMALL, _H100, _H100_MEGA, _H200, _B200)


def gke_machines() -> Iterator[Machine]:
    for series in _SERIES:
        for name, (cpu, gib, counts, disks) in series.rows.items():
            yield Machine(
                name=name,
                provider=Provider.GKE,
                cpu=Millicores(cpu * 1000),
                memory=Bytes(gib * GIB),
                accelerator=series.accelerator,
                gpu_counts=counts,
                bought=series.bought,
                unsourced=series.unsourced,
                local_disks=disks,
                compact=series.compact,
                fabric=series.fabric,
                disk=series.disk,
            )
