"""A KAI Topology: node labels that describe how close two nodes are."""

from dataclasses import dataclass
from typing import Final

from muster.model.definitions import Spec
from muster.model.keys import declared

HOSTNAME_LABEL: Final = "kubernetes.io/hostname"


@dataclass(frozen=True, slots=True)
class Level:
    """`alias` is a name that work may use in place of the label."""

    node_label: str
    alias: str | None


class TopologySpec(Spec):
    """The spec of a Topology."""

    KIND = "kai.scheduler/v1alpha1 Topology"


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    name: str
    spec: TopologySpec = declared("", {}, factory=TopologySpec, is_inline=True)

    @property
    def levels(self) -> tuple[Level, ...]:
        """From the widest level to the narrowest."""
        return tuple(Level(each["nodeLabel"], each.get("alias")) for each in self.spec.get("levels", ()))
