"""Which attempt of a Workload an object belongs to.

An attempt is one reservation of quota: Kueue's `retryCount` is reset on preemption and would assign an old,
consumed request to a new attempt. Names are muster.controller.gangs.identity's.
"""

from typing import Final

from muster.controller.gangs.identity import ATTEMPT, digest
from muster.controller.gangs.owner import Owners
from muster.controller.kueue.objects import WORKLOAD, Workload
from muster.model.names import GROUP, WORKLOAD_UID_LABEL

WORKLOAD_UID: Final = WORKLOAD_UID_LABEL
OWNING_WORKLOAD: Final = f"{GROUP}/workload"
WORKLOADS: Final = Owners(resource=WORKLOAD, uid_label=WORKLOAD_UID, name_annotation=OWNING_WORKLOAD)
CHECK: Final = f"{GROUP}/check"


def attempt(workload: Workload, *, tries: int = 0) -> str:
    """The identity of the present reservation, and of the try within it, fit for a label.

    The reservation's time has whole seconds only, and Kueue can evict and reserve again within one: the
    number of evictions, which it counts in the same write, separates such reservations. A queue that is
    stopped takes quota without an eviction (pkg/controller/core/workload_controller.go): of such neighbours
    within one second the later goes on with what the earlier has asked for.
    """
    stats = workload.status.scheduling_stats
    evictions = sum(entry.count for entry in stats.evictions) if stats else 0
    since = workload.status.since("QuotaReserved")
    again = (str(tries),) if tries else ()
    return digest(workload.metadata.uid, since.isoformat() if since else "", str(evictions), *again)


def labels(workload: Workload, *, check: str, tries: int = 0) -> dict[str, str]:
    """What our informers select on and what leads a clean-up from an orphan back to its Workload."""
    return {WORKLOAD_UID: workload.metadata.uid, CHECK: check, ATTEMPT: attempt(workload, tries=tries)}
