"""Draws a bar as inline SVG.

Responsible for the geometry, in percent of the bar's scale: the bar has the width of its place on the page.
The colours are in page.css, for light and dark mode. What is lost has a broken outline, so that it is not
known by its colour alone.
"""

from collections.abc import Iterator
from html import escape
from typing import Final

from muster.preview.document import Bar

_HEIGHT: Final = 20
_TOP: Final = 5
_THICK: Final = 10


def format_bar(bar: Bar) -> str:
    """The element. Screen readers get the bar in words."""
    shapes = "".join(_shapes(bar))
    return f'<svg class=bar role=img aria-label="{escape(bar.label)}" height="{_HEIGHT}">{shapes}</svg>'


def _shapes(bar: Bar) -> Iterator[str]:
    kept = min(bar.before, bar.after)
    yield _rect(bar, "ground", 0, bar.scale)
    yield _rect(bar, "reach", 0, bar.reach)
    yield _rect(bar, "own", 0, kept)
    yield _rect(bar, "lost" if bar.before > bar.after else "won", kept, max(bar.before, bar.after))
    if bar.used:
        at = _percent(bar, bar.used)
        yield f'<line class=used x1="{at}" x2="{at}" y1="1" y2="{_HEIGHT - 1}"/>'


def _rect(bar: Bar, kind: str, start: int, end: int) -> str:
    if min(end, bar.scale) <= min(start, bar.scale):
        return ""
    left, width = _percent(bar, start), _percent(bar, min(end, bar.scale) - min(start, bar.scale))
    return f'<rect class={kind} x="{left}" y="{_TOP}" width="{width}" height="{_THICK}"/>'


def _percent(bar: Bar, amount: int) -> str:
    return f"{100 * min(amount, bar.scale) / bar.scale:.4g}%"
