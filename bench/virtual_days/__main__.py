"""`python -m bench.virtual_days --days 30`, or `--hours 8` of this machine's time.

Prints a line for each virtual day and, at the end, what every GPU-minute was spent on. Fails where a gang has
no end in sight, where a minute has no cause, or where memory grows.

`--draw 10` runs as many new seeds, after the one that failed last. The seed that fails after the fewest days
is kept in `--kept`, until it passes. `--record` writes what all of them have shown, for the reliability
report.
"""

import argparse
import json
import logging
import random
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import structlog

from bench.recorded_runs import record
from bench.virtual_days.report import Summary, causes, memory_grows, summarize
from bench.virtual_days.story import Day, Story
from muster.whole_file import write_whole
from tests.unit.controller_runtime.virtual import virtual


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--days", type=int, default=10, help="virtual days (default: 10)")
    length.add_argument("--hours", type=float, help="hours of this machine's time, instead")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--draw", type=int, default=0, metavar="SEEDS", help="this many new seeds, instead")
    parser.add_argument(
        "--kept", type=Path, default=Path("build/virtual-days.json"), help="the seed that failed"
    )
    parser.add_argument("--record", type=Path, metavar="FILE", help="with --draw: the results as JSON")
    options = parser.parse_args(argv)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    until = _until(options.days, options.hours)
    if options.draw:
        drawn = [random.SystemRandom().randrange(10**9) for _ in range(options.draw)]
        failed, summary = run_seeds(drawn, until=until, kept=options.kept)
        if options.record:
            record(options.record, summary)
        return failed
    print("| day | gangs live | finished | refused | starts | controllers | objects | entries | RSS, MiB |")
    print("|---:|---:|---:|---:|---:|---:|---:|---:|---:|", flush=True)
    story = Story(seed=options.seed)
    virtual(story.run(until=until, told=_print))
    print()
    print(causes(story))
    if grows := memory_grows(story.days):
        print(grows)
        return 1
    return 0


def run_seeds(seeds: Iterable[int], *, until: Callable[[int], bool], kept: Path) -> tuple[int, Summary]:
    """The kept seed, then these; 1 where one fails. `kept` has the one that failed after the fewest days."""
    before = json.loads(kept.read_text(encoding="utf-8"))["seed"] if kept.exists() else None
    failed: list[tuple[int, int, str]] = []
    stories: list[Story] = []
    for seed in dict.fromkeys((*([] if before is None else [before]), *seeds)):
        story = Story(seed=seed)
        try:
            virtual(story.run(until=until))
            causes(story)
            why = memory_grows(story.days)
        except Exception as error:  # whatever ends a story is what was looked for
            why = f"{type(error).__name__}: {error}"
        days = len(story.days)
        stories.append(story)
        print(f"seed {seed}: {f'fails on day {days + 1}: {why}' if why else f'{days} days'}", flush=True)
        failed += [(days, seed, why)] if why else []
    summary = summarize(stories, failed={seed: why for _, seed, why in failed})
    if not failed:
        kept.unlink(missing_ok=True)
        return 0, summary
    days, seed, why = min(failed)
    kept.parent.mkdir(parents=True, exist_ok=True)
    note = {"seed": seed, "day": days + 1, "why": why}
    write_whole(kept, (json.dumps(note, indent=2) + "\n").encode())
    print(f"kept in {kept}: seed {seed}. Again: python -m bench.virtual_days --seed {seed} --days {days + 1}")
    return 1, summary


def _until(days: int, hours: float | None) -> Callable[[int], bool]:
    if hours is None:
        return lambda done: done >= days
    ends = time.monotonic() + 3600 * hours
    return lambda done: time.monotonic() >= ends


def _print(day: Day) -> None:
    print(
        f"| {day.number} | {day.live} | {day.finished} | {day.refused} | {day.starts} | {day.lives} "
        f"| {day.objects} | {day.entries} | {day.rss_mib:.1f} |",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
