"""ProvisioningRequests, nodes and pods as the autoscaler reads them.

An object that cannot be parsed raises ValueError and is skipped in that decision. Writing is in
actions.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from muster.local.quantities import milli, timestamp
from muster.local.simulated_cloud import names
from muster.local.simulated_cloud.fit import PodShape, pod_shape
from muster.local.simulated_cloud.offering import MOST_NODES, Taint

Raw = Mapping[str, Any]
# More of anything than this would use up the autoscaler's memory.
_MOST_CONDITIONS: Final = 50


@dataclass(frozen=True, slots=True)
class Condition:
    type: str
    status: str
    reason: str
    message: str
    since: float
    generation: int = 0


@dataclass(frozen=True, slots=True)
class PodSet:
    """Pods of one shape; shape is None while the PodTemplate does not exist."""

    template: str
    count: int
    shape: PodShape | None


@dataclass(frozen=True, slots=True)
class Request:
    """A ProvisioningRequest."""

    namespace: str
    name: str
    uid: str
    created: float
    provisioning_class: str
    pod_sets: tuple[PodSet, ...]
    parameters: Mapping[str, str] = field(default_factory=dict)
    conditions: tuple[Condition, ...] = ()
    details: Mapping[str, str] = field(default_factory=dict)
    generation: int = 1
    resource_version: str = ""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    def condition(self, kind: str) -> Condition | None:
        return next((condition for condition in self.conditions if condition.type == kind), None)

    def since(self, kind: str) -> float | None:
        """When the condition became True; None while it is not."""
        condition = self.condition(kind)
        return condition.since if condition is not None and condition.status == "True" else None

    def is_true(self, kind: str) -> bool:
        return self.since(kind) is not None

    @property
    def ended(self) -> bool:
        """Nothing is owed to it any more."""
        return self.is_true("Failed") or self.is_true("CapacityRevoked")

    @property
    def missing_templates(self) -> list[str]:
        return [pod_set.template for pod_set in self.pod_sets if pod_set.shape is None]

    @property
    def demand(self) -> list[tuple[PodShape, int]]:
        """Shapes and how many of each; empty while a template is missing."""
        shapes = [(pod_set.shape, pod_set.count) for pod_set in self.pod_sets if pod_set.shape is not None]
        return shapes if len(shapes) == len(self.pod_sets) else []

    @property
    def asked(self) -> int:
        """Nodes that the cloud was asked for; 0 for nonsense."""
        return min(_number(self.details.get(names.DETAIL_NODES)), MOST_NODES)

    @property
    def promised(self) -> int:
        """Nodes that the cloud has promised to bring at a known time."""
        return self.asked if self.detail_time(names.DETAIL_READY_AT) is not None else 0

    @property
    def delivered(self) -> int:
        return _number(self.details.get(names.DETAIL_DELIVERED))

    @property
    def pool(self) -> str | None:
        return self.details.get(names.NODE_POOL)

    def detail_time(self, key: str) -> float | None:
        try:
            return timestamp(self.details[key])
        except (KeyError, ValueError):
            return None


class VmState(StrEnum):
    """The machine behind a Node object that the autoscaler made."""

    REQUESTED = "requested"  # the Node object exists, the machine does not yet
    RUNNING = "running"
    FAILED = "failed"  # it could not be started
    RELEASING = "releasing"  # on its way out, unless a pod still slips onto it
    REVOKED = "revoked"  # on its way out, pods or not


@dataclass(frozen=True, slots=True)
class Node:
    """A node; `vm` is None for one that this cloud did not make."""

    name: str
    uid: str
    pool: str | None
    vm: VmState | None
    created: float
    owner: str = ""
    owner_uid: str = ""
    lease: str = ""
    ordinal: int = 0
    expires: float | None = None
    unneeded: float | None = None
    consumed: float | None = None
    ready: bool = False
    registered: bool = False
    unschedulable: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    allocatable: Mapping[str, int] = field(default_factory=dict)
    advertised: Mapping[str, int] = field(default_factory=dict)

    @property
    def leaving(self) -> bool:
        return self.vm in (VmState.RELEASING, VmState.REVOKED)


@dataclass(frozen=True, slots=True)
class Pod:
    namespace: str
    name: str
    uid: str
    shape: PodShape
    node: str = ""
    done: bool = False
    stays: bool = True  # False for what dies with its node anyway: DaemonSet and mirror pods
    consumes: str = ""
    unschedulable: float | None = None  # since when the scheduler finds no node for it
    gated: bool = False
    priority: int = 0

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def request(self) -> str:
        return f"{self.namespace}/{self.consumes}" if self.consumes else ""


def parse_request(raw: Raw, templates: Mapping[str, PodShape]) -> Request:
    """`templates` holds the shape of every PodTemplate by namespace/name."""
    meta, spec, status = raw["metadata"], raw["spec"], raw.get("status") or {}
    namespace = str(meta["namespace"])
    pod_sets = []
    for entry in spec["podSets"]:
        template = str((entry.get("podTemplateRef") or {}).get("name") or "")
        pod_sets.append(PodSet(template, int(entry["count"]), templates.get(f"{namespace}/{template}")))
    return Request(
        namespace=namespace,
        name=str(meta["name"]),
        uid=str(meta["uid"]),
        created=timestamp(meta["creationTimestamp"]),
        provisioning_class=str(spec["provisioningClassName"]),
        pod_sets=tuple(pod_sets),
        parameters=_strings(spec.get("parameters")),
        conditions=tuple(_condition(entry) for entry in (status.get("conditions") or ())[:_MOST_CONDITIONS]),
        details=_strings(status.get("provisioningClassDetails")),
        generation=int(meta.get("generation", 0)),
        resource_version=str(meta.get("resourceVersion", "")),
    )


def parse_node(raw: Raw) -> Node:
    meta, spec, status = raw["metadata"], raw.get("spec") or {}, raw.get("status") or {}
    labels, notes = _strings(meta.get("labels")), _strings(meta.get("annotations"))
    ready = any(
        entry.get("type") == "Ready" and entry.get("status") == "True"
        for entry in status.get("conditions") or ()
    )
    return Node(
        name=str(meta["name"]),
        uid=str(meta["uid"]),
        pool=labels.get(names.POOL_LABEL),
        vm=VmState(notes[names.VM]) if names.VM in notes else None,
        created=_time(notes.get(names.CREATED)) or timestamp(meta["creationTimestamp"]),
        owner=notes.get(names.OWNER, ""),
        owner_uid=notes.get(names.OWNER_UID, ""),
        lease=labels.get(names.LEASE_LABEL, ""),
        ordinal=_number(notes.get(names.ORDINAL)),
        expires=_time(notes.get(names.EXPIRES)),
        unneeded=_time(notes.get(names.UNNEEDED)),
        consumed=_time(notes.get(names.CONSUMED)),
        ready=ready,
        registered=bool((status.get("nodeInfo") or {}).get("kubeletVersion")),
        unschedulable=bool(spec.get("unschedulable")),
        labels=labels,
        taints=tuple(
            Taint(str(entry["key"]), str(entry.get("value") or ""), str(entry["effect"]))
            for entry in spec.get("taints") or ()
        ),
        allocatable={str(key): milli(value) for key, value in (status.get("allocatable") or {}).items()},
        advertised={str(key): milli(value) for key, value in (status.get("capacity") or {}).items()},
    )


def parse_pod(raw: Raw) -> Pod:
    meta, spec, status = raw["metadata"], raw.get("spec") or {}, raw.get("status") or {}
    notes = _strings(meta.get("annotations"))
    owners: Sequence[Raw] = meta.get("ownerReferences") or ()
    return Pod(
        namespace=str(meta["namespace"]),
        name=str(meta["name"]),
        uid=str(meta["uid"]),
        shape=pod_shape(spec),
        node=str(spec.get("nodeName") or ""),
        done=status.get("phase") in ("Succeeded", "Failed"),
        stays="kubernetes.io/config.mirror" not in notes
        and not any(o.get("kind") == "DaemonSet" for o in owners),
        consumes=next((notes[key] for key in names.CONSUME_ANNOTATIONS if notes.get(key)), ""),
        unschedulable=_unschedulable(status),
        gated=bool(spec.get("schedulingGates")),
        priority=int(spec.get("priority") or 0),
    )


def _unschedulable(status: Raw) -> float | None:
    for entry in status.get("conditions") or ():
        if (entry.get("type"), entry.get("status"), entry.get("reason")) == (
            "PodScheduled",
            "False",
            "Unschedulable",
        ):
            return _time(entry.get("lastTransitionTime"))
    return None


def _condition(raw: Raw) -> Condition:
    return Condition(
        type=str(raw["type"]),
        status=str(raw["status"]),
        reason=str(raw.get("reason") or ""),
        message=str(raw.get("message") or ""),
        since=timestamp(raw["lastTransitionTime"]),
        generation=int(raw.get("observedGeneration") or 0),
    )


def _strings(raw: Any) -> dict[str, str]:
    return {str(key): str(value) for key, value in raw.items()} if isinstance(raw, Mapping) else {}


def _number(text: str | None) -> int:
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 10 else 0


def _time(text: object) -> float | None:
    try:
        return timestamp(text) if text else None
    except ValueError:
        return None
