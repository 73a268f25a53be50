"""The stack's QueueTree: the queues as the webhooks need them, derived from the rendered queue objects.

Responsible for the upper bounds of what a queue can hold: its own and what it may borrow, or all of its
tree's where borrowing has no limit. Lending limits are not subtracted: a bound that is too high lets a gang
wait, and one that is too low would refuse a gang that could run.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil
from typing import Final

from muster.model.names import GPU_RESOURCE, UNCOUNTED_DEVICES
from muster.model.quantities import Quantity, parse_quantity
from muster.model.queuetree import ANY_POOL, Limits, Queue, QueueTree, Space, to_manifest
from muster.model.stack import Scheduler, Stack
from muster.render import kai, queues
from muster.render.manifest import Manifest
from muster.render.tenancy.namespaces import priorities_of

_NONE: Final = Fraction(0)
# KAI counts thousandths of a CPU and millions of bytes.
_KAI_UNITS: Final = {"gpu": Fraction(1), "cpu": Fraction(1, 1000), "memory": Fraction(10**6)}
# Every resource begins with it.
_EVERYTHING: Final = ""


@dataclass(frozen=True, slots=True)
class _Bounds:
    """Of one queue, as in `Queue`."""

    most: Mapping[str, int] = field(default_factory=dict)
    limits: tuple[Limits, ...] = ()


_UNBOUND: Final = _Bounds()


def tree(stack: Stack) -> Manifest:
    """The QueueTree object."""
    return to_manifest(queue_tree(stack))


def queue_tree(stack: Stack) -> QueueTree:
    found = spaces_by_team(stack)
    return QueueTree(
        kai=stack.scheduler is Scheduler.KAI,
        gated=stack.is_gated,
        guarded=stack.ray.is_guarded,
        uncounted=_uncounted(stack),
        spaces={name: found[team.name] for _, team in stack.teams() for name in team.namespaces},
    )


def spaces_by_team(stack: Stack) -> dict[str, Space]:
    """team -> its own namespace, as the webhooks know it."""
    is_kai = stack.scheduler is Scheduler.KAI
    by_team: dict[str, list[Manifest]] = {}
    for teams in queues.by_department(stack).values():
        for name, objects in teams.items():
            by_team.setdefault(name, []).extend(objects)
    everything = [each for objects in by_team.values() for each in objects]
    bounds = (
        _kai(everything) if is_kai else _kueue(everything, {pool.flavor: pool.name for pool in stack.pools})
    )
    leaves = kai.leaf_queues(stack) if is_kai else {}
    spaces = {}
    for _, team in stack.teams():
        objects = by_team[team.name]
        named = (
            _sharded(stack, leaves[team.name], bounds) if is_kai else _local(team.namespace, objects, bounds)
        )
        spaces[team.name] = Space(
            team=team.name,
            queues=tuple(named),
            priorities=priorities_of(stack, team),
            default_priority=team.access.default_priority or _default(stack, priorities_of(stack, team)),
        )
    return spaces


def _uncounted(stack: Stack) -> tuple[str, ...]:
    """A Kueue that Muster does not install has a configuration of its own."""
    return stack.uncounted_resources if stack.kueue.install else (_EVERYTHING,)


def _default(stack: Stack, allowed: tuple[str, ...]) -> str | None:
    """The stack's default, for the teams that may use it."""
    default = stack.tenancy.default_priority
    return default if default in allowed else None


def _sharded(stack: Stack, leaves: Mapping[str | None, str], bounds: Mapping[str, _Bounds]) -> list[Queue]:
    """KAI's leaves of a team: one, or one of each pool."""
    gpus = {pool.name: pool.slots_per_node for pool in stack.pools}
    return [
        Queue(
            name=name,
            pool=pool or "",
            gpus=gpus[pool] if pool else 0,
            most=bounds.get(name, _UNBOUND).most,
            limits=bounds.get(name, _UNBOUND).limits,
        )
        for pool, name in leaves.items()
    ]


def _local(namespace: str, objects: Iterable[Manifest], bounds: Mapping[str, _Bounds]) -> list[Queue]:
    """The LocalQueues of a namespace, with what their ClusterQueues hold."""
    found = [
        (each["metadata"]["name"], bounds.get(each["spec"]["clusterQueue"], _UNBOUND))
        for each in objects
        if each["kind"] == "LocalQueue" and each["metadata"]["namespace"] == namespace
    ]
    return [Queue(name=name, most=each.most, limits=each.limits) for name, each in found]


_COHORT: Final = "Cohort/"
_QUEUE: Final = "ClusterQueue/"
_HOLDING: Final = ("Cohort", "ClusterQueue")
# A pool, or a flavor that is no pool's, and a resource.
_Key = tuple[str, str]


@dataclass(slots=True)
class _Holder:
    """A ClusterQueue or Cohort: its parent, what it has and may borrow (None: no limit), and its groups."""

    parent: str | None
    own: dict[_Key, Fraction] = field(default_factory=dict)
    borrow: dict[_Key, Fraction | None] = field(default_factory=dict)
    groups: list[list[_Key]] = field(default_factory=list)


def _kueue(objects: Iterable[Manifest], pools: Mapping[str, str]) -> Mapping[str, _Bounds]:
    """ClusterQueue -> what it can hold. `pools`: flavor -> pool, where a flavor is one's."""
    holders = {_key(each): _holder(each, pools) for each in objects if each["kind"] in _HOLDING}
    whole: dict[str, dict[_Key, Fraction]] = {}
    for name, holder in holders.items():
        root = whole.setdefault(_root(name, holders), {})
        for key, amount in holder.own.items():
            root[key] = root.get(key, _NONE) + amount
    return {
        name.removeprefix(_QUEUE): _bounds(holder, whole[_root(name, holders)])
        for name, holder in holders.items()
        if name.startswith(_QUEUE)
    }


def _bounds(holder: _Holder, root: Mapping[_Key, Fraction]) -> _Bounds:
    most: dict[str, int] = {}
    limits: list[dict[str, dict[str, str]]] = []
    for group in holder.groups:
        limits.append({})
        for pool, resource in group:
            own, limit = holder.own[pool, resource], holder.borrow[pool, resource]
            borrowed = root[pool, resource] if limit is None else min(root[pool, resource], own + limit)
            if resource == GPU_RESOURCE:
                most[pool] = ceil(max(own, borrowed))
            else:
                limits[-1].setdefault(pool, {})[resource] = _quantity(resource, max(own, borrowed))
    return _Bounds(most, tuple(limits))


def _quantity(resource: str, amount: Fraction) -> str:
    return str(Quantity(amount, resource == "memory"))


def _key(body: Manifest) -> str:
    return f"{body['kind']}/{body['metadata']['name']}"


def _holder(body: Manifest, pools: Mapping[str, str]) -> _Holder:
    spec = body["spec"]
    parent = spec.get("cohortName") or spec.get("parentName")
    holder = _Holder(f"{_COHORT}{parent}" if parent else None)
    for group in spec.get("resourceGroups", ()):
        holder.groups.append([])
        for flavor in group["flavors"]:
            for resource in flavor["resources"]:
                if resource["name"] == UNCOUNTED_DEVICES:
                    continue
                key = pools.get(flavor["name"], flavor["name"]), resource["name"]
                holder.groups[-1].append(key)
                holder.own[key] = parse_quantity(str(resource["nominalQuota"]))
                limit = resource.get("borrowingLimit")
                alone = holder.parent is None
                holder.borrow[key] = _NONE if alone else None if limit is None else parse_quantity(str(limit))
    return holder


def _root(name: str, holders: Mapping[str, _Holder]) -> str:
    while (parent := holders[name].parent) is not None and parent in holders:
        name = parent
    return name


def _kai(objects: Iterable[Manifest]) -> Mapping[str, _Bounds]:
    """Queue -> its bounds over all pools: the least limit from it to the top; of a resource without a limit
    there is none.
    """
    specs = {each["metadata"]["name"]: each["spec"] for each in objects if each["kind"] == "Queue"}
    return {name: _kai_bounds(name, specs) for name in specs}


def _kai_bounds(name: str, specs: Mapping[str, Manifest]) -> _Bounds:
    limits: dict[str, list[float]] = {key: [] for key in _KAI_UNITS}
    at = name
    while at in specs:
        for key, found in limits.items():
            limit = specs[at].get("resources", {}).get(key, {}).get("limit")
            if limit is not None and limit >= 0:
                found.append(limit)
        at = specs[at].get("parentQueue", "")
    gpus = limits.pop("gpu")
    more = {
        key: _quantity("", Fraction(min(found)) * _KAI_UNITS[key]) for key, found in limits.items() if found
    }
    return _Bounds({ANY_POOL: ceil(min(gpus))} if gpus else {}, ({ANY_POOL: more},) if more else ())
