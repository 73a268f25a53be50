"""Recorded runs as terminals: the lines of docs/try-it.md and of runs/, which say how they were measured.
Wide, and for a phone with long lines wrapped.
"""

import re
import textwrap
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import Final, NamedTuple

_PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "try-it.md"
_RUNS: Final = Path(__file__).parent / "runs"
_START: Final = "$ kubectl apply -f examples/gang/rayjob.yaml"
_LINE: Final = re.compile(r"^ *(?P<time>[\d.]+ s)  (?P<who>\w+) +(?P<what>.*)$")
_GOOD: Final = re.compile(r"Ready|Running|SUCCEEDED|may start|HTTP 200")
_STYLE: Final = """
text { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; fill: #d8dee9; }
.time { fill: #8b95a7; } .gang, .train { fill: #9fb0ff; } .nodes { fill: #ffb77a; } .good { fill: #8fe0a8; }
.model, .request { fill: #e5a8e0; }
"""
_PHONE_COLUMNS: Final = 38
_GANG: Final = "A gang waits, gets all its nodes, runs and finishes"
_INFERENCE: Final = "A served model takes its GPU from a training gang, answers, and training comes back"
_BROKEN: Final = "A gang with three healthy nodes and a broken one gets another, and the bill has its cost"


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


def inference() -> str:
    return _run("inference", _INFERENCE, width=860)


def broken() -> str:
    return _run("broken", _BROKEN, width=1040)


def _run(name: str, title: str, *, width: int) -> str:
    lines = (_RUNS / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    rows = [_row(line) for line in lines if not line.startswith("#")]
    return _picture(width, rows, title, who=105, what=175)


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
