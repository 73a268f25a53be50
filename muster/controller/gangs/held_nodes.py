"""Takes our taint off nodes that are held no longer.

Responsible for each node with the taint, whatever has set it: whether it goes is a function of the objects,
so that a crash leaves nothing behind. It stays while its placeholder set is asked for and, once the gang may
start, until all its pods have a node. Each scheduler decides until when that is. The gang's own reconcile
sets the taint (assembly.py).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any, Final, Generic, TypeVar

from muster.controller.gangs.identity import request_of_template
from muster.controller.gangs.indexes import BY_HELD, BY_REQUEST
from muster.controller.gangs.objects import Node, PodTemplate
from muster.controller.gangs.placeholder_sets import held_for
from muster.controller.gangs.taints import NodeTaints
from muster.controller.gangs.view import GangView
from muster.controller.kube.resource import Key
from muster.controller.runtime.controller import RequeueAfter, Result

ALWAYS: Final = datetime.max.replace(tzinfo=UTC)
V = TypeVar("V", bound=GangView[Any])


class HeldNodes(ABC, Generic[V]):
    """Reconciles a node by its name."""

    def __init__(self, view: V, taints: NodeTaints, *, clock: Callable[[], datetime]) -> None:
        self._view, self._taints, self._clock = view, taints, clock

    @abstractmethod
    def _held_by(self, owner: Any, template: PodTemplate, name: str) -> datetime | None:
        """Until when this gang holds the nodes of a set of its own, of which this is a template."""

    def held_until(self, name: str) -> datetime | None:
        """Until when the placeholder set of this name holds its nodes; None where nothing holds them."""
        for template in self._view.templates.store.by_index(BY_REQUEST, name):
            if (owner := self._view.owner_of(template)) is not None:
                return self._held_by(owner, template, name)
        return None

    async def reconcile(self, key: Key) -> Result:
        node = self._view.nodes.get(key)
        name = held_for(node) if node else ""
        if node is None or not name:
            return None
        until = self.held_until(name)
        if until is None or until <= self._clock():
            await self._taints.release(key.name, name=name)
            return None
        return RequeueAfter((until - self._clock()).total_seconds()) if until < ALWAYS else None

    # Which nodes a change concerns

    def of_node(self, node: Node) -> list[Key]:
        return [node.key] if held_for(node) else []

    def of_template(self, template: PodTemplate) -> Iterable[Key]:
        return self.of_set(request_of_template(template.metadata.name))

    def of_set(self, name: str) -> list[Key]:
        return [node.key for node in self._view.nodes.store.by_index(BY_HELD, name)]
