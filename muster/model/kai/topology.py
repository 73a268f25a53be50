"""A KAI Topology: node labels that describe how close two nodes are."""

from dataclasses import dataclass
from typing import Final

from muster.model.keys import declared

HOSTNAME_LABEL: Final = "kubernetes.io/hostname"


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    node_label: str = declared("The label of nodes.", example="example.com/rack")
    alias: str | None = declared("A name that work may use in place of the label.", None, example="rack")


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    name: str
    levels: tuple[Level, ...] = declared(
        "From the widest level to the narrowest.",
        minItems=1,
        fix="write the widest first: [{nodeLabel: example.com/block}].",
    )
