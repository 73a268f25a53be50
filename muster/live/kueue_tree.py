"""Reads the queue tree from Kueue's objects: those of a cluster, of a recording or of files."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Final

from muster.live.fields import Json, items, mapping, strings, text
from muster.live.snapshot.workloads import circles
from muster.model.kueue import FlavorQuota, Group, Quota
from muster.model.kueue.tree import Node, Tree
from muster.model.pools import Pool
from muster.model.quantities import Quantity, parse_quantity

_NOTHING: Final = Quantity(Fraction(0))
_COHORT: Final = "Cohort"
_QUEUE: Final = "ClusterQueue"


def read_tree(objects: Iterable[Json], pools: Sequence[Pool] = ()) -> Tree:
    """The tree of the Cohorts and ClusterQueues among the objects, under the objects' names. A Cohort that is
    only named exists, too. One that has a ClusterQueue's name is `Cohort NAME`. A circle of Cohorts is cut
    above the first by name.

    ValueError where an amount is no quantity. Fields of an unexpected type count as missing.
    """
    listed = list(objects)
    queues = {text(each, "metadata", "name"): each for each in listed if each.get("kind") == _QUEUE}
    cohorts = {text(each, "metadata", "name"): each for each in listed if each.get("kind") == _COHORT}
    parents = cohort_parents(cohorts, queues.values())
    for name in circles(parents):
        parents[name] = ""
    flavors = {pool.flavor: pool for pool in pools}
    keys = {name: f"{_COHORT} {name}" if name in queues else name for name in parents}
    nodes = {}
    for name in _downwards(parents):
        parent = keys[parents[name]] if parents[name] else None
        nodes[keys[name]] = _node(keys[name], name, cohorts.get(name, {}), parent, flavors)
    for name, body in queues.items():
        cohort = text(body, "spec", "cohortName")
        preemption = mapping(body, "spec", "preemption")
        nodes[name] = replace(
            _node(name, name, body, keys[cohort] if cohort else None, flavors),
            is_team=True,
            within=text(preemption, "withinClusterQueue") or "Never",
            reclaim=text(preemption, "reclaimWithinCohort") or "Never",
            department=cohort,
        )
    return Tree(pools={pool.name: pool for pool in pools}, nodes=nodes)


def cohort_parents(cohorts: Mapping[str, Json], queues: Iterable[Json]) -> dict[str, str]:
    """Every Cohort that exists or is named -> its parent, "" at the top."""
    parents = {name: text(each, "spec", "parentName") for name, each in cohorts.items()}
    named = {text(each, "spec", "cohortName") for each in queues}
    return parents | dict.fromkeys(sorted((named | set(parents.values())) - {"", *parents}), "")


def read_groups(body: Json) -> tuple[Group, ...]:
    """The resource groups of a ClusterQueue or Cohort. ValueError where an amount is no quantity."""
    return tuple(
        Group(
            covered_resources=strings(group, "coveredResources"),
            flavors=tuple(
                FlavorQuota(
                    name=text(flavor, "name"),
                    resources=tuple(_quota(each) for each in items(flavor, "resources")),
                )
                for flavor in items(group, "flavors")
            ),
        )
        for group in items(body, "spec", "resourceGroups")
    )


def _quota(found: Json) -> Quota:
    nominal, borrowing, lending = (
        _amount(found.get(key)) for key in ("nominalQuota", "borrowingLimit", "lendingLimit")
    )
    return Quota(name=text(found, "name"), nominal=nominal or _NOTHING, borrowing=borrowing, lending=lending)


def _amount(value: object) -> Quantity | None:
    return None if value is None else Quantity(parse_quantity(str(value)), str(value).endswith("i"))


def _node(name: str, object_name: str, body: Json, parent: str | None, pools: Mapping[str, Pool]) -> Node:
    groups, weight = read_groups(body), mapping(body, "spec", "fairSharing").get("weight")
    return Node(
        name=name,
        object_name=object_name,
        parent=parent,
        is_team=False,
        groups=groups,
        weight=None if weight is None else parse_quantity(str(weight)),
        written=frozenset(
            pools[flavor.name].name for group in groups for flavor in group.flavors if flavor.name in pools
        ),
        pools=pools,
    )


def _downwards(parents: Mapping[str, str]) -> Iterator[str]:
    """Parents before children."""
    below: dict[str, list[str]] = {}
    for name, parent in parents.items():
        below.setdefault(parent, []).append(name)
    waiting = below.get("", [])
    while waiting:
        name, *waiting = waiting
        yield name
        waiting += below.get(name, [])
