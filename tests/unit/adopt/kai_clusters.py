"""Clusters that run KAI, as people have them who followed its documentation."""

from collections.abc import Iterable
from typing import Any, Final

from muster.adopt.cluster import LiveCluster
from muster.model.names import KAI_QUEUE_API_VERSION, KAI_SHARD_API_VERSION, KAI_TOPOLOGY_API_VERSION
from muster.model.programs import Program
from muster.model.stack import Scheduler
from tests.unit.adopt.clusters import Object, by_kind

UNLIMITED: Final = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
PROGRAM: Final[Object] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {
        "name": "kai-operator",
        "namespace": "kai-scheduler",
        "labels": {"app": "kai-operator", "app.kubernetes.io/version": "v0.17.0"},
    },
    "spec": {
        "selector": {"matchLabels": {"app": "kai-operator"}},
        "template": {
            "metadata": {"labels": {"app": "kai-operator"}},
            "spec": {"containers": [{"name": "operator", "image": "example.com/operator:v0.17.0"}]},
        },
    },
}


def queue(name: str, parent: str = "", *, spec: Object | None = None, **resources: Object) -> Object:
    """Resources that are not given are unlimited."""
    figures = {key: resources.get(key, UNLIMITED) for key in ("cpu", "gpu", "memory")}
    above = {"parentQueue": parent} if parent else {}
    return {
        "apiVersion": KAI_QUEUE_API_VERSION,
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {**above, "resources": figures, **(spec or {})},
    }


def shard(name: str = "default", **spec: Any) -> Object:
    return {
        "apiVersion": KAI_SHARD_API_VERSION,
        "kind": "SchedulingShard",
        "metadata": {"name": name},
        "spec": spec,
    }


def priority(name: str, value: int, **more: Any) -> Object:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        "preemptionPolicy": "PreemptLowerPriority",
        **more,
    }


def node(name: str, *, accelerator: str = "", gpus: int = 0) -> Object:
    room = {"cpu": "8", "memory": "32Gi"} | ({"nvidia.com/gpu": str(gpus)} if gpus else {})
    labels = {"cloud.google.com/gke-accelerator": accelerator} if accelerator else {}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"capacity": room, "allocatable": room},
    }


_NO_QUOTA: Final[dict[str, Any]] = {
    key: {"quota": 0, "limit": -1, "overQuotaWeight": 1} for key in ("cpu", "gpu", "memory")
}
# The quickstart's and the documentation's department, a deeper tree, a Queue by itself, and settings of each.
GUIDE: Final[list[Object]] = [
    shard(),
    queue("department-1"),
    queue("team-a", "department-1"),
    queue("default-parent-queue", **_NO_QUOTA),
    queue("default-queue", "default-parent-queue", **_NO_QUOTA),
]
DEEP: Final[list[Object]] = [
    shard(
        placementStrategy={"gpu": "spread", "cpu": "binpack"},
        minRuntime={"preemptMinRuntime": "5m", "reclaimMinRuntime": "10m"},
        kValue=0.5,
        plugins={"proportion": {"arguments": {"reclaimerUtilizationMultiplier": "1.2"}}},
    ),
    {
        "apiVersion": KAI_TOPOLOGY_API_VERSION,
        "kind": "Topology",
        "metadata": {"name": "racks"},
        "spec": {"levels": [{"nodeLabel": "example.com/rack"}, {"nodeLabel": "kubernetes.io/hostname"}]},
    },
    priority("train", 50, description="Training that may be preempted"),
    priority("build", 101),
    queue("company", gpu={"quota": 16, "limit": 16, "overQuotaWeight": 0}),
    queue(
        "research",
        "company",
        spec={"displayName": "Research", "priority": 120},
        gpu={"quota": 10.5, "limit": 16, "overQuotaWeight": 2},
    ),
    queue(
        "team.vision",
        "research",
        spec={"preemptMinRuntime": "1h30m", "reclaimMinRuntime": "45s"},
        cpu={"quota": 12500, "limit": 64000, "overQuotaWeight": 1},
        gpu={"quota": 0.7, "limit": 2.5, "overQuotaWeight": 3},
        memory={"quota": 16500, "limit": 512000},
    ),
    queue("speech", "research", gpu={"quota": 8, "limit": -1, "overQuotaWeight": 1}),
    queue("sandbox", "company", gpu={"quota": 0, "limit": 4, "overQuotaWeight": 1}),
    queue("by-itself", gpu={"limit": 2}),
]
TREES: Final = {"guide": GUIDE, "deep": DEEP}


def kai_cluster(objects: Iterable[Object], *, kueue: Iterable[Object] = ()) -> LiveCluster:
    """As `fetch_cluster` reads it from a server. `kueue`: Kueue's objects."""
    found, others = by_kind(objects), by_kind(kueue)
    nodes = found.pop("Node", ())
    return LiveCluster(
        objects={Scheduler.KUEUE: others, Scheduler.KAI: found},
        nodes=nodes,
        programs={Program.KUEUE if others else Program.KAI: (PROGRAM,)},
    )
