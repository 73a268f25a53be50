"""The results as Markdown."""

from collections.abc import Iterator
from typing import Final

from bench.gangs.columns import COLUMNS, Column
from bench.gangs.figures import Spread
from bench.gangs.results import Results, over

LABELS: Final = {
    "builtin": "built-in",
    "muster": "Muster",
    "builtin-tuned": "built-in, Kueue tuned",
    "muster-tuned": "Muster, Kueue tuned",
}

_NOTES: Final = """\
- Every trial has an etcd, an API server, a Kueue and a cloud of its own, on this machine, by turns. The
  cloud answers each request at once and alike. Both checks have the same Kueue beside them.
- Times are those of the API server's audit log. Latencies of a burst are those of a queue: all gangs come at
  once. `steady` comes at a rate that both keep up with.
- Calls, CPU and memory are Kueue's and ours together, without the API server, which takes more than both.
- Quota-time lost: the share of the quota that gangs held which the cloud had no stock for, while others that
  could run waited for it.
- Tuned: Kueue's client without a practical bound, 32 Workloads at a time, and a base pause of 5 s after a
  failed request instead of 60 s."""


def markdown(results: Results) -> str:
    lines = [*_heading(results)]
    for case in results.cases():
        lines += ["", f"## {case}", "", *_table(results, case)]
    for name, found in results.alone.items():
        lines += ["", f"## {name}", "", "| figure | |", "|---|---:|"]
        lines += [f"| {figure} | {value:,.2f} |" for figure, value in found.items()]
    return "\n".join(lines) + "\n"


def _heading(results: Results) -> Iterator[str]:
    loads = [trial.load_before for trial in results.trials] or [results.machine.load]
    yield from ("# Kueue's own provisioning check and Muster's, measured", "")
    busy = f"load average {min(loads):.0f} to {max(loads):.0f} before a trial"
    yield f"{results.machine}; {busy}."
    yield "Each figure is the median of its trials; in brackets the least and the most. Made by `make bench`."
    if results.failed:
        yield f"Trials whose plane did not come up, and which count nowhere: {len(results.failed)}."
    yield from ("", _NOTES)


def _table(results: Results, case: str) -> Iterator[str]:
    contenders = results.contenders(case)
    shown = [column for column in COLUMNS if over(results.of(case), column.figure) is not None]
    yield "| | " + " | ".join(LABELS.get(name, name) for name in contenders) + " |"
    yield "|---|" + "---:|" * len(contenders)
    for column in shown:
        cells = (_cell(over(results.of(case, name), column.figure), column) for name in contenders)
        yield f"| {_title(column)} | " + " | ".join(cells) + " |"
    yield "| trials | " + " | ".join(str(len(results.of(case, name))) for name in contenders) + " |"
    yield "| measured, UTC | " + " | ".join(_when(results, case, name) for name in contenders) + " |"
    short = {name: sum(each.is_cut_short for each in results.of(case, name)) for name in contenders}
    if any(short.values()):
        yield "| of these cut short | " + " | ".join(str(short[name]) for name in contenders) + " |"


def _when(results: Results, case: str, contender: str) -> str:
    """When its trials began: figures of different days are figures of different programs."""
    return min(trial.when or results.when for trial in results.of(case, contender))


def _title(column: Column) -> str:
    return f"{column.title}, {column.unit}" if column.unit else column.title


def _cell(found: Spread | None, column: Column) -> str:
    if found is None:
        return ""
    low, middle, high = (f"{value:,.{column.digits}f}" for value in (found.least, found.median, found.most))
    return middle if low == high else f"{middle} ({low} to {high})"
