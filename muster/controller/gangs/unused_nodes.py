"""What was bought for gangs and not used: how long placeholders had nodes that no gang started on, and why.

Observes and never writes. A placeholder that goes when its gang may start has done its work. Each scheduler
decides which ones those are.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Generic, TypeVar

import structlog

from muster.controller.gangs.indexes import BY_HELD
from muster.controller.gangs.metrics import OTHER, GangMetrics
from muster.controller.gangs.objects import Node, Placeholder, PodTemplate
from muster.controller.gangs.placeholder_sets import held_as, held_for
from muster.controller.gangs.taints import NodeTaints
from muster.controller.gangs.view import GangView
from muster.controller.kube.resource import Key
from muster.controller.runtime.controller import RequeueAfter, Result
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


# Takes our taint off nodes that are held no longer.
#
# Responsible for each node with the taint, whatever has set it: whether it goes is a function of the objects,
# so that a crash leaves nothing behind. It stays while its placeholder set is asked for and, once the gang
# may start, until all its pods have a node. Each scheduler decides until when that is. The gang's own
# reconcile sets the taint (assembly.py).


ALWAYS: Final = datetime.max.replace(tzinfo=UTC)
V = TypeVar("V", bound=GangView[Any])


class HeldNodes(ABC, Generic[V]):
    """Reconciles a node by its name."""

    def __init__(self, view: V, taints: NodeTaints, *, clock: Callable[[], datetime]) -> None:
        self._view, self._taints, self._clock = view, taints, clock

    @abstractmethod
    def _held_by(self, owner: Any, template: PodTemplate, held_as: str) -> datetime | None:
        """Until when this gang holds nodes with this taint. `template`: one of its own that has the value."""

    def held_until(self, held_as: str) -> datetime | None:
        """Until when nodes keep the taint of this value; None where nothing holds them."""
        templates = self._view.templates.store.by_index(BY_HELD, held_as)
        owned = [(owner, each) for each in templates if (owner := self._view.owner_of(each)) is not None]
        gangs = {owner.metadata.uid: (owner, each) for owner, each in owned}
        moments = (self._held_by(owner, each, held_as) for owner, each in gangs.values())
        return max((each for each in moments if each), default=None)

    async def reconcile(self, key: Key) -> Result:
        node = self._view.nodes.get(key)
        held = held_for(node) if node else ""
        if node is None or not held:
            return None
        until = self.held_until(held)
        if until is None or until <= self._clock():
            await self._taints.release(key.name, held_as=held)
            return None
        return RequeueAfter((until - self._clock()).total_seconds()) if until < ALWAYS else None

    # Which nodes a change concerns

    def of_node(self, node: Node) -> list[Key]:
        return [node.key] if held_for(node) else []

    def of_template(self, template: PodTemplate) -> Iterable[Key]:
        return self.of_taint(held_as(template))

    def of_taint(self, value: str) -> list[Key]:
        return [node.key for node in self._view.nodes.store.by_index(BY_HELD, value)]
