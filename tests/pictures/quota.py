"""The queue tree of docs/borrowing.md: what each team has, may borrow and lends, as the model computes it."""

import re
from pathlib import Path
from typing import Final, NamedTuple

from muster.model.kueue.tree import Tree, in_pool_unit, nominal_quota, to_tree
from muster.model.stack import Stack
from muster.preview.compare.quota import quotas_of
from tests.pictures.drawing import Box, Drawing, Point
from tests.unit.model.model_stacks import parsed

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "borrowing.md"
POOL: Final = "l4"
_UNIT: Final = 20
"""Pixels of one GPU."""


class Row(NamedTuple):
    """GPUs of one team: its quota, what it lends to others, and the most that it can use."""

    team: str
    quota: int
    lends: int
    most: int


def stack() -> Stack:
    """The stack that the page shows."""
    block = re.search(r"```yaml\n(config:.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    return parsed(block[1])


def rows(tree: Tree) -> list[Row]:
    """The largest quota first."""
    quotas, reach = quotas_of(tree, POOL), tree.reach(POOL)
    found = [
        Row(
            node.name,
            in_pool_unit(tree.pools[POOL], nominal_quota(node, POOL)),
            reach[node.name].lent,
            quotas[node.name].most,
        )
        for node in tree.teams()
    ]
    return sorted(found, key=lambda row: row.quota, reverse=True)


def picture() -> str:
    tree = to_tree(stack())
    found = rows(tree)
    drawing = Drawing(
        400,
        118 + 92 * len(found),
        "Three teams of one department and their GPUs",
        " ".join(f"{row.team}: quota {row.quota}, at most {row.most}." for row in found),
    )
    nodes = tree.pools[POOL].max_nodes
    drawing.box(Box(at=Point(200, 40), title="research", lines=(f"shares {nodes} L4 GPUs",), width=200))
    for number, row in enumerate(found):
        y = 118 + 92 * number
        drawing.box(Box(at=Point(75, y), title=row.team, lines=(f"lends {row.lends}",), width=120))
        drawing.bar(Point(150, y - 6), _UNIT * row.most, kind="reach")
        drawing.bar(Point(150, y - 6), _UNIT * row.quota, kind="bar")
        drawing.text(Point(150, y - 14), f"{row.quota} guaranteed", kind="small a", anchor="start")
        borrows = f"+ {row.most - row.quota} borrowed = {row.most} at most"
        drawing.text(
            Point(150, y + 26),
            borrows if row.most > row.quota else "borrows nothing",
            kind="soft",
            anchor="start",
        )
    return drawing.svg()
