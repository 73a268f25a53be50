"""Until when the gang of a Workload holds the nodes that its placeholders have brought."""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime

from muster.controller.gangs import held_nodes
from muster.controller.gangs.held_nodes import ALWAYS
from muster.controller.gangs.indexes import BY_REQUEST
from muster.controller.gangs.objects import Pod, PodTemplate
from muster.controller.gangs.placeholder_sets import HANDOVER, asked_of
from muster.controller.gangs.taints import NodeTaints
from muster.controller.kube.resource import Key
from muster.controller.kueue.indexes import workload_of
from muster.controller.kueue.objects import Workload
from muster.controller.kueue.view import View
from muster.model.names import PLACED_ANNOTATION


class HeldNodes(held_nodes.HeldNodes):
    def __init__(self, view: View, taints: NodeTaints, *, clock: Callable[[], datetime]) -> None:
        super().__init__(view.nodes, taints, clock=clock)
        self._view = view

    def held_until(self, name: str) -> datetime | None:
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
            return ALWAYS
        is_placed = self._is_placed(Key(workload.metadata.namespace, name))
        return None if is_placed else admitted + HANDOVER

    def _is_placed(self, request: Key) -> bool:
        """Whether every pod of the gang that uses this set has a node."""
        pods = self._view.pods.store.by_index(BY_REQUEST, request)
        wanted = asked_of(self._view.templates.store.by_index(BY_REQUEST, request.name))
        return sum(1 for pod in pods if pod.spec.node_name) >= wanted

    # Which nodes a change concerns

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
            yield from self.of_set(name)

    def of_pod(self, before: Pod | None, after: Pod | None) -> Iterable[Key]:
        """The last pod of such a gang that got its node; the cache has none without. To look at all nodes for
        each of N pods would cost N³.
        """
        name = after.metadata.annotations.get(PLACED_ANNOTATION) if after and before is None else None
        if not after or not name or not self._is_placed(Key(after.metadata.namespace, name)):
            return ()
        return self.of_set(name)


def _owners(template: PodTemplate) -> set[str]:
    return {each.uid for each in template.metadata.owner_references}


def _phase(workload: Workload) -> tuple[bool, bool]:
    return workload.status.holds("Admitted"), workload.status.holds("Finished")
