"""What was decided about each Workload.

Decides how a stored Workload is read once nothing moves any more. Leaves comparing two sides to told.py.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from muster.live.fields import items, mapping, text

# Kueue writes the uid of who preempts into the victim's condition (pkg/scheduler/preemption of 0.19).
_PREEMPTOR: Final = re.compile(r"\(UID: ([0-9a-f-]{36})")


class WorkloadState(StrEnum):
    """running: as before. admitted: it waited and runs now. ended: its time was over."""

    RUNNING = "running"
    ADMITTED = "admitted"
    PENDING = "pending"
    INACTIVE = "inactive"
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """`why` is Kueue's own reason for waiting. `preemptor`: who took its quota on the way, "" for nobody.

    `waited`: seconds of the jobs' time until it was admitted, None where durations are not played.
    """

    namespace: str
    name: str
    fate: WorkloadState
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

    `unseen`: Workloads that wait without a word of Kueue's: behind others in a strict queue, or moved aside
    with one of their shape that was admitted since.
    """

    decisions: Mapping[str, Decision]
    used: Mapping[tuple[str, str], Mapping[str, int]]
    is_settled: bool
    seconds: float

    @property
    def gpus(self) -> Mapping[str, int]:
        """Flavor -> GPUs in use, of all."""
        return sum((Counter(each) for each in self.used.values()), Counter[str]())

    @property
    def unseen(self) -> int:
        return sum(
            1 for each in self.decisions.values() if each.fate is WorkloadState.PENDING and not each.why
        )


def find_condition(workload: object, kind: str) -> Mapping[str, object]:
    """A condition, empty where there is none."""
    return next((each for each in items(workload, "status", "conditions") if text(each, "type") == kind), {})


def is_true(workload: object, kind: str) -> bool:
    return text(find_condition(workload, kind), "status") == "True"


def to_state(workload: object, *, was_running: bool, was_preempted: bool) -> WorkloadState:
    if is_true(workload, "Finished"):
        return WorkloadState.ENDED
    if is_true(workload, "QuotaReserved"):
        return WorkloadState.RUNNING if was_running and not was_preempted else WorkloadState.ADMITTED
    return (
        WorkloadState.INACTIVE if mapping(workload, "spec").get("active") is False else WorkloadState.PENDING
    )


def parse_preemptor(workload: object) -> tuple[str, str]:
    """(uid, reason) of a preemption that the Workload's conditions tell of; ("", "") where they tell of
    none.
    """
    told = find_condition(workload, "Preempted")
    if text(told, "status") != "True":
        return "", ""
    found = _PREEMPTOR.search(text(told, "message"))
    return (found[1] if found else ""), text(told, "reason")
