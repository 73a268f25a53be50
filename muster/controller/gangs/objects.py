"""Kinds that every gang uses, each cut to the fields that are read.

Whole clusters of pods, nodes and requests are cached, so a field that is not used does not reach memory.
Metadata is muster.controller.kube's; a scheduler's kinds are its own room's.
"""

from datetime import datetime
from typing import Any

from msgspec import field

from muster.controller.kube.resource import Object, Partial, Resource
from muster.model.names import (
    GANG_POLICY_KIND,
    GANG_POLICY_PLURAL,
    GROUP,
    PLACED_ANNOTATION,
    POD_WORKLOAD_ANNOTATION,
    QUEUE_TREE_KIND,
    QUEUE_TREE_PLURAL,
    VERSION,
)

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
        # Called dozens of times in one reconcile: a generator would take most of its time.
        for condition in self.conditions:
            if condition.type == kind:
                return condition
        return None

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


class ContainerPort(Partial, frozen=True):
    host_port: int = 0


class Container(Partial, frozen=True):
    resources: ResourceNeeds = ResourceNeeds()
    restart_policy: str = ""
    ports: tuple[ContainerPort, ...] = ()


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


class LabelSelector(Partial, frozen=True):
    match_labels: dict[str, str] = field(default_factory=dict)
    match_expressions: tuple[Requirement, ...] = ()


class PodAffinityTerm(Partial, frozen=True):
    topology_key: str = ""
    label_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class PodAffinity(Partial, frozen=True):
    """Of either kind: near to other pods, or apart from them."""

    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()


class Affinity(Partial, frozen=True):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(Partial, frozen=True):
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    max_skew: int = 1
    min_domains: int = 1

    @property
    def is_required(self) -> bool:
        return self.when_unsatisfiable != "ScheduleAnyway"


class PodResourceClaim(Partial, frozen=True):
    name: str = ""
    resource_claim_template_name: str = ""


class VolumeClaim(Partial, frozen=True):
    claim_name: str = ""


class Volume(Partial, frozen=True):
    persistent_volume_claim: VolumeClaim | None = None
    ephemeral: Partial | None = None
    """A claim of the pod's own, made with it. One that the pods share is attached to a node once."""


class PodSpec(Partial, frozen=True):
    node_name: str = ""
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    resources: ResourceNeeds = ResourceNeeds()
    """Of the pod as a whole, beside those of its containers."""
    overhead: Quantities = field(default_factory=dict)
    node_selector: dict[str, str] = field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()
    affinity: Affinity | None = None
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()
    host_network: bool = False
    runtime_class_name: str = ""
    volumes: tuple[Volume, ...] = ()

    @property
    def required_terms(self) -> tuple[NodeSelectorTerm, ...]:
        """What its node affinity requires of nodes: one of these, or nothing."""
        affinity = self.affinity.node_affinity if self.affinity else None
        required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
        return required.node_selector_terms if required else ()


class PodTemplateSpec(Partial, frozen=True):
    spec: PodSpec = PodSpec()


class PodStatus(Partial, frozen=True):
    phase: str = ""

    @property
    def has_ended(self) -> bool:
        """Its containers have, for good: it holds no node any more."""
        return self.phase in ("Succeeded", "Failed")


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
    capacity: Quantities = field(default_factory=dict)


class Node(Object, frozen=True):
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    def taint_value(self, key: str) -> str:
        """The value of its taint with this key; empty where it has none."""
        return next((taint.value for taint in self.spec.taints if taint.key == key), "")


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

    @property
    def idle_until(self) -> datetime | None:
        """Until when a cloud leaves nodes that were idle before it had them; None of those made for it."""
        return None


class PodTemplate(Object, frozen=True):
    """Only its metadata matters to us once it is written."""


class PlaceholderStatus(PodStatus, frozen=True):
    reason: str = ""
    """Why it has ended, such as `TopologyAffinityError`."""
    conditions: tuple[Condition, ...] = ()


class Placeholder(Pod, frozen=True):
    """A pod of ours that keeps a node for one of a gang's."""

    status: PlaceholderStatus = PlaceholderStatus()


Belonging = ProvisioningRequest | PodTemplate | Placeholder
"""What we write for a gang."""


class Reported(Object, frozen=True):
    """An object on which we set a condition."""

    status: Conditioned = Conditioned()


class GangPolicyObject(Reported, frozen=True):
    """The policy as it lies in the cluster, not yet read: `muster.model.gangpolicy.from_spec` judges it."""

    spec: dict[str, Any] = field(default_factory=dict)


class QueueTreeObject(Object, frozen=True):
    """The queues that the program wrote, not yet parsed: `muster.model.queuetree.from_spec` does."""

    spec: dict[str, Any] = field(default_factory=dict)


POD_ANNOTATIONS = ("autoscaling.x-k8s.io/", PLACED_ANNOTATION, POD_WORKLOAD_ANNOTATION)

PROVISIONING_REQUEST = Resource(
    "autoscaling.x-k8s.io", "v1", "provisioningrequests", "ProvisioningRequest", True, ProvisioningRequest
)
POD_TEMPLATE = Resource(
    "", "v1", "podtemplates", "PodTemplate", True, PodTemplate, annotation_prefixes=(f"{GROUP}/",)
)
NODE = Resource(
    *("", "v1", "nodes", "Node", False, Node),
    annotation_prefixes=(),
    shares=("spec", "status.allocatable", "status.capacity"),
)
POD = Resource("", "v1", "pods", "Pod", True, Pod, annotation_prefixes=POD_ANNOTATIONS)
PLACEHOLDER = Resource(
    *("", "v1", "pods", "Pod", True, Placeholder), annotation_prefixes=(f"{GROUP}/",), title="placeholders"
)
QUEUE_TREE = Resource(GROUP, VERSION, QUEUE_TREE_PLURAL, QUEUE_TREE_KIND, False, QueueTreeObject)
GANG_POLICY = Resource(GROUP, VERSION, GANG_POLICY_PLURAL, GANG_POLICY_KIND, False, GangPolicyObject)
