"""`muster:kueue`, the settings of Kueue for the whole stack, and what its flavors are made of:
ResourceFlavor, Topology and the checks of a flavor.

Covers which nodes a flavor selects and how close they are: the settings of a pool's flavor that do not follow
from the pool, and flavors without a pool.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any, ClassVar, Final

from muster.model.keys import ANY_INTEGER, Parent, Seconds, declared
from muster.model.section import Section, describe_value

# AdmissionCheck and ProvisioningRequestConfig: the checks between quota reservation and admission.
#
# Covers checks of other controllers, and Kueue's own provisioning check where a stack uses it
# (`gangAdmission: builtin`). The settings of Muster's own check are in GangPolicy.

# Kueue's own figure; it counts retries, after which the workload is deactivated.
RETRIES: Final = 3
_MERGE: Final = "Which PodSets become one PodSet of the request."
_SELECTOR: Final = "Node label: the detail of the finished request that pods are pinned to."


class PodSetMerge(StrEnum):
    """Which PodSets Kueue puts into one of a request. A PodSet that was merged away gets no consume
    annotation (kueue pull request 14408, open with 0.19.2).
    """

    IDENTICAL_TEMPLATES = "IdenticalPodTemplates"
    IDENTICAL_REQUIREMENTS = "IdenticalWorkloadSchedulingRequirements"


@dataclass(frozen=True, slots=True, kw_only=True)
class Provisioning:
    """Kueue's own check for a queued pool. `node_selector` None is what the class needs (GKE's pins pods to
    their lease).
    """

    check: str | None = declared(
        "The name of Kueue's own check.",
        None,
        default_text="from the provisioning class",
        example="rayjob-gpu",
    )
    config: str | None = declared(
        "The name of its ProvisioningRequestConfig.",
        None,
        default_text="from the provisioning class",
        example="rayjob-gpu-config",
    )
    retries: int = declared("Retries before Kueue deactivates the work.", RETRIES, maximum=1000)
    merge: PodSetMerge | None = declared(_MERGE, None, key="podSetMergePolicy", default_text="none")
    node_selector: Mapping[str, str] | None = declared(
        _SELECTOR,
        None,
        default_text="what the provisioning class needs",
        example={"example.com/slice": "SliceName"},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestConfig:
    """A ProvisioningRequestConfig that no queued pool brings. What is None or empty is left to Kueue."""

    PARENTS: ClassVar = {"retryStrategy": Parent("How failed requests are repeated.", "Kueue's own")}

    name: str
    provisioning_class: str = declared(
        "The class of its requests.",
        key="provisioningClassName",
        example="check-capacity.autoscaling.x-k8s.io",
    )
    parameters: Mapping[str, str] = declared(
        "Parameters of its requests.", {}, default_text="none", example={"maxRunDurationSeconds": "3600"}
    )
    managed_resources: tuple[str, ...] = declared(
        "Only pods that ask for one of these wait.", (), default_text="all", example=["nvidia.com/gpu"]
    )
    retries: int | None = declared(
        "Retries before Kueue deactivates the work.", None, key="retryStrategy.backoffLimitCount", example=3
    )
    base: int | None = declared(
        "Seconds before the first retry.", None, key="retryStrategy.backoffBaseSeconds", example=60
    )
    most: int | None = declared(
        "Maximum seconds between two retries.", None, key="retryStrategy.backoffMaxSeconds", example=1800
    )
    merge: PodSetMerge | None = declared(_MERGE, None, key="podSetMergePolicy", default_text="none")
    node_selector: Mapping[str, str] = declared(
        _SELECTOR, {}, default_text="none", example={"example.com/slice": "SliceName"}
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """The object that a check's controller reads."""

    api_group: str = declared("Its API group.", example="example.com")
    kind: str = declared("Its kind.", example="Budget")
    name: str = declared("Its name.", example="gpus")


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionCheck:
    """A check that another controller answers."""

    name: str
    controller_name: str = declared("The controller that answers the check.", example="example.com/budget")
    parameters: Parameters | None = declared("The object that the controller reads.", None)


# A label selector, as Kubernetes spells it (meta/v1 LabelSelector).


class SelectorOperator(StrEnum):
    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expression:
    """Only In and NotIn have `values`."""

    key: str = declared("The label.", example="team")
    operator: SelectorOperator = declared("How it is compared.")
    values: tuple[str, ...] = declared(
        "The values, for In and NotIn.", (), example=["vision", "speech"], is_sparse=True
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Selector:
    """Both parts have to hold."""

    match_labels: Mapping[str, str] = declared(
        "Labels with their values.", {}, example={"team": "vision"}, is_sparse=True
    )
    match_expressions: tuple[Expression, ...] = declared(
        "Expressions that all have to hold.",
        (),
        example=[{"key": "team", "operator": "In", "values": ["vision", "speech"]}],
        is_sparse=True,
    )


class Effect(StrEnum):
    """What a taint does to a pod that does not tolerate it."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


class Operator(StrEnum):
    """How a toleration matches a taint: by its value, or by any value."""

    EQUAL = "Equal"
    EXISTS = "Exists"


@dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    """A taint of a flavor's nodes: pods that do not tolerate it are not given the flavor."""

    key: str = declared("The key of the taint.", example="example.com/dedicated")
    value: str = declared(
        "The value of the taint.", "", default_text="none", example="research", is_sparse=True
    )
    effect: Effect = declared("What it does to pods that do not tolerate it.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Toleration:
    """`seconds` belong to NoExecute; without a key it tolerates all."""

    key: str = declared("The key of the taint.", "", default_text="any", example="example.com/dedicated")
    operator: Operator = declared("How the value is compared.", Operator.EQUAL)
    value: str = declared("The value of the taint.", "", default_text="none", example="research")
    effect: Effect | None = declared("The effect of the taint.", None, default_text="any")
    seconds: int | None = declared(
        "How long it tolerates NoExecute.", None, default_text="forever", example=300, **ANY_INTEGER
    )


# Flavors of pools and others have these alike.
_LABELS: Final[dict[str, Any]] = {
    "description": "Further labels that its nodes have.",
    "default": {},
    "default_text": "none",
    "example": {"site": "lab"},
}
_TAINTS: Final[dict[str, Any]] = {
    "description": "Further taints that its nodes have.",
    "default": (),
    "default_text": "none",
    "example": [{"key": "example.com/dedicated", "effect": "NoSchedule"}],
}
_TOLERATIONS: Final[dict[str, Any]] = {
    "description": "Further tolerations of the pods that get it.",
    "default": (),
    "default_text": "none",
    "example": [{"key": "example.com/dedicated", "operator": "Exists"}],
}
_TOPOLOGY: Final[dict[str, Any]] = {
    "description": "One of `muster:kueue.topologies`.",
    "default": None,
    "default_text": "none",
    "example": "racks",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Flavor:
    """A ResourceFlavor without a pool: licences, or nodes that Muster does not make."""

    name: str
    node_labels: Mapping[str, str] = declared(**_LABELS)
    node_taints: tuple[Taint, ...] = declared(**_TAINTS)
    tolerations: tuple[Toleration, ...] = declared(**_TOLERATIONS)
    topology: str | None = declared(**_TOPOLOGY)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolOptions:
    """A pool's `kueue:` section. Without `exact`, labels, taints and tolerations come on top of the pool's
    own label and GPU taint.
    """

    flavor: str | None = declared(
        "The name of the ResourceFlavor.", None, default_text="the pool's name", example="default-flavor"
    )
    exact: bool = declared(
        "Whether the flavor has these labels, taints and tolerations alone, without the pool's label and the "
        "GPU taint; for `provider: existing` without Muster's gang admission.",
        False,
    )
    node_labels: Mapping[str, str] = declared(**_LABELS)
    node_taints: tuple[Taint, ...] = declared(**_TAINTS)
    tolerations: tuple[Toleration, ...] = declared(**_TOLERATIONS)
    topology: str | None = declared(**_TOPOLOGY)
    provisioning: Provisioning = declared("Kueue's own check, with `gangAdmission: builtin`.", Provisioning())


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """Node labels from the widest level (a block, a rack) to the narrowest."""

    name: str
    levels: tuple[str, ...]


UNCOUNTED: Final = "uncounted"
"""In place of a resource: devices of the class need no quota."""
_MOST_WEIGHT: Final = 1_000_000


class Strategy(StrEnum):
    """When fair sharing may preempt (apis/config/v1beta2, FairSharing)."""

    FINAL = "LessThanOrEqualToFinalShare"
    INITIAL = "LessThanInitialShare"


def _read_weights(section: Section, key: str) -> Mapping[str, int]:
    """In thousandths."""
    entries, weights = section.section(key), {}
    for name, value in entries.items():
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _MOST_WEIGHT:
            weights[name] = round(value * 1000)
        else:
            message = f"must be a weight, is {describe_value(value)}."
            entries.note(name, message, "write a number from 0, such as 0.5.")
    return MappingProxyType(weights)


def _read_strategies(section: Section, key: str) -> tuple[Strategy, ...]:
    """Kueue accepts one of the two, or both in this order."""
    words, both = section.words(key), tuple(Strategy)
    if words and words not in (both, *((each,) for each in both)):
        fix = f"write [{', '.join(both)}] or one of the two."
        section.note(key, f"is [{', '.join(words)}], which Kueue does not support.", fix)
        return both
    return tuple(Strategy(word) for word in words) or both


def _read_topologies(section: Section, key: str) -> tuple[Topology, ...]:
    entries = section.section(key)
    return tuple(Topology(name=name, levels=entries.words(name)) for name in entries.names())


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageSharing:
    """In queues of admission mode UsageBased. Durations in seconds; weights in thousandths."""

    half_life: Seconds = declared(
        "After this time past use counts half.", Seconds(168 * 3600), key="usageHalfLifeTime"
    )
    sampling: Seconds = declared("How often use is sampled.", Seconds(300), key="usageSamplingInterval")
    weights: Mapping[str, int] = declared(
        "Resource: how much it counts.",
        {},
        key="resourceWeights",
        default_text="1 for each",
        example={"nvidia.com/gpu": 1, "cpu": 0.1},
        read=_read_weights,
        schema={
            "type": ["object", "null"],
            "additionalProperties": {"type": "number", "minimum": 0, "maximum": _MOST_WEIGHT},
        },
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class KueueOptions:
    """`device_classes`: a class -> a resource, or UNCOUNTED. Kueue admits no work that claims devices of
    another class.
    """

    PARENTS: ClassVar = {"fairSharing": Parent("How fair sharing preempts, where any `weight` is set.")}
    REFUSED: ClassVar = {
        "multiKueue": (
            "is not supported: Muster does not send work to other clusters.",
            "remove it; a stack is one cluster, and its queues are for work that runs there.",
        )
    }

    install: bool = declared("Whether Muster installs Kueue; false where the cluster has it.", True)
    topologies: tuple[Topology, ...] = declared(
        "Name: node labels, from the widest level to the narrowest.",
        (),
        default_text="none",
        example={"racks": ["cloud.example.com/block", "kubernetes.io/hostname"]},
        read=_read_topologies,
        schema={
            "type": ["object", "null"],
            "additionalProperties": {"type": "array", "items": {"type": "string"}},
        },
    )
    flavors: tuple[Flavor, ...] = declared(
        "ResourceFlavors without a pool, by name.",
        (),
        default_text="none",
        example={"on-premises": {"nodeLabels": {"site": "lab"}}},
    )
    admission_checks: tuple[AdmissionCheck, ...] = declared(
        "Checks of other controllers, by name.",
        (),
        default_text="none",
        example={"budget": {"controllerName": "example.com/budget"}},
    )
    request_configs: tuple[RequestConfig, ...] = declared(
        "ProvisioningRequestConfigs that no queued pool brings, by name.",
        (),
        key="provisioningRequestConfigs",
        default_text="none",
        example={"flex": {"provisioningClassName": "queued-provisioning.gke.io"}},
    )
    strategies: tuple[Strategy, ...] = declared(
        "When fair sharing may preempt.",
        tuple(Strategy),
        key="fairSharing.preemptionStrategies",
        read=_read_strategies,
        uniqueItems=True,
    )
    usage_sharing: UsageSharing | None = declared(
        "How past use counts.", None, key="admissionFairSharing", default_text="it does not"
    )
    exclude_resources: tuple[str, ...] = declared(
        "Prefixes of resources that no queue counts.",
        (),
        key="excludeResourcePrefixes",
        default_text="none",
        example=["example.com/"],
    )
    device_classes: Mapping[str, str] = declared(
        "DeviceClass: the resource of which a claimed device takes quota, or `uncounted`.",
        {},
        default_text="none, and no work with resourceClaims is admitted",
        example={"compute-domain-default-channel.nvidia.com": UNCOUNTED},
    )

    @property
    def has_uncounted_devices(self) -> bool:
        return UNCOUNTED in self.device_classes.values()
