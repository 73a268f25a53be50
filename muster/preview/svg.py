"""The queue tree as inline SVG: one line a node, indented by its depth.

Decides the geometry. Leaves colours to page.css, which knows light and dark.
"""

from collections.abc import Iterator
from html import escape
from typing import Final

from muster.preview.document import Mark, TreeDiagram, TreeNode

_LINE: Final = 34
_INDENT: Final = 28
# Wide enough for a letter of the page's font at 14 px: text that is wider is drawn narrower, never cut.
_LETTER: Final = 9
_SIGNS: Final = {
    Mark.NEW: "+",
    Mark.GONE: "×",
    Mark.MORE: "▲",
    Mark.LESS: "▼",
    Mark.OTHER: "•",
    Mark.SAME: "",
}


def format_svg(picture: TreeDiagram) -> str:
    """The element; a reader of the screen gets each node as text."""
    rows = [row for root in picture.roots for row in _rows(root, 0)]
    width = max(_left(depth) + _width(branch) for branch, depth in rows) + 8
    lines = [f'<svg role=img aria-label="The queue tree" width="{width}" height="{len(rows) * _LINE}">']
    lasts: list[int] = []
    for index, (branch, depth) in enumerate(rows):
        lines += _node(branch, depth, index, lasts)
        lasts[depth:] = [index]
    return "\n".join([*lines, "</svg>"])


def _rows(branch: TreeNode, depth: int) -> Iterator[tuple[TreeNode, int]]:
    yield branch, depth
    for child in branch.children:
        yield from _rows(child, depth + 1)


def _node(branch: TreeNode, depth: int, index: int, lasts: list[int]) -> Iterator[str]:
    left, top = _left(depth), index * _LINE + 4
    if depth:
        parent = lasts[depth - 1] * _LINE + _LINE - 4
        middle = top + (_LINE - 8) // 2
        yield f'<path class=edge d="M{_left(depth - 1) + 12} {parent}V{middle}H{left}"/>'
    round_ = 3 if branch.is_team else 13
    yield f'<g class="node {branch.mark.name.lower()}"><title>{escape(_label(branch))}</title>'
    yield f'<rect x="{left}" y="{top}" width="{_width(branch)}" height="{_LINE - 8}" rx="{round_}"/>'
    yield f'<text x="{left + 10}" y="{top + 18}">{escape(_label(branch))}</text></g>'


def _label(branch: TreeNode) -> str:
    notes = f": {', '.join(branch.notes)}" if branch.notes else ""
    sign = f"{_SIGNS[branch.mark]} " if branch.mark is not Mark.SAME else ""
    mark = "" if branch.mark is Mark.SAME else f" ({branch.mark})"
    return f"{sign}{branch.name.text}{mark}{notes}"


def _left(depth: int) -> int:
    return 4 + depth * _INDENT


def _width(branch: TreeNode) -> int:
    return len(_label(branch)) * _LETTER + 20
