"""Queue objects in manifests, base and head, as two stacks that the report of every change compares.

The report needs what objects do not have: a pool for every flavor, the same on both sides, so that quotas are
counted in GPUs or CPU. Whatever the comparison does not understand is named, and so are mistakes that Kueue
and KAI accept in silence. What their webhooks refuse is not among them: the API server refuses it when it is
applied.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from muster.adopt.cluster import Findings, LiveCluster, NameBook, named_objects, title
from muster.adopt.compare import LABELS, Fate, compare_objects
from muster.adopt.kai import is_unlimited, to_values
from muster.adopt.kueue import to_kueue
from muster.adopt.manifest_objects import ManifestObjects, Text, read_objects
from muster.adopt.nodes import named_accelerator
from muster.config.stack import read_values
from muster.errors import MusterError
from muster.live.fields import mapping, text, texts
from muster.live.snapshot.kueue import cohort_parents, read_groups, read_tree
from muster.live.snapshot.workloads import circles
from muster.model import names
from muster.model.accelerators import ACCELERATORS, Accelerator
from muster.model.capacity import Capacity
from muster.model.kai.tree import RESOURCES
from muster.model.kueue import FlavorQuota, PoolOptions, Quota
from muster.model.kueue.tree import Node, Tree, to_tree
from muster.model.machines import own_machine
from muster.model.pools import Pool
from muster.model.quantities import GIB, Bytes, Millicores, many
from muster.model.stack import Scheduler, Stack
from muster.model.violations import Violation, suggestion
from muster.preview.compare.diff import LoadedSide, StackDiff
from muster.preview.compare.settings import Owner, SettingChange, differing
from muster.render.manifest import Manifest

_IN_CIRCLE: Final = "is its own ancestor, through {!r}: {} in such queues."


def findings(live: LiveCluster) -> Iterator[Violation]:
    """Warnings about the objects of one side. ValueError where an amount is no quantity."""
    if live.objects.get(Scheduler.KUEUE):
        yield from _unnamed(live)
        yield from _doors(live)
        parents = cohort_parents({_name(each): each for each in live.of("Cohort")}, live.of("ClusterQueue"))
        for name in circles(parents):
            yield _circle(f"Cohort {name}", parents[name], "Kueue admits nothing")
        yield from _sharing(read_tree((*live.of("Cohort"), *live.of("ClusterQueue"))))
    yield from _kai({_name(each): each for each in live.kai("Queue")})


def _warning(where: str, message: str, fix: str) -> Violation:
    return Violation(where, message, fix, level="warning")


def _name(body: Mapping[str, Any]) -> str:
    return text(body, "metadata", "name")


def _circle(where: str, parent: str, effect: str) -> Violation:
    return _warning(where, _IN_CIRCLE.format(parent, effect), "name another parent.")


# Kueue


def _unnamed(live: LiveCluster) -> Iterator[Violation]:
    """Flavors and checks without a queue, and queues without them. Where a side has none of a kind, they are
    in another folder.
    """
    for kind, used in named_objects(live).items():
        there = {_name(each) for each in live.of(kind)}
        if not there:
            continue
        for name in sorted(used - there):
            message = "is in no file, and without it Kueue keeps the queues inactive that name it."
            yield _warning(f"{kind} {name}", message, suggestion(name, there, noun=kind))
        for name in sorted(there - used) if live.of("ClusterQueue") else ():
            effect = "no job gets it" if kind == "ResourceFlavor" else "it checks no job"
            fix = suggestion(name, used, noun=kind) if used else "name it in a queue, or remove it."
            yield _warning(f"{kind} {name}", f"is named by no queue, so {effect}.", fix)


def _doors(live: LiveCluster) -> Iterator[Violation]:
    there = {_name(each) for each in live.of("ClusterQueue")}
    for door in live.of("LocalQueue") if there else ():
        queue = text(door, "spec", "clusterQueue")
        if queue not in there:
            message = f"names ClusterQueue {queue!r}, which is in no file: its jobs wait for ever."
            yield _warning(title(door), message, suggestion(queue, there, noun="ClusterQueue"))


def _sharing(tree: Tree) -> Iterator[Violation]:
    """Limits without a counterpart: lending that no queue may borrow, borrowing that no queue lends."""
    by_root: dict[str, list[Node]] = {}
    for node in tree.nodes.values():
        by_root.setdefault(_root(tree, node), []).append(node)
    for nodes in by_root.values():
        borrowers: dict[tuple[str, str], set[str]] = {}
        lenders: dict[tuple[str, str], set[str]] = {}
        for node in nodes:
            for flavor, quota in _quotas(node):
                if node.is_team and (quota.borrowing is None or quota.borrowing.value):
                    borrowers.setdefault((flavor, quota.name), set()).add(node.name)
                if quota.nominal.value and (quota.lending is None or quota.lending.value):
                    lenders.setdefault((flavor, quota.name), set()).add(node.name)
        for node in nodes:
            yield from _useless_limits(node, borrowers, lenders)


def _root(tree: Tree, node: Node) -> str:
    while node.parent:
        node = tree.nodes[node.parent]
    return node.name


def _quotas(node: Node) -> Iterator[tuple[str, Quota]]:
    return ((flavor.name, quota) for flavor in node.flavors for quota in flavor.resources)


def _useless_limits(
    node: Node,
    borrowers: Mapping[tuple[str, str], Collection[str]],
    lenders: Mapping[tuple[str, str], Collection[str]],
) -> Iterator[Violation]:
    where = f"{'ClusterQueue' if node.is_team else 'Cohort'} {node.object_name}"
    lent: dict[str, list[str]] = {}
    borrowed: dict[str, list[str]] = {}
    for flavor, quota in _quotas(node):
        at = (flavor, quota.name)
        offers = quota.nominal if not node.is_team else quota.lending
        if offers is not None and offers.value and not {*borrowers.get(at, ())} - {node.name}:
            lent.setdefault(flavor, []).append(f"{offers} {quota.name}")
        if quota.borrowing is not None and quota.borrowing.value and not {*lenders.get(at, ())} - {node.name}:
            borrowed.setdefault(flavor, []).append(f"{quota.borrowing} {quota.name}")
    for flavor, amounts in lent.items():
        verb = "lends" if node.is_team else "holds"
        message = f"{verb} {', '.join(amounts)} of {flavor}, and no other queue of its cohorts may borrow it."
        yield _warning(
            where, message, "give a queue beside it a borrowingLimit above 0, or remove the amount."
        )
    for flavor, amounts in borrowed.items():
        message = f"may borrow {', '.join(amounts)} of {flavor}, and no other queue of its cohorts lends any."
        yield _warning(where, message, "give a queue beside it quota that it lends, or remove the limit.")


# KAI


def _kai(queues: Mapping[str, Manifest]) -> Iterator[Violation]:
    parents = {name: text(each, "spec", "parentQueue") for name, each in queues.items()}
    children: dict[str, list[str]] = {}
    for name, parent in parents.items():
        children.setdefault(parent, []).append(name)
        if parent and parent not in queues:
            message = f"names parent {parent!r}, which is in no file."
            yield _warning(f"Queue {name}", message, suggestion(parent, queues, noun="Queue"))
    for name in circles({name: parent if parent in queues else "" for name, parent in parents.items()}):
        yield _circle(f"Queue {name}", parents[name], "KAI schedules nothing")
    for name, body in queues.items():
        for resource in RESOURCES:
            yield from _kai_resource(name, body, resource, [queues[each] for each in children.get(name, ())])


def _kai_resource(name: str, body: Manifest, resource: str, below: list[Manifest]) -> Iterator[Violation]:
    where = f"Queue {name}: spec.resources.{resource}"
    quota, limit = (_figure(body, resource, key) for key in ("quota", "limit"))
    if resource != "gpu" and not below and limit == 0:
        message = "has a limit of 0, which a missing one is as well: KAI starts nothing in the queue."
        yield _warning(where, message, "write `limit: -1` for no limit.")
    elif not is_unlimited(limit) and (is_unlimited(quota) or quota > limit):
        written = "unlimited" if is_unlimited(quota) else f"{quota:g}"
        message = f"has a quota of {written} above its limit of {limit:g}: what is above is never reached."
        yield _warning(where, message, "raise the limit, or lower the quota.")
    shares = [_figure(each, resource, "quota") for each in below]
    if not is_unlimited(quota) and (any(map(is_unlimited, shares)) or sum(shares) > quota):
        total = "unlimited" if any(map(is_unlimited, shares)) else f"{sum(shares):g}"
        message = f"has a quota of {quota:g}, and the {many(len(below), 'queue')} below have {total} in sum."
        yield _warning(where, message, "raise it, or lower theirs: they are not guaranteed what they name.")


def _figure(body: Manifest, resource: str, key: str) -> float:
    found = mapping(body, "spec", "resources", resource).get(key)
    return float(found) if isinstance(found, int | float) and not isinstance(found, bool) else 0.0


_GROUPS: Final = ("kueue", "resource groups")
_OF_POOLS: Final = ("cpu", "memory", *names.DEVICE_RESOURCES)
# No quota is judged to be more than a pool has of which no size is known.
_UNKNOWN_SIZE: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class ManifestSides:
    """Base and head of one scheduler's queues, and the comparison's own notes."""

    name: str
    base: LoadedSide
    head: LoadedSide

    def completed(self, diff: StackDiff) -> StackDiff:
        """The comparison as objects have it: resource groups are shown as quotas of pools, and what no pool
        counts of them (licences, the order of flavors) as settings. Of pools nothing is known but quotas.
        """
        if diff.changes is None:
            return diff
        kept = [each for each in diff.changes.settings if each.path != _GROUPS]
        before, after = (_beside_pools(side.stack) if side.stack else {} for side in (self.base, self.head))
        kept += [SettingChange(*place, *sides) for place, *sides in differing(before, after)]
        changes = replace(diff.changes, settings=tuple(kept), pools=(), order=None)
        return replace(diff, changes=changes, pools=(), cost=None)


def load_manifests(
    name: str, base: tuple[Text, ...] | None, head: tuple[Text, ...] | None
) -> list[ManifestSides]:
    """The sides of each scheduler that either side has queues of; None is a side without any object.
    MusterError where a text cannot be read, or has an object that cannot be compared.
    """
    read = [read_objects(base), read_objects(head)]
    sides = {scheduler: [_Side(each, scheduler) for each in read] for scheduler in Scheduler}
    found = [scheduler for scheduler in Scheduler if any(side.exists for side in sides[scheduler])]
    return [
        _compared(name if len(found) == 1 else f"{name}-{scheduler}", *sides[scheduler])
        for scheduler in found
    ]


def playable(stack: Stack) -> Stack:
    """The stack of a side as Kueue can decide in it: each pool has the labels, taints, tolerations and
    topology of its ResourceFlavor, and is as large as the GPUs of all its quotas. The comparison leaves these
    out, because its pools are those of both sides. MusterError for KAI, which places pods on nodes.
    """
    if not stack.scheduler.traits.admits_jobs:
        raise MusterError(
            f"manifests have no nodes, and {stack.scheduler.proper_name} decides by those of every pool.",
            fix="write the stack of the cluster with `muster adopt`, and name it in place of --manifests.",
        )
    flavors = {flavor.name: flavor for flavor in stack.kueue.flavors}
    gpus = Counter[str]()
    for node in to_tree(stack).nodes.values():
        gpus.update({flavor.name: flavor.gpus for flavor in node.flavors})
    pools = tuple(
        replace(
            pool,
            max_nodes=max(gpus[pool.flavor], 1),
            kueue=replace(
                pool.kueue,
                node_labels=flavor.node_labels,
                node_taints=flavor.node_taints,
                tolerations=flavor.tolerations,
                topology=flavor.topology,
            ),
        )
        for pool in stack.pools
        if (flavor := flavors.pop(pool.flavor, None)) is not None
    )
    return replace(stack, pools=pools, kueue=replace(stack.kueue, flavors=tuple(flavors.values())))


@dataclass(slots=True)
class _Side:
    """The objects of one side that are one scheduler's, and what is made of them."""

    read: ManifestObjects
    scheduler: Scheduler
    live: LiveCluster = field(init=False)
    flavors: dict[str, list[FlavorQuota]] = field(init=False)

    def __post_init__(self) -> None:
        whole = self.read.live
        self.live = replace(whole, objects={self.scheduler: whole.objects.get(self.scheduler, {})})
        self.flavors = _flavors(self.live)

    @property
    def exists(self) -> bool:
        return any(self.live.objects.values())

    def to_stack(self) -> Stack:
        """The stack that the objects are, without pools. What a stack of Muster's must be beyond that is not
        asked of them.
        """
        values = _VALUES[self.scheduler](self)
        return read_values(
            {key: value for key, value in values.items() if value or key == "pools"}
            | {
                "cluster": {"provider": "existing", "name": "manifests", "context": "manifests"},
                "gangAdmission": "off",
                "tenancy": {"mode": "off", "namespaces": "existing"},
            }
        )

    def kueue_values(self) -> dict[str, Any]:
        missing = {kind: (*self.live.of(kind), *listed) for kind, listed in self._missing().items()}
        kinds = {**self.live.objects[Scheduler.KUEUE], **missing}
        _, values = to_kueue(replace(self.live, objects={Scheduler.KUEUE: kinds}), {}, Findings())
        return values

    def kai_values(self) -> dict[str, Any]:
        return to_values(self.live, Findings(), with_pools=False)

    def _missing(self) -> dict[str, list[Manifest]]:
        """Flavors and checks that queues name and no file has: they may be in another folder."""
        found = {}
        for kind, used in named_objects(self.live).items():
            there = {text(each, "metadata", "name") for each in self.live.of(kind)}
            spec = {"controllerName": "unknown"} if kind == "AdmissionCheck" else {}
            found[kind] = [
                {
                    "apiVersion": names.KUEUE_API_VERSION,
                    "kind": kind,
                    "metadata": {"name": name},
                    "spec": spec,
                }
                for name in sorted(used - there)
            ]
        return found


_VALUES: Final = {Scheduler.KUEUE: _Side.kueue_values, Scheduler.KAI: _Side.kai_values}


def _compared(name: str, base: _Side, head: _Side) -> ManifestSides:
    sides = (base, head)
    read = [side.to_stack() if side.exists else None for side in sides]
    unread = [{} if stack is None else _unread(stack, side) for stack, side in zip(read, sides, strict=True)]
    pools = _pools(sides)
    stacks = [None if stack is None else replace(stack, pools=pools) for stack in read]
    notes = list(_notes(*unread))
    same = tuple(each for each, place in notes if unread[0].get(place) == unread[1].get(place))
    return ManifestSides(
        name,
        LoadedSide(base.exists, stacks[0], warnings=(*same, *findings(base.live))),
        LoadedSide(head.exists, stacks[1], warnings=(*(each for each, _ in notes), *findings(head.live))),
    )


# Pools


def _flavors(live: LiveCluster) -> dict[str, list[FlavorQuota]]:
    """Flavor -> its quotas in every queue, in the order in which queues try them."""
    found: dict[str, list[FlavorQuota]] = {}
    queues = (*live.of("Cohort"), *live.of("ClusterQueue"))
    for queue in queues:
        try:
            read_groups(queue)
        except ValueError as error:
            raise MusterError(f"{title(queue)}: an amount: {error}.", fix="correct the amount.") from error
    for node in read_tree(queues).nodes.values():
        for flavor in node.flavors:
            found.setdefault(flavor.name, []).append(flavor)
    return found


def _pools(sides: Iterable[_Side]) -> tuple[Pool, ...]:
    """A pool for each flavor of either side. What its nodes are is unknown, and the same in both."""
    labels: dict[str, dict[str, str]] = {}
    quotas: dict[str, list[FlavorQuota]] = {}
    for side in sides:
        for each in side.live.of("ResourceFlavor"):
            labels[text(each, "metadata", "name")] = texts(each, "spec", "nodeLabels")
        for name, found in side.flavors.items():
            if any(quota.name in _OF_POOLS for flavor in found for quota in flavor.resources):
                quotas.setdefault(name, []).extend(found)
    book = NameBook({names.SYSTEM_POOL})
    return tuple(_pool(name, labels.get(name, {}), found, book) for name, found in quotas.items())


def _pool(flavor: str, labels: dict[str, str], quotas: Iterable[FlavorQuota], book: NameBook) -> Pool:
    device = next((each.name for quota in quotas for each in quota.resources if _is_device(each)), None)
    name = book.take(labels.get(names.POOL_LABEL, flavor), suffix="pool")
    gpu = None if device is None else _accelerator(named_accelerator(labels) or flavor, device)
    machine = own_machine(cpu=Millicores(1000), memory=Bytes(GIB), gpus=1 if gpu else 0, gpu=gpu, labels={})
    return Pool(
        name=name,
        machine=machine,
        gpus_per_node=1 if gpu else 0,
        capacity=Capacity.ON_DEMAND,
        max_nodes=_UNKNOWN_SIZE,
        kueue=PoolOptions(flavor=flavor if name != flavor else None, exact=True),
    )


def _is_device(quota: Quota) -> bool:
    limits = (quota.nominal, quota.borrowing)
    return quota.name in names.DEVICE_RESOURCES and any(each is not None and each.value for each in limits)


def _accelerator(name: str, device: str) -> Accelerator:
    """Of a device that no table has only the name is known, and what Kubernetes counts."""
    found = ACCELERATORS.get(name)
    if found is not None and found.resource == device:
        return found
    return Accelerator(
        name=name,
        memory_mib=0,
        rank=0,
        resource=device,
        short=(),
        product="",
        mig={},
        gke_quota="",
        gke_sku="",
        gke_whole=False,
    )


# What a report of pools leaves out


def _beside_pools(stack: Stack) -> dict[tuple[Owner, tuple[str, ...]], str]:
    """Owner and path -> what resource groups say beside the quotas of pools. KAI's queues have no groups."""
    found: dict[tuple[Owner, tuple[str, ...]], str] = {}
    if not stack.scheduler.traits.has_flavors:
        return found
    for node in to_tree(stack).nodes.values():
        owner = Owner("team" if node.is_team else "department", node.name)
        if len(node.flavors) > 1:
            found[owner, ("flavors",)] = ", ".join(flavor.name for flavor in node.flavors)
        found |= {(owner, (key,)): value for key, value in _other_quotas(node)}
    return found


def _other_quotas(node: Node) -> Iterator[tuple[str, str]]:
    for flavor in node.flavors:
        for quota in flavor.resources:
            if quota.name not in _OF_POOLS:
                limits = {"borrows": quota.borrowing, "lends": quota.lending}
                words = [f"{key} {limit}" for key, limit in limits.items() if limit is not None]
                yield f"quota of {quota.name} in {flavor.name}", ", ".join([str(quota.nominal), *words])


def _notes(
    before: Mapping[str, tuple[str, str]], after: Mapping[str, tuple[str, str]]
) -> Iterator[tuple[Violation, str]]:
    """What is not compared, with its place. Values are JSON with a fix."""
    for place in {**after, **before}:
        _, fix = after.get(place) or before[place]
        old, new = (side[place][0] if place in side else "nothing" for side in (before, after))
        how = "is the same on both sides" if old == new else f"changes from {old} to {new}"
        yield Violation(place, f"is not compared, and {how}.", fix, level="warning"), place


def _unread(stack: Stack, side: _Side) -> dict[str, tuple[str, str]]:
    """Place -> value and fix: of the objects that the stack lacks, of the fields that it does not have as the
    object has them, and of those that no API has.
    """
    live = side.live
    bodies = {
        title(each): each
        for objects in live.objects.values()
        for listed in objects.values()
        for each in listed
    }
    found: dict[str, tuple[str, str]] = {}
    for place, dropped in side.read.dropped.items():
        if place.partition(":")[0] in bodies:
            fix = (
                f"{side.scheduler.proper_name} has no such field, and the API server drops it: {dropped.fix}"
            )
            found[place] = (_json(dropped.value), fix)
    for change in compare_objects(stack, live):
        body = bodies.get(change.object, {})
        is_found = body.get("kind") == "LocalQueue" and live.of("ClusterQueue")
        if change.fate is Fate.KEPT and not is_found:
            found[change.object] = (_json(body.get("spec")), "review it by hand.")
        for each in change.fields:
            if each.live is not None and not each.path.startswith(LABELS):
                found[f"{change.object}: {each.path}"] = (_json(each.live), "review it by hand.")
    return found


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)
