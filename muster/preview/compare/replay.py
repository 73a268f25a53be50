"""A recording played in the queues of base and of head, and what differs."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from muster.model.stack import Stack
from muster.preview.document import Span, Text, UntrustedText
from muster.replay.figures import NEVER, Figures, Preemption, Waits

_DAY: Final = 86_400
# A difference of less than a minute in a median is none.
_NOTICED: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayDiff:
    """`start` and `end` bound the recording. `played` are the jobs that were played, `left_out` sentences on
    those that were not, `assumptions` on what was taken for granted, and `gaps` what the recording itself
    says that it lacks.
    """

    start: float
    end: float
    played: int
    base: Figures
    head: Figures
    left_out: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()
    gaps: tuple[str, ...] = ()

    @property
    def days(self) -> int:
        return max(round((self.end - self.start) / _DAY), 1)

    @property
    def window(self) -> str:
        first, last = (datetime.fromtimestamp(each, UTC).date() for each in (self.start, self.end))
        return f"{first} to {last}"

    @property
    def slower(self) -> tuple[str, ...]:
        """The teams that would have waited noticeably longer, in the median or at the 95th percentile."""
        teams = sorted(self.base.teams.keys() & self.head.teams)
        return tuple(
            team
            for team in teams
            if max(self._wait_difference(team, which) for which in ("p50", "p95")) >= _NOTICED
        )

    @property
    def sentence(self) -> Text:
        """What a reviewer should read first."""
        parts = [*self._wait_change(), *self._preemption_change()]
        said = parts or [("no team would have waited noticeably longer or less",)]
        joined: list[Span] = [f"With these quotas, in the recorded {_days(self.days)} "]
        for index, part in enumerate(said):
            joined += [" and ", *part] if index else part
        return (*joined, ".")

    def _wait_change(self) -> Iterator[Text]:
        """Of the team whose median changed most; of the 95th percentile where no median changed."""
        for which, words in (("p50", "in the median"), ("p95", "at the 95th percentile")):
            changes = {
                team: self._wait_difference(team, which) for team in self.base.teams.keys() & self.head.teams
            }
            if (
                changes
                and abs(changes[team := max(sorted(changes), key=lambda each: abs(changes[each]))])
                >= _NOTICED
            ):
                change = changes[team]
                if abs(change) == NEVER:
                    never = "no longer " if change > 0 else ""
                    yield UntrustedText(team), f" would {never}have started most of its jobs"
                else:
                    how = "longer" if change > 0 else "less"
                    waited = f" would have waited {format_seconds(abs(change))} {how} {words}"
                    yield UntrustedText(team), waited
                return

    def _wait_difference(self, team: str, which: str) -> float:
        before, after = (_percentile(side.teams[team], which) for side in (self.base, self.head))
        return 0.0 if before == after else after - before

    def _preemption_change(self) -> Iterator[Text]:
        """Of the priority whose runs are preempted more or less often."""
        before, after = (_by_priority(side) for side in (self.base, self.head))
        changes = {name: after.get(name, 0) - before.get(name, 0) for name in before.keys() | after.keys()}
        if not any(changes.values()):
            return
        name = max(sorted(changes), key=lambda each: abs(changes[each]))
        count, how = abs(changes[name]), "more" if changes[name] > 0 else "fewer"
        yield (
            f"{count} ",
            UntrustedText(name),
            f" run{'' if count == 1 else 's'} {how} would have been preempted",
        )


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


def _days(count: int) -> str:
    return "day" if count == 1 else f"{count} days"
