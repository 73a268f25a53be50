"""A recording played in the queues of base and of head, and what differs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from muster.model.quantities import many
from muster.model.stack import Stack
from muster.preview.document import Span, Text, UntrustedText, join_names
from muster.replay.figures import NEVER, Figures, Preemption, Waits

_DAY: Final = 86_400
# A difference of less than a minute is none.
_NOTICED: Final = 60.0
_PERCENTILES: Final = {"p50": "in the median", "p95": "at the 95th percentile"}

Change = tuple[bool, Text]
"""Whether it is a loss, and what it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MonthlyBill:
    """What a team uses in 30 days at the recording's pace: GPU-hours, and their cost by currency, without
    pools that are not priced. `budget`: its GPU-hours of a month, None without one.
    """

    hours: float
    costs: Mapping[str, float]
    budget: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayDiff:
    """`start` and `end` bound the recording. `played` are the jobs that were played, `unplayed` phrases on
    those that were not, `removed` the teams that head does not have, `assumptions` what was taken for
    granted, and `gaps` what the recording itself says that it lacks. `bills`: of base and head, by team.
    """

    start: float
    end: float
    played: int
    base: Figures
    head: Figures
    removed: frozenset[str] = frozenset()
    unplayed: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()
    gaps: tuple[str, ...] = ()
    bills: tuple[Mapping[str, MonthlyBill], Mapping[str, MonthlyBill]] = ({}, {})

    @property
    def days(self) -> int:
        return max(round((self.end - self.start) / _DAY), 1)

    @property
    def window(self) -> str:
        first, last = (datetime.fromtimestamp(each, UTC).date() for each in (self.start, self.end))
        return f"{first} to {last}"

    @property
    def left_out(self) -> tuple[str, ...]:
        return tuple(f"{each}: not played." for each in self.unplayed)

    @property
    def slower(self) -> tuple[str, ...]:
        """The teams of which more jobs would never have started, or that would have waited noticeably longer,
        in the median or at the 95th percentile.
        """
        return tuple(
            team
            for team in self._teams
            if self._never_difference(team) > 0
            or max(self._wait_difference(team, which) for which in _PERCENTILES) >= _NOTICED
        )

    @property
    def missing(self) -> int:
        """The jobs that are played in base and cannot be played in head."""
        return max(self.base.jobs - self.head.jobs, 0)

    @property
    def sentence(self) -> Text:
        """What a reviewer should read first."""
        if not self.played:
            why = ": " + "; ".join(self.unplayed) if self.unplayed else ""
            return (f"No job of the recording could be played{why}.",)
        sentences = [*self._absences()]
        if self._teams:
            changes = [*self._never_changes(), *self._wait_changes(), *self._preemption_changes()]
            found = [text for _, text in sorted(changes, key=lambda each: not each[0])]
            said = found or [("no team would have waited noticeably longer or less",)]
            sentences.append((f"With these quotas, in the recorded {_days(self.days)} ", *_enumerate(said)))
        return tuple(
            span for index, each in enumerate(sentences) for span in (*((" ",) if index else ()), *each, ".")
        )

    @property
    def _teams(self) -> list[str]:
        """Those that both sides play, by name."""
        return sorted(self.base.teams.keys() & self.head.teams)

    def _absences(self) -> Iterator[Text]:
        """What cannot be compared, because head does not play it."""
        gone = tuple(sorted(self.removed & self.base.teams.keys()))
        if gone:
            jobs = sum(self.base.teams[team].jobs for team in gone)
            is_one = len(gone) == 1
            verbs = ("is", "its") if is_one else ("are", "their")
            yield (
                *join_names(gone),
                f" {verbs[0]} not in head: {verbs[1]} {many(jobs, 'job')} "
                f"{'is' if jobs == 1 else 'are'} not played",
            )
        for team, waits in self.base.teams.items():
            there = self.head.teams.get(team)
            lost = waits.jobs - (0 if there is None else there.jobs)
            if lost > 0 and team not in self.removed:
                yield (
                    f"{lost} of ",
                    UntrustedText(team),
                    f"'s {many(waits.jobs, 'job')} cannot be played in head",
                )

    def _never_changes(self) -> Iterator[Change]:
        """Of the team that loses most starts, and of the one that gains most."""
        for is_loss, team, count in _extremes({team: self._never_difference(team) for team in self._teams}):
            jobs = many(self.head.teams[team].jobs, "job")
            more = "more " if not is_loss or self.base.teams[team].never else ""
            would = "never have started" if is_loss else "have started"
            yield is_loss, (f"{count:.0f} {more}of ", UntrustedText(team), f"'s {jobs} would {would}")

    def _wait_changes(self) -> Iterator[Change]:
        """Of the team whose median grew most, and of the one whose median fell most; of the 95th percentile
        where no median did. What turns into or from `never` is counted in jobs.
        """
        named: set[bool] = set()
        for which, words in _PERCENTILES.items():
            changes = {team: self._wait_difference(team, which) for team in self._teams}
            noticed = {team: change for team, change in changes.items() if _NOTICED <= abs(change) < NEVER}
            found = [each for each in _extremes(noticed) if each[0] not in named]
            for is_loss, team, seconds in found:
                named.add(is_loss)
                how = "longer" if is_loss else "less"
                yield (
                    is_loss,
                    (UntrustedText(team), f" would have waited {format_seconds(seconds)} {how} {words}"),
                )

    def _preemption_changes(self) -> Iterator[Change]:
        """Of the priority whose runs are preempted more often, and of the one preempted less often."""
        before, after = (_by_priority(side) for side in (self.base, self.head))
        changes = {name: after.get(name, 0) - before.get(name, 0) for name in before.keys() | after.keys()}
        for is_loss, name, count in _extremes(changes):
            how = "more" if is_loss else "fewer"
            yield is_loss, (*_runs(name, round(count)), f" {how} would have been preempted")

    def _never_difference(self, team: str) -> int:
        return self.head.teams[team].never - self.base.teams[team].never

    def _wait_difference(self, team: str, which: str) -> float:
        before, after = (_percentile(side.teams[team], which) for side in (self.base, self.head))
        return 0.0 if before == after else after - before


Replay = Callable[[Stack, Stack], ReplayDiff]
"""Compares two stacks by what a recording does in them."""


def format_seconds(seconds: float) -> str:
    """`40 s`, `12 min`, `3.1 h` or `2.4 days`; `never` for a job that never starts."""
    if seconds == NEVER:
        return "never"
    for unit, length, most in (("s", 1, 100), ("min", 60, 100), ("h", 3600, 72)):
        if seconds < length * most:
            digits = 1 if unit == "h" else 0
            return f"{seconds / length:.{digits}f} {unit}"
    return f"{seconds / _DAY:.1f} days"


def _percentile(waits: Waits, which: str) -> float:
    return waits.p50 if which == "p50" else waits.p95


def _by_priority(side: Figures) -> dict[str, int]:
    found: dict[str, int] = {}
    preemption: Preemption
    for preemption, count in side.preemptions.items():
        found[preemption.priority] = found.get(preemption.priority, 0) + count
    return found


def _extremes(changes: Mapping[str, float]) -> Iterator[tuple[bool, str, float]]:
    """(is a loss, name, size) of the largest growth, and then of the largest fall."""
    for is_loss in (True, False):
        sizes = {name: change if is_loss else -change for name, change in changes.items()}
        largest = max(sorted(sizes), key=lambda name: sizes[name], default=None)
        if largest is not None and sizes[largest] > 0:
            yield is_loss, largest, sizes[largest]


def _runs(priority: str, count: int) -> Text:
    """`14 dev runs`; a job without a priority class has a number."""
    if priority.lstrip("-").isdecimal():
        return (f"{many(count, 'run')} of priority ", UntrustedText(priority))
    return (f"{count} ", UntrustedText(priority), f" run{'' if count == 1 else 's'}")


def _enumerate(parts: Sequence[Text]) -> Text:
    """`one, two and three`."""
    joined: list[Span] = []
    for index, part in enumerate(parts):
        separator = "" if not index else " and " if index == len(parts) - 1 else ", "
        joined += [*((separator,) if separator else ()), *part]
    return tuple(joined)


def _days(count: int) -> str:
    return "day" if count == 1 else f"{count} days"
