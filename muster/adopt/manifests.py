"""Queue objects in manifests, base and head, as two stacks that the report of every change compares.

Responsible for what the report needs and objects do not have: a pool for every flavor, the same on both
sides, so that quotas are counted in GPUs or CPU. Whatever the comparison does not understand is named.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from muster.adopt.cluster import LiveCluster, title
from muster.adopt.compare import LABELS, Fate, compare_objects
from muster.adopt.findings import Findings, NameBook
from muster.adopt.kai import to_values
from muster.adopt.kueue import to_kueue
from muster.adopt.manifest_findings import findings, named_objects
from muster.adopt.manifest_objects import ManifestObjects, Text, read_objects
from muster.adopt.nodes import named_accelerator
from muster.config.stack import read_values
from muster.errors import MusterError
from muster.live.fields import text, texts
from muster.live.kueue_tree import read_groups, read_tree
from muster.model import names
from muster.model.accelerators import ACCELERATORS, Accelerator
from muster.model.capacity import Capacity
from muster.model.kueue import FlavorQuota, PoolOptions, Quota
from muster.model.kueue.tree import Node, to_tree
from muster.model.machines.machine import own_machine
from muster.model.pools import Pool
from muster.model.quantities import GIB, Bytes, Millicores
from muster.model.stack import Scheduler, Stack
from muster.model.violations import Violation
from muster.preview.compare.diff import LoadedSide, StackDiff
from muster.preview.compare.settings import Owner, SettingChange, differing
from muster.render.manifest import Manifest

_GROUPS: Final = ("kueue", "resource groups")
_OF_POOLS: Final = ("cpu", "memory", *names.DEVICE_RESOURCES)


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
    if stack.scheduler is Scheduler.KAI:
        raise MusterError(
            "manifests have no nodes, and KAI decides by those of every pool.",
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
        is_kai = self.scheduler is Scheduler.KAI
        whole = self.read.live
        self.live = replace(whole, objects={}) if is_kai else replace(whole, kai={})
        self.flavors = _flavors(self.live)

    @property
    def exists(self) -> bool:
        return bool(self.live.objects or self.live.kai)

    def to_stack(self) -> Stack:
        """The stack that the objects are, without pools. What a stack of Muster's must be beyond that is not
        asked of them.
        """
        if self.scheduler is Scheduler.KAI:
            values = to_values(self.live, Findings(), with_pools=False)
        else:
            missing = {kind: (*self.live.of(kind), *listed) for kind, listed in self._missing().items()}
            live = replace(self.live, objects={**self.live.objects, **missing})
            _, values = to_kueue(live, {}, Findings())
        return read_values(
            {key: value for key, value in values.items() if value or key == "pools"}
            | {
                "cluster": {"provider": "existing", "name": "manifests", "context": "manifests"},
                "gangAdmission": "off",
                "tenancy": {"mode": "off", "namespaces": "existing"},
            }
        )

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
        max_nodes=1,
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
    if stack.scheduler is Scheduler.KAI:
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
        for objects in (live.objects, live.kai)
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
