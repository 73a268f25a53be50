"""`muster usage`."""

from pathlib import Path

import click

from muster.cli.command import command
from muster.cli.options import FILE, existing_stack, json_option, stack_argument
from muster.cli.output import STDOUT, has_colour, note, put, put_json, terminal_columns
from muster.errors import MusterError

_EXAMPLES = """
muster usage gke-prod --recording last-month.jsonl.gz
muster usage gke-prod --recording last-month.jsonl.gz --by department --month 2026-11
muster usage gke-prod --recording last-month.jsonl.gz --prices contract.yaml --html usage.html
muster usage gke-prod --recording last-month.jsonl.gz --by job --csv usage.csv
"""
_BY = ("team", "department", "queue", "pool", "user", "job")


@command(examples=_EXAMPLES)
@stack_argument
@click.option(
    "--recording", type=FILE, required=True, metavar="RECORDING", help="What was used, from `muster record`."
)
@click.option(
    "--by", type=click.Choice(_BY), default="team", show_default=True, help="What a line of the bill is."
)
@click.option("--month", metavar="MONTH", help="Only this month (UTC), such as 2026-11. Default: all.")
@click.option(
    "--prices", type=FILE, metavar="FILE", help="Your prices, which go before Muster's; see `muster diff`."
)
@click.option("--csv", "csv_file", metavar="FILE", help="Write FOCUS 1.2 into FILE, or - for stdout.")
@click.option("--html", "html_file", metavar="FILE", help="Write a page with bars by week, or - for stdout.")
@json_option
def cli(
    stack: str,
    *,
    recording: Path,
    by: str,
    month: str | None,
    prices: Path | None,
    csv_file: str | None,
    html_file: str | None,
    as_json: bool,
) -> None:
    """Show what teams used, borrowed and wasted, by hours and cost.

    Every GPU-hour that was bought has one cause. `guaranteed`, `borrowed` and `lent` are hours in which jobs
    ran: within the quota of their queue, above it, and above it on quota that another queue left unused.
    `lost`: the run was preempted or evicted; what a checkpoint saved is not known. `gated`: bought, and
    waiting for the rest of a job's nodes. `idle`: held by no job. `broken`: the node was not Ready, was
    set aside, or had lost GPUs. `booting`: it was not Ready yet. `unknown`: nothing was recorded, or the
    stack has no such queue.

    STACK gives teams, quotas and prices as they are now. A node counts from its creation in the cluster to
    its deletion. A GPU that a job holds and does not use counts as used: a recording has no utilization. A
    recording of an older Muster, an imported list, or one without the right to list nodes has no nodes: it
    shows the hours in which jobs ran and no others.
    """
    from muster.cloud.price_lists import load_prices
    from muster.config import load
    from muster.paths import stack_name
    from muster.preview.html import format_usage
    from muster.replay.recording_file import load_recording
    from muster.usage.bill import By, format_bill, format_focus, to_bill, to_json
    from muster.usage.inputs import read_books

    if [csv_file, html_file, STDOUT if as_json else None].count(STDOUT) > 1:
        raise MusterError("--csv, --html and --json cannot share standard output.", fix="name a file.")
    file = existing_stack(stack)
    model, recorded = load(file), load_recording(recording)
    for warning in recorded.warnings:
        note(warning)
    bill = to_bill(read_books(recorded, model, load_prices(prices), month=_month(month)), By(by))
    if csv_file is not None:
        provider = model.cluster.provider
        put(csv_file, format_focus(bill, account=stack_name(file), provider=str(provider)))
        if bill.total.unpriced:
            note(f"{csv_file}: {bill.total.unpriced:,.1f} GPU-hours without a price are not in it")
    if html_file is not None:
        put(html_file, format_usage(bill, stack=stack_name(file)))
    if as_json:
        put_json(to_json(bill))
    elif STDOUT not in (csv_file, html_file):
        room = terminal_columns()
        put(STDOUT, format_bill(bill, room=room, has_colour=room is not None and has_colour()))


def _month(text: str | None) -> tuple[float, float] | None:
    from muster.usage.inputs import parse_month

    try:
        return None if text is None else parse_month(text)
    except ValueError:
        raise MusterError(f"--month {text}: not a month.", fix="write it like 2026-11.") from None
