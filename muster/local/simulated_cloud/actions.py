"""The actions of a decision. Each is idempotent: done twice, it changes nothing the second time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from muster.local.simulated_cloud.objects import Condition, Request


@dataclass(frozen=True, slots=True)
class RecordHit:
    """Remember in the fault itself that it has hit this request, before the hit shows."""

    fault: str
    uid: str


@dataclass(frozen=True, slots=True)
class SetStatus:
    """Replace the request's conditions and details, if it is still the version that was judged."""

    request: Request
    conditions: tuple[Condition, ...]
    details: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class DeleteRequest:
    request: Request


@dataclass(frozen=True, slots=True)
class CreateNode:
    """Write the Node object of a provisioned machine; `owner` is None for an on-demand node."""

    name: str
    pool: str
    owner: str = ""
    owner_uid: str = ""
    lease: str = ""
    ordinal: int = 0
    created: float = 0.0
    expires: float | None = None


@dataclass(frozen=True, slots=True)
class StartVm:
    """Start the machine of a real pool's node."""

    node: str


@dataclass(frozen=True, slots=True)
class NoteNode:
    """Set annotations of a node; None removes one."""

    node: str
    notes: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AdvertiseGpus:
    """Stand in for a device plugin that has not spoken."""

    node: str
    count: int


@dataclass(frozen=True, slots=True)
class SetStock:
    """Write what Karpenter's cloud has."""

    data: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ReleaseNode:
    """Cordon, stop the machine, delete the Node object. With `force` whatever still runs there."""

    node: str
    uid: str
    force: bool
    why: str


Action = (
    RecordHit
    | SetStatus
    | DeleteRequest
    | CreateNode
    | StartVm
    | NoteNode
    | AdvertiseGpus
    | SetStock
    | ReleaseNode
)
