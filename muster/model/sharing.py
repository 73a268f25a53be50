"""Sharing a GPU between pods: the kinds of sharing, what each isolates, and how a GPU is divided.

Not responsible for which image and cloud support which kind (validation/sharing.py) nor for the device
plugin's configuration (gpu_operator.py).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from muster.model.accelerators import ACCELERATORS
from muster.model.keys import Schema, SchemaWriter, declared
from muster.model.lazy_table import LazyTable


class Sharing(StrEnum):
    """none: a GPU is one pod's. time-slicing: pods take turns; each can use all of the GPU's memory and end
    the others by doing so. mps: pods run at once, each with its part of the memory, and a fault of one ends
    all. mig: the GPU is cut into instances with memory and faults of their own.
    """

    NONE = "none"
    TIME_SLICING = "time-slicing"
    MPS = "mps"
    MIG = "mig"


def _profiles(_writer: SchemaWriter) -> Schema:
    profiles = {profile for profiles in MIG_PROFILES.values() for profile in profiles}
    return {"type": "string", "enum": sorted(profiles)}


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSharing:
    """`shares`: how many pods one GPU serves; `profile`: the MIG profile that defines it."""

    kind: Sharing = declared("How pods share one GPU.", Sharing.NONE, key="sharing")
    shares: int = declared("How many pods one GPU serves.", 1, example=4, minimum=1)
    profile: str | None = declared(
        "The MIG profile that divides the GPU, with `sharing: mig`.", None, key="migProfile", schema=_profiles
    )

    @property
    def name(self) -> str:
        """As configurations and labels name it: `time-slicing-4`, `mig-1g.10gb`, `none`."""
        if self.kind is Sharing.NONE:
            return self.kind.value
        return f"{self.kind}-{self.profile or self.shares}"


# GKE's limit of clients of one GPU, and MPS's own since Volta:
# https://cloud.google.com/kubernetes-engine/docs/concepts/timesharing-gpus,
# https://docs.nvidia.com/deploy/mps/
MOST_SHARES: Final = 48

# What is not isolated, in a person's words; MIG isolates.
NOT_ISOLATED: Final[Mapping[Sharing, str]] = MappingProxyType(
    {
        Sharing.TIME_SLICING: "time-slicing does not isolate memory: one pod can take all, and others fail.",
        Sharing.MPS: "MPS does not isolate faults: an error of one pod ends every pod on that GPU.",
    }
)

# accelerator -> profile -> instances of one GPU, all equal.
MIG_PROFILES: Final[Mapping[str, Mapping[str, int]]] = LazyTable(
    lambda: {name: entry.mig for name, entry in ACCELERATORS.items() if entry.mig}
)
