"""The actions of a decision, and what they write. Each is idempotent: done twice, it changes nothing more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from muster.local.quantities import rfc3339, rfc3339_micro
from muster.local.simulated_cloud import names
from muster.local.simulated_cloud.objects import Condition, Request, VmState
from muster.local.simulated_cloud.offering import Kind, Pool


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


def node(action: CreateNode, pool: Pool) -> dict[str, Any]:
    """The Node object of a machine from the moment it is provisioned.

    The kubelet of a real node finds it and adopts it, so labels and taints are
    right before anything can be scheduled. A kwok node brings its own capacity.
    """
    fake = pool.kind is Kind.KWOK
    notes = {
        names.VM: VmState.RUNNING if fake else VmState.REQUESTED,
        names.CREATED: rfc3339_micro(action.created),
        names.ORDINAL: str(action.ordinal),
    }
    if action.owner_uid:
        notes |= {names.OWNER: action.owner, names.OWNER_UID: action.owner_uid}
    if action.expires is not None:
        notes[names.EXPIRES] = rfc3339_micro(action.expires)
    if fake:
        notes[names.KWOK_ANNOTATION] = "fake"
    body: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": action.name, "labels": node_labels(action, pool), "annotations": notes},
        "spec": {"taints": [{"key": t.key, "value": t.value, "effect": t.effect} for t in pool.taints]},
    }
    if fake:
        amounts = {"cpu": pool.cpu, "memory": pool.memory, "pods": str(pool.pods)}
        amounts |= {names.GPU: str(pool.gpus)} if pool.gpus else {}
        body["status"] = {"capacity": amounts, "allocatable": amounts}
    return body


def node_labels(action: CreateNode, pool: Pool) -> dict[str, str]:
    labels = {**pool.labels, "kubernetes.io/hostname": action.name}
    labels |= {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    return labels | ({names.LEASE_LABEL: action.lease} if action.lease else {})


def status(action: SetStatus) -> dict[str, Any]:
    """A merge patch of the status subresource that only fits the version that was judged."""
    return {
        "metadata": {"resourceVersion": action.request.resource_version, "uid": action.request.uid},
        "status": {
            "conditions": [
                {
                    "type": condition.type,
                    "status": condition.status,
                    "reason": condition.reason,
                    "message": condition.message[:32768],
                    "lastTransitionTime": rfc3339(condition.since),
                    "observedGeneration": condition.generation,
                }
                for condition in action.conditions
            ],
            # null removes a key in a merge patch; what is not named would stay.
            "provisioningClassDetails": {
                **dict.fromkeys(action.request.details, None),
                **action.details,
            },
        },
    }
