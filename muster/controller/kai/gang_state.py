"""The state of a Ray cluster's gang, for metrics and logs.

One state for a cluster that may have several batches: while any pod is gated, what those pods wait for
counts.
"""

from collections.abc import Iterable
from datetime import datetime

from muster.controller.gangs.gang_state import GangObservation
from muster.controller.gangs.metrics import GangState
from muster.controller.gangs.objects import Belonging
from muster.controller.gangs.retry import parse_history
from muster.controller.kai.labels import CLUSTER_UID, is_bound, is_finished, is_gated, is_released
from muster.controller.kai.objects import GangOwner, GatedPod


def observe(
    cluster: GangOwner, pods: Iterable[GatedPod], requests: Iterable[Belonging], *, now: datetime
) -> GangObservation | None:
    """The gang of this cluster, or None: it is over, or none of its pods is there. `requests`: also what
    stands for those of placeholders.
    """
    if cluster.metadata.deletion_timestamp:
        return None
    uid = cluster.metadata.uid
    pods = [pod for pod in pods if not is_finished(pod)]
    gated = [pod for pod in pods if is_gated(pod)]
    if not gated:
        if any(map(is_released, pods)):
            return GangObservation(uid, GangState.READY)
        return GangObservation(uid, GangState.RUNNING) if any(map(is_bound, pods)) else None
    histories = [parse_history(pod) for pod in gated]
    if refused := next((each.refused for each in histories if each.refused), ""):
        return GangObservation(uid, GangState.REFUSED, failure=refused)
    asked = [
        request.metadata.creation_timestamp or now
        for request in requests
        if request.metadata.labels.get(CLUSTER_UID) == uid and not request.metadata.deletion_timestamp
    ]
    failed = next((each for each in histories if each.retry_at and each.retry_at > now), None)
    if failed is not None:
        return GangObservation(uid, GangState.BACKING_OFF, failure=failed.last_failure)
    if asked:
        return GangObservation(uid, GangState.PROVISIONING, min(asked))
    return GangObservation(
        uid, GangState.QUEUED, min(pod.metadata.creation_timestamp or now for pod in gated)
    )
