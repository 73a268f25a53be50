"""AdmissionCheck and ProvisioningRequestConfig: the checks between quota reservation and admission.

Covers checks of other controllers, and Kueue's own provisioning check where a stack uses it
(`gangAdmission: builtin`). The settings of Muster's own check are in GangPolicy.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Final

from muster.model.keys import Parent, declared

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
