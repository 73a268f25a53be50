"""Goals: `p95(prod) < 15m`, `preemptions(dev) <= 14`, `utilization > 80%`.

    pQQ(OF) < TIME          QQ is 50, 90, 95 or 99. At least QQ % of the jobs wait less than TIME.
    preemptions(OF) <= N    how often jobs of OF are preempted
    utilization > X         the share of the pools' GPUs in use while the recording lasted

OF is `all`, or the name of a team, a department or a priority. Pure.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Final, TypeVar

from muster.errors import MusterError
from muster.model.quantities import parse_duration
from muster.model.stack import Stack
from muster.preview.compare.replay import format_seconds
from muster.replay.figures import NEVER, Played, percentile

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
