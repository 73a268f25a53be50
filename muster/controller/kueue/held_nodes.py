"""Takes our taint off nodes that are held no longer.

Responsible for each node with the taint, whatever has set it: whether it goes is a function of the objects,
so that a crash leaves nothing behind. It stays while its placeholder set is asked for and, once the gang is
admitted, until all its pods have a node. The gang's own reconcile sets it (gangs/assembly.py).
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

from muster.controller.gangs.indexes import BY_HELD, BY_REQUEST
from muster.controller.gangs.objects import Node, Pod, PodTemplate
from muster.controller.gangs.placeholder_sets import asked_of, held_for
from muster.controller.gangs.taints import NodeTaints
from muster.controller.kube.resource import Key
from muster.controller.kueue.indexes import workload_of
from muster.controller.kueue.objects import Workload
from muster.controller.kueue.view import View
from muster.controller.runtime.controller import RequeueAfter, Result
from muster.model.names import PLACED_ANNOTATION

HANDOVER: Final = timedelta(minutes=10)
"""How long after its admission a gang may take to place its pods, before others may have the room."""


class HeldNodes:
    """Reconciles a node by its name."""

    def __init__(self, view: View, taints: NodeTaints, *, clock: Callable[[], datetime]) -> None:
        self._view, self._taints, self._clock = view, taints, clock

    async def reconcile(self, key: Key) -> Result:
        node = self._view.nodes.get(key)
        name = held_for(node) if node else ""
        if node is None or not name:
            return None
        until = self._held_until(name)
        if until is None or until <= self._clock():
            await self._taints.release(key.name, name=name)
            return None
        return RequeueAfter((until - self._clock()).total_seconds()) if until < _ALWAYS else None

    def _held_until(self, name: str) -> datetime | None:
        """None where nothing holds it."""
        for template in self._view.templates.store.by_index(BY_REQUEST, name):
            for owner in workload_of(template):
                workload = self._view.workloads.get(owner)
                if workload and workload.metadata.uid in _owners(template):
                    return self._held_by(workload, name)
        return None

    def _held_by(self, workload: Workload, name: str) -> datetime | None:
        status = workload.status
        if status.holds("Finished") or workload.metadata.deletion_timestamp:
            return None
        admitted = status.since("Admitted")
        if admitted is None:
            return _ALWAYS
        is_placed = self._is_placed(Key(workload.metadata.namespace, name))
        return None if is_placed else admitted + HANDOVER

    def _is_placed(self, request: Key) -> bool:
        """Whether every pod of the gang that uses this set has a node."""
        pods = self._view.pods.store.by_index(BY_REQUEST, request)
        wanted = asked_of(self._view.templates.store.by_index(BY_REQUEST, request.name))
        return sum(1 for pod in pods if pod.spec.node_name) >= wanted

    # Which nodes a change concerns

    def of_node(self, node: Node) -> list[Key]:
        return [node.key] if held_for(node) else []

    def of_template(self, template: PodTemplate) -> Iterable[Key]:
        return self._held(template.metadata.name.rpartition("-")[0])

    def of_workload(self, before: Workload | None, after: Workload | None) -> Iterator[Key]:
        """Its admission and its end decide."""
        if after is not None and before is not None and _phase(before) == _phase(after):
            return
        workload = after or before
        names = {
            name
            for entry in (workload.status.admission_checks if workload else ())
            for update in entry.pod_set_updates
            if (name := update.annotations.get(PLACED_ANNOTATION))
        }
        for name in names:
            yield from self._held(name)

    def of_pod(self, before: Pod | None, after: Pod | None) -> Iterable[Key]:
        """The last pod of such a gang that got its node; the cache has none without. To look at all nodes for
        each of N pods would cost N³.
        """
        name = after.metadata.annotations.get(PLACED_ANNOTATION) if after and before is None else None
        if not after or not name or not self._is_placed(Key(after.metadata.namespace, name)):
            return ()
        return self._held(name)

    def _held(self, name: str) -> list[Key]:
        return [node.key for node in self._view.nodes.store.by_index(BY_HELD, name)]


_ALWAYS: Final = datetime.max.replace(tzinfo=UTC)


def _owners(template: PodTemplate) -> set[str]:
    return {each.uid for each in template.metadata.owner_references}


def _phase(workload: Workload) -> tuple[bool, bool]:
    return workload.status.holds("Admitted"), workload.status.holds("Finished")
