"""A KAI Topology: node labels that describe how close two nodes are."""

from dataclasses import dataclass
from typing import Final

HOSTNAME_LABEL: Final = "kubernetes.io/hostname"


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """`alias` is a name that work may use in place of the label."""

    node_label: str
    alias: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """Levels from the widest (a block) to the narrowest (a node)."""

    name: str
    levels: tuple[Level, ...]
