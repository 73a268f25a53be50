"""What happened to jobs that were played. Plain data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from muster.live.snapshot.workloads import Amounts


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedRun:
    """A run of a job, in seconds since the epoch. `end` is None while it runs. `usage`: flavor -> resource ->
    amount. `delay`: seconds from the start until its nodes are there. `by` is the job that preempted it (""
    where it was not), `reason` Kueue's.
    """

    start: float
    end: float | None
    usage: Mapping[str, Amounts]
    delay: float = 0
    is_evicted: bool = False
    by: str = ""
    reason: str = ""

    @property
    def begin(self) -> float | None:
        """When its pods began; None where it lost its quota before its nodes were there."""
        begin = self.start + self.delay
        return begin if self.end is None or begin < self.end else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Playback:
    """What happened. `runs`: "namespace/name" -> runs, empty for a job that never started. `reasons`: of jobs
    that wait at the end, Kueue's words where it gave any. `digest` is equal
    for equal decisions at equal times. `end` is the time of the last event. `is_cut`: the limit of time ended
    the play there, and what comes later is not known.
    """

    runs: Mapping[str, Sequence[PlayedRun]]
    digest: str
    end: float
    cycles: int
    admissions: int
    preemptions: int
    is_cut: bool = False
    reasons: Mapping[str, str] = field(default_factory=dict)
