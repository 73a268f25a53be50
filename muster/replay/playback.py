"""What happened to jobs that were played. Plain data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from muster.live.snapshot.workloads import Amounts


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedRun:
    """A run of a job, in seconds since the epoch. `end` is None while it runs. `usage`: flavor -> resource ->
    amount. `by` is the job that preempted it ("" where it was not), `reason` Kueue's.
    """

    start: int
    end: int | None
    usage: Mapping[str, Amounts]
    is_evicted: bool = False
    by: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Playback:
    """What happened. `runs`: "namespace/name" -> runs, empty for a job that never started. `reasons`: of jobs
    that wait at the end, Kueue's words where it gave any. `digest` is equal
    for equal decisions at equal times. `end` is the second of the last event.
    """

    runs: Mapping[str, Sequence[PlayedRun]]
    digest: str
    end: int
    cycles: int
    admissions: int
    preemptions: int
    reasons: Mapping[str, str] = field(default_factory=dict)
