"""Measures how often a job starts within the interval that `muster why --replay` gives.

    python -m bench.forecast

The trace (bench/traces) has no waits. Kueue plays it once with its real durations; that is what happened.
At moments of its later weeks, jobs that wait are forecast from what had happened until then alone. An 80 %
interval is calibrated where 75 to 85 % of the starts lie in it. Jobs that did not start within the span of a
forecast count as right where the interval is open.
"""

import argparse
import random
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from bench.replay import read_trace, stack
from muster.model.stack import Stack
from muster.preview.replay.forecast import Forecast, Settings, forecast
from muster.preview.replay.side import to_side
from muster.replay.figures import NEVER
from muster.replay.moment import at_moment
from muster.replay.playback import PlayedRun
from muster.replay.player import ensure_player, play
from muster.replay.recording import End, Job, Recording, Run

_TRACE: Final = Path(__file__).parent / "traces" / "philly-gavel-30d.csv.gz"
_DAY: Final = 86_400


def main() -> None:
    arguments = _arguments()
    trace, program = read_trace(arguments.trace, most=arguments.jobs), ensure_player()
    teams = sorted({job.team for job in trace.jobs})
    queues = stack(teams, quota=arguments.quota, moved=0)
    began = time.monotonic()
    happened = played(trace, queues, program)
    print(f"<!-- played in {time.monotonic() - began:.0f} s -->", flush=True)
    settings = Settings(runs=arguments.runs, seconds=arguments.days * _DAY)
    dice = random.Random(0)  # noqa: S311 - a sample
    inside = total = 0
    last = max(job.created for job in happened.jobs)
    print("| day | waiting | forecast | started within the interval | s |")
    print("|---:|---:|---:|---:|---:|")
    for number in range(arguments.moments):
        share = (number + 0.5) / arguments.moments
        at = float(int(happened.header.start + (1 + share) / 2 * (last - happened.header.start)))
        began, moment = time.monotonic(), at_moment(happened, at)
        jobs = dice.sample(list(moment.waiting), k=min(arguments.waiting, len(moment.waiting)))
        if not jobs:
            continue
        found = forecast(
            queues,
            happened.header,
            moment,
            jobs=[job.id for job in jobs],
            program=program,
            settings=settings,
        )
        right = sum(holds(each, job) for each, job in zip(found, jobs, strict=True))
        inside, total = inside + right, total + len(jobs)
        day = (at - happened.header.start) / _DAY
        spent = time.monotonic() - began
        print(f"| {day:.1f} | {len(moment.waiting)} | {len(jobs)} | {right} | {spent:.0f} |", flush=True)
    print(f"\n{inside} of {total} starts within the 80 % interval: {100 * inside / max(total, 1):.0f} %")


def holds(found: Forecast, job: Job) -> bool:
    """Whether the next start of the job lies in the interval."""
    starts = [run.reserved - found.at for run in job.runs if run.reserved > found.at]
    wait = min(starts, default=NEVER)
    return found.earliest <= (NEVER if wait > found.seconds else wait) <= found.latest


def played(trace: Recording, queues: Stack, program: Path) -> Recording:
    """The trace with the waits and preemptions that it has in these queues."""
    side = to_side(queues, trace)
    playback = play(side.world, side.entries, program=program)
    runs = {label.rpartition("/")[2]: found for label, found in playback.runs.items()}
    return replace(trace, jobs=tuple(_as_played(job, runs[job.id]) for job in trace.jobs))


def _as_played(job: Job, found: Sequence[PlayedRun]) -> Job:
    runs = tuple(
        Run(
            reserved=run.start,
            admitted=run.start,
            ended=run.end,
            end=End.PREEMPTED if run.is_evicted else End.FINISHED if run.end else None,
            flavors=tuple(run.usage),
        )
        for run in found
    )
    is_done = bool(runs) and runs[-1].end is End.FINISHED
    left, outcome = (runs[-1].ended, End.FINISHED) if is_done else (None, None)
    return replace(job, runs=runs, left=left, outcome=outcome)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.forecast",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--trace", type=Path, default=_TRACE, help="submit_s, team, gpus, duration_s")
    parser.add_argument("--quota", type=int, default=80, help="GPUs of each team")
    parser.add_argument("--jobs", type=int, help="only the first of the trace")
    parser.add_argument("--moments", type=int, default=8, help="in the later half of the trace")
    parser.add_argument("--waiting", type=int, default=10, help="waiting jobs at each moment, by chance")
    parser.add_argument("--runs", type=int, default=20, help="futures of each moment")
    parser.add_argument("--days", type=int, default=3, help="how far a future reaches")
    return parser.parse_args()


if __name__ == "__main__":
    main()
