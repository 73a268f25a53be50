"""By what the caches of gated pods, and of what is written for Ray clusters, are indexed."""

from muster.controller.gangs.identity import owner_keys
from muster.controller.gangs.objects import Belonging
from muster.controller.kai.labels import CLUSTER_NAME, is_released
from muster.controller.kai.objects import GatedPod
from muster.controller.kube.resource import Key
from muster.model.names import RAY_CLUSTER_LABEL

BY_CLUSTER = "cluster"
RELEASED = "released"


def cluster_of(item: Belonging) -> list[Key]:
    """The Ray cluster that a request or template was made for; none if it is not one of ours."""
    return owner_keys(item, CLUSTER_NAME)


def ray_cluster_of(pod: GatedPod) -> list[Key]:
    name = pod.metadata.labels.get(RAY_CLUSTER_LABEL, "")
    return [Key(pod.metadata.namespace, name)] if name else []


def released_cluster_of(pod: GatedPod) -> list[Key]:
    return ray_cluster_of(pod) if is_released(pod) else []
