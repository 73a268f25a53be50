"""The stack's QueueTree: the queues as the webhooks need them, derived from the rendered queue objects.

Responsible for the upper bound of GPUs that a queue can hold: its own and what it may borrow, or all of its
tree's where borrowing has no limit. Lending limits are not subtracted: a bound that is too high lets a gang
wait, and one that is too low would refuse a gang that could run.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import Any, Final

from muster.model.names import GPU_RESOURCE
from muster.model.quantities import parse_quantity
from muster.model.queuetree import ANY_POOL, Queue, QueueTree, Space, to_manifest
from muster.model.ray import RayAuth
from muster.model.stack import Scheduler, Stack
from muster.render import kai, queues
from muster.render.manifest import Manifest
from muster.render.tenancy.namespaces import priorities_of

Most = Mapping[str, Mapping[str, int]]


def tree(stack: Stack) -> Manifest:
    """The QueueTree object."""
    return to_manifest(queue_tree(stack))


def queue_tree(stack: Stack) -> QueueTree:
    is_kai = stack.scheduler is Scheduler.KAI
    by_team: dict[str, list[Manifest]] = {}
    for teams in queues.by_department(stack).values():
        for name, objects in teams.items():
            by_team.setdefault(name, []).extend(objects)
    everything = [each for objects in by_team.values() for each in objects]
    most = (
        _kai(everything) if is_kai else _kueue(everything, {pool.flavor: pool.name for pool in stack.pools})
    )
    leaves = kai.leaf_queues(stack) if is_kai else {}
    spaces = {}
    for _, team in stack.teams():
        named = _sharded(stack, leaves[team.name], most) if is_kai else _local(by_team[team.name], most)
        spaces[team.namespace] = Space(
            team=team.name,
            queues=tuple(named),
            priorities=priorities_of(stack, team),
            default_priority=team.access.default_priority or _default(stack, priorities_of(stack, team)),
        )
    return QueueTree(
        kai=is_kai,
        gated=stack.is_gated,
        guarded=stack.ray.auth is RayAuth.TOKEN,
        spaces=spaces,
    )


def _default(stack: Stack, allowed: tuple[str, ...]) -> str | None:
    """The stack's default, for the teams that may use it."""
    default = stack.tenancy.default_priority
    return default if default in allowed else None


def _sharded(stack: Stack, leaves: Mapping[str | None, str], most: Most) -> list[Queue]:
    """KAI's leaves of a team: one, or one of each pool."""
    gpus = {pool.name: pool.slots_per_node for pool in stack.pools}
    return [
        Queue(name=name, pool=pool or "", gpus=gpus[pool] if pool else 0, most=most.get(name, {}))
        for pool, name in leaves.items()
    ]


def _local(objects: Iterable[Manifest], most: Most) -> list[Queue]:
    """LocalQueues, with what their ClusterQueues hold."""
    return [
        Queue(name=each["metadata"]["name"], most=most.get(each["spec"]["clusterQueue"], {}))
        for each in objects
        if each["kind"] == "LocalQueue"
    ]


_COHORT: Final = "Cohort/"
_QUEUE: Final = "ClusterQueue/"
_HOLDING: Final = ("Cohort", "ClusterQueue")


@dataclass(slots=True)
class _Holder:
    """A ClusterQueue or Cohort: its parent, and by flavor what it has and may borrow (None: no limit)."""

    parent: str | None
    own: dict[str, int] = field(default_factory=dict)
    borrow: dict[str, int | None] = field(default_factory=dict)


def _kueue(objects: Iterable[Manifest], pools: Mapping[str, str]) -> Most:
    """ClusterQueue -> pool -> most GPUs. `pools`: flavor -> pool, where a flavor is one's."""
    holders = {_key(each): _holder(each, pools) for each in objects if each["kind"] in _HOLDING}
    whole: dict[str, dict[str, int]] = {}
    for name, holder in holders.items():
        root = whole.setdefault(_root(name, holders), {})
        for flavor, count in holder.own.items():
            root[flavor] = root.get(flavor, 0) + count
    found: dict[str, dict[str, int]] = {}
    for name, holder in holders.items():
        root = whole[_root(name, holders)]
        for flavor, own in holder.own.items():
            limit = holder.borrow[flavor]
            most = root[flavor] if limit is None else min(root[flavor], own + limit)
            found.setdefault(name.removeprefix(_QUEUE), {})[flavor] = max(own, most)
    return found


def _key(body: Manifest) -> str:
    return f"{body['kind']}/{body['metadata']['name']}"


def _holder(body: Manifest, pools: Mapping[str, str]) -> _Holder:
    spec = body["spec"]
    parent = spec.get("cohortName") or spec.get("parentName")
    holder = _Holder(f"{_COHORT}{parent}" if parent else None)
    for group in spec.get("resourceGroups", ()):
        for flavor in group["flavors"]:
            for resource in flavor["resources"]:
                if resource["name"] == GPU_RESOURCE:
                    pool = pools.get(flavor["name"], flavor["name"])
                    holder.own[pool] = _count(resource["nominalQuota"])
                    limit = resource.get("borrowingLimit")
                    alone = holder.parent is None
                    holder.borrow[pool] = 0 if alone else None if limit is None else _count(limit)
    return holder


def _root(name: str, holders: Mapping[str, _Holder]) -> str:
    while (parent := holders[name].parent) is not None and parent in holders:
        name = parent
    return name


def _count(quantity: Any) -> int:
    return ceil(parse_quantity(str(quantity)))


def _kai(objects: Iterable[Manifest]) -> Most:
    """Queue -> most GPUs over all pools: the least limit from it to the top; nothing where there is none."""
    specs = {each["metadata"]["name"]: each["spec"] for each in objects if each["kind"] == "Queue"}
    found: dict[str, dict[str, int]] = {}
    for name in specs:
        limits, at = [], name
        while at in specs:
            limit = specs[at].get("resources", {}).get("gpu", {}).get("limit")
            if limit is not None and limit >= 0:
                limits.append(ceil(limit))
            at = specs[at].get("parentQueue", "")
        found[name] = {ANY_POOL: min(limits)} if limits else {}
    return found
