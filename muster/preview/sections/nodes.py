"""The pools that lose their nodes, with what happens to the work on them."""

from collections.abc import Iterator
from typing import Final

from muster.preview.compare.diff import StackDiff
from muster.preview.compare.nodes import lost_nodes
from muster.preview.document import Mark, Section, Table, UntrustedText, join_names

_HEAD: Final = ("Nodes of", "What happens", "Because of")


def sections(diff: StackDiff) -> Iterator[Section]:
    rows = tuple(
        ((UntrustedText(each.name),), (each.effect,), tuple(join_names(each.because, most=6)))
        for each in lost_nodes(diff.resources(pending=False))
    )
    if rows:
        yield Section("Nodes replaced", 94, (Table(_HEAD, rows, marks=(Mark.GONE,) * len(rows)),))
