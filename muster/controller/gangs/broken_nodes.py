"""Broken nodes: by which signs a node is one, and the taint that closes it.

A node with a sign is not verified and not handed over: decisions see it as not Ready (`NodeSigns.judged`).
That depends on the objects alone, so no crash forgets it. Kueue gives pods selectors and tolerations and no
node, so a broken node with room must be closed as well: by one taint of ours, once the sign has lasted for
`after` on our own clock, on a tenth of a pool at most. Repair is left to whom the messages name.
docs/decisions/032-broken-nodes.md has the reasons.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

import structlog
from msgspec import field
from msgspec.structs import replace

from muster.controller.gangs.indexes import BY_CLOSED, BY_NODE, BY_POOL
from muster.controller.gangs.objects import NODE, Node
from muster.controller.gangs.taints import NodeTaints, closed_for
from muster.controller.gangs.verify import is_usable
from muster.controller.kube.client import Client, Selection
from muster.controller.kube.resource import Key, Object, Partial, Resource
from muster.controller.runtime.clock import utc_now
from muster.controller.runtime.controller import RequeueAfter, Result
from muster.controller.runtime.informer import Informer
from muster.model.gangpolicy import BrokenNodes, FlavorPolicy, GangPolicy, WhileRunning
from muster.model.names import (
    GPU_RESOURCE,
    OWNER_NAMESPACE_ANNOTATION,
    PLACEHOLDER_NAMESPACE,
    POOL_LABEL,
    SET_LABEL,
)
from muster.model.node_labels import repairer
from muster.model.quantities import parse_quantity

LOOK_AGAIN: Final = RequeueAfter(60.0)
"""How often a closed node, and a broken one beyond the bound, is looked at in any case."""
_SHARE: Final = 10
"""Of so many nodes of a pool one may be closed."""
_REJECTED: Final = "UnexpectedAdmissionError"
"""The kubelet's reason where it could not give a pod its device; others may be the pod's own fault.

Source: https://github.com/kubernetes/kubernetes (pkg/kubelet/lifecycle/predicate.go), read 2026-11-29
"""
_WITHIN: Final = timedelta(minutes=5)
"""Rejections so near to each other are of one cause."""
_HOLDS_FOR: Final = timedelta(minutes=30)
"""After its last rejection a black hole is tried again."""


@dataclass(frozen=True, slots=True)
class Sign:
    """Why a node counts as broken, in the words of a message. `since` is only compared: a sign that has gone
    and come back has another one, and whose clock it is from does not matter.
    """

    text: str
    since: datetime | None = None

    @property
    def label(self) -> str:
        """The same as the value of a taint."""
        return re.sub(r"[^A-Za-z0-9]+", "-", self.text)[:63].strip("-")


class Placed(Partial, frozen=True):
    node_name: str = ""


class Rejection(Partial, frozen=True):
    reason: str = ""
    start_time: datetime | None = None


class FailedPod(Object, frozen=True):
    spec: Placed = field(default_factory=Placed)
    status: Rejection = field(default_factory=Rejection)

    @property
    def owner(self) -> tuple[str, str]:
        """Its team's namespace and its job: one team's pods are no proof against a node, because some device
        plugins reject what a pod asks for.
        """
        meta = self.metadata
        if meta.namespace == PLACEHOLDER_NAMESPACE:
            return meta.annotations.get(OWNER_NAMESPACE_ANNOTATION, ""), meta.labels.get(SET_LABEL, "")
        return meta.namespace, next((each.uid for each in meta.owner_references), "")


FAILED_POD: Final = Resource(
    *("", "v1", "pods", "Pod", True, FailedPod),
    annotation_prefixes=(OWNER_NAMESPACE_ANNOTATION,),
    title="failed pods",
)
FAILED: Final = Selection(fields="spec.nodeName!=,status.phase=Failed")


def node_that_rejected(pod: FailedPod) -> list[str]:
    """For an index."""
    return [pod.spec.node_name] if pod.status.reason == _REJECTED else []


class DeviceTaint(Partial, frozen=True):
    key: str = ""
    effect: str = ""
    time_added: datetime | None = None


class Device(Partial, frozen=True):
    node_name: str = ""
    taints: tuple[DeviceTaint, ...] = ()


class DevicesOfNode(Partial, frozen=True):
    node_name: str = ""
    devices: tuple[Device, ...] = ()


class ResourceSlice(Object, frozen=True):
    """What a DRA driver says of its devices: those of one node, unless each names its own. Before Kubernetes
    1.36 their taints are behind the feature gate DRADeviceTaints. The taints that a person sets by a
    DeviceTaintRule are not in it.
    """

    spec: DevicesOfNode = field(default_factory=DevicesOfNode)

    def taints(self) -> Iterator[tuple[str, DeviceTaint]]:
        """With their nodes. Another effect than these, such as None, is information alone."""
        for device in self.spec.devices:
            if node := device.node_name or self.spec.node_name:
                yield from ((node, each) for each in device.taints if each.effect in _EFFECTS)


_EFFECTS: Final = ("NoSchedule", "NoExecute")
RESOURCE_SLICE: Final = Resource(
    *("resource.k8s.io", "v1", "resourceslices", "ResourceSlice", False, ResourceSlice),
    annotation_prefixes=(),
)


def nodes_with_tainted_devices(devices: ResourceSlice) -> list[str]:
    """For an index."""
    return sorted({node for node, _ in devices.taints()})


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSigns:
    """Judges nodes by the policy; without one no node is broken. Both caches have nodes as BY_NODE."""

    policy: Callable[[], GangPolicy | None] = lambda: None
    failed: Informer[FailedPod] | None = None
    slices: Informer[ResourceSlice] | None = None
    clock: Callable[[], datetime] = utc_now

    def of(self, node: Node) -> Sign | None:
        policy = self.policy()
        flavor = policy.flavor(node.metadata.labels.get(POOL_LABEL, "")) if policy else None
        if policy is None or flavor is None:
            return None
        name, words = node.metadata.name, policy.broken_nodes
        pods = self.failed.store.by_index(BY_NODE, name) if self.failed else ()
        slices = self.slices.store.by_index(BY_NODE, name) if self.slices else ()
        return (
            sign(node, words, flavor)
            or device_taint(name, slices, words.device_taints)
            or black_hole(pods, words.rejections, now=self.clock())
        )

    def judged(self, node: Node) -> Node:
        """The node as decisions see it: not Ready while it is broken, else the same object."""
        if self.of(node) is None:
            return node
        conditions = tuple(
            replace(each, status="False") if each.type == "Ready" else each for each in node.status.conditions
        )
        return replace(node, status=replace(node.status, conditions=conditions))

    def is_open(self, node: Node) -> bool:
        """Whether it is broken, and pods with its selector may still go there: it is not closed yet."""
        return not closed_for(node) and self.of(node) is not None

    def evicts(self, nodes: Iterable[Node]) -> dict[str, Sign]:
        """The nodes among these because of which a gang that runs there queues again."""
        policy = self.policy()
        if policy is None or policy.broken_nodes.running is WhileRunning.LEAVE:
            return {}
        return {node.metadata.name: sign for node in nodes if (sign := self.of(node))}


def sign(node: Node, words: BrokenNodes, flavor: FlavorPolicy) -> Sign | None:
    """The first sign on the node itself."""
    for condition in node.status.conditions:
        if f"{condition.type}={condition.status}" in words.conditions:
            text = f"condition {condition.type}={condition.status}"
            return Sign(text, condition.last_transition_time)
    for taint in node.spec.taints:
        if taint.key in words.taints:
            return Sign(f"taint {taint.key}")
    for label in words.labels:
        key, _, value = label.partition("=")
        if node.metadata.labels.get(key) == value:
            return Sign(f"label {label}")
    return _lost_devices(node, flavor.device) if words.lost_devices else None


def device_taint(node: str, slices: Iterable[ResourceSlice], keys: Collection[str]) -> Sign | None:
    """The first of these that a device of the node has."""
    taints = [each for held in slices for on, each in held.taints() if on == node and each.key in keys]
    if not taints:
        return None
    first = min(taints, key=lambda each: (each.key, each.time_added or datetime.min.replace(tzinfo=UTC)))
    return Sign(f"device taint {first.key}", first.time_added)


def is_closed_by(node: Node, keys: Collection[str]) -> bool:
    """Whether a taint of these keeps pods from it already. Ours then only marks it: what tolerates the other
    one, such as a new acceptance test, has to get in.
    """
    return any(each.key in keys and each.effect != "PreferNoSchedule" for each in node.spec.taints)


def _lost_devices(node: Node, device: str) -> Sign | None:
    """Some GPUs are unhealthy. Where all are, a driver or a device plugin may be starting, and no pod with a
    GPU enters.
    """
    written = [str(amounts.get(device, 0)) for amounts in (node.status.capacity, node.status.allocatable)]
    if written[0] == written[1]:
        return None  # Of nearly every node, and each gang has all of a pool judged.
    there, left = map(parse_quantity, written)
    what = "GPUs" if device == GPU_RESOURCE else device
    return Sign(f"{left} of {there} {what} left") if 0 < left < there else None


def black_hole(pods: Iterable[FailedPod], least: int, *, now: datetime) -> Sign | None:
    """Whether pods of `least` jobs were rejected by one node within minutes; 0: never. `pods`: those that
    this node has rejected. Moments that one node wrote are compared with each other alone, so that its clock
    does not matter.
    """
    recent = [(_rejected_at(pod), pod.owner) for pod in pods if _is_recent(pod, now)]
    for last, _ in recent:
        owners = {owner for at, owner in recent if last - _WITHIN <= at <= last}
        if 0 < least <= len(owners) and len({team for team, _ in owners}) > 1:
            return Sign(f"rejected pods of {least} jobs")
    return None


def _is_recent(pod: FailedPod, now: datetime) -> bool:
    """By the API server's creation, or by the node's own word where that is later and not ahead of us."""
    return now - max(_created(pod), min(_rejected_at(pod), now)) < _HOLDS_FOR


def _rejected_at(pod: FailedPod) -> datetime:
    return pod.status.start_time or _created(pod)


def _created(pod: FailedPod) -> datetime:
    return pod.metadata.creation_timestamp or datetime.min.replace(tzinfo=UTC)


def format_closed(nodes: Iterable[Node]) -> str:
    """For the check of a waiting gang: which nodes of its pools are closed, and why. Empty without any."""
    closed = sorted((each.metadata.name, closed_for(each), repairer(each.metadata.labels)) for each in nodes)
    if not closed:
        return ""
    name, why, who = closed[0]
    others = f" and {len(closed) - 1} more" if closed[1:] else ""
    return f"node {name} is set aside ({why}; {who}){others}"


class BrokenNodeReconciler:
    """Closes and opens nodes. One worker only: the bound is counted in the cache, which has our own writes.

    The clock of a sign is ours and in memory: a new leader waits anew. A node that others have cordoned is
    left to them. What the cache shows is looked at once more in the API before a node is closed, so that none
    is by a cache that an outage has kept from following; each failure to do so begins the wait again.
    """

    def __init__(
        self,
        client: Client,
        nodes: Informer[Node],
        signs: NodeSigns,
        taints: NodeTaints,
        *,
        monotonic: Callable[[], float],
    ) -> None:
        self._client, self._nodes, self._signs, self._taints = client, nodes, signs, taints
        self._monotonic = monotonic
        self._seen: dict[str, tuple[Sign | None, float]] = {}
        self.beyond_bound: set[str] = set()
        self._log = structlog.get_logger("brokennodes")

    async def reconcile(self, key: Key) -> Result:
        node, policy = self._nodes.get(key), self._signs.policy()
        found = self._signs.of(node) if node else None
        self.beyond_bound.discard(key.name)
        if node is None or policy is None or not _is_due_a_change(node, found):
            self._seen.pop(key.name, None)
            # No change of the node ends a black hole.
            return LOOK_AGAIN if node and closed_for(node) else None
        seen, since = self._seen.get(key.name, (None, None))
        if since is None or seen != found:
            since = self._monotonic()
            self._seen[key.name] = found, since
        left = since + policy.broken_nodes.after.total_seconds() - self._monotonic()
        if left > 0:
            return RequeueAfter(left)
        if found is not None and not self._is_within_bound(node, policy.broken_nodes.most):
            self.beyond_bound.add(key.name)
            return LOOK_AGAIN
        del self._seen[key.name]  # Whatever happens now, the next wait begins anew.
        if found is None:
            await self._taints.release(key.name, held_as=closed_for(node))
        elif self._signs.of(await self._client.get(NODE, key)) == found:
            effect = "PreferNoSchedule" if is_closed_by(node, policy.broken_nodes.taints) else "NoSchedule"
            await self._taints.hold(key.name, held_as=found.label, effect=effect)
            self._log.warning(
                "set aside", node=key.name, sign=found.text, repair=repairer(node.metadata.labels)
            )
        else:
            return RequeueAfter(policy.broken_nodes.after.total_seconds())
        return None

    def _is_within_bound(self, node: Node, most: int) -> bool:
        pool = node.metadata.labels.get(POOL_LABEL, "")
        closed, size = self._nodes.store.counts(BY_CLOSED), len(self._nodes.store.by_index(BY_POOL, pool))
        return sum(closed.values()) < most and closed.get(pool, 0) < max(1, size // _SHARE)


def _is_due_a_change(node: Node, found: Sign | None) -> bool:
    """It is closed and has no sign, or has one and could take pods."""
    return found is None if closed_for(node) else found is not None and is_usable(node)
