"""python -m tests.search [START...] [--minutes 9] [--departures 1] [--json] [--record FILE] [--planted]: does
any order break a rule?

Each start (scenes.py) is searched on its share of the time, two side by side. A violation ends its search
and is printed as a test that replays it. Ctrl-C prints what is known so far; nothing is left behind.
"""

import argparse
import json
import multiprocessing
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from bench.recorded_runs import record
from tests.search import planted
from tests.search.space import Progress, Violation, explore


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.search", description=__doc__)
    parser.add_argument(
        "starts", nargs="*", metavar="START", help="which worlds, or planted mistakes [all of them]"
    )
    parser.add_argument("--minutes", type=float, default=9, help="of each core's time [9]")
    parser.add_argument("--processes", type=int, default=2, help="side by side [2]")
    parser.add_argument("--departures", type=int, help="no story with more [as many as there is time for]")
    parser.add_argument("--json", action="store_true", help="the results as JSON, and no progress")
    parser.add_argument("--planted", action="store_true", help="break the decision code on purpose instead")
    parser.add_argument("--record", type=Path, metavar="FILE", help="the results, for the reliability report")
    parser.add_argument("--planted-as", default="", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.planted:
        if unknown := [name for name in options.starts if name not in planted.planted()]:
            parser.error(f"{unknown[0]} is not planted. Fix: name some of {', '.join(planted.planted())}")
        return planted.main(
            options.starts,
            seconds=60 * options.minutes,
            processes=options.processes,
            recorded=options.record,
        )
    if options.planted_as:
        planted.install(options.planted_as)
    from tests.search.scenes import STARTS  # after the decision code is broken

    names = options.starts or list(STARTS)
    if unknown := [name for name in names if name not in STARTS]:
        parser.error(f"there is no start {unknown[0]}. Fix: name some of {', '.join(STARTS)}")
    side_by_side = min(options.processes, len(names))
    seconds = 60 * options.minutes * side_by_side / len(names)
    search = partial(_search, seconds=seconds, departures=options.departures, is_quiet=options.json)
    results: dict[str, Progress] = {}
    try:
        for name, progress in _searched(search, names, side_by_side):
            results[name] = progress
            if not options.json:
                print(format_result(name, progress), flush=True)
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
    if options.record:
        record(options.record, {name: asdict(progress) for name, progress in results.items()})
    if options.json:
        print(json.dumps({name: asdict(progress) for name, progress in results.items()}, indent=2))
    else:
        for name, progress in results.items():
            for violation in progress.violations:
                print(f"\n{test_of(name, violation)}")
    is_broken = any(progress.violations for progress in results.values())
    return 1 if is_broken or len(results) < len(names) else 0


def _searched(search: Any, names: Sequence[str], side_by_side: int) -> Iterator[tuple[str, Progress]]:
    if side_by_side == 1:
        yield from map(search, names)
        return
    with multiprocessing.Pool(side_by_side, signal.signal, (signal.SIGINT, signal.SIG_IGN)) as pool:
        yield from pool.imap_unordered(search, names)


def _search(name: str, *, seconds: float, departures: int | None, is_quiet: bool) -> tuple[str, Progress]:
    from tests.search.scenes import STARTS  # see above

    def report(progress: Progress) -> None:
        print(f"{name}: {format_counts(progress)}, {progress.waiting:,} waiting", file=sys.stderr, flush=True)

    quiet = is_quiet or not os.isatty(2)
    return name, explore(
        STARTS[name](), seconds=seconds, departures=departures, report=(lambda _: None) if quiet else report
    )


def format_counts(progress: Progress) -> str:
    return f"{progress.states:,} states, {progress.transitions:,} steps, {progress.seconds:.0f} s"


def format_result(name: str, progress: Progress) -> str:
    if progress.violations:
        found = f"BROKEN: {progress.violations[0].rule}"
    elif progress.is_complete:
        found = "every story"
    elif progress.departures < 0:
        found = "not even the story without a departure was finished"
    else:
        found = f"every story with up to {progress.departures} departures"
    return f"{name}: {found} ({format_counts(progress)})"


def test_of(name: str, violation: Violation) -> str:
    """A test that replays it."""
    steps = "".join(f"        {json.dumps(step)},\n" for step in violation.path)
    words = name.replace("-", "_")
    return (
        "from tests.search.scenes import STARTS\nfrom tests.search.space import replay\n\n\n"
        f"def test_{words}_keeps_its_rules() -> None:\n"
        f"    # {violation.rule[:100]}\n"
        f'    replay(\n        STARTS["{name}"](),\n        [\n'
        + steps.replace("        ", "            ")
        + "        ],\n    )\n"
    )


if __name__ == "__main__":
    sys.exit(main())
