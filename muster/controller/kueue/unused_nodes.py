"""What was bought for gangs and not used: how long placeholders had nodes that no gang started on, and why.

Observes and never writes. A placeholder that goes when its gang is admitted has done its work.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

import structlog

from muster.controller.gangs.metrics import OTHER, GangMetrics, reason_of
from muster.controller.gangs.objects import Placeholder
from muster.controller.gangs.retry import parse_history
from muster.controller.kube.resource import Key
from muster.controller.kueue.identity import WORKLOAD_UID
from muster.controller.kueue.indexes import workload_of
from muster.controller.kueue.view import View
from muster.model.names import PLACEHOLDER_NAMESPACE, POOL_LABEL

GONE = "gang_gone"
ASKED_AGAIN = "asked_again"
"""The gang gave way to another, lost its quota, or the node was lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnusedNodes:
    """`changed` listens to the cache of placeholders. `counts`: whether this process leads."""

    view: View
    metrics: GangMetrics
    counts: Callable[[], bool]
    clock: Callable[[], datetime]

    def changed(self, before: Placeholder | None, after: Placeholder | None) -> None:
        if after is not None or before is None or not self.counts():
            return
        try:
            self._observe(before)
        except Exception:
            structlog.get_logger("gangs").exception("placeholder not observed")

    def _observe(self, pod: Placeholder) -> None:
        bound = next((each for each in pod.status.conditions if each.type == "PodScheduled"), None)
        since = bound.last_transition_time if bound and bound.status == "True" else None
        reason = self._reason(pod)
        if pod.metadata.namespace != PLACEHOLDER_NAMESPACE or since is None or not reason:
            return
        node = self.view.nodes.get(Key("", pod.spec.node_name))
        pool = node.metadata.labels.get(POOL_LABEL, OTHER) if node else OTHER
        self.metrics.unused_node_seconds.labels(pool, reason).inc(
            max(0.0, (self.clock() - since).total_seconds())
        )

    def _reason(self, pod: Placeholder) -> str:
        """Empty where the gang has started."""
        found = (self.view.workloads.get(key) for key in workload_of(pod))
        workload = next((each for each in found if each), None)
        if workload is None or workload.metadata.uid != pod.metadata.labels.get(WORKLOAD_UID):
            return GONE
        if workload.status.holds("Admitted"):
            return ""
        if workload.status.holds("Finished"):
            return GONE
        history = parse_history(workload)
        failure = history.refused or history.last_failure
        return ASKED_AGAIN if workload.spec.active or not failure else reason_of(failure)
