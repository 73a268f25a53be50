"""Until when a gang holds the nodes that its placeholders have brought, and why none
starts on them.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime

from muster.controller.gangs import unused_nodes
from muster.controller.gangs.identity import ATTEMPT, request_of_placeholder
from muster.controller.gangs.indexes import BY_REQUEST
from muster.controller.gangs.metrics import reason_of
from muster.controller.gangs.objects import Placeholder, PodTemplate
from muster.controller.gangs.placeholder_sets import HANDOVER, held_for
from muster.controller.gangs.retry import parse_history
from muster.controller.gangs.unused_nodes import ALWAYS, ASKED_AGAIN, GONE
from muster.controller.kai.groups import attempt_of
from muster.controller.kai.indexes import BY_CLUSTER
from muster.controller.kai.labels import LEADER, handed_over_at, is_bound, is_finished, is_gated
from muster.controller.kai.objects import GangOwner, GatedPod
from muster.controller.kai.view import View
from muster.controller.kube.resource import Key
from muster.model.names import PLACED_ANNOTATION


class HeldNodes(unused_nodes.HeldNodes[View]):
    def _held_by(self, owner: GangOwner, template: PodTemplate, held_as: str) -> datetime | None:
        if owner.metadata.deletion_timestamp:
            return None
        leader = _leader(self._view, owner, template)
        if leader is not None and is_gated(leader) and not is_finished(leader):
            return ALWAYS  # Its batch has not passed: the gate of the leader goes last.
        waiting = self._without_node(Key(owner.metadata.namespace, held_as))
        now = self._clock()
        return max(handed_over_at(pod, now=now) for pod in waiting) + HANDOVER if waiting else None

    def _without_node(self, request: Key) -> Sequence[GatedPod]:
        """The pods that use this set and have no node."""
        pods = self._view.pods.store.by_index(BY_REQUEST, request)
        return [pod for pod in pods if not (is_bound(pod) or is_finished(pod))]

    # Which nodes a change concerns

    def of_pod(self, before: GatedPod | None, after: GatedPod | None) -> Iterable[Key]:
        """The last pod of such a gang that got its node, or went. To look at all nodes for each of N pods
        would cost N³.
        """
        pod = after or before
        name = pod.metadata.annotations.get(PLACED_ANNOTATION) if pod else None
        if pod is None or not name or _facts(before) == _facts(after):
            return ()
        return () if self._without_node(Key(pod.metadata.namespace, name)) else self.of_taint(name)


def unused_cause(view: View, pod: Placeholder) -> str:
    """Why no gang starts on the node of a placeholder that goes. Empty where its gang has passed, or is about
    to: placeholders go before the gates, once all of their nodes have our taint.
    """
    cluster = view.owner_of(pod)
    if cluster is None or cluster.metadata.deletion_timestamp:
        return GONE
    leader = _leader(view, cluster, pod)
    if leader is None:
        return GONE
    history = parse_history(leader)
    if attempt_of(cluster, leader) != pod.metadata.labels.get(ATTEMPT) or history.refused:
        failure = history.refused or history.last_failure
        return reason_of(failure) if failure else ASKED_AGAIN
    node = view.nodes.get(Key("", pod.spec.node_name))
    is_handed_over = node is not None and held_for(node) == request_of_placeholder(pod.metadata.name)
    return "" if is_handed_over else ASKED_AGAIN


def _leader(view: View, cluster: GangOwner, item: PodTemplate | Placeholder) -> GatedPod | None:
    """The leader of the batch that this was made for."""
    pods = view.pods.store.by_index(BY_CLUSTER, cluster.key)
    return next((pod for pod in pods if pod.metadata.uid == item.metadata.labels.get(LEADER)), None)


def _facts(pod: GatedPod | None) -> tuple[bool, bool, bool] | None:
    return (is_gated(pod), is_bound(pod), is_finished(pod)) if pod else None
