"""Draws what may happen after a moment: when the jobs of now end, and which others arrive. Pure.

Each future is a recording that the player can play. Its draws depend on the seed and its number alone.
"""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import ceil
from typing import Final

from muster.replay.durations import Durations, learn
from muster.replay.moment import Moment, is_over, kind_of, seconds_until, seen
from muster.replay.recording import End, Header, Job, Recording, Run

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
