"""Recorded runs as terminals: the lines of docs/try-it.md and of runs/, which say how they were measured.
Wide, and for a phone with long lines wrapped.
"""

import re
import textwrap
from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path
from typing import Final, NamedTuple

_PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "try-it.md"
_RUNS: Final = Path(__file__).parent / "runs"
_START: Final = "$ kubectl apply -f examples/gang/rayjob.yaml"
_LINE: Final = re.compile(r"^ *(?P<time>[\d.]+ s)  (?P<who>[\w-]+) +(?P<what>.*)$")
_GOOD: Final = re.compile(r"Ready|Running|SUCCEEDED|may start|HTTP 200")
_STYLE: Final = """
text { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; fill: #d8dee9; }
.time { fill: #8b95a7; } .gang, .train, .own, .pair { fill: #9fb0ff; } .nodes { fill: #ffb77a; }
.good { fill: #8fe0a8; } .model, .request, .inference, .owner, .third { fill: #e5a8e0; }
.build, .build-preemptible, .extra { fill: #e8d08a; }
"""
_PHONE_COLUMNS: Final = 38
_GANG: Final = "A gang waits, gets all its nodes, runs and finishes"
STORIES: Final[Mapping[str, str]] = {
    "broken": "A gang with three healthy nodes and a broken one gets another, and the bill has its cost",
    "gang": "Five pods wait while the cloud has half of their nodes, and start together",
    "inference": "A served model takes its GPU from a training gang, answers, and training comes back",
    "priorities": "Each priority takes the GPU of the one below, and none that of build",
    "reclaim": "A department takes back two GPUs, which a whole gang of the other leaves",
    "sharing": "Two workers share a GPU while a third waits for a half",
}
"""Run -> the title of its picture."""


class _Row(NamedTuple):
    """One line of the picture. A line that is not of the run has no time."""

    what: str
    time: str = ""
    who: str = ""
    kind: str = ""


def wide() -> str:
    return _picture(780, _gang(), _GANG, who=105, what=165)


def narrow() -> str:
    """Without the column of who acts: the colour of a line shows it."""
    return _picture(390, [part for row in _gang() for part in _wrapped(row)], _GANG, what=70)


def story(name: str) -> str:
    """A run of STORIES, with as much room as its longest line needs, and the longest name of who acts."""
    lines = (_RUNS / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    rows = [_row(line) for line in lines if not line.startswith("#")]
    room = 10 * max(len(row.who) for row in rows)
    width = max(790 + room, 40 + 8 * max(map(len, lines)))
    return _picture(width, rows, STORIES[name], who=105, what=105 + room)


def _gang() -> list[_Row]:
    """From the job's creation to its end."""
    text = _PAGE.read_text(encoding="utf-8")
    return [_row(line) for line in text[text.index(_START) :].partition("\n```")[0].splitlines()]


def _row(line: str) -> _Row:
    match = _LINE.match(line)
    if match is None:
        return _Row(line)
    return _Row(match["what"], match["time"], match["who"], "good" if _GOOD.search(match["what"]) else "")


def _wrapped(row: _Row) -> list[_Row]:
    if not row.time:
        return [row]
    first, *others = textwrap.wrap(row.what, _PHONE_COLUMNS)
    kind = row.kind or row.who
    return [_Row(first, row.time, row.who, kind), *(_Row(each, " ", row.who, kind) for each in others)]


def _picture(width: int, rows: Iterable[_Row], title: str, *, what: int, who: int | None = None) -> str:
    """`who` and `what`: where these columns begin, in pixels. None: without the column."""
    drawn = [_drawn(row, 58 + 19 * number, who, what) for number, row in enumerate(rows)]
    height = 62 + 19 * len(drawn)
    dots = "".join(f'<circle cx="{22 + 18 * n}" cy="18" r="5" fill="#5b6477"/>' for n in range(3))
    shapes = "\n".join(drawn)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img" aria-labelledby="t">\n'
        f'<title id="t">{title}</title>\n'
        f'<style>{_STYLE}</style>\n<rect width="{width}" height="{height}" rx="10" fill="#1b1f2a"/>\n'
        f"{dots}\n{shapes}\n</svg>\n"
    )


def _drawn(row: _Row, y: int, who: int | None, what: int) -> str:
    if not row.time:
        return f'<text x="20" y="{y}" xml:space="preserve">{escape(row.what)}</text>'
    time = what - 15 if who is None else who - 20
    actor = "" if who is None else f'<tspan class="{row.who}" x="{who}" text-anchor="start">{row.who}</tspan>'
    return (
        f'<text y="{y}" xml:space="preserve">'
        f'<tspan class="time" x="{time}" text-anchor="end">{row.time}</tspan>'
        f"{actor}"
        f'<tspan class="{row.kind}" x="{what}" text-anchor="start">{escape(row.what)}</tspan></text>'
    )
