"""Text in columns, as wide as they need or within the width of a terminal, and bars of characters."""

import textwrap
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise, zip_longest
from typing import Final

from muster.printable import sanitize_line

GAP: Final = "  "
# A longer word of text is broken where there is no room for it, but for an address, which is copied.
_WORD: Final = 14
_URL: Final = "://"


def format_columns(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    right: Collection[str] = (),
    *,
    room: int | None = None,
    minor: Sequence[str] = (),
) -> Iterator[str]:
    """The lines of a table, from untrusted text; columns whose heads are in `right` end at the right.

    With `room` as `fit_columns` has it, and a cell has three lines at most.
    """
    listed = [[sanitize_line(cell) for cell in row] for row in rows]
    widths = {} if room is None else fit_columns(head, listed, right, room=room, minor=minor)
    if not widths:
        columns = enumerate(zip(head, *listed, strict=True))
        widths = {place: max(map(len, column)) for place, column in columns}
    for row in (head, *listed):
        yield from (line.rstrip() for line in lay_out(head, row, widths, right, most=3))


def fit_columns(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    right: Collection[str],
    *,
    room: int,
    minor: Sequence[str] = (),
) -> dict[int, int]:
    """The widths of the columns within so much room, by their places in a row.

    Heads and text are wrapped, but no figures, before the columns of `minor` are left out, the first one
    first. Empty where that is not enough.
    """
    columns = list(enumerate(zip(head, *rows, strict=True)))
    for count in range(len(minor) + 1):
        shown = {place: cells for place, cells in columns if head[place] not in minor[:count]}
        widths = {place: _least(*cells, is_figure=cells[0] in right) for place, cells in shown.items()}
        spare = room - line_width(widths)
        if spare >= 0:
            break
    else:
        return {}
    for first in (1, 0):  # The cells before the heads.
        most = {place: max(map(len, cells[first:]), default=0) for place, cells in shown.items()}
        while spare and (narrow := [place for place in widths if widths[place] < most[place]]):
            # The one of the most lines, of several the one that needs the least.
            widths[min(narrow, key=lambda place: (most[place] // -widths[place], most[place]))] += 1
            spare -= 1
    return {
        place: max(len(line) for cell in shown[place] for line in _wrap(cell, width, None))
        for place, width in widths.items()
    }


def _least(head: str, *cells: str, is_figure: bool) -> int:
    words = (word for cell in (head, *cells) for word in cell.split())
    least = max((len(word) if _URL in word else min(len(word), _WORD) for word in words), default=1)
    return max([least, *map(len, cells)]) if is_figure else least


def line_width(widths: Mapping[int, int]) -> int:
    """The width of a line of these columns."""
    return sum(widths.values()) + len(GAP) * (len(widths) - 1)


def lay_out(
    head: Sequence[str],
    row: Sequence[str],
    widths: Mapping[int, int],
    right: Collection[str],
    *,
    most: int | None = None,
) -> list[str]:
    """The lines of a row, each as wide as the columns; at most `most` of them."""
    wrapped = (_wrap(row[place], max(width, 1), most) for place, width in widths.items())
    return [
        GAP.join(
            cell.rjust(width) if head[place] in right else cell.ljust(width)
            for cell, (place, width) in zip(line, widths.items(), strict=True)
        )
        for line in zip_longest(*wrapped, fillvalue="")
    ]


def _wrap(cell: str, width: int, most: int | None) -> list[str]:
    has_breaks = _URL not in cell
    return textwrap.wrap(cell, width, break_on_hyphens=has_breaks, max_lines=most, placeholder="…") or [""]


def draw_bar(amounts: Sequence[float], signs: str, *, scale: float, length: int) -> list[str]:
    """For each amount a run of its sign, from the end of the one before it."""
    ends = [round(length * min(each, scale) / scale) for each in amounts]
    return [sign * (end - start) for sign, (start, end) in zip(signs, pairwise((0, *ends)), strict=True)]
