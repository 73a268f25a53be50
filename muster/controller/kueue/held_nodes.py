"""Until when the gang of a Workload holds the nodes that its placeholders have brought, and why none starts
on them.
"""

from collections.abc import Iterator
from datetime import datetime

from muster.controller.gangs import unused_nodes
from muster.controller.gangs.identity import promised_by, request_of_template
from muster.controller.gangs.indexes import BY_HELD, BY_REQUEST
from muster.controller.gangs.metrics import reason_of
from muster.controller.gangs.objects import Placeholder, Pod, PodTemplate
from muster.controller.gangs.placeholder_sets import HANDOVER, held_as
from muster.controller.gangs.retry import parse_history
from muster.controller.gangs.unused_nodes import ALWAYS, ASKED_AGAIN, GONE
from muster.controller.kube.resource import Key
from muster.controller.kueue.objects import Workload
from muster.controller.kueue.podsets import admitted_counts
from muster.controller.kueue.view import View
from muster.model.names import HELD_TAINT_KEY


class HeldNodes(unused_nodes.HeldNodes[View]):
    """A taint is that of one placeholder set, or of all sets of an elastic job, with a Workload for each
    growth.
    """

    def _held_by(self, owner: Workload, template: PodTemplate, held_as: str) -> datetime | None:
        is_over = owner.status.holds("Finished") and not self._view.is_used(owner)
        if is_over or owner.metadata.deletion_timestamp:
            return None
        admitted = owner.status.since("Admitted")
        if admitted is None:
            return ALWAYS
        return None if self._is_placed(owner, held_as) else admitted + HANDOVER

    def _is_placed(self, workload: Workload, held_as: str) -> bool:
        """Whether it has a node for every pod that tolerates the taint. Which of them came with which growth
        does not matter: one that is made again carries the claim of the newest.
        """
        templates = self._view.templates.store.by_index(BY_HELD, held_as)
        names = {request_of_template(each.metadata.name) for each in templates}
        keys = [Key(workload.metadata.namespace, name) for name in names]
        pods = (pod for key in keys for pod in self._view.pods.store.by_index(BY_REQUEST, key))
        counts = admitted_counts(workload)
        wanted = sum(counts.get(name, 0) for name, value in _taints(workload) if value == held_as)
        return sum(1 for pod in pods if pod.spec.node_name) >= wanted

    # Which nodes a change concerns

    def of_workload(self, before: Workload | None, after: Workload | None) -> Iterator[Key]:
        """Its admission and its end decide."""
        if after is not None and before is not None and _phase(before) == _phase(after):
            return
        workload = after or before
        for value in {value for _, value in _taints(workload)} if workload else ():
            yield from self.of_taint(value)

    def of_pod(self, before: Pod | None, after: Pod | None) -> Iterator[Key]:
        """The last pod of such a gang that got its node; the cache has none without. To look at all nodes for
        each of N pods would cost N³.
        """
        name = promised_by(after.metadata.annotations) if after and before is None else ""
        templates = self._view.templates.store.by_index(BY_REQUEST, name) if name else ()
        for value in {held_as(each) for each in templates}:
            if self.held_until(value) is None:
                yield from self.of_taint(value)


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


def _taints(workload: Workload) -> Iterator[tuple[str, str]]:
    """The PodSets whose pods tolerate our taint, and its value."""
    for entry in workload.status.admission_checks:
        for update in entry.pod_set_updates:
            yield from (
                (update.name, each.value) for each in update.tolerations if each.key == HELD_TAINT_KEY
            )


def _phase(workload: Workload) -> tuple[bool, bool]:
    return workload.status.holds("Admitted"), workload.status.holds("Finished")
