"""What a replay takes for granted, and how that is varied: how long jobs run, and when their nodes are there.

Pure. A drawn time depends on the seed and the job alone, so it is the same in both sides of a comparison.
"""

import random
import re
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from types import MappingProxyType
from typing import Final

from muster.errors import MusterError
from muster.model.quantities import format_duration, parse_duration
from muster.replay.durations import Distribution, learn
from muster.replay.kueue import NodePool, provisioning
from muster.replay.moment import at_moment, kind_of, seen
from muster.replay.recording import End, Job, Recording, Run

RECORDED: Final = "recorded"
DRAWN: Final = "drawn"
_SCALE: Final = re.compile(r"x(\d+(?:\.\d+)?)")
_MOST: Final = 1000.0
# A job that waits for quota waits for a second at least: Kueue collects for as long what it tries again.
_AT_ONCE: Final = 0.5
# The player keeps milliseconds.
_DIGITS: Final = 3


class AssumptionError(MusterError):
    """An assumption that is unreadable, or that does not fit the stack or the recording."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumptions:
    """`grace`: seconds between a preemption and the release of its quota; None takes them from the recording:
    those of the job, or drawn from those of all where it was not preempted. `scale`: how many times as long
    as recorded a job runs; None draws its time from what jobs of its team and priority took.

    `provisioning`: pool -> seconds from the reservation of quota until the nodes are there; None draws them
    from the recording, a distribution from what was learned elsewhere. The nodes of other pools are there at
    once.
    """

    grace: int | None = 0
    scale: float | None = 1.0
    provisioning: Mapping[str, int | Distribution | None] = field(
        default_factory=lambda: MappingProxyType({})
    )
    seed: int = 0

    @property
    def sentences(self) -> tuple[str, ...]:
        """What the report says about them."""
        return (self._durations, *self.nodes, self._release)

    @property
    def _durations(self) -> str:
        how = "for as long as it was recorded to run"
        if self.scale is None:
            how = f"for a time drawn (seed {self.seed}) from what jobs of its team and priority took"
        elif self.scale != 1.0:
            how = f"{self.scale:g} times as long as it was recorded to run"
        return (
            f"Each job runs {how}, once all its quota is reserved. A preempted job starts from its beginning."
        )

    @property
    def nodes(self) -> Iterator[str]:
        """When they are there."""
        for pool, seconds in sorted(self.provisioning.items()):
            when = (
                f"after {format_duration(timedelta(seconds=seconds))}"
                if isinstance(seconds, int)
                else f"after a time drawn (seed {self.seed}) from the recording"
            )
            yield f"Nodes of {pool} are there {when}, in which the job holds its quota."
        which = "Nodes of other pools" if self.provisioning else "Nodes"
        yield f"{which} are there at once, every admission check is ready, and pods become ready."

    @property
    def _release(self) -> str:
        when = f"after {self.grace} s" if self.grace else "at once"
        if self.grace is None:
            when = f"after as long as it took in the recording, or a time drawn (seed {self.seed}) from there"
        return f"A preempted job gives its quota back {when}."


AS_RECORDED: Final = Assumptions()


def parse_scale(text: str) -> float | None:
    """`recorded`, `drawn` (None) or a factor such as `x1.2`. AssumptionError on anything else."""
    if text == DRAWN:
        return None
    found = _SCALE.fullmatch(text)
    scale = 1.0 if text == RECORDED else float(found[1]) if found else 0.0
    if not 0.0 < scale <= _MOST:
        raise AssumptionError(
            f"--durations {text}: is no way to vary durations.",
            fix=f"write a factor such as x1.2, `{DRAWN}`, or `{RECORDED}`.",
        )
    return scale


def parse_grace(text: str) -> int | None:
    """`recorded` (None) or whole seconds. AssumptionError on anything else."""
    if text == RECORDED:
        return None
    if not text.isascii() or not text.isdigit():
        raise AssumptionError(
            f"--grace {text}: is no number of seconds.", fix=f"write seconds such as 60, or `{RECORDED}`."
        )
    return int(text)


def parse_provisioning(values: Iterable[str]) -> dict[str, int | None]:
    """`POOL=8m` or `POOL=recorded` (None), by pool. AssumptionError on anything else."""
    found: dict[str, int | None] = {}
    for value in values:
        pool, _, time = value.partition("=")
        try:
            seconds = None if time == RECORDED else int(parse_duration(time).total_seconds())
        except ValueError as error:
            message, fix = f"--provisioning {value}: {error}.", f"write POOL=8m or POOL={RECORDED}."
            raise AssumptionError(message, fix=fix) from None
        if not pool or pool in found:
            problem = "is no POOL=TIME" if not pool else f"names pool {pool} twice"
            raise AssumptionError(f"--provisioning {value}: {problem}.", fix="name each pool once.")
        found[pool] = seconds
    return found


class Times:
    """How long the jobs of a recording run and wait for nodes, under these assumptions. `cycle` is what Kueue
    took for a decision.
    """

    def __init__(self, recording: Recording, assumptions: Assumptions, pools: Iterable[NodePool]) -> None:
        self._end, self._assumed = recording.header.end, assumptions
        known = [*seen(at_moment(recording, self._end))] if assumptions.scale is None else []
        self._durations = learn(known) if known else None
        by_name = {pool.name: pool for pool in pools}
        self._graces = [*_graces(recording.jobs)] if assumptions.grace is None else []
        self.cycle = _decision(recording.jobs)
        self._delays: dict[str, int | Distribution] = {}
        for name, seconds in assumptions.provisioning.items():
            if name not in by_name:
                raise AssumptionError(
                    f"--provisioning names pool {name}, which the stack lacks.",
                    fix=f"name one of: {', '.join(sorted(by_name))}.",
                )
            self._delays[by_name[name].flavor] = (
                recorded_provisioning(recording.jobs, by_name.values(), name, at=self._end)
                if seconds is None
                else seconds
            )

    def seconds(self, job: Job) -> float | None:
        """How long it runs without interruption; None for a job that never ran."""
        recorded = self._recorded(job)
        if recorded is None:
            return None
        if self._durations is not None:
            session, dice = self._dice(job, "session"), self._dice(job, "")
            recorded = self._durations.draw(kind_of(job, {}), dice, session=session)
        return max(round(recorded * (self._assumed.scale or 1.0), _DIGITS), 1.0)

    def grace(self, job: Job) -> float:
        """Seconds from its preemption until its quota is free."""
        if self._assumed.grace is not None:
            return self._assumed.grace
        own = [*_graces((job,))]
        if own:
            return statistics.median(own)
        return self._dice(job, "grace").choice(self._graces) if self._graces else 0.0

    def recorded(self, job: Job) -> list[Run]:
        """Its runs that are over, as far as nothing is assumed about them: they end as they did."""
        return [run for run in job.runs if run.ended is not None and self._is_as_recorded(run)]

    def _is_as_recorded(self, run: Run) -> bool:
        if run.evicted is not None:
            return self._assumed.grace is None and run.end is End.PREEMPTED
        has_waited = run.admitted is None or run.admitted - run.reserved > _AT_ONCE
        return self._assumed.scale == 1.0 and not self._delays and not has_waited

    def delays(self, job: Job, *, waited: float = 0.0) -> dict[str, int]:
        """Flavor -> seconds until its nodes are there. They are not after `waited` seconds."""
        return {
            flavor: found
            if isinstance(found, int)
            else round(found.draw(self._dice(job, flavor), beyond=waited))
            for flavor, found in self._delays.items()
        }

    def _dice(self, job: Job, what: str) -> random.Random:
        return random.Random(f"{self._assumed.seed} {job.id} {what}")  # noqa: S311 - a simulation

    def _recorded(self, job: Job) -> float | None:
        """Its longest run, which is its last where it finished. A job that still ran at the end of the
        recording is taken to end there.
        """
        found = [run.seconds for run in job.runs if run.seconds is not None]
        found += [
            self._end - run.admitted for run in job.runs if run.ended is None and run.admitted is not None
        ]
        return max(found) if found else None


def _decision(jobs: Sequence[Job]) -> float:
    """What Kueue takes to decide, in the median: from an arrival to the start or the preemption that it
    causes at once. 0 where the recorder saw no arrival.
    """
    arrivals = {job.id: job.arrived for job in jobs if job.arrived is not None}
    firsts = ((job.id, job.runs[0].reserved) for job in jobs if job.runs)
    evictions = ((run.by, run.evicted) for job in jobs for run in job.runs if run.evicted is not None)
    waits = [at - arrivals[id] for id, at in (*firsts, *evictions) if id in arrivals]
    return round(statistics.median([each for each in waits if 0 < each < _AT_ONCE] or [0.0]), _DIGITS)


def _graces(jobs: Iterable[Job]) -> Iterator[float]:
    for run in (run for job in jobs for run in job.runs):
        if run.end is End.PREEMPTED and run.evicted is not None and run.ended is not None:
            yield max(run.ended - run.evicted, 0.0)


def recorded_provisioning(
    jobs: Iterable[Job], pools: Iterable[NodePool], pool: str, *, at: float
) -> Distribution:
    """Of the nodes of a pool, as far as it was known at a moment."""
    found = provisioning(jobs, pools, at=at).get(pool)
    if found is None:
        raise AssumptionError(
            f"The recording has no run that was admitted in pool {pool}, so its provisioning times are "
            "unknown.",
            fix=f"write a time: --provisioning {pool}=8m.",
        )
    return found
