"""Writes the reliability report: `python -m bench.reliability docs/reliability.md`.

In the form of Jepsen's reports. Figures come from recorded runs alone, which `--record` of the programs
writes: bench/results/reliability/RELEASE has virtual-days.json, search.json, planted.json, and
planted-NUMBER.json with mistakes that were tried again. At a release `unreleased` is renamed.
report.toml has the sentences, and what was found.
"""

import sys
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from bench.gangs import results
from bench.recorded_runs import FOLDER, Run, load
from bench.virtual_days.report import Summary
from bench.virtual_days.service_levels import Quantiles
from muster.whole_file import write_whole
from release.reference.markdown import table

_KINDS: Final = ("virtual-days", "search", "planted")
_BENCH: Final = FOLDER.with_name("results.json")

_TEXT: Final = tomllib.loads((FOLDER / "report.toml").read_text(encoding="utf-8"))


def main(path: Path) -> None:
    write_whole(path, report().encode())


def report() -> str:
    """Raises ValueError for a run that is missing, msgspec.ValidationError for one of another form."""
    releases = sorted(folder.name for folder in FOLDER.iterdir() if folder.is_dir())
    runs = {release: _runs(release) for release in releases}
    newest = runs[releases[-1]]
    parts = [
        _TEXT["head"],
        _search(newest["search"]),
        _planted([run for kind, run in newest.items() if kind.startswith("planted")]),
        _virtual_days(newest["virtual-days"]),
        _levels({release: each["virtual-days"] for release, each in runs.items()}),
        _findings(),
        _TEXT["limits"],
        _provenance(runs),
    ]
    return "\n".join(parts)


def _runs(release: str) -> Mapping[str, Run]:
    files = {kind: FOLDER / release / f"{kind}.json" for kind in _KINDS}
    if missing := [str(file) for file in files.values() if not file.exists()]:
        raise ValueError(f"{missing[0]} is missing. Fix: run the program with `--record {missing[0]}`")
    again = {file.stem: file for file in sorted((FOLDER / release).glob("planted-*.json"))}
    return {kind: load(file) for kind, file in {**files, **again}.items()}


def _search(run: Run) -> str:
    rows = [
        (
            f"`{name}`",
            f"{each['states']:,}",
            f"{each['transitions']:,}",
            _depth(each),
        )
        for name, each in run.results.items()
    ]
    total = sum(each["states"] for each in run.results.values())
    broken = sum(len(each["violations"]) for each in run.results.values())
    return (
        f"## Results of the search\n\n{total:,} states were judged. Searches that broke a rule: {broken}.\n\n"
        + table(("Start", "States", "Steps", "Every story with departures"), rows)
    )


def _depth(progress: Mapping[str, Any]) -> str:
    if progress["violations"]:
        return f"broken: {progress['violations'][0]['rule']}"
    if progress["is_complete"]:
        return "all"
    return f"up to {progress['departures']}" if progress["departures"] >= 0 else "not all without one"


def _planted(runs: Iterable[Run]) -> str:
    """Of a mistake that was tried again the last run counts."""
    noticed: Mapping[str, str | None] = {name: rule for run in runs for name, rule in run.results.items()}
    survived = [f"`{name}`" for name, rule in noticed.items() if rule == ""]
    unknown = [f"`{name}`" for name, rule in noticed.items() if rule is None]
    lines = [
        f"**Planted mistakes.** Of {len(noticed)} mistakes in the decision code, the search notices "
        f"{sum(map(bool, noticed.values()))} within 40 seconds of CPU time each."
    ]
    if survived:
        lines.append(f"Not noticed: {', '.join(survived)}.")
    if unknown:
        lines.append(f"Not searched: {', '.join(unknown)}.")
    return "\n".join(lines) + "\n"


def _virtual_days(run: Run) -> str:
    summary = _summary(run)
    faults = ", ".join(f"{name} {count}" for name, count in summary.faults.items())
    failed = "; ".join(f"seed {seed}: {why}" for seed, why in summary.failed.items())
    return (
        f"## Results of the virtual days\n\n"
        f"{sum(summary.days.values())} days of the seeds {', '.join(map(str, summary.days))}: "
        f"{summary.finished:,} gangs finished and {summary.refused:,} were refused, in "
        f"{summary.starts:,} starts under {summary.controllers:,} lives of the controller. "
        f"{f'Failed: {failed}.' if failed else 'No seed failed.'}\n\nFaults: {faults}.\n\n"
        "[Earlier runs](../bench/results/virtual-days.md) go up to 194 days of one seed.\n"
    )


def _levels(runs: Mapping[str, Run]) -> str:
    rows = []
    for release, run in runs.items():
        summary = _summary(run)
        idle = sum(hours for cause, hours in summary.unused_hours.items() if cause.startswith("idle until"))
        rows.append(
            (
                release,
                _format_quantiles(summary.start_seconds),
                _format_quantiles(summary.quota_after_failure_seconds),
                f"{summary.bought_hours:,.0f}",
                _share(summary.bought_hours - summary.used_hours, summary.bought_hours),
                _share(idle, summary.bought_hours),
            )
        )
    head = (
        "Release",
        "Full stock to all pods: p50, p99, most",
        "Quota held after a failure: p50, p99, most",
        "GPU-node-hours bought",
        "unused",
        "of these idle until the cloud takes them",
    )
    return f"## Service levels, by release\n\n{_TEXT['levels']}\n" + table(head, rows) + _measured_loss()


def _measured_loss() -> str:
    """From the benchmark on real programs."""
    recorded = results.load(_BENCH)
    found = {
        contender: over.median
        for contender in ("muster", "builtin")
        if (over := results.over(recorded.of("stockout-120", contender), lambda trial: trial.lost_share))
    }
    return (
        "\nOn the real Kueue and API server, four gangs without stock took "
        f"{_percent(found['muster'])} of the quota-time of 120 that could run, and "
        f"{_percent(found['builtin'])} with Kueue's own check ([benchmarks](bench/index.md)).\n"
    )


def _findings() -> str:
    rows = [
        (row["day"], row["by"], row["effect"], row["mend"] + (f" ({row['commit']})" if row["commit"] else ""))
        for row in _TEXT["finding"]
    ]
    return "## What was found\n\n" + table(("Day", "By", "Effect", "Mended"), rows)


def _provenance(runs: Mapping[str, Mapping[str, Run]]) -> str:
    rows = [
        (release, f"`{run.command}`", run.build, run.day, f"{run.machine.load:.0f}")
        for release, kinds in runs.items()
        for run in kinds.values()
    ]
    machines = sorted({str(run.machine) for kinds in runs.values() for run in kinds.values()})
    return f"## Each figure's run\n\nOn {'; '.join(machines)}.\n\n" + table(
        ("Release", "Command", "Commit", "Day", "Load"), rows
    )


def _summary(run: Run) -> Summary:
    return msgspec.convert(run.results, Summary, strict=False)


def _format_quantiles(found: Quantiles | None) -> str:
    if found is None:
        return "-"
    return f"{found.p50:g}, {found.p99:g}, {found.most:g} s (n = {found.count:,})"


def _share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "-"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


if __name__ == "__main__":
    if len(sys.argv) != 2:  # the only argument
        sys.exit("usage: python -m bench.reliability FILE")
    main(Path(sys.argv[1]))
