"""SVG text for boxes, arrows and labels, readable on a light and on a dark page.

A picture paints its own ground, because a page's switch between light and dark does not reach inside an
image: the picture follows the reader's system. Lengths are in pixels of the picture.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Final, NamedTuple

_STYLE: Final = """
svg { --ground: #ffffff; --box: #f1f3f9; --line: #5b6477; --text: #1c2230; --soft: #4d5668;
  --a: #3949ab; --b: #00695c; --c: #a04a00; --good: #1b7a3d; --bad: #b3261e; --shade: #dde2f0; }
@media (prefers-color-scheme: dark) {
  svg { --ground: #1e212a; --box: #2b303d; --line: #a3acbf; --text: #eef0f6; --soft: #c0c7d6;
    --a: #a9b6ff; --b: #6fd6c4; --c: #ffb77a; --good: #7ddc9a; --bad: #ff9d94; --shade: #3b4254; }
}
text { font: 15px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; fill: var(--text); }
.mono { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
.title { font-weight: 600; } .soft { fill: var(--soft); font-size: 13px; }
.a { fill: var(--a); } .b { fill: var(--b); } .c { fill: var(--c); }
.small { font-size: 13px; }
.box { fill: var(--box); stroke: var(--line); stroke-width: 1.5; }
.good { stroke: var(--good); stroke-width: 2.5; } .bad { stroke: var(--bad); stroke-width: 2.5; }
.bar { fill: var(--a); } .reach { fill: var(--shade); }
.arrow { fill: none; stroke: var(--line); stroke-width: 1.5; marker-end: url(#head); }
.arrow.a { stroke: var(--a); } .arrow.b { stroke: var(--b); } .arrow.c { stroke: var(--c); }
.ground { fill: var(--ground); }
"""
_HEAD: Final = (
    '<marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" orient="auto">'
    '<path d="M0 1 L10 5 L0 9 z" fill="context-stroke"/></marker>'
)
LINE: Final = 19
"""Between two lines of a text."""


class Point(NamedTuple):
    x: int
    y: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A rounded box around the point `at`: a title, and soft lines below it."""

    at: Point
    title: str
    lines: tuple[str, ...] = ()
    width: int = 150
    kind: str = ""

    @property
    def height(self) -> int:
        return 30 + LINE * len(self.lines)


@dataclass
class Drawing:
    """Collects shapes. `title` and `about` are what a screen reader says."""

    width: int
    height: int
    title: str
    about: str
    _shapes: list[str] = field(default_factory=list)

    def box(self, box: Box) -> None:
        left, top = box.at.x - box.width // 2, box.at.y - box.height // 2
        self._shapes.append(
            f'<rect class="{f"box {box.kind}".strip()}" x="{left}" y="{top}" width="{box.width}" '
            f'height="{box.height}" rx="7"/>'
        )
        self.text(Point(box.at.x, top + 20), box.title, kind="title")
        for number, line in enumerate(box.lines):
            self.text(Point(box.at.x, top + 20 + LINE * (number + 1)), line, kind="soft")

    def arrow(self, points: Sequence[Point], *, kind: str = "") -> None:
        path = " L".join(f"{x} {y}" for x, y in points)
        self._shapes.append(f'<path class="{f"arrow {kind}".strip()}" d="M{path}"/>')

    def text(self, at: Point, text: str, *, kind: str = "", anchor: str = "middle") -> None:
        named = f' class="{kind}"' if kind else ""
        self._shapes.append(
            f'<text{named} x="{at.x}" y="{at.y}" text-anchor="{anchor}" xml:space="preserve">'
            f"{escape(text)}</text>"
        )

    def lines(self, at: Point, texts: Iterable[str], *, kind: str = "", anchor: str = "start") -> None:
        for number, text in enumerate(texts):
            self.text(Point(at.x, at.y + LINE * number), text, kind=kind, anchor=anchor)

    def bar(self, at: Point, width: int, *, kind: str) -> None:
        self._shapes.append(
            f'<rect class="{kind}" x="{at.x}" y="{at.y}" width="{width}" height="12" rx="3"/>'
        )

    def svg(self) -> str:
        shapes = "\n".join(self._shapes)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" '
            f'width="{self.width}" height="{self.height}" role="img" aria-labelledby="t d">\n'
            f'<title id="t">{escape(self.title)}</title>\n<desc id="d">{escape(self.about)}</desc>\n'
            f"<style>{_STYLE}</style>\n<defs>{_HEAD}</defs>\n"
            f'<rect class="ground" width="{self.width}" height="{self.height}" rx="10"/>\n{shapes}\n</svg>\n'
        )
