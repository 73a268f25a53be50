"""The results as Markdown."""

from collections.abc import Iterator, Sequence
from typing import Final

from bench.gangs.columns import COLUMNS, COMPARED, Column
from bench.gangs.figures import Spread
from bench.gangs.ratios import ratio, ratios
from bench.gangs.results import Results, over
from bench.gangs.trial import Trial

LABELS: Final = {
    "builtin": "built-in",
    "muster": "Muster",
    "builtin-tuned": "built-in, Kueue tuned",
    "muster-tuned": "Muster, Kueue tuned",
}

_RATIO_DIGITS: Final = 2
_NOTES: Final = """\
- Every trial has an etcd, an API server, a Kueue and a cloud of its own, on this machine, by turns. The
  cloud answers each request at once and alike. Both checks have the same Kueue beside them.
- Times are those of the API server's audit log. Latencies of a burst are those of a queue: all gangs come at
  once. `steady` comes at a rate that both keep up with.
- A latency lies within one reservation of quota, and each reservation in which both ends came is a sample: a
  gang that is preempted and comes back gives several. n: samples of a trial; below 100 the largest is shown.
- A ratio is ours over the built-in's beside the same Kueue in the same round, whose trials follow one another
  within minutes: the median over the rounds in which both ran to their end, and between what they lie.
- What is cut short was ended by the trial's limit of time: its latencies are those of what came so far, and
  what it cost a gang is left out, since it has worked for gangs that it had not admitted yet.
- Build: the commit that was measured, with + where the programs differed from it.
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
        count = len(results.failed)
        yield f"Trials whose plane did not come up or did not last, and which count nowhere: {count}."
    yield from ("", _NOTES)


def _table(results: Results, case: str) -> Iterator[str]:
    contenders = results.contenders(case)
    of = {name: results.of(case, name) for name in contenders}
    yield _row("", [_label(name, of[name]) for name in contenders])
    yield "|---|" + "---:|" * len(contenders)
    for column in COLUMNS:
        if over(results.of(case), column.figure) is not None:
            cells = [_cell(over(of[name], column.figure), column.digits) for name in contenders]
            yield _row(_title(column, results.of(case)), cells)
    yield from _ratios(results, case)
    yield _row("trials", [str(len(of[name])) for name in contenders])
    yield _row("measured, UTC", [_when(of[name], results.when) for name in contenders])
    yield _row("build", [_builds(of[name]) for name in contenders])


def _ratios(results: Results, case: str) -> Iterator[str]:
    """Nothing where no two ran in the same round to their end."""
    contenders = results.contenders(case)
    for column in COMPARED:
        found = {name: ratio(results, case, name, column.figure) for name in contenders}
        if any(found.values()):
            yield _row(f"{column.title}, ratio", [_cell(found[name], _RATIO_DIGITS) for name in contenders])
    rounds = {name: len(ratios(results, case, name, COMPARED[0].figure)) for name in contenders}
    if any(rounds.values()):
        yield _row("rounds in the ratios", [str(rounds[name] or "") for name in contenders])


def _row(title: str, cells: Sequence[str]) -> str:
    return " | ".join([f"| {title}".rstrip(), *cells]) + " |"


def _label(name: str, trials: Sequence[Trial]) -> str:
    """The contender, marked where trials of it did not come to their end."""
    label, short = LABELS.get(name, name), sum(each.is_cut_short for each in trials)
    if not short:
        return label
    return f"{label} ({'' if short == len(trials) else f'{short} of {len(trials)} '}cut short)"


def _when(trials: Sequence[Trial], otherwise: str) -> str:
    """When its first trial began and when its last: figures of different days are of different programs."""
    moments = sorted(trial.when or otherwise for trial in trials)
    first, last = moments[0], moments[-1]
    if first == last:
        return first
    day, _, time = last.partition(" ")
    return f"{first} to {time if time and first.startswith(day) else last}"


def _builds(trials: Sequence[Trial]) -> str:
    return ", ".join(dict.fromkeys(trial.build or "not recorded" for trial in trials))


def _title(column: Column, trials: Sequence[Trial]) -> str:
    title = column.named(trials)
    return f"{title}, {column.unit}" if column.unit else title


def _cell(found: Spread | None, digits: int) -> str:
    if found is None:
        return ""
    low, middle, high = (f"{value:,.{digits}f}" for value in (found.least, found.median, found.most))
    return middle if low == high else f"{middle} ({low} to {high})"
