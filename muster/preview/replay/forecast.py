"""When waiting jobs start: Kueue plays many futures of a moment, and the starts are counted.

Responsible for playing and counting. Not responsible for what a future holds (muster/replay/futures.py), nor
for words (forecast_text.py).
"""

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Final

from muster.live.errors import PreviewError
from muster.model.stack import Scheduler, Stack
from muster.preview.replay.side import Side, teams_by_namespace, to_side
from muster.replay.assumptions import Assumptions
from muster.replay.figures import NEVER, Played
from muster.replay.futures import Futures, futures
from muster.replay.moment import Moment, priority_of
from muster.replay.percentile import interval, percentile
from muster.replay.playback import Playback
from muster.replay.player import Entry, World
from muster.replay.recording import Header, Job

Player = Callable[[World, Sequence[Entry]], Playback]
"""Plays jobs in a world: Kueue's player, whose program is given."""

_HOUR: Final = 3600
# A job that starts soon needs no long future: each is played this far first, then further.
_STEPS: Final = (6 * _HOUR, 24 * _HOUR, 72 * _HOUR)
_MIDDLE: Final = 50
# What is meant to hold 80 % of the starts. The middle 80 % of the futures hold fewer: the days to come
# differ from the past by more than draws from it do (bench/forecast.py).
_WITHIN: Final = 90


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """`runs` futures of `seconds` each."""

    runs: int = 40
    seconds: int = 7 * 24 * _HOUR
    seed: int = 0
    grace: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Jobs of a team and a priority. Of several futures, `jobs` and `gpus` are the means."""

    team: str
    priority: str
    jobs: float
    gpus: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """Of one job. `earliest` to `latest` is the 80 % interval, in seconds from the moment; NEVER where it is
    beyond the end of the futures. `starts` are those of each of the `runs` futures; `unstarted` of them end
    before it starts.

    `place` is among the `waiting` jobs of its ClusterQueue, from 1; `ahead` are the jobs before it. `ends` is
    what runs now and has ended when it starts, `preempts` what it preempts. Durations and arrivals are those
    of the time before `learned_until`.
    """

    job: str
    team: str
    priority: str
    gpus: int
    at: float
    learned_until: float
    earliest: float
    median: float
    latest: float
    starts: tuple[float, ...]
    runs: int
    unstarted: int
    seconds: int
    seed: int
    place: int
    waiting: int
    ahead: tuple[Group, ...]
    ends: tuple[Group, ...]
    preempts: tuple[Group, ...]
    left_out: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class _Future:
    side: Side
    playback: Playback


def forecast(
    stack: Stack,
    header: Header,
    moment: Moment,
    *,
    jobs: Sequence[Job],
    player: Player,
    settings: Settings,
    history: Moment | None = None,
) -> tuple[Forecast, ...]:
    """Of jobs that wait at the moment. `history`: what durations and arrivals are learned from, where that is
    not the moment itself. PreviewError where the stack cannot run one of the jobs.
    """
    if stack.scheduler is not Scheduler.KUEUE:
        raise PreviewError(
            f"a forecast plays Kueue's queues, and the stack is scheduled by {stack.scheduler}. "
            "Fix: leave --replay out."
        )
    teams = {namespace: team.name for namespace, team in teams_by_namespace(stack).items()}
    drawn = futures(
        header, moment, history=history, seconds=settings.seconds, seed=settings.seed, teams=teams
    )
    with ThreadPoolExecutor(max_workers=min(os.cpu_count() or 1, 4)) as pool:
        playing = [
            pool.submit(_play, stack, drawn, number, jobs=jobs, player=player, settings=settings)
            for number in range(settings.runs)
        ]
        played = [each.result() for each in playing]
    return tuple(_count(job, drawn, played, settings) for job in jobs)


def _play(
    stack: Stack, drawn: Futures, number: int, *, jobs: Sequence[Job], player: Player, settings: Settings
) -> _Future:
    at = int(drawn.moment.at)
    assumed = Assumptions(grace=settings.grace)
    side = to_side(stack, drawn.draw(number), assumed, now=drawn.moment)
    labels = [_played(side, job).label for job in jobs]
    for seconds in (*(each for each in _STEPS if each < settings.seconds), settings.seconds):
        until = at + seconds
        pairs = zip(side.entries, side.jobs, strict=True)
        entries = [entry for entry, job in pairs if job.created <= until]
        world = replace(side.world, horizon=until - min(each.at or at for each in entries))
        playback = player(world, entries)
        if all(playback.runs[label] for label in labels):
            break
    return _Future(side, playback)


def _played(side: Side, job: Job) -> Played:
    found = next((each for each in side.jobs if each.key == job.key), None)
    if found is None:
        raise PreviewError(
            f"{job.key}: the stack lacks its team, queue or pool, so nothing can be said about it. "
            "Fix: name the stack of the cluster in which it waits."
        )
    return found


def _count(job: Job, drawn: Futures, played: Sequence[_Future], settings: Settings) -> Forecast:
    side, moment, at = played[0].side, drawn.moment, int(drawn.moment.at)
    target = _played(side, job)
    label = target.label
    starts = [_start(each, label, at) for each in played]
    ordered = sorted(starts)
    earliest, latest = interval(ordered, _WITHIN)
    queue = _queue(side, moment, target.queue)
    place = queue.index(label)
    return Forecast(
        job=label,
        team=target.team,
        priority=target.priority,
        gpus=target.gpus,
        at=moment.at,
        learned_until=drawn.history.at,
        earliest=earliest,
        median=percentile(ordered, _MIDDLE),
        latest=latest,
        starts=tuple(starts),
        runs=len(played),
        unstarted=ordered.count(NEVER),
        seconds=settings.seconds,
        seed=settings.seed,
        place=place + 1,
        waiting=len(queue),
        ahead=_groups(side, Counter(queue[:place]), 1),
        ends=_groups(side, *_ended(played, starts, moment, at)),
        preempts=_groups(side, *_preempted(played, label)),
        left_out=side.left_out,
    )


def _start(future: _Future, label: str, at: int) -> float:
    runs = future.playback.runs[label]
    return float(runs[0].start - at) if runs else NEVER


def _queue(side: Side, moment: Moment, queue: str) -> list[str]:
    """The waiting jobs of a ClusterQueue in its order: by priority, then by age."""
    keys = {job.key for job in moment.waiting}
    waiting = [
        (-int(entry.workload["spec"]["priority"]), index, job.label)
        for index, (entry, job) in enumerate(zip(side.entries, side.jobs, strict=True))
        if job.queue == queue and job.key in keys
    ]
    return [label for _, _, label in sorted(waiting)]


def _ended(
    played: Sequence[_Future], starts: Sequence[float], moment: Moment, at: int
) -> tuple[Counter[str], int]:
    """How often each running job has ended when the job starts, and in how many futures it starts."""
    keys = {each.job.key for each in moment.running}
    running = {job.label for job in played[0].side.jobs if job.key in keys}
    found: Counter[str] = Counter()
    for future, start in zip(played, starts, strict=True):
        if start == NEVER:
            continue
        for label, runs in future.playback.runs.items():
            if label in running and runs and runs[0].end is not None and not runs[0].is_evicted:
                found[label] += at < runs[0].end <= at + start
    return found, len(starts) - list(starts).count(NEVER)


def _preempted(played: Sequence[_Future], label: str) -> tuple[Counter[str], int]:
    found: Counter[str] = Counter()
    for future in played:
        for victim, runs in future.playback.runs.items():
            found[victim] += any(run.by == label for run in runs)
    return found, len(played)


def _groups(side: Side, counts: Mapping[str, int], of: int) -> tuple[Group, ...]:
    """By team and priority, the most GPUs first."""
    known = {job.label: job for job in side.jobs}
    jobs: Counter[tuple[str, str]] = Counter()
    gpus: Counter[tuple[str, str]] = Counter()
    for label, count in counts.items():
        # A job of another future alone has no place among these; its copy arrived after the moment.
        if count and label in known:
            key = known[label].team, known[label].priority
            jobs[key] += count
            gpus[key] += count * known[label].gpus
    found = (
        Group(team=team, priority=priority, jobs=count / of, gpus=gpus[team, priority] / of)
        for (team, priority), count in jobs.items()
    )
    return tuple(sorted(found, key=lambda each: (-each.gpus, -each.jobs, each.team, each.priority)))


def find_waiting(moment: Moment, name: str) -> Job:
    """The waiting job NAMESPACE/ID, or NAMESPACE/NAME where names are recorded. PreviewError with the jobs
    that do wait where there is none.
    """
    for job in moment.waiting:
        namespace, _, last = job.name.rpartition("/")
        if name in (f"{job.team}/{job.id}", f"{namespace.partition('/')[0]}/{last}"):
            return job
    shown = ", ".join(f"{job.team}/{job.id} ({priority_of(job)})" for job in moment.waiting[:5])
    raise PreviewError(
        f"{name}: no such job waits at that moment. Fix: name one of the {len(moment.waiting)} that do"
        f"{f', such as {shown}' if shown else ''}."
    )
