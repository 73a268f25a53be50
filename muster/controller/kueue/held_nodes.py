"""Until when the gang of a Workload holds the nodes that its placeholders have brought, and why none starts
on them.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime

from muster.controller.gangs import held_nodes
from muster.controller.gangs.held_nodes import ALWAYS
from muster.controller.gangs.indexes import BY_REQUEST
from muster.controller.gangs.metrics import reason_of
from muster.controller.gangs.objects import Placeholder, Pod, PodTemplate
from muster.controller.gangs.placeholder_sets import HANDOVER, asked_of
from muster.controller.gangs.retry import parse_history
from muster.controller.gangs.unused_nodes import ASKED_AGAIN, GONE
from muster.controller.kube.resource import Key
from muster.controller.kueue.objects import Workload
from muster.controller.kueue.view import View
from muster.model.names import PLACED_ANNOTATION


class HeldNodes(held_nodes.HeldNodes[View]):
    def _held_by(self, owner: Workload, template: PodTemplate, name: str) -> datetime | None:
        status = owner.status
        if status.holds("Finished") or owner.metadata.deletion_timestamp:
            return None
        admitted = status.since("Admitted")
        if admitted is None:
            return ALWAYS
        return None if self._is_placed(Key(owner.metadata.namespace, name)) else admitted + HANDOVER

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


def unused_cause(view: View, pod: Placeholder) -> str:
    """Why no gang starts on the node of a placeholder that goes; empty where its gang has started."""
    workload = view.owner_of(pod)
    if workload is None:
        return GONE
    if workload.status.holds("Admitted"):
        return ""
    if workload.status.holds("Finished"):
        return GONE
    history = parse_history(workload)
    failure = history.refused or history.last_failure
    return ASKED_AGAIN if workload.spec.active or not failure else reason_of(failure)


def _phase(workload: Workload) -> tuple[bool, bool]:
    return workload.status.holds("Admitted"), workload.status.holds("Finished")
