"""Draws the queue tree as inline SVG: one line a node, indented by its depth.

Responsible for the geometry. The colours are in page.css, for light and dark mode.
"""

from collections.abc import Iterator
from html import escape
from typing import Final

from muster.preview.document import Mark, TreeDiagram, TreeNode

_LINE: Final = 34
_INDENT: Final = 28
# The width of a letter of the page's font at 14 px, with some room to spare.
_LETTER: Final = 9
_SIGNS: Final = {
    Mark.NEW: "+",
    Mark.GONE: "×",
    Mark.MORE: "▲",
    Mark.LESS: "▼",
    Mark.OTHER: "•",
    Mark.SAME: "",
}


def format_svg(diagram: TreeDiagram) -> str:
    """The element. Screen readers get each node as text."""
    rows = [row for root in diagram.roots for row in _rows(root, 0)]
    width = max(_left(depth) + _width(node) for node, depth in rows) + 8
    lines = [f'<svg role=img aria-label="The queue tree" width="{width}" height="{len(rows) * _LINE}">']
    lasts: list[int] = []
    for index, (node, depth) in enumerate(rows):
        lines += _node(node, depth, index, lasts)
        lasts[depth:] = [index]
    return "\n".join([*lines, "</svg>"])


def _rows(node: TreeNode, depth: int) -> Iterator[tuple[TreeNode, int]]:
    yield node, depth
    for child in node.children:
        yield from _rows(child, depth + 1)


def _node(node: TreeNode, depth: int, index: int, lasts: list[int]) -> Iterator[str]:
    left, top = _left(depth), index * _LINE + 4
    if depth:
        parent = lasts[depth - 1] * _LINE + _LINE - 4
        middle = top + (_LINE - 8) // 2
        yield f'<path class=edge d="M{_left(depth - 1) + 12} {parent}V{middle}H{left}"/>'
    round_ = 3 if node.is_team else 13
    yield f'<g class="node {node.mark.name.lower()}"><title>{escape(_label(node))}</title>'
    yield f'<rect x="{left}" y="{top}" width="{_width(node)}" height="{_LINE - 8}" rx="{round_}"/>'
    yield f'<text x="{left + 10}" y="{top + 18}">{escape(_label(node))}</text></g>'


def _label(node: TreeNode) -> str:
    notes = f": {', '.join(node.notes)}" if node.notes else ""
    sign = f"{_SIGNS[node.mark]} " if node.mark is not Mark.SAME else ""
    mark = "" if node.mark is Mark.SAME else f" ({node.mark})"
    return f"{sign}{node.name.text}{mark}{notes}"


def _left(depth: int) -> int:
    return 4 + depth * _INDENT


def _width(node: TreeNode) -> int:
    return len(_label(node)) * _LETTER + 20
