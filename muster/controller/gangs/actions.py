"""Actions on requests, placeholders and Events that both schedulers share.

Each action is one write, is safe to repeat, and names its object so exactly that a stale decision changes
nothing else. Each scheduler adds the actions on its own objects.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, Literal

from muster.controller.gangs.capacity_claims import CapacityClaim
from muster.controller.gangs.objects import Belonging, Placeholder, PodTemplate, ProvisioningRequest
from muster.controller.gangs.placeholder_sets import PlaceholderSet
from muster.controller.gangs.split import RequestSpec
from muster.controller.gangs.vacated_leases import TakenLease

Kind = Literal["ProvisioningRequest", "PodTemplate", "Pod"]
_KINDS: Final[Mapping[type[Belonging], Kind]] = {
    ProvisioningRequest: "ProvisioningRequest",
    PodTemplate: "PodTemplate",
    Placeholder: "Pod",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTemplates:
    """Write the PodTemplates of a request, one a PodSet. They come first: autoscalers fail requests
    without.
    """

    request: str
    spec: RequestSpec
    labels: Mapping[str, str]
    notes: Mapping[str, str] = field(default_factory=dict)
    """Annotations; those of a lease that is taken, where no request follows."""
    tries_pods: bool = False
    """The first write of an attempt: before it the API server judges a pod of each template of the gang."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateRequest:
    name: str
    spec: RequestSpec
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateSet(CreateRequest):
    """Write the pods of a placeholder set, those that are not there."""

    image: str
    max_lifetime: timedelta
    """After this time no deadline of the attempt still runs: they end by themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldNode:
    """Set the taint of a placeholder set on a node that has pods of it."""

    node: str
    held_as: str
    attempt: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePlaceholders:
    """Write the placeholders of a finished request, one for each pod that will come; some may be there."""

    request: str
    spec: RequestSpec
    capacity_claims: tuple[CapacityClaim, ...]
    """One for each PodSet of the request, in its order."""
    labels: Mapping[str, str]
    image: str
    max_lifetime: timedelta
    """After this time no gang can still wait for the rest: they end by themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """Delete exactly this object, by uid; it may be gone already."""

    kind: Kind
    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EmitEvent:
    """An Event on the gang's object and on the job that owns it."""

    kind: Literal["Normal", "Warning"]
    reason: str
    message: str


def deletions(
    requests: Iterable[ProvisioningRequest],
    templates: Iterable[PodTemplate],
    placeholders: Iterable[Placeholder] = (),
) -> tuple[Delete, ...]:
    """Requests before templates: an autoscaler must not meet a request whose template is gone. A placeholder
    set is its pods and templates, a lease that was taken its templates.
    """
    kept = (each for each in requests if not isinstance(each, PlaceholderSet | TakenLease))
    items: tuple[Belonging, ...] = (*placeholders, *kept, *templates)
    return tuple(delete(item) for item in items if not item.metadata.deletion_timestamp)


def delete(item: Belonging) -> Delete:
    """The deletion of exactly this object."""
    meta = item.metadata
    return Delete(kind=_KINDS[type(item)], namespace=meta.namespace, name=meta.name, uid=meta.uid)
