"""Kueue's kinds, each cut to the fields that the gang-admission check reads.

50,000 Workloads are cached, so a field that is not used does not reach memory. The whole pod template
(`WHOLE_WORKLOAD`) is needed once, for a request: pending_workloads.py keeps it or it is read live. Metadata
is muster.controller.kube's; pods, nodes and requests are muster.controller.gangs'.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from msgspec import field

from muster.controller.gangs.objects import Conditioned, PodTemplateSpec, Reported, Toleration
from muster.controller.kube.resource import Object, Partial, Resource
from muster.model.names import ELASTIC_JOB, GROUP, JOB_PARAMETER_PREFIX


class PodSet(Partial, frozen=True):
    name: str = "main"
    count: int = 1
    min_count: int | None = None
    template: PodTemplateSpec = PodTemplateSpec()


class WorkloadSpec(Partial, frozen=True):
    queue_name: str = ""
    pod_sets: tuple[PodSet, ...] = ()
    active: bool = True
    priority: int = 0


class PodSetAssignment(Partial, frozen=True):
    name: str = "main"
    flavors: dict[str, str] = field(default_factory=dict)
    count: int | None = None


class Admission(Partial, frozen=True):
    cluster_queue: str = ""
    pod_set_assignments: tuple[PodSetAssignment, ...] = ()


class PodSetUpdate(Partial, frozen=True):
    name: str
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    node_selector: dict[str, str] = field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()


class CheckState(Partial, frozen=True):
    """One check's answer on a Workload."""

    name: str
    state: str = "Pending"
    message: str = ""
    last_transition_time: datetime | None = None
    pod_set_updates: tuple[PodSetUpdate, ...] = ()


class EvictionCount(Partial, frozen=True):
    count: int = 0


class SchedulingStats(Partial, frozen=True):
    evictions: tuple[EvictionCount, ...] = ()


class ReclaimablePod(Partial, frozen=True):
    """Pods of a PodSet that are done and come back no more."""

    name: str
    count: int = 0


class WorkloadStatus(Conditioned, frozen=True):
    admission: Admission | None = None
    admission_checks: tuple[CheckState, ...] = ()
    scheduling_stats: SchedulingStats | None = None
    reclaimable_pods: tuple[ReclaimablePod, ...] = ()


class Workload(Object, frozen=True):
    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()

    def check_state(self, check: str) -> CheckState | None:
        return next((entry for entry in self.status.admission_checks if entry.name == check), None)


class WholePodSet(Partial, frozen=True):
    name: str = "main"
    template: dict[str, Any] = field(default_factory=dict)


class WholeWorkloadSpec(Partial, frozen=True):
    pod_sets: tuple[WholePodSet, ...] = ()


class WholeWorkload(Object, frozen=True):
    """A Workload with its pod templates untouched. Needed when a request is made, never cached for long."""

    spec: WholeWorkloadSpec = WholeWorkloadSpec()


class CheckParameters(Partial, frozen=True):
    api_group: str = ""
    kind: str = ""
    name: str = ""


class AdmissionCheckSpec(Partial, frozen=True):
    controller_name: str = ""
    parameters: CheckParameters | None = None


class AdmissionCheck(Reported, frozen=True):
    spec: AdmissionCheckSpec = AdmissionCheckSpec()


class FlavorSpec(Partial, frozen=True):
    node_labels: dict[str, str] = field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()


class ResourceFlavor(Object, frozen=True):
    spec: FlavorSpec = FlavorSpec()


class FlavorName(Partial, frozen=True):
    name: str = ""


class ResourceGroup(Partial, frozen=True):
    flavors: tuple[FlavorName, ...] = ()


class ClusterQueueSpec(Partial, frozen=True):
    resource_groups: tuple[ResourceGroup, ...] = ()


class ClusterQueue(Object, frozen=True):
    spec: ClusterQueueSpec = ClusterQueueSpec()


OUR_ANNOTATIONS = (
    f"{GROUP}/",
    JOB_PARAMETER_PREFIX,
    ELASTIC_JOB,
    "kueue.x-k8s.io/workload-slice-",
)

WORKLOAD = Resource(
    *("kueue.x-k8s.io", "v1beta2", "workloads", "Workload", True, Workload),
    annotation_prefixes=OUR_ANNOTATIONS,
    shares=("spec", "status.admission"),
)
WHOLE_WORKLOAD = Resource("kueue.x-k8s.io", "v1beta2", "workloads", "Workload", True, WholeWorkload)
ADMISSION_CHECK = Resource(
    "kueue.x-k8s.io", "v1beta2", "admissionchecks", "AdmissionCheck", False, AdmissionCheck
)
RESOURCE_FLAVOR = Resource(
    "kueue.x-k8s.io", "v1beta2", "resourceflavors", "ResourceFlavor", False, ResourceFlavor
)

CLUSTER_QUEUE = Resource(
    *("kueue.x-k8s.io", "v1beta2", "clusterqueues", "ClusterQueue", False, ClusterQueue),
    annotation_prefixes=(),
)

Flavors = Mapping[str, ResourceFlavor]
