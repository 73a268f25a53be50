"""Writes a report, or a bill, as one self-contained HTML page, which needs no network.

Untrusted text is escaped here and nowhere else. The page's Content-Security-Policy allows the style and the
script of page.css and page.js by their hashes, and nothing else.
"""

import base64
import hashlib
from collections.abc import Iterator, Sequence
from html import escape
from itertools import repeat
from pathlib import Path
from typing import Final

from muster.preview.document import (
    Answer,
    Bar,
    Block,
    Chart,
    Items,
    Mark,
    Phrase,
    Report,
    Section,
    Span,
    StackReport,
    Status,
    Table,
    Text,
    TreeDiagram,
    TreeNode,
    UntrustedText,
    unchanged,
)
from muster.preview.tree_diagram import format_bar, format_chart
from muster.printable import sanitize_line
from muster.usage.bill import Bill, Line, format_costs, format_name, format_row, sentences
from muster.usage.inputs import format_day
from muster.usage.ledger import Cause

_HERE: Final = Path(__file__).parent
_BADGES: Final = {Answer.YES: "yes", Answer.LOOK: "look", Answer.REFUSED: "refused", Answer.NOTHING: "quiet"}
# A longer name may be broken.
_LONG: Final = 28
_LEGEND: Final = (
    ("own", "guaranteed"),
    ("won", "gained"),
    ("lost", "lost"),
    ("reach", "can borrow"),
    ("used", "in use now"),
)


def format_html(report: Report) -> str:
    """The report as an HTML document."""
    body = "\n".join(line for index, stack in enumerate(report.stacks) for line in _stack(stack, index))
    return format_page("Muster preview", _headline(report) + "\n" + body)


def format_page(title: str, body: str, *, styles: tuple[str, ...] = ("page.css",)) -> str:
    """One document with styles and the script of this package; `title` and `body` are HTML."""
    style = "".join((_HERE / name).read_text(encoding="utf-8") for name in styles)
    script = (_HERE / "page.js").read_text(encoding="utf-8")
    policy = f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'"
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main>
<h1>{title}</h1>{body}
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
    yield "<header>"
    yield f'<h2 id="stack-{index}">{_span(stack.name)}</h2>'
    if stack.status is not None:
        yield _badge(stack.status)
    if stack.banner:
        yield f"<p class=banner>{''.join(map(_phrase, stack.banner))}</p>"
    else:
        yield "<ul class=verdict>"
        yield from (f"<li>{_text(text)}</li>" for text in stack.summary)
        yield "</ul>"
    yield "</header>"
    facts = [Section("In sentences", 0, (Items(stack.facts),), is_folded=True)] if stack.facts else []
    for section in (*(each for each in stack.sections if not each.is_folded), *facts):
        yield from format_section(section)
    for section in stack.sections:
        if section.is_folded:
            yield from format_section(section)
    yield "</article>"


def _badge(status: Status) -> str:
    why = f"<span class=why>{escape(status.why)}</span>" if status.why else ""
    word = escape(status.answer.badge.capitalize())
    return f"<p class=answer><strong class='badge {_BADGES[status.answer]}'>{word}</strong>{why}</p>"


def _phrase(phrase: Phrase) -> str:
    text = _text(phrase.text)
    marked = text if phrase.mark is Mark.SAME else f"<span class={_class(phrase.mark)}>{text}</span>"
    return marked + escape(phrase.after)


def format_section(section: Section) -> Iterator[str]:
    size = f" <span class=size>{section.size}</span>" if section.size else ""
    state = "" if section.is_folded else " open"
    yield f"<details class=part{state}><summary><h3>{escape(section.title)}</h3>{size}</summary>"
    for block in section.blocks:
        yield from _block(block, section.title)
    yield "</details>"


def _block(block: Block, title: str) -> Iterator[str]:
    if isinstance(block, Items):
        yield "<ul>"
        yield from (f"<li>{_text(text)}</li>" for text in block.texts)
        yield "</ul>"
        return
    if isinstance(block, TreeDiagram):
        yield from _tree(block)
        return
    if isinstance(block, Chart):
        yield f"<p>{escape(block.caption)}</p>"
        yield format_chart(block)
        return
    if block.bars:
        yield _legend(block.bars)
    # A table may be wider than the screen: it scrolls by itself, by keyboard as well.
    yield f'<div class=wide tabindex=0 role=region aria-label="{escape(title)}">'
    yield from _table(block)
    yield "</div>"


# Tables


def _table(table: Table) -> Iterator[str]:
    heads = [_head(head, _figure(table, head)) for head in table.head]
    at = _bar_column(table)
    if table.bars:
        heads.insert(at, _head("Guaranteed and borrowable"))
    yield f"<table><thead><tr>{''.join(heads)}</tr></thead><tbody>"
    marks, bars = table.marks or repeat(Mark.SAME), table.bars or repeat(None)
    for row, mark, bar in zip(table.rows, marks, bars, strict=False):
        cells = [
            f'<td{_figure(table, head)} data-label="{escape(head)}">{_text(cell)}</td>'
            for head, cell in zip(table.head, row, strict=True)
        ]
        if bar is not None:
            cells.insert(at, f'<td class=bar data-key="{bar.reach}">{format_bar(bar)}</td>')
        kind = "" if mark is Mark.SAME else f" class={_class(mark)}"
        yield f"<tr{kind}>{''.join(cells)}</tr>"
    yield "</tbody></table>"


def _figure(table: Table, head: str) -> str:
    return " class=figure" if head in table.figures else ""


def _head(text: str, mark: str = "") -> str:
    return f"<th scope=col{mark}><button type=button>{escape(text)}</button></th>"


def _bar_column(table: Table) -> int:
    """Bars stand before the figures."""
    return next((index for index, head in enumerate(table.head) if head in table.figures), len(table.head))


def _legend(bars: tuple[Bar, ...]) -> str:
    """What the parts of the bars mean that the table has."""
    found = {
        "own": any(min(each.before, each.after) for each in bars),
        "won": any(each.after > each.before for each in bars),
        "lost": any(each.after < each.before for each in bars),
        "reach": any(each.reach > max(each.before, each.after) for each in bars),
        "used": any(each.used for each in bars),
    }
    words = (f"<li class={kind}>{word}</li>" for kind, word in _LEGEND if found[kind])
    return f"<ul class=legend>{''.join(words)}</ul>"


# The queue tree


def _tree(diagram: TreeDiagram) -> Iterator[str]:
    yield '<ul class=tree aria-label="The queue tree">'
    yield from _branches(diagram.roots, diagram.folded)
    yield "</ul>"
    if diagram.hidden:
        yield f"<p>{diagram.hidden} unchanged queues are not drawn.</p>"


def _branches(nodes: tuple[TreeNode, ...], folded: tuple[TreeNode, ...]) -> Iterator[str]:
    for node in nodes:
        yield f"<li>{_node(node)}"
        if node.children or node.folded:
            yield "<ul>"
            yield from _branches(node.children, node.folded)
            yield "</ul>"
        yield "</li>"
    if folded:
        yield f"<li><details><summary>{unchanged(folded)}</summary><ul>"
        yield from _branches(folded, ())
        yield "</ul></details></li>"


def _node(node: TreeNode) -> str:
    kind = "team" if node.is_team else "department"
    word = "" if node.mark is Mark.SAME else f" <em>{node.mark}</em>"
    notes = "".join(f" <span class=note>{escape(note)}</span>" for note in node.notes)
    return f"<span class='node {kind} {_class(node.mark)}'>{_span(node.name)}{word}{notes}</span>"


# Text


def _class(mark: Mark) -> str:
    return mark.name.lower()


def _text(text: Text) -> str:
    return "".join(_span(span) for span in text)


def _span(span: Span) -> str:
    if isinstance(span, str):
        return escape(span)
    mark = " class=long" if len(span.text) > _LONG else ""
    return f"<code{mark}>{escape(span.text) or '(empty)'}</code>"


_BAR_WIDTH: Final = 1000
_BAR_HEIGHT: Final = 14


def format_usage(bill: Bill, *, stack: str) -> str:
    """The document. Every name is escaped, here or by the report's writer."""
    causes = [cause for cause in Cause if cause in bill.total.hours]
    window = f"{format_day(bill.books.window.start)} to {format_day(bill.books.window.end)}"
    parts = [
        "",
        "<article>",
        f"<header><h2>{escape(sanitize_line(stack))}</h2><p class=banner>{window}: {bill.total.total:,.1f} "
        f"GPU-hours, {format_costs(bill.total)}</p></header>",
        *_weeks(bill, causes),
        *format_section(Section(f"By {bill.by}", 0, (_bill_table(bill, causes),))),
        *format_section(Section("To know", 0, (Items(tuple((each,) for each in sentences(bill))),))),
        "</article>",
    ]
    return format_page("Muster usage", "\n".join(parts), styles=("page.css", "usage.css"))


def _bill_table(bill: Bill, causes: Sequence[Cause]) -> Table:
    head = (bill.by.value.title(), "GPU-hours", "Cost", *(cause.heading.capitalize() for cause in causes))
    rows = tuple(_row(line, bill, causes) for line in (*bill.lines, bill.total))
    return Table(head, rows, head[1:])


def _row(line: Line, bill: Bill, causes: Sequence[Cause]) -> tuple[Text, ...]:
    name, *figures = format_row(line, bill.by, causes, none="")
    return ((UntrustedText(name),), *((each,) for each in figures))


def _weeks(bill: Bill, causes: Sequence[Cause]) -> Iterator[str]:
    """One bar for each name in each week, all to one scale."""
    scale = max((line.total for lines in bill.weeks.values() for line in lines), default=0.0) or 1.0
    yield "<details class=part open><summary><h3>By week</h3></summary>"
    words = "".join(f"<li class={cause}>{cause.heading}</li>" for cause in causes)
    yield f'<ul class="legend causes">{words}</ul>'
    for monday, lines in bill.weeks.items():
        yield f"<p>Week of {monday}</p><div class=wide><table><tbody>"
        for line in lines:
            name = escape(format_name(line.name, bill.by))
            figure = f"<td class=figure>{line.total:,.1f}</td>"
            yield f"<tr><td>{name}</td><td class=bar>{_bar(line, scale)}</td>{figure}</tr>"
        yield "</tbody></table></div>"
    yield "</details>"


def _bar(line: Line, scale: float) -> str:
    """The causes side by side. Screen readers get them in words, a pointer the one below it."""
    words = ", ".join(f"{cause.heading} {hours:,.1f}" for cause, hours in line.hours.items())
    reached, shapes = 0.0, []
    for cause, hours in line.hours.items():
        at, width = (_BAR_WIDTH * each / scale for each in (reached, hours))
        shapes.append(
            f'<rect class={cause} x="{at:.2f}" y="0" width="{width:.2f}" height="{_BAR_HEIGHT}">'
            f"<title>{cause.heading} {hours:,.1f}</title></rect>"
        )
        reached += hours
    view = f'viewBox="0 0 {_BAR_WIDTH} {_BAR_HEIGHT}" preserveAspectRatio="none" height="{_BAR_HEIGHT}"'
    return f'<svg class="bar usage" role=img aria-label="{words}" {view}>{"".join(shapes)}</svg>'
