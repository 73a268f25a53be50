"""The kinds that KAI gangs are read from, each cut to the fields that are used.

Units of a Queue's spec are KAI's own (gpu devices, cpu millicores, memory in megabytes of 10^6 bytes); its
status holds Kubernetes quantities (https://github.com/NVIDIA/KAI-Scheduler, docs/queues and
pkg/queuecontroller).
"""

from datetime import datetime
from typing import Any, ClassVar, Final

from msgspec import field

from muster.controller.gangs.objects import Pod, PodSpec, PodStatus, Quantities
from muster.controller.kube.resource import Key, Object, Partial, Resource
from muster.model.names import (
    GPU_FRACTION,
    GPU_MEMORY,
    GROUP,
    JOB_PARAMETER_PREFIX,
    KAI_BATCH_MINIMUM,
    KAI_REQUIRED_PLACEMENT,
    UNDISTURBED,
)
from muster.model.work import GATED, WorkKind


class Gate(Partial, frozen=True):
    name: str


class GatedSpec(PodSpec, frozen=True):
    scheduling_gates: tuple[Gate, ...] = ()
    priority_class_name: str = ""


class GatedStatus(PodStatus, frozen=True):
    start_time: datetime | None = None


class GatedPod(Pod, frozen=True):
    """A pod that may be gated, or has been."""

    spec: GatedSpec = GatedSpec()
    status: GatedStatus = GatedStatus()


class WholePod(Object, frozen=True):
    """A pod with its spec untouched. Read when a request is made, never cached."""

    spec: dict[str, Any] = field(default_factory=dict)


class WorkerGroup(Partial, frozen=True):
    group_name: str = ""
    replicas: int | None = None
    min_replicas: int | None = None
    num_of_hosts: int = 1
    suspend: bool = False


class RayClusterSpec(Partial, frozen=True):
    suspend: bool = False
    worker_group_specs: tuple[WorkerGroup, ...] = ()


class RayCluster(Object, frozen=True):
    spec: RayClusterSpec = RayClusterSpec()


class CountedWork(Object, frozen=True):
    """Work beside Ray clusters, whose pods the row of its kind counts (muster/model/work.py)."""

    kind: ClassVar[WorkKind]

    spec: dict[str, Any] = field(default_factory=dict)
    status: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> Key:
        """Of its gang: objects of several kinds may have one name, and none has a slash."""
        return gang_key(self.metadata.namespace, self.kind.kind, self.metadata.name)


GangOwner = RayCluster | CountedWork
"""What KAI makes one group of pods of."""


def gang_key(namespace: str, kind: str, name: str) -> Key:
    return Key(namespace, f"{kind}/{name}")


def _work(kind: WorkKind) -> type[CountedWork]:
    class Kind(CountedWork, frozen=True):
        pass

    Kind.kind = kind
    return Kind


class Share(Partial, frozen=True):
    """What a queue has of one resource. -1 is no bound; a field left out counts as 0 to KAI."""

    quota: float = 0
    limit: float = 0


class Shares(Partial, frozen=True):
    gpu: Share = Share()
    cpu: Share = Share()
    memory: Share = Share()


class QueueSpec(Partial, frozen=True):
    parent_queue: str = ""
    resources: Shares = Shares()
    preempt_min_runtime: str = ""
    reclaim_min_runtime: str = ""


class QueueStatus(Partial, frozen=True):
    """`requested` is left out on purpose: it counts our own gated pods."""

    allocated: Quantities = field(default_factory=dict)
    allocated_non_preemptible: Quantities = field(default_factory=dict)


class Queue(Object, frozen=True):
    spec: QueueSpec = QueueSpec()
    status: QueueStatus = QueueStatus()


class PriorityClass(Object, frozen=True):
    value: int = 0
    global_default: bool = False


REQUIRED_PLACEMENT = KAI_REQUIRED_PLACEMENT
POD_ANNOTATIONS = (
    f"{GROUP}/",
    "autoscaling.x-k8s.io/",
    GPU_FRACTION,
    GPU_MEMORY,
    REQUIRED_PLACEMENT,
)

GATED_POD = Resource("", "v1", "pods", "Pod", True, GatedPod, annotation_prefixes=POD_ANNOTATIONS)
WHOLE_POD = Resource("", "v1", "pods", "Pod", True, WholePod, annotation_prefixes=tuple(UNDISTURBED))
RAY_CLUSTER = Resource(
    "ray.io",
    "v1",
    "rayclusters",
    "RayCluster",
    True,
    RayCluster,
    annotation_prefixes=(f"{GROUP}/", JOB_PARAMETER_PREFIX, REQUIRED_PLACEMENT),
)
COUNTED_WORK: Final = {
    each.kind: Resource(
        each.group,
        each.version,
        each.resource,
        each.kind,
        True,
        _work(each),
        annotation_prefixes=(f"{GROUP}/", JOB_PARAMETER_PREFIX, REQUIRED_PLACEMENT, KAI_BATCH_MINIMUM),
    )
    for each in GATED
}
QUEUE = Resource("scheduling.run.ai", "v2", "queues", "Queue", False, Queue, annotation_prefixes=())
PRIORITY_CLASS = Resource(
    "scheduling.k8s.io",
    "v1",
    "priorityclasses",
    "PriorityClass",
    False,
    PriorityClass,
    annotation_prefixes=(),
)
