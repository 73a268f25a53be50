"""Draws lines over time as inline SVG: the first dashed, the second solid, in the colour of the text, so that
they differ without colour and in dark mode.
"""

from collections.abc import Iterator
from html import escape
from typing import Final

from muster.model.plural import many
from muster.preview.document import Chart, Line

_WIDTH: Final = 480
_HEIGHT: Final = 130
_TOP: Final = 18
_DASHES: Final = ("6 4", "none")


def format_chart(chart: Chart) -> str:
    """The element. Screen readers get the caption."""
    label = escape(chart.caption, quote=True)
    view = f"0 0 {_WIDTH} {_TOP + _HEIGHT + 40}"
    return "\n".join(
        [
            f'<svg role=img class=chart aria-label="{label}" viewBox="{view}" width="100%">',
            *_frame(chart),
            *(part for index, line in enumerate(chart.lines) for part in _line(chart, line, index)),
            "</svg>",
        ]
    )


def _frame(chart: Chart) -> Iterator[str]:
    yield f'<g fill="none" stroke="currentColor" opacity=".35"><path d="M0 {_TOP}H{_WIDTH}"/>'
    yield f'<path d="M0 {_TOP + _HEIGHT}H{_WIDTH}"/></g>'
    yield _words(0, _TOP - 5, many(chart.top, "GPU"))
    yield _words(0, _TOP + _HEIGHT + 14, chart.start)
    yield _words(_WIDTH, _TOP + _HEIGHT + 14, chart.end, anchor="end")


def _line(chart: Chart, line: Line, index: int) -> Iterator[str]:
    """The line and its entry in the legend."""
    stroke = f'fill="none" stroke="currentColor" stroke-width="1.5" stroke-dasharray="{_DASHES[index]}"'
    step = _WIDTH / max(len(line.values), 1)
    points = " ".join(
        f"{(at + 0.5) * step:.1f},{_TOP + _HEIGHT * (1 - min(value / max(chart.top, 1), 1)):.1f}"
        for at, value in enumerate(line.values)
    )
    left, height = index * 120, _TOP + _HEIGHT + 32
    yield f'<polyline {stroke} points="{points}"/>'
    yield f'<path {stroke} d="M{left} {height - 4}h28"/>'
    yield _words(left + 34, height, line.label)


def _words(x: float, y: float, text: str, *, anchor: str = "start") -> str:
    place = f'x="{x}" y="{y}" text-anchor="{anchor}"'
    return f'<text {place} font-size="13" fill="currentColor">{escape(text)}</text>'
