"""Writes a bill as one self-contained HTML page: bars by week and name, and the figures."""

from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

from muster.preview.document import Items, Section, Table, Text, UntrustedText
from muster.preview.html import format_page, format_section
from muster.printable import sanitize_line
from muster.usage.bill import Bill, Line, format_costs, format_name, format_row, sentences
from muster.usage.inputs import format_day
from muster.usage.ledger import Cause

_WIDTH: Final = 1000
_HEIGHT: Final = 14


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
        *format_section(Section(f"By {bill.by}", 0, (_table(bill, causes),))),
        *format_section(Section("To know", 0, (Items(tuple((each,) for each in sentences(bill))),))),
        "</article>",
    ]
    return format_page("Muster usage", "\n".join(parts), styles=("page.css", "usage.css"))


def _table(bill: Bill, causes: Sequence[Cause]) -> Table:
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
        at, width = (_WIDTH * each / scale for each in (reached, hours))
        shapes.append(
            f'<rect class={cause} x="{at:.2f}" y="0" width="{width:.2f}" height="{_HEIGHT}">'
            f"<title>{cause.heading} {hours:,.1f}</title></rect>"
        )
        reached += hours
    view = f'viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none" height="{_HEIGHT}"'
    return f'<svg class="bar usage" role=img aria-label="{words}" {view}>{"".join(shapes)}</svg>'
