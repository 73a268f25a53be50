"""Writes a report, or a bill, as one self-contained HTML page, which needs no network.

The templates are in page/: every value in them is escaped. The page's Content-Security-Policy allows the
style and the script of page.css and page.js by their hashes, and nothing else.
"""

import base64
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from muster.model.quantities import many
from muster.preview.document import (
    Answer,
    Bar,
    Chart,
    Items,
    Line,
    Mark,
    Report,
    Section,
    Table,
    Text,
    TreeDiagram,
    UntrustedText,
    unchanged,
)
from muster.printable import sanitize_line
from muster.usage.bill import Bill, format_costs, format_name, format_row, sentences
from muster.usage.bill import Line as BillLine
from muster.usage.inputs import format_day
from muster.usage.ledger import Cause

_FOLDER: Final = Path(__file__).parent / "page"
_BLOCKS: Final = {"items": Items, "diagram": TreeDiagram, "chart": Chart}
_BADGES: Final = {Answer.YES: "yes", Answer.LOOK: "look", Answer.REFUSED: "refused", Answer.NOTHING: "quiet"}


def format_html(report: Report) -> str:
    """The report as an HTML document."""
    return _page("report.html", title="Muster preview", report=report, badges=_BADGES)


def format_usage(bill: Bill, *, stack: str) -> str:
    """The bill as an HTML document."""
    causes = [cause for cause in Cause if cause in bill.total.hours]
    window = f"{format_day(bill.books.window.start)} to {format_day(bill.books.window.end)}"
    # All weeks have one scale.
    scale = max((line.total for lines in bill.weeks.values() for line in lines), default=0.0) or 1.0
    return _page(
        "usage.html",
        styles=("page.css", "usage.css"),
        title="Muster usage",
        stack=sanitize_line(stack),
        summary=f"{window}: {bill.total.total:,.1f} GPU-hours, {format_costs(bill.total)}",
        causes=causes,
        weeks={
            monday: [_WeekLine.of(line, bill, scale=scale) for line in lines]
            for monday, lines in bill.weeks.items()
        },
        sections=(
            Section(f"By {bill.by}", 0, (_bill_table(bill, causes),)),
            Section("To know", 0, (Items(tuple((each,) for each in sentences(bill))),)),
        ),
    )


def _page(template: str, *, styles: Sequence[str] = ("page.css",), **values: object) -> str:
    """One document with styles and the script of page/."""
    style = Markup("").join(map(_asset, styles))
    return _TEMPLATES.get_template(template).render(style=style, script=_asset("page.js"), **values)


def _asset(name: str) -> Markup:
    return Markup((_FOLDER / name).read_text(encoding="utf-8"))  # noqa: S704 - a file of this package


# What the templates ask of a value


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _kind(mark: Mark) -> str:
    return mark.name.lower()


def _legend(bars: Sequence[Bar]) -> Iterator[tuple[str, str]]:
    """What the parts of the bars mean that the table has."""
    found = {
        ("own", "guaranteed"): any(min(each.before, each.after) for each in bars),
        ("won", "gained"): any(each.after > each.before for each in bars),
        ("lost", "lost"): any(each.after < each.before for each in bars),
        ("reach", "can borrow"): any(each.reach > max(each.before, each.after) for each in bars),
        ("used", "in use now"): any(each.used for each in bars),
    }
    return (part for part, is_there in found.items() if is_there)


def _stripes(bar: Bar) -> Iterator[tuple[str, str, str]]:
    """The class, left edge and width of each part of a bar that can be seen."""
    kept, most = min(bar.before, bar.after), max(bar.before, bar.after)
    parts = (
        ("ground", 0, bar.scale),
        ("reach", 0, bar.reach),
        ("own", 0, kept),
        ("lost" if bar.before > bar.after else "won", kept, most),
    )
    for kind, start, end in parts:
        if (width := min(end, bar.scale) - min(start, bar.scale)) > 0:
            yield kind, _percent(bar, start), _percent(bar, width)


def _used_at(bar: Bar) -> str:
    return _percent(bar, bar.used or 0)


def _percent(bar: Bar, amount: int) -> str:
    return f"{100 * min(amount, bar.scale) / bar.scale:.4g}%"


def _points(line: Line, top: int) -> str:
    """In a chart of 480 by 130 below a margin of 18."""
    step = 480 / max(len(line.values), 1)
    return " ".join(
        f"{(at + 0.5) * step:.1f},{18 + 130 * (1 - min(value / max(top, 1), 1)):.1f}"
        for at, value in enumerate(line.values)
    )


def _templates() -> Environment:
    found = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    found.filters |= {
        "digest": _digest,
        "kind": _kind,
        "legend": _legend,
        "many": many,
        "points": _points,
        "stripes": _stripes,
        "unchanged": unchanged,
        "used_at": _used_at,
    }
    for name, kind in _BLOCKS.items():
        found.tests[name] = lambda block, kind=kind: isinstance(block, kind)
    return found


_TEMPLATES: Final = _templates()


# The bill


@dataclass(frozen=True, slots=True)
class _WeekLine:
    """One name in a week. `causes` stand side by side."""

    name: str
    causes: tuple[dict[str, Any], ...]
    total: str

    @staticmethod
    def of(line: BillLine, bill: Bill, *, scale: float) -> "_WeekLine":
        reached, causes = 0.0, []
        for cause, hours in line.hours.items():
            left, width = (f"{1000 * each / scale:.2f}" for each in (reached, hours))
            words = f"{cause.heading} {hours:,.1f}"
            causes.append({"name": cause, "left": left, "width": width, "words": words})
            reached += hours
        return _WeekLine(format_name(line.name, bill.by), tuple(causes), f"{line.total:,.1f}")


def _bill_table(bill: Bill, causes: Sequence[Cause]) -> Table:
    head = (bill.by.value.title(), "GPU-hours", "Cost", *(cause.heading.capitalize() for cause in causes))
    rows = tuple(_row(line, bill, causes) for line in (*bill.lines, bill.total))
    return Table(head, rows, head[1:])


def _row(line: BillLine, bill: Bill, causes: Sequence[Cause]) -> tuple[Text, ...]:
    name, *figures = format_row(line, bill.by, causes, none="")
    return ((UntrustedText(name),), *((each,) for each in figures))
