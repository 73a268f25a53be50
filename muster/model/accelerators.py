"""The GPUs and TPUs that pools can have.

Named like GKE's node labels (`cloud.google.com/gke-accelerator`, `cloud.google.com/gke-tpu-accelerator`). AWS
has no such names, so its A10G is named in the same way. Not responsible for which machine has how
many (machines/).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True)
class Accelerator:
    """`memory_mib`: of one GPU or TPU chip. `rank` orders accelerators from the most common to the scarcest.

    A worker that names no pool gets the most common GPU first. A gang over several pools requests its
    scarcest piece first, because the bookings of all its pieces run at the same time.
    """

    name: str
    memory_mib: int
    rank: int

    @property
    def is_tpu(self) -> bool:
        return self.name in _TPUS


_GIB: Final = 1024  # MiB
# Memory of the H100 and the H200 as NVIDIA's driver reports it (tests/gpu), of the others from NVIDIA's data
# sheets, which is a little more; names from
# https://cloud.google.com/kubernetes-engine/docs/concepts/gpus. The rank follows generation and size; there
# is no public table of scarcity.
_TABLE: Final = (
    Accelerator("nvidia-tesla-t4", 16 * _GIB, 10),
    Accelerator("nvidia-l4", 24 * _GIB, 20),
    Accelerator("nvidia-a10g", 24 * _GIB, 30),
    Accelerator("nvidia-tesla-a100", 40 * _GIB, 40),
    Accelerator("nvidia-a100-80gb", 80 * _GIB, 50),
    Accelerator("nvidia-h100-80gb", 81_559, 60),
    Accelerator("nvidia-h100-mega-80gb", 81_559, 70),
    Accelerator("nvidia-h200-141gb", 143_771, 80),
    Accelerator("nvidia-b200", 180 * _GIB, 90),
)
# https://cloud.google.com/tpu/docs/v5e, .../v5p and .../v6e; names from
# https://cloud.google.com/kubernetes-engine/docs/concepts/plan-tpus
_TPUS: Final = MappingProxyType(
    {
        entry.name: entry
        for entry in (
            Accelerator("tpu-v5-lite-podslice", 16 * _GIB, 110),
            Accelerator("tpu-v6e-slice", 32 * _GIB, 120),
            Accelerator("tpu-v5p-slice", 95 * _GIB, 130),
        )
    }
)

ACCELERATORS: Final = MappingProxyType({entry.name: entry for entry in _TABLE} | dict(_TPUS))

_SHORT: Final = {
    "t4": ("nvidia-tesla-t4",),
    "l4": ("nvidia-l4",),
    "a10g": ("nvidia-a10g",),
    "a100": ("nvidia-tesla-a100", "nvidia-a100-80gb"),
    "a100-40gb": ("nvidia-tesla-a100",),
    "a100-80gb": ("nvidia-a100-80gb",),
    "h100": ("nvidia-h100-80gb", "nvidia-h100-mega-80gb"),
    "h100-80gb": ("nvidia-h100-80gb", "nvidia-h100-mega-80gb"),
    "h100-mega": ("nvidia-h100-mega-80gb",),
    "h200": ("nvidia-h200-141gb",),
    "b200": ("nvidia-b200",),
}
_SHORT_TPUS: Final = {
    "v5e": "tpu-v5-lite-podslice",
    "v5p": "tpu-v5p-slice",
    "v6e": "tpu-v6e-slice",
}
SHORT_NAMES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        name: meant
        for short, meant in _SHORT.items()
        for name in (short, f"nvidia-{short}")
        if name not in ACCELERATORS
    }
    | {
        name: (meant,)
        for short, meant in _SHORT_TPUS.items()
        for name in (short, f"tpu-{short}")
        if name not in ACCELERATORS
    }
)
"""Names that a stack may use too, and the accelerators that each can mean: the machine decides which."""


def accelerators_of(name: str) -> tuple[str, ...]:
    """The accelerators that a stack's word can mean; none for an unknown one."""
    return (name,) if name in ACCELERATORS else SHORT_NAMES.get(name, ())


def own_accelerator(name: str, memory_mib: int) -> Accelerator:
    """A GPU of a node that its owner describes. One that no table has is ranked above those with no more
    memory.
    """
    known = ACCELERATORS.get(name)
    ranks = [each.rank for each in _TABLE if each.memory_mib <= memory_mib]
    return Accelerator(name, memory_mib, known.rank if known else max(ranks, default=0) + 5)
