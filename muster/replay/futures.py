"""Draws what may happen after a moment: when the jobs of now end, and which others arrive. Pure.

Each future is a recording that the player can play. Its draws depend on the seed and its number alone.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from muster.replay.durations import Durations, learn
from muster.replay.moment import Moment, Running, is_over, priority_of, seconds_until, seen
from muster.replay.recording import End, Header, Job, Recording, Run

_DAY: Final = 86_400.0
# Arrivals are drawn from the days before the moment; older ones tell less of the days to come.
_RECENT_DAYS: Final = 14


@dataclass(frozen=True, slots=True, kw_only=True)
class Futures:
    """`header` is the recording's. `seconds` is how far a future reaches."""

    header: Header
    moment: Moment
    durations: Durations
    seconds: float
    seed: int

    def draw(self, number: int) -> Recording:
        dice = random.Random(f"{self.seed}/{number}")  # noqa: S311 - a simulation
        at = self.moment.at
        jobs = [self._go_on(each, dice) for each in self.moment.running]
        jobs += [self._run_later(job, dice, at=at) for job in self.moment.waiting]
        jobs += sorted(self._arrivals(dice), key=lambda job: job.created)
        return Recording(
            header=replace(self.header, start=at, end=at + self.seconds, left_out=()), jobs=tuple(jobs)
        )

    def _go_on(self, running: Running, dice: random.Random) -> Job:
        """It arrives when it started, in what it was given then, so that Kueue starts it then."""
        job, since = running.job, running.since
        seconds = self._seconds(job, dice)
        flavors = running.run.flavors
        if len(flavors) == 1:
            pods = tuple(replace(each, pools=flavors, node_selector={}, terms=()) for each in job.pod_sets)
            job = replace(job, pod_sets=pods)
        return _ending(job, created=since, seconds=seconds)

    def _run_later(self, job: Job, dice: random.Random, *, at: float) -> Job:
        return _ending(job, created=at, seconds=self._seconds(job, dice))

    def _seconds(self, job: Job, dice: random.Random) -> float:
        lasted = seconds_until(job, self.moment.at)
        return self.durations.draw(dice, team=job.team, priority=priority_of(job), beyond=lasted)

    def _arrivals(self, dice: random.Random) -> Iterator[Job]:
        """For each day to come, those of a recent day, at the same hours."""
        at = self.moment.at
        first = self.moment.past[0].created if self.moment.past else at
        known = max(at - max(first, self.header.start), 0.0)
        days = min(int(known // _DAY), _RECENT_DAYS)
        length = _DAY if days else known
        if not length:
            return
        for number in range(int(-(-self.seconds // length))):
            back = dice.randint(1, max(days, 1)) * length
            for job in self.moment.past:
                if at - back < job.created <= at - back + length:
                    created = job.created + back + number * length
                    seconds = self._seconds_of(job, dice)
                    yield _ending(
                        replace(job, id=f"future{number}-{job.id}"), created=created, seconds=seconds
                    )

    def _seconds_of(self, job: Job, dice: random.Random) -> float:
        """As long as the job that it copies, where that is known: large jobs run longer than small ones."""
        at = self.moment.at
        return seconds_until(job, at) if is_over(job, at) and job.runs else self._seconds(job, dice)


def futures(header: Header, moment: Moment, *, seconds: float, seed: int) -> Futures:
    return Futures(header=header, moment=moment, durations=learn(seen(moment)), seconds=seconds, seed=seed)


def _ending(job: Job, *, created: float, seconds: float) -> Job:
    """The job as if it had run at once for so long."""
    ended = created + max(seconds, 1.0)
    run = Run(reserved=created, admitted=created, ended=ended, end=End.FINISHED)
    return replace(job, created=created, runs=(run,), left=ended, outcome=End.FINISHED)
