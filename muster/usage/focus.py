"""The bill as CSV in the columns of FOCUS 1.2, a line for each day, pool, team, queue and cause. Pure.

It divides what the nodes cost at the prices of the bill: all four costs are list prices. Hours without a
price are left out, because FOCUS has no charge without a cost.
Source: https://github.com/FinOps-Open-Cost-and-Usage-Spec/FOCUS_Spec at v1.2, read 2026-11-28
"""

import csv
import io
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from muster.printable import sanitize_line
from muster.usage.bill import Bill, By, name_of
from muster.usage.inputs import next_month
from muster.usage.ledger import DAY, Cause, Entry

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
