"""By what the caches of gated pods, and of what is written for Ray clusters, are indexed."""

from muster.controller.gangs.identity import owner_keys
from muster.controller.gangs.objects import Belonging
from muster.controller.kai.labels import CLUSTER_NAME, is_gated
from muster.controller.kai.ledger import is_released
from muster.controller.kai.objects import GatedPod
from muster.controller.kube.resource import Key
from muster.model.names import KAI_QUEUE_LABEL, RAY_CLUSTER_LABEL

BY_CLUSTER = "cluster"
BY_QUEUE = "queue"
RELEASED = "released"


def cluster_of(item: Belonging) -> list[Key]:
    """The Ray cluster that a request or template was made for; none if it is not one of ours."""
    return owner_keys(item, CLUSTER_NAME)


def ray_cluster_of(pod: GatedPod) -> list[Key]:
    name = pod.metadata.labels.get(RAY_CLUSTER_LABEL, "")
    return [Key(pod.metadata.namespace, name)] if name else []


def queue_label_of(pod: GatedPod) -> list[str]:
    """KubeRay puts its Ray object's queue on every pod, where it runs with KAI as its batch scheduler."""
    name = pod.metadata.labels.get(KAI_QUEUE_LABEL, "")
    return [name] if name and not is_gated(pod) else []


def released_cluster_of(pod: GatedPod) -> list[Key]:
    return ray_cluster_of(pod) if is_released(pod) else []
