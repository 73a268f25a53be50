"""What was bought for gangs and not used: how long placeholders had nodes that no gang started on, and why.

Observes and never writes. A placeholder that goes when its gang may start has done its work. Each scheduler
decides which ones those are.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import structlog

from muster.controller.gangs.metrics import OTHER, GangMetrics
from muster.controller.gangs.objects import Node, Placeholder
from muster.controller.kube.resource import Key
from muster.controller.runtime.informer import Informer
from muster.model.names import PLACEHOLDER_NAMESPACE, POOL_LABEL

GONE: Final = "gang_gone"
ASKED_AGAIN: Final = "asked_again"
"""The gang gave way to another, lost its quota, or the node was lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnusedNodes:
    """`changed` listens to the cache of placeholders. `cause`: why no gang starts on the node of this one;
    empty where one does. `counts`: whether this process leads.
    """

    nodes: Informer[Node]
    cause: Callable[[Placeholder], str]
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
        if pod.metadata.namespace != PLACEHOLDER_NAMESPACE or since is None or not (cause := self.cause(pod)):
            return
        node = self.nodes.get(Key("", pod.spec.node_name))
        pool = node.metadata.labels.get(POOL_LABEL, OTHER) if node else OTHER
        self.metrics.unused_node_seconds.labels(pool, cause).inc(
            max(0.0, (self.clock() - since).total_seconds())
        )
