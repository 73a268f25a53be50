"""Measures how often a job starts within the interval that `muster why` gives.

    python -m bench.forecast
    python -m bench.forecast --simple --quota 88 --runs 20 --days 1 --waiting 15
    python -m bench.forecast --kai 16 --jobs 600 --first 1 --days 1

The trace (bench/traces) has no waits. Kueue plays it once with its real durations; that is what happened.
At moments of its last two weeks, jobs that wait are forecast from what had happened until then alone. An 80 %
interval is calibrated where 75 to 85 % of the starts lie in it. Jobs that did not start within the span of a
forecast count as right where the interval is open. A simple queue in Kueue's place plays both, what happened
and what may follow, in a small part of the time: the draws of durations and arrivals are the same.
"""

import argparse
import math
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import methodcaller
from pathlib import Path
from typing import Final

from bench import kai_replay, simple_queue
from bench.replay import GPUS_A_NODE, read_trace, stack
from muster.preview.replay.both import KaiDecider, ensure_player_of, queues_of
from muster.replay.figures import NEVER, percentile
from muster.replay.forecast import Forecast, Player, Settings, forecast
from muster.replay.moment import at_moment
from muster.replay.player import Playback, PlayedRun
from muster.replay.recording import End, Job, Recording, Run
from muster.replay.recording_file import load_recording, write_recording
from muster.replay.side import Decider, KueueDecider, Side, Subject

_TRACE: Final = Path(__file__).parent / "traces" / "philly-gavel-30d.csv.gz"
_DAY: Final = 86_400
_HOUR: Final = 3600
_RESAMPLED: Final = 2000
# Multiples of it fill an interval evenly.
_GOLDEN: Final = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True, slots=True)
class Moment:
    """Of how many forecasts the start lies in the interval, before it and after it. `widths` are the seconds
    of the intervals that have an end.
    """

    day: float
    waiting: int
    inside: int
    before: int
    after: int
    widths: tuple[float, ...]
    seconds: float

    @property
    def forecasts(self) -> int:
        return self.inside + self.before + self.after


def main() -> None:
    arguments = _arguments()
    trace = read_trace(arguments.trace, most=arguments.jobs)
    teams = sorted({job.team for job in trace.jobs})
    decider: Decider = KueueDecider(queues_of(stack(teams, quota=arguments.quota, moved=0)))
    if arguments.kai:
        trace = kai_replay.offered(trace, gpus=arguments.kai * GPUS_A_NODE, load=arguments.load)
        decider = KaiDecider(kai_replay.stack(arguments.kai))
    player: Player = (
        partial(_play_simply, gpus=arguments.quota * len(teams))
        if arguments.simple
        else methodcaller("play", ensure_player_of(decider.scheduler))
    )
    kept: Path | None = arguments.happened
    if kept is not None and kept.exists():
        happened = load_recording(kept)
    else:
        happened = played(trace, decider, player)
        if kept is not None:
            write_recording(kept, happened)
    settings = Settings(runs=arguments.runs, seconds=int(arguments.days * _DAY))
    print("| day | waiting | forecast | in the interval | before it | after it | open | s |")
    print("|---:|---:|---:|---:|---:|---:|---:|---:|")
    found: list[Moment] = []
    for each in measure(happened, decider, player, settings, arguments):
        found.append(each)
        row = (
            f"{each.day:.1f}",
            each.waiting,
            each.forecasts,
            each.inside,
            each.before,
            each.after,
            each.forecasts - len(each.widths),
            f"{each.seconds:.0f}",
        )
        print("|", " | ".join(map(str, row)), "|", flush=True)
    print(f"\n{summary(found)}" if found else "no job waited at any moment")


def _play_simply(side: Subject, *, gpus: int) -> Playback:
    assert isinstance(side, Side)
    return simple_queue.play(side.world, side.entries, gpus=gpus)


def measure(
    happened: Recording, decider: Decider, player: Player, settings: Settings, arguments: argparse.Namespace
) -> Iterator[Moment]:
    """Spread over the time however many there are. Moments at which nothing waits are left out."""
    dice = random.Random(0)  # noqa: S311 - a sample
    start, arrived = happened.header.start, max(job.created for job in happened.jobs)
    # No job arrives after the trace's end, which a forecast does not know.
    last = arrived - settings.seconds
    if arguments.last is not None:
        last = min(last, start + arguments.last * _DAY)
    first = start + arguments.first * _DAY
    end = time.monotonic() + arguments.minutes * 60
    for number in range(arguments.moments):
        if time.monotonic() > end:
            return
        at = float(int(first + (number * _GOLDEN + 0.5) % 1 * (last - first)))
        began, moment = time.monotonic(), at_moment(happened, at)
        jobs = dice.sample(list(moment.waiting), k=min(arguments.waiting, len(moment.waiting)))
        if not jobs:
            continue
        found = forecast(decider, happened.header, moment, jobs=jobs, player=player, settings=settings)
        sides = Counter(side(each, job) for each, job in zip(found, jobs, strict=True))
        yield Moment(
            day=(at - start) / _DAY,
            waiting=len(moment.waiting),
            inside=sides[0],
            before=sides[-1],
            after=sides[1],
            widths=tuple(each.latest - each.earliest for each in found if each.latest != NEVER),
            seconds=time.monotonic() - began,
        )


def side(found: Forecast, job: Job) -> int:
    """0 where the next start of the job lies in the interval, -1 before and 1 after it."""
    admitted = [run.admitted for run in job.runs if run.admitted is not None]
    starts = [each - found.at for each in admitted if each > found.at]
    wait = min(starts, default=NEVER)
    wait = NEVER if wait > found.seconds else wait
    return (wait > found.latest) - (wait < found.earliest)


def summary(found: Sequence[Moment]) -> str:
    """The coverage. Jobs of one moment share their fate, so its spread is that of resampled moments."""
    dice = random.Random(0)  # noqa: S311 - a sample
    drawn = sorted(_coverage(dice.choices(found, k=len(found))) for _ in range(_RESAMPLED))
    low, high = percentile(drawn, 5), percentile(drawn, 95)
    widths = sorted(width for each in found for width in each.widths)
    total, inside = sum(each.forecasts for each in found), sum(each.inside for each in found)
    return (
        f"{inside} of {total} starts, at {len(found)} moments, lie in the 80 % interval: "
        f"{_coverage(found):.0%} ({low:.0%} to {high:.0%} when moments are drawn anew, 90 %). "
        f"{total - len(widths)} intervals are open. "
        f"The others are {percentile(widths, 50) / _HOUR:.1f} h wide in the median; one in ten exceeds "
        f"{percentile(widths, 90) / _HOUR:.1f} h."
    )


def _coverage(found: Sequence[Moment]) -> float:
    return sum(each.inside for each in found) / sum(each.forecasts for each in found)


def played(trace: Recording, decider: Decider, player: Player) -> Recording:
    """The trace with the waits and preemptions that it has in these queues."""
    playback = player(decider.side(trace))
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
    parser.add_argument("--quota", type=int, default=96, help="GPUs of each team")
    parser.add_argument("--jobs", type=int, help="only the first of the trace")
    parser.add_argument(
        "--first", type=float, default=15, help="the day of the trace from which on moments lie"
    )
    parser.add_argument("--last", type=float, help="the day up to which they lie; default: as late as can be")
    parser.add_argument("--simple", action="store_true", help="play a simple queue in Kueue's place")
    parser.add_argument("--kai", type=int, metavar="NODES", help="play KAI, on so many nodes of 8 GPUs")
    parser.add_argument(
        "--load", type=float, default=0.9, help="with --kai: the mean demand, as in kai_replay"
    )
    parser.add_argument("--moments", type=int, default=30, help="at most so many")
    parser.add_argument("--minutes", type=float, default=20, help="no moment is begun later")
    parser.add_argument(
        "--happened", type=Path, help="file in which the played trace is kept for the next run"
    )
    parser.add_argument("--waiting", type=int, default=10, help="waiting jobs at each moment, by chance")
    parser.add_argument("--runs", type=int, default=20, help="futures of each moment")
    parser.add_argument("--days", type=float, default=3, help="how far a future reaches")
    return parser.parse_args()


if __name__ == "__main__":
    main()
