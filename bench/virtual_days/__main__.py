"""`python -m bench.virtual_days --days 30`, or `--hours 8` of this machine's time.

Prints a line for each virtual day and, at the end, what every GPU-minute was spent on. Fails where a gang has
no end in sight, where a minute has no cause, or where memory grows.
"""

import argparse
import logging
import sys
import time
from collections.abc import Callable, Sequence

import structlog

from bench.virtual_days.report import causes, memory_grows
from bench.virtual_days.story import Day, Story
from tests.unit.controller_runtime.virtual import virtual


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--days", type=int, default=10, help="virtual days (default: 10)")
    length.add_argument("--hours", type=float, help="hours of this machine's time, instead")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(argv)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    print("| day | gangs live | finished | refused | starts | controllers | objects | entries | RSS, MiB |")
    print("|---:|---:|---:|---:|---:|---:|---:|---:|---:|", flush=True)
    story = Story(seed=options.seed)
    virtual(story.run(until=_until(options.days, options.hours), told=_print))
    print()
    print(causes(story))
    if grows := memory_grows(story.days):
        print(grows)
        return 1
    return 0


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
