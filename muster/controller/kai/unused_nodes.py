"""Why no gang of KAI starts on the node of a placeholder that goes."""

from muster.controller.gangs.identity import ATTEMPT, request_of_placeholder
from muster.controller.gangs.metrics import reason_of
from muster.controller.gangs.objects import Placeholder
from muster.controller.gangs.placeholder_sets import held_for
from muster.controller.gangs.retry import parse_history
from muster.controller.gangs.unused_nodes import ASKED_AGAIN, GONE
from muster.controller.kai.batches import attempt_of
from muster.controller.kai.indexes import BY_CLUSTER, cluster_of
from muster.controller.kai.labels import CLUSTER_UID, LEADER
from muster.controller.kai.view import View
from muster.controller.kube.resource import Key


def unused_cause(view: View, pod: Placeholder) -> str:
    """Empty where the gang has passed, or is about to: placeholders go before the gates, once all of their
    nodes have our taint.
    """
    labels = pod.metadata.labels
    found = (view.clusters.get(key) for key in cluster_of(pod))
    cluster = next((each for each in found if each), None)
    if (
        cluster is None
        or cluster.metadata.uid != labels.get(CLUSTER_UID)
        or cluster.metadata.deletion_timestamp
    ):
        return GONE
    pods = view.pods.store.by_index(BY_CLUSTER, cluster.key)
    leader = next((each for each in pods if each.metadata.uid == labels.get(LEADER)), None)
    if leader is None:
        return GONE
    history = parse_history(leader)
    if attempt_of(cluster, leader) != labels.get(ATTEMPT) or history.refused:
        failure = history.refused or history.last_failure
        return reason_of(failure) if failure else ASKED_AGAIN
    node = view.nodes.get(Key("", pod.spec.node_name))
    is_handed_over = node is not None and held_for(node) == request_of_placeholder(pod.metadata.name)
    return "" if is_handed_over else ASKED_AGAIN
