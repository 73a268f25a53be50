"""Replays changed amounts: from amounts to the text of the stack file, its stack, and what the jobs do there.

A change that the file cannot hold, or that `muster validate` refuses, is not replayed. Equal queues are
replayed once. Responsible for the budget.
"""

import hashlib
import json
import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Final, TypeVar

from muster.config.edit import EditError, StackText
from muster.config.project import parse_document
from muster.config.stack import examine
from muster.errors import MusterError
from muster.model.quantities import many, parse_duration
from muster.model.stack import Stack
from muster.preview.compare.replay import format_seconds
from muster.preview.proposal.search import Knob, Score, StoppedError, Values, to_space
from muster.preview.replay.both import queues_of
from muster.replay.assumptions import Assumptions
from muster.replay.figures import NEVER, Played, percentile, run_gpus, wait_of
from muster.replay.player import Playback, PlayerError, PlayerPool, Players, play
from muster.replay.recording import Recording
from muster.replay.side import Side, to_side

# Goals: `p95(prod) < 15m`, `preemptions(dev) <= 14`, `utilization > 80%`.
#
# OF is `all`, or the name of a team, a department or a priority. Pure.


Value = TypeVar("Value", int, float)

_ALL: Final = "all"
_GOAL: Final = re.compile(
    r"\s*(?P<what>[a-z]+\d*)\s*(?:\(\s*(?P<of>[^()]+?)\s*\))?\s*(?P<sign><=|>=|<|>)\s*(?P<bound>\S+)\s*"
)
_FORMS: Final = "write it like `p95(prod) < 15m`, `preemptions(dev) <= 14` or `utilization > 80%`."
_PERCENTILES: Final = {"p50": 50, "p90": 90, "p95": 95, "p99": 99}


class Kind(StrEnum):
    """What a goal bounds."""

    WAIT = "wait"
    PREEMPTIONS = "preemptions"
    UTILIZATION = "utilization"


class GoalError(MusterError):
    """A goal that cannot be read, or that names what the stack or the recording lacks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What the goals are measured by. `waits` in seconds and `preemptions` are those of `jobs`, in their
    order. `used` is the share of the pools' GPUs in use while the recording lasted.
    """

    jobs: Sequence[Played]
    waits: Sequence[float]
    preemptions: Sequence[int]
    used: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """`text` is as it was written. `percent` is of waits alone. `bound` is seconds, a number or a share;
    `is_strict` leaves the bound itself out. `teams` and `priority` are whose jobs count; both None:
    all jobs.
    """

    text: str
    kind: Kind
    bound: float
    is_strict: bool
    percent: int = 0
    teams: frozenset[str] | None = None
    priority: str | None = None

    def concerns(self, job: Played) -> bool:
        return (self.teams is None or job.team in self.teams) and self.priority in (None, job.priority)

    def value(self, sample: Sample) -> float:
        """Seconds, a number or a share."""
        if self.kind is Kind.UTILIZATION:
            return sample.used
        if self.kind is Kind.PREEMPTIONS:
            return float(sum(self._of(sample, sample.preemptions)))
        return percentile(sorted(self._of(sample, sample.waits)), self.percent)

    def shortfall(self, sample: Sample) -> float:
        """How far it is from being met: 0 where it is. For waits the share of jobs that would have to wait
        less, each counted by how much less, so that every gain shows.
        """
        if self.kind is Kind.UTILIZATION:
            return self._beyond(self.bound - sample.used)
        if self.kind is Kind.PREEMPTIONS:
            return self._beyond((self.value(sample) - self.bound) / max(self.bound, 1.0))
        waits = sorted(self._of(sample, sample.waits))
        needed = -(-len(waits) * self.percent // 100)
        late = [wait for wait in waits[:needed] if self.is_late(wait)]
        return sum(_excess(wait, self.bound) for wait in late) / len(waits)

    def is_late(self, wait: float) -> bool:
        return wait >= self.bound if self.is_strict else wait > self.bound

    def format(self, value: float) -> str:
        """Waits to the second where less would look like the bound."""
        if self.kind is Kind.WAIT:
            shown = format_seconds(value)
            is_hidden = value != self.bound and shown == format_seconds(self.bound)
            return f"{value:,.0f} s" if is_hidden else shown
        return f"{value:.1%}" if self.kind is Kind.UTILIZATION else f"{value:.0f}"

    def _beyond(self, difference: float) -> float:
        """`difference` where the goal is not met; it is no more than 0 where it is."""
        if difference > 0 or (self.is_strict and difference == 0):
            return max(difference, 1e-6)
        return 0.0

    def _of(self, sample: Sample, values: Sequence[Value]) -> list[Value]:
        return [value for job, value in zip(sample.jobs, values, strict=True) if self.concerns(job)]


def _excess(wait: float, bound: float) -> float:
    """0.5 for a wait that is barely too long, 1 for a job that never starts."""
    return 1.0 if wait == NEVER else 0.5 + 0.5 * (wait - bound) / max(wait, 1.0)


def parse_goal(text: str, stack: Stack) -> Goal:
    """GoalError where it is none, or where the stack lacks what it names."""
    found = _GOAL.fullmatch(text)
    if found is None:
        raise GoalError(f"{text!r} is no goal.", fix=_FORMS)
    what, of, sign = found["what"], found["of"], found["sign"]
    kind = Kind.WAIT if what in _PERCENTILES else next((each for each in Kind if each == what), None)
    if kind is None or what == Kind.WAIT:
        known = ", ".join([*_PERCENTILES, Kind.PREEMPTIONS, Kind.UTILIZATION])
        raise GoalError(f"{text!r}: {what} cannot be bounded.", fix=f"name one of {known}.")
    if (sign[0] == ">") != (kind is Kind.UTILIZATION):
        raise GoalError(f"{text!r} bounds {what} from the wrong side.", fix=_FORMS)
    if (of is None) != (kind is Kind.UTILIZATION):
        raise GoalError(f"{text!r}: {_whose(kind)}.", fix=_FORMS)
    teams, priority = _subject(of or _ALL, stack, text)
    return Goal(
        text=text.strip(),
        kind=kind,
        percent=_PERCENTILES.get(what, 0),
        bound=_bound(found["bound"], kind, text),
        is_strict=len(sign) == 1,
        teams=teams,
        priority=priority,
    )


def check_goals(goals: Iterable[Goal], jobs: Collection[Played]) -> None:
    """GoalError for a goal about jobs that the recording lacks."""
    for goal in goals:
        if not any(map(goal.concerns, jobs)):
            raise GoalError(
                f"{goal.text!r}: no job of the recording that can be played is of these.",
                fix="name a team, department or priority that has jobs; `muster record show` lists them.",
            )


def _whose(kind: Kind) -> str:
    return "it is of all pools" if kind is Kind.UTILIZATION else "it does not say whose jobs count"


def _subject(name: str, stack: Stack, text: str) -> tuple[frozenset[str] | None, str | None]:
    """(teams, priority); both None for all jobs."""
    if name == _ALL:
        return None, None
    groups = _teams_by_name(stack)
    priorities = {priority.name for priority in stack.priorities}
    if name in groups and name in priorities:
        raise GoalError(
            f"{text!r}: {name!r} is a priority and a team or department.", fix="name the teams one by one."
        )
    if name in groups:
        return groups[name], None
    if name in priorities:
        return None, name
    known = ", ".join([_ALL, *sorted(groups), *sorted(priorities)])
    raise GoalError(f"{text!r}: the stack has no {name!r}.", fix=f"name one of {known}.")


def _teams_by_name(stack: Stack) -> Mapping[str, frozenset[str]]:
    """The teams of each department, with those of departments below it, and each team by itself."""
    found: dict[str, set[str]] = {department.name: set() for _, department in stack.walk()}
    for chain, team in stack.teams():
        for name in (*(department.name for department in chain), team.name):
            found.setdefault(name, set()).add(team.name)
    return {name: frozenset(teams) for name, teams in found.items()}


def _bound(text: str, kind: Kind, goal: str) -> float:
    try:
        if kind is Kind.WAIT:
            return parse_duration(text) / timedelta(seconds=1)
        if kind is Kind.PREEMPTIONS:
            return float(int(text))
        share = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        raise GoalError(f"{goal!r}: {text!r} is no bound of {kind}.", fix=_FORMS) from None
    if not 0 <= share <= 1:
        raise GoalError(f"{goal!r}: {text!r} is no share.", fix="write it like 80% or 0.8.")
    return share


INTERRUPTED: Final = "it was interrupted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """At most `evaluations` replays, `jobs` of them side by side, none of them after `seconds`."""

    evaluations: int
    seconds: float
    jobs: int


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What a stack played, and what the goals are measured by."""

    stack: Stack
    playback: Playback
    sample: Sample


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What is replayed: a stack file with this text, a recording, and what is wanted of them."""

    file: Path
    text: str
    stack: Stack
    recording: Recording
    assumptions: Assumptions
    goals: Sequence[Goal]
    keeps: Sequence[Goal]


OnEvaluation = Callable[[int, Values, Sample], None]
"""The number of the replay, the amounts, and what came of them."""


class Evaluator:
    """Evaluates amounts within a budget; `evaluations` counts the replays so far."""

    def __init__(
        self, subject: Subject, *, program: Path, budget: Budget, on_evaluation: OnEvaluation
    ) -> None:
        self._subject, self._program, self._budget = subject, program, budget
        self._on_evaluation = on_evaluation
        self._players = Players()
        self._ends = time.monotonic() + budget.seconds
        self._by_digest: dict[str, Evaluation] = {}
        self._jobs: Sequence[Played] = ()
        self._digests: dict[frozenset[tuple[Knob, int]], str] = {}
        self.space = to_space(subject.stack, StackText(subject.text))
        self.evaluations = 0

    def base(self) -> Evaluation:
        """The stack as it is, however long that takes."""
        side = self._side(self._subject.stack)
        with PlayerPool(1, self._players) as pool:
            playback = pool.submit(play, side.world, side.entries, program=self._program).result()
        return self._keep(self.space.values, _digest(side), self._subject.stack, side, playback)

    def __call__(self, tried: Sequence[Values]) -> list[Score | None]:
        found: list[Score | None] = []
        for first in range(0, len(tried), self._budget.jobs):
            batch = tried[first : first + self._budget.jobs]
            try:
                found += self._score(batch)
            except StoppedError as error:
                raise StoppedError(error.why, [*found, *error.found]) from None
        return found

    def text(self, values: Values) -> str:
        """The text of the stack file with these amounts, as far as it can hold them."""
        text = self._subject.text
        for knob, value in sorted(values.items()):
            if value != self.space.values[knob]:
                with suppress(EditError):
                    text = StackText(text).with_value(self.space.paths[knob], value)
        return text

    def stack(self, values: Values) -> Stack | None:
        """The stack with these amounts; None where validation refuses it, or the file does not hold them."""
        text = self.text(values)
        stack, violations = examine(parse_document(text, self._subject.file))
        if stack is None or any(each.level == "error" for each in violations):
            return None
        return stack if to_space(stack, StackText(text)).values == values else None

    def evaluation(self, values: Values) -> Evaluation:
        """That of amounts which were replayed."""
        return self._by_digest[self._digests[frozenset(values.items())]]

    def _score(self, batch: Sequence[Values]) -> list[Score | None]:
        """Of at most as many as are replayed side by side."""
        stacks = [self.stack(values) for values in batch]
        sides = [None if stack is None else self._side(stack) for stack in stacks]
        digests = ["" if side is None else _digest(side) for side in sides]
        self._digests.update(zip((frozenset(each.items()) for each in batch), digests, strict=True))
        fresh = {
            digest: (values, stack, side)
            for digest, values, stack, side in zip(digests, batch, stacks, sides, strict=True)
            if stack is not None and side is not None and digest not in self._by_digest
        }
        left = max(self._budget.evaluations - self.evaluations, 0)
        why = self._play(dict(list(fresh.items())[:left]))
        if left < len(fresh):
            why = why or f"{many(self._budget.evaluations, 'replay is', 'replays are')} done"
        found: list[Score | None] = []
        for digest in digests:
            if digest and digest not in self._by_digest:
                raise StoppedError(why, found)
            found.append(self._to_score(self._by_digest[digest].sample) if digest else None)
        return found

    def _play(self, fresh: Mapping[str, tuple[Values, Stack, Side]]) -> str:
        """Why it ended early, or ""."""
        why = ""
        with PlayerPool(self._budget.jobs, self._players) as pool:
            playing: dict[str, Future[Playback]] = {
                digest: pool.submit(play, side.world, side.entries, program=self._program)
                for digest, (_, _, side) in fresh.items()
            }
            try:
                late = wait(playing.values(), timeout=max(self._ends - time.monotonic(), 0.0)).not_done
                if late:
                    why = "its time is over"
                    self._players.stop()
            except KeyboardInterrupt:
                why = INTERRUPTED
                self._players.stop()
        for digest, (values, stack, side) in fresh.items():
            try:
                self._keep(values, digest, stack, side, playing[digest].result())
            except PlayerError:
                if not why:
                    raise
        return why

    def _keep(self, values: Values, digest: str, stack: Stack, side: Side, playback: Playback) -> Evaluation:
        # The jobs are the same in every change, and a month has ten thousand.
        self._jobs = self._jobs or side.jobs
        sample = to_sample(self._jobs, playback, stack, self._subject.recording)
        self.evaluations += 1
        self._on_evaluation(self.evaluations, values, sample)
        return self._by_digest.setdefault(digest, Evaluation(stack, playback, sample))

    def _to_score(self, sample: Sample) -> Score:
        subject = self._subject
        shortfall, broken = (
            sum(goal.shortfall(sample) for goal in goals) for goals in (subject.goals, subject.keeps)
        )
        return Score(shortfall, broken)

    def _side(self, stack: Stack) -> Side:
        return to_side(queues_of(stack), self._subject.recording, self._subject.assumptions)


def to_sample(jobs: Sequence[Played], playback: Playback, stack: Stack, recording: Recording) -> Sample:
    start, end = recording.header.start, recording.header.end
    gpu_seconds = sum(
        run_gpus(run) * max(min(end, playback.end if run.end is None else run.end) - max(run.start, start), 0)
        for runs in playback.runs.values()
        for run in runs
    )
    every = sum(int(pool.max_gpus) for pool in stack.pools) * (end - start)
    return Sample(
        jobs=jobs,
        waits=[wait_of(job, playback.runs[job.label]) for job in jobs],
        preemptions=[sum(run.is_evicted for run in playback.runs[job.label]) for job in jobs],
        used=gpu_seconds / every if every else 0.0,
    )


def _digest(side: Side) -> str:
    """Of all that the scheduler decides by; the jobs are the same in every change."""
    text = json.dumps([side.world.objects, side.world.config], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
