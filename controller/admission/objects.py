"""The kinds that the gang-admission check reads, each cut to the fields that it uses.

Decides which fields of foreign objects reach our memory: 50,000 Workloads are cached, so nothing is kept
for later. The whole pod template, which a request needs once, is read live (`WHOLE_WORKLOAD`). Leaves
metadata to controller.kube.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from msgspec import field

from controller.kube.resource import Object, Partial, Resource
from model.names import GANG_POLICY_KIND, GANG_POLICY_PLURAL, GROUP, VERSION

Quantities = dict[str, str | int | float]
"""A resource list as JSON has it: a quantity is a string, and a number where a careless writer left one."""


class Condition(Partial, frozen=True):
    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None
    observed_generation: int = 0


class Conditioned(Partial, frozen=True):
    """Anything with conditions."""

    conditions: tuple[Condition, ...] = ()

    def condition(self, kind: str) -> Condition | None:
        return next((condition for condition in self.conditions if condition.type == kind), None)

    def holds(self, kind: str) -> bool:
        condition = self.condition(kind)
        return condition is not None and condition.status == "True"

    def since(self, kind: str) -> datetime | None:
        """When the condition became true; None while it is not."""
        condition = self.condition(kind)
        return condition.last_transition_time if condition and condition.status == "True" else None


# Pods


class Toleration(Partial, frozen=True):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class ResourceNeeds(Partial, frozen=True):
    requests: Quantities = field(default_factory=dict)
    limits: Quantities = field(default_factory=dict)


class Container(Partial, frozen=True):
    resources: ResourceNeeds = ResourceNeeds()
    restart_policy: str = ""


class Requirement(Partial, frozen=True):
    """A node selector requirement: `key operator values`."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class NodeSelectorTerm(Partial, frozen=True):
    match_expressions: tuple[Requirement, ...] = ()
    match_fields: tuple[Requirement, ...] = ()


class NodeSelector(Partial, frozen=True):
    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class NodeAffinity(Partial, frozen=True):
    required_during_scheduling_ignored_during_execution: NodeSelector | None = None


class Affinity(Partial, frozen=True):
    node_affinity: NodeAffinity | None = None


class PodSpec(Partial, frozen=True):
    node_name: str = ""
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    overhead: Quantities = field(default_factory=dict)
    node_selector: dict[str, str] = field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()
    affinity: Affinity | None = None


class PodStatus(Partial, frozen=True):
    phase: str = ""


class Pod(Object, frozen=True):
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


# Nodes


class Taint(Partial, frozen=True):
    key: str
    effect: str
    value: str = ""


class NodeSpec(Partial, frozen=True):
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class NodeStatus(Conditioned, frozen=True):
    allocatable: Quantities = field(default_factory=dict)


class Node(Object, frozen=True):
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


# Kueue


class PodTemplateSpec(Partial, frozen=True):
    spec: PodSpec = PodSpec()


class PodSet(Partial, frozen=True):
    name: str = "main"
    count: int = 1
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


class CheckEntry(Partial, frozen=True):
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


class WorkloadStatus(Conditioned, frozen=True):
    admission: Admission | None = None
    admission_checks: tuple[CheckEntry, ...] = ()
    scheduling_stats: SchedulingStats | None = None


class Workload(Object, frozen=True):
    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()

    def entry(self, check: str) -> CheckEntry | None:
        return next((entry for entry in self.status.admission_checks if entry.name == check), None)


class WholePodSet(Partial, frozen=True):
    name: str = "main"
    template: dict[str, Any] = field(default_factory=dict)


class WholeWorkloadSpec(Partial, frozen=True):
    pod_sets: tuple[WholePodSet, ...] = ()


class WholeWorkload(Object, frozen=True):
    """A Workload with its pod templates untouched. Read when a request is made, never cached."""

    spec: WholeWorkloadSpec = WholeWorkloadSpec()


class CheckParameters(Partial, frozen=True):
    api_group: str = ""
    kind: str = ""
    name: str = ""


class AdmissionCheckSpec(Partial, frozen=True):
    controller_name: str = ""
    parameters: CheckParameters | None = None


class AdmissionCheck(Object, frozen=True):
    spec: AdmissionCheckSpec = AdmissionCheckSpec()
    status: Conditioned = Conditioned()


class FlavorSpec(Partial, frozen=True):
    node_labels: dict[str, str] = field(default_factory=dict)
    node_taints: tuple[Taint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    topology_name: str = ""


class ResourceFlavor(Object, frozen=True):
    spec: FlavorSpec = FlavorSpec()


# Capacity


class TemplateReference(Partial, frozen=True):
    name: str = ""


class RequestedPodSet(Partial, frozen=True):
    pod_template_ref: TemplateReference = TemplateReference()
    count: int = 0


class ProvisioningRequestSpec(Partial, frozen=True):
    pod_sets: tuple[RequestedPodSet, ...] = ()
    provisioning_class_name: str = ""
    parameters: dict[str, str] = field(default_factory=dict)


class ProvisioningRequestStatus(Conditioned, frozen=True):
    provisioning_class_details: dict[str, str] = field(default_factory=dict)


class ProvisioningRequest(Object, frozen=True):
    spec: ProvisioningRequestSpec = ProvisioningRequestSpec()
    status: ProvisioningRequestStatus = ProvisioningRequestStatus()


class PodTemplate(Object, frozen=True):
    """Only its metadata matters to us once it is written."""


Belonging = ProvisioningRequest | PodTemplate
"""What we write for a Workload."""


class GangPolicyObject(Object, frozen=True):
    """The policy as it lies in the cluster, not yet read: `model.gangpolicy.from_spec` judges it."""

    spec: dict[str, Any] = field(default_factory=dict)
    status: Conditioned = Conditioned()


OUR_ANNOTATIONS = (f"{GROUP}/", "provreq.kueue.x-k8s.io/")
POD_ANNOTATIONS = ("autoscaling.x-k8s.io/",)

WORKLOAD = Resource(
    "kueue.x-k8s.io", "v1beta2", "workloads", "Workload", True, Workload, annotation_prefixes=OUR_ANNOTATIONS
)
WHOLE_WORKLOAD = Resource("kueue.x-k8s.io", "v1beta2", "workloads", "Workload", True, WholeWorkload)
ADMISSION_CHECK = Resource(
    "kueue.x-k8s.io", "v1beta2", "admissionchecks", "AdmissionCheck", False, AdmissionCheck
)
RESOURCE_FLAVOR = Resource(
    "kueue.x-k8s.io", "v1beta2", "resourceflavors", "ResourceFlavor", False, ResourceFlavor
)
PROVISIONING_REQUEST = Resource(
    "autoscaling.x-k8s.io", "v1", "provisioningrequests", "ProvisioningRequest", True, ProvisioningRequest
)
POD_TEMPLATE = Resource(
    "", "v1", "podtemplates", "PodTemplate", True, PodTemplate, annotation_prefixes=(f"{GROUP}/",)
)
NODE = Resource("", "v1", "nodes", "Node", False, Node, annotation_prefixes=())
POD = Resource("", "v1", "pods", "Pod", True, Pod, annotation_prefixes=POD_ANNOTATIONS)
GANG_POLICY = Resource(GROUP, VERSION, GANG_POLICY_PLURAL, GANG_POLICY_KIND, False, GangPolicyObject)

Flavors = Mapping[str, ResourceFlavor]
