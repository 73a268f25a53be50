"""Mistakes in queue objects that Kueue and KAI accept in silence.

What their webhooks refuse is not among them: the API server refuses it when it is applied. Pure.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from muster.adopt.cluster import LiveCluster, title
from muster.adopt.kai import is_unlimited
from muster.live.fields import items, mapping, text
from muster.live.kueue_tree import cohort_parents, read_tree
from muster.live.snapshot.queues import circles
from muster.model.kai.tree import RESOURCES
from muster.model.kueue import Quota
from muster.model.kueue.tree import Node, Tree
from muster.model.quantities import many
from muster.model.violations import Violation, suggestion
from muster.render.manifest import Manifest

_IN_CIRCLE: Final = "is its own ancestor, through {!r}: {} in such queues."


def findings(live: LiveCluster) -> Iterator[Violation]:
    """Warnings about the objects of one side. ValueError where an amount is no quantity."""
    if live.objects:
        yield from _unnamed(live)
        yield from _doors(live)
        parents = cohort_parents({_name(each): each for each in live.of("Cohort")}, live.of("ClusterQueue"))
        for name in circles(parents):
            yield _circle(f"Cohort {name}", parents[name], "Kueue admits nothing")
        yield from _sharing(read_tree((*live.of("Cohort"), *live.of("ClusterQueue"))))
    yield from _kai({_name(each): each for each in live.kai.get("Queue", ())})


def _warning(where: str, message: str, fix: str) -> Violation:
    return Violation(where, message, fix, level="warning")


def _name(body: Mapping[str, Any]) -> str:
    return text(body, "metadata", "name")


def _circle(where: str, parent: str, effect: str) -> Violation:
    return _warning(where, _IN_CIRCLE.format(parent, effect), "name another parent.")


# Kueue


def named_objects(live: LiveCluster) -> dict[str, set[str]]:
    """The flavors and checks that queues name, by kind."""
    queues = (*live.of("ClusterQueue"), *live.of("Cohort"))
    groups = [group for queue in queues for group in items(queue, "spec", "resourceGroups")]
    return {
        "ResourceFlavor": {text(flavor, "name") for group in groups for flavor in items(group, "flavors")},
        "AdmissionCheck": {
            text(use, "name")
            for queue in live.of("ClusterQueue")
            for use in items(queue, "spec", "admissionChecksStrategy", "admissionChecks")
        },
    }


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
