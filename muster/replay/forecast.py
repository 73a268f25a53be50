"""When waiting jobs start: a scheduler plays many futures of a moment, and the starts are counted.

A future is drawn from what may happen after the moment: when the jobs of now end, and which others arrive. It
is a recording that the player can play, and its draws depend on the seed and its number alone. One set of
futures answers for every job that waits at the moment.
"""

import os
import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from operator import itemgetter
from types import MappingProxyType
from typing import Final, Self

from muster.errors import MusterError
from muster.model.stack import Scheduler
from muster.replay.assumptions import Assumptions, recorded_provisioning
from muster.replay.durations import Distribution, Durations, learn
from muster.replay.figures import NEVER, Played, interval, percentile
from muster.replay.kueue import NodePool, has_waits, provisioning
from muster.replay.moment import Moment, is_over, kind_of, priority_of, seconds_until, seen
from muster.replay.player import Playback, PlayerPool
from muster.replay.recording import End, Header, Job, Recording, Run
from muster.replay.side import Decider, Subject

_DAY: Final = 86_400.0
# Arrivals are drawn from the days before the moment; older ones tell less of the days to come.
_RECENT_DAYS: Final = 14


@dataclass(frozen=True, slots=True, kw_only=True)
class Futures:
    """Of the jobs of `moment`. `history` is what durations and arrivals are learned from: the same moment, or
    the end of a recording before it. `header` is the recording's. `seconds` is how far a future reaches.
    `teams`: namespace -> team, for a recording that knows the teams' names alone.
    """

    header: Header
    moment: Moment
    history: Moment
    durations: Durations
    seconds: float
    seed: int
    teams: Mapping[str, str]

    def draw(self, number: int) -> Recording:
        """Each job has one run, which lasts as long as it was drawn to last."""
        at = self.moment.at
        starts = [(each.job, each.since) for each in self.moment.running]
        starts += [(job, at) for job in self.moment.waiting]
        jobs = [_lasting(job, self._seconds(job, number, at=at), start=start) for job, start in starts]
        jobs += sorted(self._arrivals(number), key=lambda job: job.created)
        return Recording(
            header=replace(self.header, start=at, end=at + self.seconds, left_out=()), jobs=tuple(jobs)
        )

    def _dice(self, number: int, what: str) -> random.Random:
        """Of one job, session or day: a job in the place of another changes no other draw."""
        return random.Random(f"{self.seed}/{number}/{what}")  # noqa: S311 - a simulation

    def _seconds(self, job: Job, number: int, *, at: float) -> float:
        """Longer than it had lasted at a moment."""
        kind = kind_of(job, self.teams)
        session = self._dice(number, f"{kind.team}/session/{kind.session}")
        dice = self._dice(number, job.key)
        return self.durations.draw(kind, dice, session=session, beyond=seconds_until(job, at))

    def _arrivals(self, number: int) -> Iterator[Job]:
        """For each day to come, those of a recent day, at the same hours."""
        dice = self._dice(number, "arrivals")
        lag = ceil((self.moment.at - self.history.at) / _DAY) * _DAY
        end, past = self.moment.at - lag, self.history.past
        known = end - max(past[0].created, self.header.start) if past else 0.0
        days = min(int(known // _DAY), _RECENT_DAYS)
        length = _DAY if days else known
        if length <= 0:
            return
        for day in range(ceil(self.seconds / length)):
            back = dice.randint(1, max(days, 1)) * length
            for job in past:
                if end - back < job.created <= end - back + length:
                    start = job.created + lag + back + day * length
                    copy = replace(job, id=f"future{day}-{job.id}", created=start, arrived=None)
                    yield _lasting(copy, self._seconds_of(job, number), start=start)

    def _seconds_of(self, job: Job, number: int) -> float:
        """As long as the job that it copies, where that is known: large jobs run longer than small ones."""
        at = self.history.at
        is_known = is_over(job, at) and job.runs
        return seconds_until(job, at) if is_known else self._seconds(job, number, at=at)


def futures(
    header: Header,
    moment: Moment,
    *,
    history: Moment | None = None,
    seconds: float,
    seed: int,
    teams: Mapping[str, str] | None = None,
) -> Futures:
    """Without `history`, the moment is its own."""
    history, teams = history or moment, teams or {}
    return Futures(
        header=header,
        moment=moment,
        history=history,
        durations=learn(seen(history, teams)),
        seconds=seconds,
        seed=seed,
        teams=teams,
    )


def _lasting(job: Job, seconds: float, *, start: float) -> Job:
    """The job with one run of so many seconds."""
    ended = start + max(seconds, 1.0)
    run = Run(reserved=start, admitted=start, ended=ended, end=End.FINISHED)
    return replace(job, runs=(run,), left=ended, outcome=End.FINISHED)


Player = Callable[[Subject], Playback]
"""Plays a side with the program of its scheduler."""

_HOUR: Final = 3600
# A job that starts soon needs no long future: each is played this far first, then further.
_STEPS: Final = (6 * _HOUR, 24 * _HOUR, 72 * _HOUR)
_MIDDLE: Final = 50
# How many of real starts it holds is in bench/forecast.py.
_WITHIN: Final = 80
# Of the provisioning times of a pool, what is shown.
_LOW: Final = 0.1
_HIGH: Final = 0.9
_MOST_RUNS: Final = 1000
# Seconds of the real clock that a play has at least, also where its future has no time left.
_SHORTEST_PLAY: Final = 1.0
# The widest interval of fewer futures, from the first start to the last, holds less than 80 %.
_LEAST_RUNS: Final = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """`runs` futures of `seconds` each, `at_once` of them at the same time.

    `provisioning`: pool -> seconds from the reservation of quota until its nodes are there. None for a pool
    draws them from the recording, as for a pool that is missing and that the recording knows. None in place
    of all: the nodes are there at once.

    `limit`: seconds of the real clock for all futures, None for no limit. After them no other future begins,
    except for the first nine. Each may take a ninth of the limit, and ends where it is then.
    """

    runs: int = 40
    seconds: int = 7 * 24 * _HOUR
    seed: int = 0
    grace: int = 0
    at_once: int = min(os.cpu_count() or 1, 4)
    provisioning: Mapping[str, int | None] | None = field(default_factory=lambda: MappingProxyType({}))
    limit: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Jobs of a team and a priority. Of several futures, `jobs` and `gpus` are the means."""

    team: str
    priority: str
    jobs: float
    gpus: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Nodes:
    """Of a pool that the job is given. They are there `low` to `high` seconds after the reservation of quota:
    the middle 80 % of the recording, or equal where they were set.
    """

    pool: str
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """Of one job. A start is an admission: quota is reserved and the nodes are there. `earliest` to `latest`
    is the 80 % interval, in seconds from the moment; NEVER where it is beyond the end of the futures.
    `starts` are those of each of the `runs` futures; `unstarted` of them end before it starts.

    `place` is among the `waiting` jobs of its queue, from 1; `ahead` are the jobs before it. `ends` is
    what runs now and has ended when it starts, `preempts` what it preempts. `nodes` are those that it waits
    for; `provisioning` are sentences on when nodes are there, `notes` on what else is assumed. Durations,
    arrivals and provisioning times are those of the time before `learned_until`.
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
    scheduler: Scheduler = Scheduler.KUEUE
    nodes: tuple[Nodes, ...] = ()
    provisioning: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """The forecasts of a moment, the oldest job first. `left_out`: reason -> waiting jobs without one."""

    at: float
    forecasts: tuple[Forecast, ...]
    left_out: Mapping[str, int]


def forecast(
    decider: Decider,
    header: Header,
    moment: Moment,
    *,
    jobs: Sequence[Job],
    player: Player,
    settings: Settings,
    history: Moment | None = None,
) -> tuple[Forecast, ...]:
    """Of jobs that wait at the moment. `history`: what durations and arrivals are learned from, where that is
    not the moment itself. MusterError where the queues cannot run one of the jobs.
    """
    for job in jobs:
        if reason := decider.why_unplayable(job):
            raise MusterError(
                f"{job.key}: is one of the jobs {reason}, so nothing can be said about it.",
                fix="name the stack of the cluster in which it waits.",
            )
    if not jobs:
        return ()
    drawn = futures(
        header, moment, history=history, seconds=settings.seconds, seed=settings.seed, teams=decider.teams
    )
    assumed = Assumptions(
        grace=settings.grace,
        provisioning=_provisioning(decider.pools, drawn.history, settings),
        seed=settings.seed,
    )
    playing = _Playing(decider, drawn, assumed, {job.key for job in jobs}, player, settings)
    with PlayerPool(settings.at_once) as pool:
        found = [each for each in pool.map(playing.play, range(settings.runs)) if each is not None]
    # A future that was cut says nothing about what comes later, and it may be the one in which most wait.
    settings = replace(settings, seconds=min(each.seconds for each in found))
    played = [each.playback for each in found]
    # The jobs of the moment are the same in all futures, and those of one take 60 MiB in a busy cluster.
    side = _side(decider, drawn, 0, assumed, settings)
    counts = _Counts.of(decider, drawn, side, played, settings, assumed)
    return tuple(counts.forecast(job) for job in jobs)


def forecast_all(
    decider: Decider,
    header: Header,
    moment: Moment,
    *,
    player: Player,
    settings: Settings,
    history: Moment | None = None,
) -> Outlook:
    """Of all jobs that wait at the moment, in the same futures."""
    jobs: list[Job] = []
    left_out: Counter[str] = Counter()
    for job in moment.waiting:
        if reason := decider.why_unplayable(job):
            left_out[reason] += 1
        else:
            jobs.append(job)
    found = forecast(decider, header, moment, jobs=jobs, player=player, settings=settings, history=history)
    return Outlook(at=moment.at, forecasts=found, left_out=left_out)


def _provisioning(
    pools: Sequence[NodePool], history: Moment, settings: Settings
) -> Mapping[str, int | Distribution | None]:
    if settings.provisioning is None:
        return {}
    known = provisioning(history.past, pools, at=history.at)
    found: dict[str, int | Distribution | None] = {
        pool: each for pool, each in known.items() if has_waits(each)
    }
    for pool, seconds in settings.provisioning.items():
        found[pool] = (
            recorded_provisioning(history.past, pools, pool, at=history.at) if seconds is None else seconds
        )
    return found


@dataclass(frozen=True, slots=True)
class _Future:
    """What happened in the first `seconds` of a future."""

    playback: Playback
    seconds: int


@dataclass(frozen=True, slots=True)
class _Playing:
    """Plays futures until the limit of time. `wanted` are the keys of the jobs whose starts are counted."""

    decider: Decider
    drawn: Futures
    assumed: Assumptions
    wanted: Collection[str]
    player: Player
    settings: Settings
    begun: float = field(default_factory=time.monotonic)

    def play(self, number: int) -> _Future | None:
        """None where no time is left for it."""
        limit = self.settings.limit
        is_late = limit is not None and time.monotonic() - self.begun >= limit
        return None if is_late and number >= _LEAST_RUNS else self._play(number)

    def _play(self, number: int) -> _Future:
        at, most = int(self.drawn.moment.at), self.settings.seconds
        side = _side(self.decider, self.drawn, number, self.assumed, self.settings)
        labels = [job.label for job in side.jobs if job.key in self.wanted]
        # Drawing a future takes time of its own, the first one the most.
        until = None if self.settings.limit is None else time.monotonic() + self.settings.limit / _LEAST_RUNS
        best: _Future | None = None
        for seconds in (*(each for each in _STEPS if each < most), most):
            limit = 0.0 if until is None else max(until - time.monotonic(), _SHORTEST_PLAY)
            playback = self.player(side.until(at + seconds, limit=limit))
            reached = max(int(playback.end) - at, 0) if playback.is_cut else seconds
            if all(_start(playback, label, at, within=reached) != NEVER for label in labels):
                return _Future(playback, most)
            if best is None or reached > best.seconds:
                best = _Future(playback, reached)
            if playback.is_cut:
                break
        assert best is not None
        return best


def _side(decider: Decider, drawn: Futures, number: int, assumed: Assumptions, settings: Settings) -> Subject:
    # Each future has draws of its own.
    assumed = replace(assumed, seed=settings.seed * _MOST_RUNS + number)
    return decider.side(drawn.draw(number), assumed, now=drawn.moment)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Counts:
    """What the futures have in common. `side`: of the first of them. `jobs` by key and `labelled` by label,
    of those that were there at the moment; `waiting`, the labels of each queue in its order; `victims`, by
    whom they are preempted, in how many futures each; `ends`, of each future: when jobs that run at the
    moment end, and their labels; `pools`: flavor -> pool.
    """

    scheduler: Scheduler
    drawn: Futures
    side: Subject
    played: Sequence[Playback]
    settings: Settings
    assumed: Assumptions
    pools: Mapping[str, str]
    jobs: Mapping[str, Played]
    labelled: Mapping[str, Played]
    waiting: Mapping[str, Sequence[str]]
    victims: Mapping[str, Counter[str]]
    ends: Sequence[Sequence[tuple[float, str]]]

    @classmethod
    def of(
        cls,
        decider: Decider,
        drawn: Futures,
        side: Subject,
        played: Sequence[Playback],
        settings: Settings,
        assumed: Assumptions,
    ) -> Self:
        moment = drawn.moment
        keys = {each.job.key for each in moment.running}
        running = {job.label for job in side.jobs if job.key in keys}
        return cls(
            scheduler=decider.scheduler,
            drawn=drawn,
            side=side,
            played=played,
            settings=settings,
            assumed=assumed,
            pools={pool.flavor: pool.name for pool in decider.pools},
            jobs={job.key: job for job in side.jobs},
            labelled={job.label: job for job in side.jobs},
            waiting=_waiting(side, moment),
            victims=_victims(played),
            ends=[_ends(each, running, int(moment.at)) for each in played],
        )

    def forecast(self, job: Job) -> Forecast:
        target, at = self.jobs[job.key], self.drawn.moment.at
        starts = [_start(each, target.label, int(at), within=self.settings.seconds) for each in self.played]
        ordered = sorted(starts)
        earliest, latest = interval(ordered, _WITHIN)
        queue = self.waiting[target.queue]
        place = queue.index(target.label)
        unstarted = ordered.count(NEVER)
        return Forecast(
            job=target.label,
            team=target.team,
            priority=target.priority,
            gpus=target.gpus,
            at=at,
            learned_until=self.drawn.history.at,
            earliest=earliest,
            median=percentile(ordered, _MIDDLE),
            latest=latest,
            starts=tuple(starts),
            runs=len(self.played),
            unstarted=unstarted,
            seconds=self.settings.seconds,
            seed=self.settings.seed,
            place=place + 1,
            waiting=len(queue),
            ahead=self._groups(Counter(queue[:place]), 1),
            ends=self._groups(self._ended(starts), len(starts) - unstarted),
            preempts=self._groups(self.victims.get(target.label, Counter()), len(self.played)),
            left_out=self.side.left_out,
            scheduler=self.scheduler,
            nodes=tuple(self._nodes(target.label)),
            provisioning=tuple(self.assumed.nodes),
            notes=self.side.notes,
        )

    def _nodes(self, label: str) -> Iterator[Nodes]:
        runs = (run for played in self.played for run in played.runs[label])
        flavors = {flavor for run in runs for flavor in run.usage}
        for pool in sorted(self.pools[flavor] for flavor in flavors if flavor in self.pools):
            found = self.assumed.provisioning.get(pool)
            if isinstance(found, Distribution):
                yield Nodes(pool=pool, low=found.length(_LOW), high=found.length(_HIGH))
            elif found:
                yield Nodes(pool=pool, low=found, high=found)

    def _ended(self, starts: Sequence[float]) -> Counter[str]:
        """How often each running job has ended when the job starts."""
        at = int(self.drawn.moment.at)
        found: Counter[str] = Counter()
        for ends, start in zip(self.ends, starts, strict=True):
            if start != NEVER:
                found.update(label for end, label in ends if end <= at + start)
        return found

    def _groups(self, counts: Mapping[str, int], of: int) -> tuple[Group, ...]:
        """By team and priority, the most GPUs first."""
        jobs: Counter[tuple[str, str]] = Counter()
        gpus: Counter[tuple[str, str]] = Counter()
        for label, count in counts.items():
            # A job of another future alone has no place among these; its copy arrived after the moment.
            if label in self.labelled:
                job = self.labelled[label]
                jobs[job.team, job.priority] += count
                gpus[job.team, job.priority] += count * job.gpus
        found = (
            Group(team=team, priority=priority, jobs=count / of, gpus=gpus[team, priority] / of)
            for (team, priority), count in jobs.items()
        )
        return tuple(sorted(found, key=lambda each: (-each.gpus, -each.jobs, each.team, each.priority)))


def _start(played: Playback, label: str, at: int, *, within: int) -> float:
    """When its pods begin. A run that lost its quota before its nodes were there is no start."""
    begins = (run.begin - at for run in played.runs[label] if run.begin is not None)
    begin = next(begins, NEVER)
    return float(begin) if begin <= within else NEVER


def _waiting(side: Subject, moment: Moment) -> dict[str, list[str]]:
    """The waiting jobs of each queue in its order: by priority, then by age."""
    keys = {job.key for job in moment.waiting}
    found: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)
    for job in side.jobs:
        if job.key in keys:
            found[job.queue].append((-job.value, job.label))
    # Sorting is stable, and the jobs are ordered by age.
    return {queue: [label for _, label in sorted(jobs, key=itemgetter(0))] for queue, jobs in found.items()}


def _victims(played: Sequence[Playback]) -> dict[str, Counter[str]]:
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for each in played:
        for victim, runs in each.runs.items():
            for preemptor in {run.by for run in runs if run.by}:
                found[preemptor][victim] += 1
    return found


def _ends(playback: Playback, running: Collection[str], at: int) -> list[tuple[float, str]]:
    firsts = ((label, runs[0]) for label, runs in playback.runs.items() if label in running and runs)
    return [
        (run.end, label)
        for label, run in firsts
        if run.end is not None and run.end > at and not run.is_evicted
    ]


def find_waiting(moment: Moment, name: str) -> Job:
    """The waiting job NAMESPACE/ID, or NAMESPACE/NAME where names are recorded. MusterError with the jobs
    that do wait where there is none.
    """
    for job in moment.waiting:
        namespace, _, last = job.name.rpartition("/")
        if name in (f"{job.team}/{job.id}", f"{namespace.partition('/')[0]}/{last}"):
            return job
    if not moment.waiting:
        raise MusterError(f"{name}: no job waits at that moment.", fix="with --replay, name another by --at.")
    shown = ", ".join(f"{job.team}/{job.id} ({priority_of(job)})" for job in moment.waiting[:5])
    raise MusterError(
        f"{name}: no such job waits at that moment.",
        fix=f"name one of the {len(moment.waiting)} that do, such as {shown}.",
    )
