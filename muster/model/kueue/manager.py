"""`muster:kueue`: the settings of Kueue for the whole stack."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from muster.model.kueue.checks import AdmissionCheck, RequestConfig
from muster.model.kueue.flavor import Flavor, Topology

UNCOUNTED: Final = "uncounted"
"""In place of a resource: devices of the class need no quota."""


class Strategy(StrEnum):
    """When fair sharing may preempt (apis/config/v1beta2, FairSharing)."""

    FINAL = "LessThanOrEqualToFinalShare"
    INITIAL = "LessThanInitialShare"


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageSharing:
    """How usage of the past counts in queues of admission mode UsageBased. Durations in seconds; weights in
    thousandths, 1000 for a resource that is not named.
    """

    half_life: int = 168 * 3600
    sampling: int = 300
    weights: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True, kw_only=True)
class KueueOptions:
    """`exclude_resources` are prefixes of resource names that no queue counts. `device_classes`: DeviceClass
    of Dynamic Resource Allocation -> the resource of which a claimed device takes quota, or UNCOUNTED. Kueue
    admits no work that claims devices of another class. `install` false: the cluster has its own Kueue,
    which is neither installed nor changed.
    """

    install: bool = True
    topologies: tuple[Topology, ...] = ()
    flavors: tuple[Flavor, ...] = ()
    admission_checks: tuple[AdmissionCheck, ...] = ()
    request_configs: tuple[RequestConfig, ...] = field(
        default=(), metadata={"key": "provisioningRequestConfigs"}
    )
    strategies: tuple[Strategy, ...] = field(default=tuple(Strategy), metadata={"key": "fairSharing"})
    usage_sharing: UsageSharing | None = field(default=None, metadata={"key": "admissionFairSharing"})
    exclude_resources: tuple[str, ...] = field(default=(), metadata={"key": "excludeResourcePrefixes"})
    device_classes: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def has_uncounted_devices(self) -> bool:
        return UNCOUNTED in self.device_classes.values()
