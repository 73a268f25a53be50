"""The decision about each Workload.

Responsible for reading a stored Workload once Kueue is done. Not responsible for comparing two sides
(report.py).
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from muster.live.conditions import is_true
from muster.live.fields import mapping

Progress = Callable[[str], None]


class WorkloadState(StrEnum):
    """running: as before. admitted: it was pending and runs now. ended: its duration was over."""

    RUNNING = "running"
    ADMITTED = "admitted"
    PENDING = "pending"
    INACTIVE = "inactive"
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """`why` is Kueue's reason for keeping it pending. `preemptor`: the Workload that preempted it, "" for
    none.

    `waited`: seconds of the jobs' time until it was admitted, None where durations are not simulated.
    """

    namespace: str
    name: str
    state: WorkloadState
    why: str = ""
    preemptor: str = ""
    how: str = ""
    waited: float | None = None

    @property
    def label(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def is_preempted(self) -> bool:
        return bool(self.how)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One side. `used`: by (namespace, LocalQueue), flavor -> GPUs in use. `is_settled` is False where time
    ran out before Kueue was done.

    `unexplained`: pending Workloads without a reason from Kueue. They are behind others in a strict queue, or
    Kueue skipped them because an equivalent Workload was decided first.
    """

    decisions: Mapping[str, Decision]
    used: Mapping[tuple[str, str], Mapping[str, int]]
    is_settled: bool
    seconds: float

    @property
    def gpus(self) -> Mapping[str, int]:
        """Flavor -> GPUs in use, in all queues."""
        return sum((Counter(each) for each in self.used.values()), Counter[str]())

    @property
    def unexplained(self) -> int:
        return sum(
            1 for each in self.decisions.values() if each.state is WorkloadState.PENDING and not each.why
        )


def to_state(workload: object, *, was_running: bool, was_preempted: bool) -> WorkloadState:
    """The state of a stored Workload at the end."""
    if is_true(workload, "Finished"):
        return WorkloadState.ENDED
    if is_true(workload, "QuotaReserved"):
        return WorkloadState.RUNNING if was_running and not was_preempted else WorkloadState.ADMITTED
    return (
        WorkloadState.INACTIVE if mapping(workload, "spec").get("active") is False else WorkloadState.PENDING
    )
