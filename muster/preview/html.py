"""Writes a report as one self-contained HTML page, which needs no network.

Untrusted text is escaped here and nowhere else. The page's Content-Security-Policy allows the style and the
script of page.css and page.js by their hashes, and nothing else.
"""

import base64
import hashlib
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Final

from muster.preview.chart import format_chart
from muster.preview.document import (
    Block,
    Chart,
    Items,
    Mark,
    Report,
    Section,
    Span,
    StackReport,
    Table,
    Text,
    TreeDiagram,
)
from muster.preview.svg import format_svg

_HERE: Final = Path(__file__).parent
_MARKS: Final = {
    "new": Mark.NEW,
    "no longer": Mark.GONE,
    "replaced": Mark.GONE,
    "deleted": Mark.GONE,
    "gone": Mark.GONE,
}


def format_html(report: Report) -> str:
    """The report as an HTML document."""
    style = (_HERE / "page.css").read_text(encoding="utf-8")
    script = (_HERE / "page.js").read_text(encoding="utf-8")
    policy = f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'"
    body = "\n".join(line for index, stack in enumerate(report.stacks) for line in _stack(stack, index))
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Muster preview</title>
<style>{style}</style>
</head>
<body>
<main>
<h1>Muster preview</h1>{_headline(report)}
{body}
</main>
<script>{script}</script>
</body>
</html>
"""


def _headline(report: Report) -> str:
    return f"\n<p class=headline>{_text(report.headline)}</p>" if report.headline else ""


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _stack(stack: StackReport, index: int) -> Iterator[str]:
    yield f'<article aria-labelledby="stack-{index}">'
    yield f'<h2 id="stack-{index}">{_span(stack.name)}</h2>'
    yield "<ul class=verdict>"
    yield from (f"<li>{_text(text)}</li>" for text in stack.summary)
    yield "</ul>"
    for section in stack.sections:
        yield from _section(section)
    yield "</article>"


def _section(section: Section) -> Iterator[str]:
    title = escape(section.title)
    yield f"<details><summary>{title}</summary>" if section.is_folded else f"<section><h3>{title}</h3>"
    for block in section.blocks:
        yield from _block(block, section.title)
    yield "</details>" if section.is_folded else "</section>"


def _block(block: Block, title: str) -> Iterator[str]:
    if isinstance(block, Items):
        yield "<ul>"
        yield from (f"<li>{_text(text)}</li>" for text in block.texts)
        yield "</ul>"
        return
    if isinstance(block, Chart):
        yield f"<p>{escape(block.caption)}</p>"
        yield format_chart(block)
        return
    # A block may be wider than the screen: it scrolls by itself, by keyboard as well.
    yield f'<div class=wide tabindex=0 role=region aria-label="{escape(title)}">'
    yield from _table(block) if isinstance(block, Table) else _diagram(block)
    yield "</div>"


def _table(table: Table) -> Iterator[str]:
    marks = [" class=figure" if head in table.figures else "" for head in table.head]
    heads = "".join(
        f"<th scope=col{mark}><button type=button>{escape(head)}</button></th>"
        for head, mark in zip(table.head, marks, strict=True)
    )
    yield f"<table><thead><tr>{heads}</tr></thead><tbody>"
    for row in table.rows:
        cells = "".join(f"<td{mark}>{_text(cell)}</td>" for cell, mark in zip(row, marks, strict=True))
        mark = _MARKS.get(row[0][0]) if row[0] and isinstance(row[0][0], str) else None
        yield f"<tr class={mark}>{cells}</tr>" if mark else f"<tr>{cells}</tr>"
    yield "</tbody></table>"


def _diagram(diagram: TreeDiagram) -> Iterator[str]:
    yield format_svg(diagram)
    if diagram.hidden:
        yield f"<p>{diagram.hidden} unchanged queues are not drawn.</p>"


def _text(text: Text) -> str:
    return "".join(_span(span) for span in text)


def _span(span: Span) -> str:
    return escape(span) if isinstance(span, str) else f"<code>{escape(span.text) or '(empty)'}</code>"
