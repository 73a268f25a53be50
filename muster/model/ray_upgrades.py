"""How running Ray work may be upgraded: never by pods that no queue has counted.

The rules are in muster-ray-size (render/tenancy/policies), and the webhooks set what is unset.
Read in KubeRay 1.6.2 (ray-operator/controllers/ray: rayservice_controller.go, raycluster_controller.go,
utils/validation.go) and run in tests/integration/kueue_api/test_ray_service.py. With KAI every pod of a
second cluster has a scheduling gate of its own, so any strategy is allowed.

The preview does not check this, because stack files contain no Ray objects.
"""

from enum import StrEnum


class Upgrade(StrEnum):
    """What KubeRay does when the spec of a cluster changes. NEW_CLUSTER, the default of RayServices, starts
    a second cluster while the first runs. RECREATE deletes every pod of a RayCluster.
    """

    NONE = "None"
    NEW_CLUSTER = "NewCluster"
    RECREATE = "Recreate"
