"""A ledger as a bill: hours and cost by team, department, queue, pool, user or job.

Also as CSV in the columns of FOCUS 1.2, a line for each day, pool, team, queue and cause. It divides what the
nodes cost at the prices of the bill: all four costs are list prices. Hours without a price are left out,
because FOCUS has no charge without a cost.
Source: https://github.com/FinOps-Open-Cost-and-Usage-Spec/FOCUS_Spec at v1.2, read 2026-11-28
"""

import csv
import io
import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from typing import Final

from muster.columns import GAP, fit_columns, lay_out
from muster.printable import sanitize_line
from muster.usage.inputs import Books, Rate, format_day, format_month, month_of, next_month
from muster.usage.ledger import DAY, Cause, Entry, book


class By(StrEnum):
    """What the lines of a bill are."""

    TEAM = "team"
    DEPARTMENT = "department"
    QUEUE = "queue"
    POOL = "pool"
    USER = "user"
    JOB = "job"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """GPU-hours by cause, and their cost by currency. `unpriced`: the hours of pools without a price. `name`
    is "" for what has none of this kind.
    """

    name: str
    hours: Mapping[Cause, float]
    costs: Mapping[str, float]
    unpriced: float

    @property
    def total(self) -> float:
        return sum(self.hours.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """`lines` by their hours, the greatest first. `total` has all of them. `weeks`: the Monday of each week
    -> its lines. `entries` are those of the ledger, for a list of charges.
    """

    by: By
    lines: tuple[Line, ...]
    total: Line
    weeks: Mapping[date, tuple[Line, ...]]
    entries: tuple[Entry, ...]
    lent: Mapping[tuple[str, str], float]
    books: Books


def to_bill(books: Books, by: By) -> Bill:
    """The bill of what the books hold."""
    ledger = book(books.holds, books.supplies, books.quotas, books.window)
    weeks: defaultdict[date, list[Entry]] = defaultdict(list)
    for entry in ledger.entries:
        day = datetime.fromtimestamp(entry.day, UTC).date()
        weeks[day - timedelta(days=day.weekday())].append(entry)
    return Bill(
        by=by,
        lines=_lines(ledger.entries, books, by),
        total=_line("all", ledger.entries, books.rates),
        weeks={monday: _lines(entries, books, by) for monday, entries in sorted(weeks.items())},
        entries=ledger.entries,
        lent=dict(sorted(ledger.lent.items(), key=lambda each: (-each[1], each[0]))),
        books=books,
    )


def _lines(entries: Iterable[Entry], books: Books, by: By) -> tuple[Line, ...]:
    groups: defaultdict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        groups[name_of(entry, books, by)].append(entry)
    lines = [_line(name, found, books.rates) for name, found in groups.items()]
    return tuple(sorted(lines, key=lambda line: (not line.name, -line.total, line.name)))


def name_of(entry: Entry, books: Books, by: By) -> str:
    """What an entry belongs to, "" for none of this kind."""
    if by is By.POOL:
        return entry.pool
    if entry.hold is None:
        return ""
    if by is By.DEPARTMENT:
        return books.departments.get(entry.hold.team, "")
    name: str = getattr(entry.hold, by.value)
    return name


def _line(name: str, entries: Sequence[Entry], rates: Mapping[str, Rate]) -> Line:
    hours: defaultdict[Cause, float] = defaultdict(float)
    costs: defaultdict[str, float] = defaultdict(float)
    unpriced = 0.0
    for entry in entries:
        hours[entry.cause] += entry.hours
        rate = rates.get(entry.pool)
        if rate is None:
            unpriced += entry.hours
        else:
            costs[rate.price.currency] += entry.hours * rate.hourly
    return Line(
        name=name,
        hours={cause: hours[cause] for cause in Cause if hours[cause]},
        costs=dict(sorted(costs.items())),
        unpriced=unpriced,
    )


def format_name(name: str, by: By) -> str:
    """One line that a terminal shows as it is."""
    return sanitize_line(name) or f"(no {by})"


def format_costs(line: Line) -> str:
    """`USD 12,345.60`, also of several currencies; what is not priced is said."""
    words = [f"{currency} {cost:,.2f}" for currency, cost in line.costs.items()]
    return " + ".join([*words, *(["not priced"] if line.unpriced else [])]) or "-"


def sentences(bill: Bill) -> Iterator[str]:
    """What a reader has to know beside the figures."""
    for (queue, team), hours in bill.lent.items():
        yield f"{sanitize_line(queue)} lent {hours:,.1f} GPU-hours of its quota to {sanitize_line(team)}."
    for team, hours in bill.books.given_back.items():
        yield f"Stopped as idle, gangs of {sanitize_line(team)} gave back {hours:,.1f} GPU-hours."
    month = month_of(bill.books.window.start)
    if bill.by is By.TEAM and bill.books.window.end <= month[1]:
        for line in bill.lines:
            if budget := bill.books.budgets.get(line.name):
                yield (
                    f"{sanitize_line(line.name)} used {line.total:,.1f} of its {budget:,} GPU-hours in "
                    f"{format_month(month[0])} ({line.total / budget:.0%})."
                )
    if bill.by is By.USER and not any(line.name for line in bill.lines):
        yield "A cluster's jobs do not say who submitted them; only imported lists may."
    if bill.total.unpriced:
        pools = sorted({entry.pool for entry in bill.entries if entry.pool not in bill.books.rates})
        names = ", ".join(format_name(pool, By.POOL) for pool in pools)
        yield f"No price is known for {names}: name a file with --prices."
    for read in sorted({rate.price.read for rate in bill.books.rates.values()}):
        yield f"Prices were read on {read}; they have no discount, disk or tax."
    yield from bill.books.notes


# The bill in a terminal

_BAR: Final = 24
_PAINT: Final[Mapping[Cause, tuple[str, str]]] = {
    Cause.GUARANTEED: ("█", "32"),
    Cause.BORROWED: ("▓", "36"),
    Cause.LENT: ("▓", "34"),
    Cause.LOST: ("▒", "31"),
    Cause.GATED: ("▒", "33"),
    Cause.IDLE: ("░", "33"),
    Cause.BROKEN: ("░", "31"),
    Cause.BOOTING: ("░", "35"),
    Cause.UNKNOWN: ("?", "2"),
}


def format_bill(bill: Bill, *, room: int | None, has_colour: bool) -> str:
    """A table with one line for each name, and the sentences below it.

    `room`: the columns of a terminal, which gets bars, and the figures of causes as far as they fit, those
    with the most hours first. None for whatever is no terminal: all figures and no bars.
    """
    causes = [cause for cause in Cause if cause in bill.total.hours]
    rows = [format_row(line, bill.by, causes) for line in (*bill.lines, bill.total)]
    head = (bill.by.value, "GPU-hours", "cost", *(cause.heading for cause in causes))
    minor = [cause.heading for cause in sorted(causes, key=lambda cause: bill.total.hours[cause])]
    free = sys.maxsize if room is None else max(room - _BAR - len(GAP), 0)
    widths = fit_columns(head, rows, head[1:], room=free, minor=minor) or fit_columns(
        head[:3], [row[:3] for row in rows], head[1:], room=sys.maxsize
    )
    lines = [f"{format_day(bill.books.window.start)} to {format_day(bill.books.window.end)}", ""]
    lines += lay_out(head, head, widths, head[1:])
    for line, row in zip((*bill.lines, bill.total), rows, strict=True):
        first, *others = lay_out(head, row, widths, head[1:])
        bar = "" if room is None else _bar(line, has_colour=has_colour)
        lines += [f"{first}{GAP}{bar}", *others]
    if room is not None:
        lines += ["", *_legend(bill, causes, room=room, has_colour=has_colour)]
    return "\n".join(line.rstrip() for line in [*lines, "", *sentences(bill)]).rstrip() + "\n"


def _legend(bill: Bill, causes: Sequence[Cause], *, room: int, has_colour: bool) -> Iterator[str]:
    """What the signs of the bars are, with the hours of all lines."""
    line, length = list[str](), -len(GAP)
    for cause in causes:
        words = f" {cause.heading} {bill.total.hours[cause]:,.1f}"
        length += len(GAP) + 1 + len(words)
        if line and length > room:
            yield GAP.join(line)
            line, length = [], 1 + len(words)
        line.append(_painted(cause, 1, has_colour=has_colour) + words)
    yield GAP.join(line)


def format_row(line: Line, by: By, causes: Sequence[Cause], *, none: str = "-") -> tuple[str, ...]:
    """Name, hours, cost, and the hours of each cause; `none` where it has none."""
    figures = (f"{line.hours[cause]:,.1f}" if cause in line.hours else none for cause in causes)
    return (format_name(line.name, by), f"{line.total:,.1f}", format_costs(line), *figures)


def _bar(line: Line, *, has_colour: bool) -> str:
    """The causes' shares of one line."""
    drawn, reached, parts = 0, 0.0, []
    for cause, hours in line.hours.items():
        reached += hours
        end = round(_BAR * reached / line.total)
        parts.append(_painted(cause, end - drawn, has_colour=has_colour))
        drawn = end
    return "".join(parts)


def _painted(cause: Cause, length: int, *, has_colour: bool) -> str:
    sign, colour = _PAINT[cause]
    return f"\x1b[{colour}m{sign * length}\x1b[0m" if has_colour and length else sign * length


def to_json(bill: Bill) -> dict[str, object]:
    """The bill for programs. Names are as they were recorded."""
    window = bill.books.window
    return {
        "from": datetime.fromtimestamp(window.start, UTC).isoformat(),
        "to": datetime.fromtimestamp(window.end, UTC).isoformat(),
        "by": bill.by.value,
        "lines": [_line_json(line) for line in bill.lines],
        "total": _line_json(bill.total),
        "lent": [
            {"from": queue, "to": team, "gpuHours": hours} for (queue, team), hours in bill.lent.items()
        ],
        "prices": {
            pool: {
                "gpuHour": rate.hourly,
                "currency": rate.price.currency,
                "read": rate.price.read.isoformat(),
                "source": rate.price.source,
            }
            for pool, rate in bill.books.rates.items()
        },
        "notes": [*bill.books.notes],
    }


def _line_json(line: Line) -> dict[str, object]:
    return {
        "name": line.name,
        "gpuHours": line.total,
        "causes": {cause.value: hours for cause, hours in line.hours.items()},
        "cost": dict(line.costs),
        "unpricedGpuHours": line.unpriced,
    }


UNIT: Final = "GPU-Hours"
# A spreadsheet takes a cell that begins so for a formula (CWE-1236). Where its separator is not a comma, it
# divides this one, quoted or not.
_FORMULA: Final = re.compile(r"""(^|[;,|"']\s*)(?=[=+\-@＝＋－＠])""")
_DIGITS: Final = 10
_Key = tuple[float, str, Cause, str, str, str, str]


def format_focus(bill: Bill, *, account: str, provider: str) -> str:
    """`account` is the stack, `provider` who sells the nodes. Jobs and users have lines of their own where
    the bill is by them.
    """
    out = io.StringIO(newline="")
    writer: csv.DictWriter[str] | None = None
    for row in _rows(bill, account, provider):
        if writer is None:
            writer = csv.DictWriter(out, list(row), lineterminator="\n")
            writer.writeheader()
        writer.writerow(row)
    return out.getvalue()


def _rows(bill: Bill, account: str, provider: str) -> Iterator[dict[str, str | None]]:
    hours: defaultdict[_Key, float] = defaultdict(float)
    for entry in bill.entries:
        hours[_key(entry, bill)] += entry.hours
    for key, amount in hours.items():
        day, pool, cause, team, department, queue, owner = key
        rate = bill.books.rates.get(pool)
        if rate is None:
            continue
        quantity, price = _decimal(amount), _decimal(rate.hourly)
        cost = _decimal(float(quantity) * float(price))
        begins = datetime.fromtimestamp(day, UTC)
        month = begins.replace(day=1)
        own = {"x_Cause": cause.value, "x_Department": department, "x_Queue": queue, "x_Pool": pool}
        own |= {f"x_{bill.by.value.title()}": owner} if bill.by in (By.JOB, By.USER) else {}
        tags = {name.removeprefix("x_").lower(): value for name, value in own.items() if value}
        yield {
            "BilledCost": cost,
            "BillingAccountId": _text(account),
            "BillingAccountName": _text(account),
            "BillingCurrency": rate.price.currency,
            "BillingPeriodEnd": _time(next_month(month)),
            "BillingPeriodStart": _time(month),
            "ChargeCategory": "Usage",
            "ChargeClass": None,
            "ChargeDescription": _text(f"{cause} GPU-hours of pool {pool}"),
            "ChargeFrequency": "Usage-Based",
            "ChargePeriodEnd": _time(datetime.fromtimestamp(day + DAY, UTC)),
            "ChargePeriodStart": _time(begins),
            "ConsumedQuantity": quantity,
            "ConsumedUnit": UNIT,
            "ContractedCost": cost,
            "EffectiveCost": cost,
            "InvoiceIssuerName": provider,
            "ListCost": cost,
            "ListUnitPrice": price,
            "PricingQuantity": quantity,
            "PricingUnit": UNIT,
            "ProviderName": provider,
            "PublisherName": provider,
            "RegionId": _text(rate.price.region),
            "ServiceCategory": "Compute",
            "ServiceName": "GPU nodes",
            "SubAccountId": _text(team),
            "SubAccountName": _text(team),
            "Tags": json.dumps({key: _text(value) for key, value in tags.items()}),
            **{name: _text(value) for name, value in own.items()},
        }


def _key(entry: Entry, bill: Bill) -> _Key:
    owner = name_of(entry, bill.books, bill.by) if bill.by in (By.JOB, By.USER) else ""
    team, department, queue = (name_of(entry, bill.books, by) for by in (By.TEAM, By.DEPARTMENT, By.QUEUE))
    return entry.day, entry.pool, entry.cause, team, department, queue, owner


def _text(value: str) -> str | None:
    """Nothing is null. No cell is a formula, ends its line or moves a cursor."""
    return _FORMULA.sub(r"\1'", sanitize_line(value)) or None


def _decimal(value: float) -> str:
    return f"{value:.{_DIGITS}f}".rstrip("0").rstrip(".")


def _time(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")
