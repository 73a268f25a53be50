"""A recorded run as a terminal: the lines of docs/try-it.md, which that page says how they were measured."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path
from typing import Final

_PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "try-it.md"
_START: Final = "$ kubectl apply -f examples/gang/rayjob.yaml"
_LINE: Final = re.compile(r"^ *(?P<time>[\d.]+ s)  (?P<who>\w+) +(?P<what>.*)$")
_STYLE: Final = """
text { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; fill: #d8dee9; }
.time { fill: #8b95a7; } .gang { fill: #9fb0ff; } .nodes { fill: #ffb77a; } .good { fill: #8fe0a8; }
"""


def lines() -> list[str]:
    """From the job's creation to its end."""
    text = _PAGE.read_text(encoding="utf-8")
    return text[text.index(_START) :].partition("\n```")[0].splitlines()


def picture() -> str:
    found = lines()
    height = 62 + 19 * len(found)
    rows = "\n".join(_row(line, 58 + 19 * number) for number, line in enumerate(found))
    dots = "".join(f'<circle cx="{22 + 18 * n}" cy="18" r="5" fill="#5b6477"/>' for n in range(3))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 780 {height}" width="780" height="{height}" '
        'role="img" aria-labelledby="t">\n'
        '<title id="t">A gang waits, gets all its nodes, runs and finishes</title>\n'
        f'<style>{_STYLE}</style>\n<rect width="780" height="{height}" rx="10" fill="#1b1f2a"/>\n'
        f"{dots}\n{rows}\n</svg>\n"
    )


def _row(line: str, y: int) -> str:
    match = _LINE.match(line)
    if match is None:
        return f'<text x="20" y="{y}" xml:space="preserve">{escape(line)}</text>'
    kind = "good" if re.search(r"Ready|Running|SUCCEEDED|may start", match["what"]) else ""
    return (
        f'<text y="{y}" xml:space="preserve">'
        f'<tspan class="time" x="85" text-anchor="end">{match["time"]}</tspan>'
        f'<tspan class="{match["who"]}" x="105" text-anchor="start">{match["who"]}</tspan>'
        f'<tspan class="{kind}" x="165" text-anchor="start">{escape(match["what"])}</tspan></text>'
    )
