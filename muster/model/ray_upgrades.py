"""How running Ray work may be upgraded: never by pods that no queue has counted.

One rule on `upgradeStrategy` for the policy, in CEL, and for the webhooks, which set it where it is unset.
Read in KubeRay 1.6.2 (ray-operator/controllers/ray: rayservice_controller.go, raycluster_controller.go,
utils/validation.go) and run in tests/integration/kueue_api/test_ray_service.py. With KAI every pod of a
second cluster has a scheduling gate of its own, so any strategy is allowed.

The preview does not check this, because stack files contain no Ray objects.
"""

from enum import StrEnum
from typing import Final

from muster.model.names import ELASTIC_JOB


class Upgrade(StrEnum):
    """What KubeRay does when the spec of a cluster changes. NEW_CLUSTER, the default of RayServices, starts
    a second cluster while the first runs. RECREATE deletes every pod of a RayCluster.
    """

    NONE = "None"
    NEW_CLUSTER = "NewCluster"
    RECREATE = "Recreate"


_SECOND: Final = (
    "at a change KubeRay would start a second cluster beside the first, which no queue counts and for which "
    "no nodes are requested"
)
_SECOND_FIX: Final = (
    "set it to None: then a change of its pods or their number queues it again. To upgrade without a pause, "
    "queue a second RayService and move the traffic"
)
_DELETED: Final = (
    "KubeRay would delete every pod of an elastic cluster at each growth, which changes its templates"
)
_DELETED_FIX: Final = f"remove it or set None, or remove annotation {ELASTIC_JOB}"
WITHIN_MESSAGE: Final = (
    "is for a RayCluster of its own: KubeRay fails a cluster that it makes itself with one; remove it"
)
# Of the object, in CEL.
_TYPE: Final = "object.spec.?upgradeStrategy.?type.orValue('')"
SERVICE_IN_CEL: Final = f"request.resource.resource != 'rayservices' || {_TYPE} == '{Upgrade.NONE}'"
SERVICE_MESSAGE: Final = f"spec.upgradeStrategy.type has to be {Upgrade.NONE}: {_SECOND}; {_SECOND_FIX}"
CLUSTER_IN_CEL: Final = (
    f"request.resource.resource != 'rayclusters' || {_TYPE} != '{Upgrade.RECREATE}' || "
    f"object.metadata.?annotations[?'{ELASTIC_JOB}'].orValue('') != 'true'"
)
CLUSTER_MESSAGE: Final = (
    f"spec.upgradeStrategy.type may not be {Upgrade.RECREATE}: {_DELETED}; {_DELETED_FIX}"
)
