"""What a stack guarantees about gangs, as one sentence for outputs, warnings and reports."""

from typing import Final

from muster.model.capacity import Capacity
from muster.model.clusters import Autoscaler, EksCluster, ExistingCluster, GkeCluster
from muster.model.stack import GangMode, Stack

ALL_OR_NOTHING: Final = "A gang starts when all of its nodes are ready, or not at all."
BY_PLACEHOLDERS: Final = (
    "A gang starts when placeholders have all of its nodes, or not at all. Nodes that come in vain are paid "
    "for until its deadline."
)
NOT_PROMISED: Final = (
    "All-or-nothing is not promised: nodes are made as pods ask, so part of a gang may get its nodes, "
    "and hold them, while the rest waits."
)
_OFF: Final = "All-or-nothing is not promised: gang admission is off, so nodes come one by one as pods ask."
_NONE_QUEUED: Final = "All-or-nothing is not promised: the stack has no queued pool."


def gang_promise(stack: Stack) -> str:
    """One sentence about the stack's queued pools; pools bought in other ways promise nothing."""
    if stack.placeholder_pools:
        return BY_PLACEHOLDERS if not stack.queued_pools else ALL_OR_NOTHING
    cluster = stack.cluster
    if isinstance(cluster, ExistingCluster) and cluster.autoscaler is Autoscaler.KARPENTER:
        return NOT_PROMISED
    if isinstance(cluster, EksCluster | GkeCluster) and not cluster.answers_requests:
        return NOT_PROMISED
    if stack.gang_admission.mode is GangMode.OFF:
        return _OFF
    if not any(pool.capacity is Capacity.QUEUED for pool in stack.pools):
        return _NONE_QUEUED
    return ALL_OR_NOTHING
