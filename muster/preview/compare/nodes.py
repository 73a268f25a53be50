"""Whose nodes a plan takes away, and what happens to the work that runs on them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from muster.preview.compare.diff import GRAVE
from muster.preview.plan import Resource

_EKS: Final = "aws:eks/nodeGroup:NodeGroup"
_GKE: Final = "gcp:container/nodePool:NodePool"
# Fields whose change in place makes new nodes, each by itself or the first part of its path:
# https://docs.aws.amazon.com/eks/latest/userguide/update-managed-node-group.html and
# https://cloud.google.com/kubernetes-engine/docs/concepts/managing-clusters#manual-changes-that-respect
_ROLLS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        _EKS: ("launchTemplate", "releaseVersion", "version"),
        _GKE: (
            "version",
            *(f"nodeConfig.{each}" for each in ("diskSizeGb", "diskType", "imageType", "machineType")),
            *(f"nodeConfig.{each}" for each in ("kubeletConfig", "linuxNodeConfig", "gvnic", "gcfsConfig")),
        ),
    }
)
_GONE: Final = "all of its nodes go, with the work on them"
_DRAINED: Final[Mapping[str, str]] = MappingProxyType(
    {
        _EKS: "its nodes are drained and replaced; AWS waits 15 minutes for running work and then fails",
        _GKE: "its nodes are drained and replaced; GKE waits an hour for running work and then evicts it",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LostNodes:
    """A pool or group of nodes, what makes it lose them, and what becomes of the work."""

    name: str
    because: tuple[str, ...]
    effect: str

    @property
    def is_rolled(self) -> bool:
        """Whether the pool itself stays."""
        return self.effect != _GONE


def lost_nodes(resources: Iterable[Resource]) -> Iterator[LostNodes]:
    """Pools that a plan replaces, deletes, or changes in a way that makes new nodes."""
    for each in resources:
        if each.type not in _ROLLS:
            continue
        if each.verb in GRAVE:
            yield LostNodes(name=each.name, because=each.replaced_for, effect=_GONE)
            continue
        rolls = tuple(field for field in each.fields if _is_under(field, _ROLLS[each.type]))
        if each.verb == "updated" and rolls:
            yield LostNodes(name=each.name, because=rolls, effect=_DRAINED[each.type])


def _is_under(field: str, keys: Iterable[str]) -> bool:
    return any(field == key or field.startswith((f"{key}.", f"{key}[")) for key in keys)
