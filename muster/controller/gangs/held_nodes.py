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

from muster.controller.gangs.indexes import BY_HELD
from muster.controller.gangs.objects import Node, PodTemplate
from muster.controller.gangs.placeholder_sets import held_as, held_for
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
