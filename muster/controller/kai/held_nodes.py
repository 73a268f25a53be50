"""Until when the gang of a Ray cluster holds the nodes that its placeholders have brought."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

from muster.controller.gangs import held_nodes
from muster.controller.gangs.held_nodes import ALWAYS
from muster.controller.gangs.indexes import BY_REQUEST
from muster.controller.gangs.objects import PodTemplate
from muster.controller.gangs.placeholder_sets import HANDOVER
from muster.controller.gangs.taints import NodeTaints
from muster.controller.kai.indexes import BY_CLUSTER, cluster_of
from muster.controller.kai.labels import LEADER, handed_over_at, is_bound, is_finished, is_gated
from muster.controller.kai.objects import GatedPod, RayCluster
from muster.controller.kai.view import View
from muster.controller.kube.resource import Key
from muster.model.names import PLACED_ANNOTATION


class HeldNodes(held_nodes.HeldNodes):
    def __init__(self, view: View, taints: NodeTaints, *, clock: Callable[[], datetime]) -> None:
        super().__init__(view.nodes, taints, clock=clock)
        self._view = view

    def held_until(self, name: str) -> datetime | None:
        for template in self._view.templates.store.by_index(BY_REQUEST, name):
            for owner in cluster_of(template):
                cluster = self._view.clusters.get(owner)
                if cluster and any(
                    each.uid == cluster.metadata.uid for each in template.metadata.owner_references
                ):
                    return self._held_by(cluster, template, name)
        return None

    def _held_by(self, cluster: RayCluster, template: PodTemplate, name: str) -> datetime | None:
        if cluster.metadata.deletion_timestamp:
            return None
        if self._waits(cluster.key, leader=template.metadata.labels.get(LEADER, "")):
            return ALWAYS
        waiting = self._without_node(Key(cluster.metadata.namespace, name))
        return max(map(handed_over_at, waiting)) + HANDOVER if waiting else None

    def _waits(self, cluster: Key, *, leader: str) -> bool:
        """Whether its batch has not passed: the gate of the leader goes last."""
        pods = self._view.pods.store.by_index(BY_CLUSTER, cluster)
        return any(pod.metadata.uid == leader and is_gated(pod) and not is_finished(pod) for pod in pods)

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
        return () if self._without_node(Key(pod.metadata.namespace, name)) else self.of_set(name)


def _facts(pod: GatedPod | None) -> tuple[bool, bool, bool] | None:
    return (is_gated(pod), is_bound(pod), is_finished(pod)) if pod else None
