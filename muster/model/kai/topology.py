"""A KAI Topology: node labels that describe how close two nodes are."""

from dataclasses import dataclass
from typing import Final

from muster.model.keys import stack_key

HOSTNAME_LABEL: Final = "kubernetes.io/hostname"


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    node_label: str = stack_key("The label of nodes.", example="example.com/rack")
    alias: str | None = stack_key("A name that work may use in place of the label.", None, example="rack")


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    name: str
    levels: tuple[Level, ...] = stack_key(
        "From the widest level to the narrowest.",
        fix="write the widest first: [{nodeLabel: example.com/block}].",
    )
