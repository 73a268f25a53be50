"""`muster:kueue`: the settings of Kueue for the whole stack."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import ClassVar, Final

from muster.model.keys import Parent, Seconds, declared
from muster.model.kueue.flavor import AdmissionCheck, Flavor, RequestConfig, Topology
from muster.model.section import Section, describe_value

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
