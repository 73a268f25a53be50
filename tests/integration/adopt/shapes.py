"""Clusters as people have them who followed a guide: queues in the shapes of published walk-throughs.

RAY_GUIDE      gang scheduling of a RayJob with GKE's queued provisioning: one flavor, one check, 10000 of all
PRIORITIES     two priorities in one queue of strict preemption
TREE           Cohorts in two levels, a lending team without LocalQueues, several namespaces, weights
"""

from typing import Any, Final

Object = dict[str, Any]

BETA1: Final = "kueue.x-k8s.io/v1beta1"
BETA2: Final = "kueue.x-k8s.io/v1beta2"


def _object(kind: str, name: str, *, namespace: str = "", version: str = BETA2, **body: Any) -> Object:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **body}


def _group(flavor: str, **amounts: Any) -> Object:
    named = {"cpu": "cpu", "memory": "memory", "gpu": "nvidia.com/gpu"}
    return {
        "coveredResources": [named[each] for each in amounts],
        "flavors": [
            {
                "name": flavor,
                "resources": [
                    {
                        "name": named[each],
                        **(amount if isinstance(amount, dict) else {"nominalQuota": amount}),
                    }
                    for each, amount in amounts.items()
                ],
            }
        ],
    }


def local_queue(
    name: str, queue: str, *, namespace: str = "default", version: str = BETA2, **spec: Any
) -> Object:
    return _object(
        "LocalQueue", name, namespace=namespace, version=version, spec={"clusterQueue": queue, **spec}
    )


def namespace(name: str) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


_PARAMETERS: Final = {
    "apiGroup": "kueue.x-k8s.io",
    "kind": "ProvisioningRequestConfig",
    "name": "rayjob-gpu-config",
}
RAY_GUIDE: Final[list[Object]] = [
    _object("ResourceFlavor", "default-flavor", version=BETA1),
    _object(
        "ProvisioningRequestConfig",
        "rayjob-gpu-config",
        version=BETA1,
        spec={"provisioningClassName": "queued-provisioning.gke.io", "managedResources": ["nvidia.com/gpu"]},
    ),
    _object(
        "AdmissionCheck",
        "rayjob-gpu",
        version=BETA1,
        spec={"controllerName": "kueue.x-k8s.io/provisioning-request", "parameters": _PARAMETERS},
    ),
    _object(
        "ClusterQueue",
        "cluster-queue",
        version=BETA1,
        spec={
            "namespaceSelector": {},
            "resourceGroups": [_group("default-flavor", cpu=10000, memory="10000Gi", gpu=10000)],
            "admissionChecks": ["rayjob-gpu"],
        },
    ),
    local_queue("user-queue", "cluster-queue", version=BETA1),
]

PRIORITIES: Final[list[Object]] = [
    _object("ResourceFlavor", "default-flavor"),
    _object("WorkloadPriorityClass", "prod-priority", value=1000, description="Priority class for prod jobs"),
    _object(
        "WorkloadPriorityClass", "dev-priority", value=100, description="Priority class for development jobs"
    ),
    _object(
        "ClusterQueue",
        "cluster-queue",
        spec={
            "namespaceSelector": {},
            "preemption": {"withinClusterQueue": "LowerPriority"},
            "resourceGroups": [_group("default-flavor", cpu=2, memory="3G", gpu=2)],
        },
    ),
    local_queue("user-queue", "cluster-queue"),
]

_OWN: Final = {"nominalQuota": 8, "borrowingLimit": 4, "lendingLimit": 2}
TREE: Final[list[Object]] = [
    namespace("vision"),
    namespace("speech"),
    _object(
        "ResourceFlavor",
        "gpu-l4",
        spec={
            "nodeLabels": {"cloud.google.com/gke-accelerator": "nvidia-l4"},
            "nodeTaints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}],
            "tolerations": [{"key": "spot", "value": "yes", "effect": "NoSchedule"}],
        },
    ),
    _object("Cohort", "company", spec={"resourceGroups": [_group("gpu-l4", gpu={"nominalQuota": 4})]}),
    _object("Cohort", "research", spec={"parentName": "company", "fairSharing": {"weight": "3"}}),
    _object(
        "ClusterQueue",
        "vision",
        spec={
            "cohortName": "research",
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "vision"}},
            "queueingStrategy": "StrictFIFO",
            "preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerOrNewerEqualPriority"},
            "flavorFungibility": {"whenCanBorrow": "TryNextFlavor", "whenCanPreempt": "TryNextFlavor"},
            "fairSharing": {"weight": "2"},
            "resourceGroups": [_group("gpu-l4", gpu=_OWN)],
        },
    ),
    _object(
        "ClusterQueue",
        "research",
        spec={
            "cohortName": "research",
            "namespaceSelector": {
                "matchExpressions": [
                    {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["vision", "speech"]}
                ]
            },
            "stopPolicy": "Hold",
            "resourceGroups": [_group("gpu-l4", gpu=4)],
        },
    ),
    # Nobody submits to it: it lends. Its Cohort is nothing but a name.
    _object(
        "ClusterQueue",
        "shared-pool",
        spec={"cohortName": "spare", "resourceGroups": [_group("gpu-l4", gpu=16)]},
    ),
    local_queue("default", "vision", namespace="vision"),
    local_queue("research", "research", namespace="vision"),
    local_queue("research", "research", namespace="speech"),
    local_queue("night", "research", namespace="speech", stopPolicy="Hold"),
]

SHAPES: Final = {"ray-guide": RAY_GUIDE, "priorities": PRIORITIES, "tree": TREE}
