"""Which attempt an object belongs to, and what the attempt's objects are called.

Decides the names of our ProvisioningRequests and PodTemplates and the labels that lead back to their
Workload. An attempt is one reservation of quota: Kueue's `retryCount` is reset on preemption and would hand
an old, consumed request to a new attempt. Names follow from what is in the API alone, so a crash before the
answer of a create finds its object again, and a second replica makes the same one.
"""

import hashlib
from typing import Final

from controller.admission.objects import Workload
from model.names import GROUP

WORKLOAD_UID: Final = f"{GROUP}/workload-uid"
CHECK: Final = f"{GROUP}/check"
ATTEMPT: Final = f"{GROUP}/attempt"

_DIGEST_LENGTH: Final = 24
"""96 bits: a collision among a million live requests is no concern, and names stay legible."""


def attempt(workload: Workload) -> str:
    """The identity of the present reservation, fit for a label.

    The reservation's time has whole seconds only, and Kueue can evict and reserve again within one: the
    number of evictions, which it counts in the same write, tells such neighbours apart.
    """
    stats = workload.status.scheduling_stats
    evictions = sum(entry.count for entry in stats.evictions) if stats else 0
    since = workload.status.since("QuotaReserved")
    return _digest(workload.metadata.uid, since.isoformat() if since else "", str(evictions))


def request_name(workload: Workload, *, check: str, shape: str) -> str:
    """`muster-<hash>`: valid as an object name, a label value and an annotation value."""
    return f"muster-{_digest(workload.metadata.uid, check, attempt(workload), shape)}"


def template_name(request: str, pod_set: int) -> str:
    """The template of the request's n-th PodSet; never a Workload's name, by which Kueue deletes requests."""
    return f"{request}-{pod_set}"


def labels(workload: Workload, *, check: str) -> dict[str, str]:
    """What our informers select on and what leads a clean-up from an orphan back to its Workload."""
    return {WORKLOAD_UID: workload.metadata.uid, CHECK: check, ATTEMPT: attempt(workload)}


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:_DIGEST_LENGTH]
