"""What an object asks for at a time, and which pools could give it.

The sizes are those of the GangPolicy, and the bounds those of the QueueTree, which the webhooks read in the
cluster.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil
from typing import Final

import msgspec

from muster.check.admission import Admission
from muster.check.definitions import containers
from muster.check.manifests import Json, resource_of
from muster.controller.gangs.limits import is_part_of_slice, too_many_nodes
from muster.controller.gangs.node_choice import NodeChoice
from muster.controller.kueue.default_queue import mapping
from muster.controller.kueue.jobs import KINDS, JobPodSet, pod_sets_of
from muster.controller.kueue.limits import lacks_copies, lacks_memory, nodes_for, too_large_on, with_parts
from muster.model import names
from muster.model.gangpolicy import FlavorPolicy, GangPolicy
from muster.model.pods import Amounts, add, describe
from muster.model.pools import Pool
from muster.model.quantities import many
from muster.model.queuetree import ANY_POOL, Queue
from muster.model.quotas import is_unlimited
from muster.model.work import BY_KIND
from muster.render.tenancy.team import DEFAULT_REQUEST

# None: without a bound.
Bounds = Mapping[str, Fraction | None]
_KINDS: Final = {kind.__name__: kind for kind in KINDS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A pool for one group of pods. `nodes` is what it needs of the pool, 0 where that is unknown. `reason`
    is why the pool cannot give it, empty where it can.
    """

    pool: str
    nodes: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """One group of pods that start together, and every pool of the stack. `claims`: of volumes."""

    name: str
    pods: int
    each: Amounts
    places: tuple[Place, ...]
    claims: tuple[str, ...] = ()

    @property
    def total(self) -> Amounts:
        return {name: amount * self.pods for name, amount in self.each.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What an object could ask for in place of what it asks for: `workers` times as many pods with devices,
    which is rounded up, or nodes of another pool for them.
    """

    workers: Fraction = Fraction(1)
    pool: str = ""

    def of(self, pod_set: JobPodSet) -> JobPodSet:
        if not any(pod_set.amounts.get(device) for device in names.DEVICE_RESOURCES):
            return pod_set
        found = replace(pod_set, count=ceil(pod_set.count * self.workers))
        if not self.pool:
            return found
        nodes = NodeChoice({names.POOL_LABEL: self.pool})
        return replace(found, pool=self.pool, nodes=nodes, tolerated=frozenset(names.DEVICE_RESOURCES))


def demands(admission: Admission, body: Json, change: Change | None = None) -> tuple[Demand, ...]:
    """The groups of pods of an object, as its queue counts them; empty for what is no work or unreadable.
    `change`: as if it asked for something else.
    """
    queue = _queue(admission, body)
    try:
        found = [with_parts(each, admission.policy, queue) for each in _pod_sets(body)]
    except (ValueError, msgspec.MsgspecError):
        return ()
    if change is not None:
        found = [change.of(each) for each in found]
    return tuple(
        Demand(
            name=each.name,
            pods=each.count,
            each=each.amounts,
            places=tuple(
                _place(each, flavor, queue, admission.policy) for flavor in admission.policy.flavors
            ),
            claims=each.claims,
        )
        for each in found
    )


def volume_faults(admission: Admission, found: Sequence[Demand]) -> Iterator[str]:
    """The volumes of the team that one node mounts at a time, and pods on several do."""
    for volume in admission.access.volumes:
        users = [each for each in found if volume.name in each.claims and each.pods]
        nodes = sum(min((place.nodes for place in each.places if place.nodes), default=1) for each in users)
        if nodes > 1 and not volume.shared:
            yield (
                f"claim {volume.name} is mounted on one node at a time (`shared: false`), and its pods take "
                f"{nodes}: the others would hold their nodes and wait; mount it in one pod, or have it shared"
            )


def gang(found: Sequence[Demand]) -> Amounts:
    """What all groups ask for at a time."""
    total: dict[str, Fraction] = {}
    for demand in found:
        add(total, demand.total)
    return total


def queue_name(admission: Admission, body: Json) -> str:
    label = names.KAI_QUEUE_LABEL if admission.tree.kai else names.QUEUE_LABEL
    way = ("spec", "jobTemplate") if body["kind"] == "CronJob" else ()
    return str(mapping(body, *way, "metadata", "labels").get(label) or "")


def priority_name(admission: Admission, body: Json) -> str:
    label = names.KAI_PRIORITY_LABEL if admission.tree.kai else names.PRIORITY_LABEL
    return str(mapping(body, "metadata", "labels").get(label) or "")


def bounds(admission: Admission, body: Json) -> dict[str, Bounds]:
    """What the queue of an object can hold at a time, by pool; empty where that is unknown."""
    queue = _queue(admission, body)
    if queue is None:
        return {}
    pools = {pool.name: pool for pool in admission.stack.pools}
    return {
        name: dict.fromkeys(held) if _is_unlimited(pools.get(name), held) else held
        for name, held in queue.groups[0].items()
    }


def _is_unlimited(pool: Pool | None, held: Amounts) -> bool:
    """Whether the figures are those that stand for a quota without a bound."""
    if pool is None:
        return False
    amount = held.get(pool.device, 0) if pool.is_gpu else held.get("cpu", 0) * 1000
    return is_unlimited(pool, int(amount))


def _queue(admission: Admission, body: Json) -> Queue | None:
    try:
        return admission.space.queue(queue_name(admission, body))
    except (KeyError, TypeError, AttributeError):
        return None


def _pod_sets(body: Json) -> list[JobPodSet]:
    kind = _KINDS.get(body["kind"])
    if kind is None or BY_KIND[body["kind"]].group != resource_of(body)[0]:
        return []
    counted = json.loads(json.dumps(body))
    for container in containers(counted):
        _default_requests(container)
    return list(pod_sets_of(msgspec.json.decode(json.dumps(counted).encode(), type=kind)))


def _default_requests(container: Json) -> None:
    """As the namespace's LimitRange does, for what the container neither requests nor limits."""
    resources = container["resources"] = container.get("resources") or {}
    if not isinstance(resources, dict):
        return
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    if isinstance(requests, dict) and isinstance(limits, dict):
        missing = {name: amount for name, amount in DEFAULT_REQUEST.items() if name not in limits}
        resources["requests"] = {**missing, **requests}


def _place(pod_set: JobPodSet, flavor: FlavorPolicy, queue: Queue | None, policy: GangPolicy) -> Place:
    reason = next(_reasons(pod_set, flavor, queue, policy), "")
    return Place(pool=flavor.name, nodes=0 if reason else nodes_for(pod_set, flavor), reason=reason)


def _reasons(
    pod_set: JobPodSet, flavor: FlavorPolicy, queue: Queue | None, policy: GangPolicy
) -> Iterator[str]:
    """Why a pool cannot take all pods of a group, the plainest reason first."""
    if pod_set.pool not in ("", flavor.name):
        yield f"its node selector names pool {pod_set.pool}"
    elif not pod_set.nodes.leaves(flavor, policy):
        yield f"it selects nodes with {pod_set.nodes.misses([flavor], policy)}"
    if queue is not None and queue.pool not in ("", flavor.name):
        yield f"queue {queue.name} is of pool {queue.pool}"
    for resource, noun in names.DEVICES.items():
        if pod_set.amounts.get(resource) and not flavor.node.get(resource):
            yield f"no node of it has {'an' if noun[0] in 'A' else 'a'} {noun}"
    if flavor.gpu_taint and flavor.device not in pod_set.tolerated:
        yield f"it does not tolerate the taint {flavor.device}"
    if lacks_memory(pod_set, flavor):
        yield f"one pod asks for {pod_set.notes[names.GPU_MEMORY]} MiB of a GPU, one has {flavor.gpu_memory}"
    if above := too_large_on(flavor, pod_set):
        size = describe({name: flavor.node[name] for name in above})
        yield f"one pod asks for {describe(above)}, a node has {size}"
    needed = nodes_for(pod_set, flavor)
    if too_many_nodes(needed, flavor):
        apart = f", one for each pod by its {pod_set.apart}" if pod_set.apart else ""
        yield f"it needs {many(needed, 'node')}{apart}, the pool has at most {flavor.max_nodes}"
    if lacking := lacks_copies(pod_set, flavor):
        yield f"its placeholders do not copy {' and '.join(lacking)}"
    if is_part_of_slice(pod_set.count, pod_set.amounts, flavor):
        yield f"a slice of it is {flavor.slice_nodes} nodes, which one group takes whole"
    yield from _quota(pod_set, flavor, queue)


def _quota(pod_set: JobPodSet, flavor: FlavorPolicy, queue: Queue | None) -> Iterator[str]:
    group = queue.groups[0] if queue is not None else {}
    if queue is None or not group or ANY_POOL in group:
        return
    if flavor.name not in group:
        yield f"queue {queue.name} has no quota of it"
        return
    held = group[flavor.name]
    whole = {name: amount * pod_set.count for name, amount in pod_set.amounts.items() if name in held}
    above = {name: amount for name, amount in whole.items() if amount > held[name]}
    if above:
        most = describe({name: held[name] for name in above})
        yield f"it asks for {describe(above)}, queue {queue.name} can hold {most} of it"
