"""AdmissionCheck and ProvisioningRequestConfig: the checks between quota reservation and admission.

Covers checks of other controllers, and Kueue's own provisioning check where a stack uses it
(`gangAdmission: builtin`). The settings of Muster's own check are in GangPolicy.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final

# Kueue's own figure; it counts retries, after which the workload is deactivated.
RETRIES: Final = 3


class PodSetMerge(StrEnum):
    """Which PodSets Kueue puts into one of a request. A PodSet that was merged away gets no consume
    annotation (kueue pull request 14408, open with 0.19.2).
    """

    IDENTICAL_TEMPLATES = "IdenticalPodTemplates"
    IDENTICAL_REQUIREMENTS = "IdenticalWorkloadSchedulingRequirements"


@dataclass(frozen=True, slots=True, kw_only=True)
class Provisioning:
    """Kueue's own check for a queued pool: the names of its two objects, and their settings.

    Names are those of the provisioning class when None. `node_selector` maps node labels to the details of a
    finished request; None is what the class needs (GKE's pins pods to their lease).
    """

    check: str | None = None
    config: str | None = None
    retries: int = RETRIES
    merge: PodSetMerge | None = field(default=None, metadata={"key": "podSetMergePolicy"})
    node_selector: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestConfig:
    """A ProvisioningRequestConfig that no queued pool brings. What is None or empty is left to Kueue.

    `retries`, `base` and `most` are the fields of its retry strategy, in seconds. `node_selector` maps node
    labels to the details of a finished request.
    """

    name: str
    provisioning_class: str = field(metadata={"key": "provisioningClassName"})
    parameters: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    managed_resources: tuple[str, ...] = ()
    retries: int | None = None
    base: int | None = None
    most: int | None = None
    merge: PodSetMerge | None = None
    node_selector: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """The object that a check's controller reads."""

    api_group: str
    kind: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionCheck:
    """A check that another controller answers."""

    name: str
    controller_name: str
    parameters: Parameters | None = None
