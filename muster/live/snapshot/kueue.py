"""Converts Kueue's objects to what a snapshot holds, and to the queue tree that they describe.

Responsible for which fields of a pod template are read: never environments, commands, volumes and images.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from typing import Final

from muster.live.fields import Json, is_true, items, mapping, moment, number, strings, text, texts
from muster.live.snapshot.workloads import (
    Condition,
    Expression,
    Job,
    LocalQueue,
    PodSet,
    Queue,
    State,
    Term,
    Toleration,
    Usage,
    Workload,
    circles,
)
from muster.model import pods
from muster.model.kueue import FlavorQuota, Group, Quota
from muster.model.kueue.tree import Node, Tree
from muster.model.pools import Pool
from muster.model.quantities import Quantity, parse_quantity

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def to_queue(found: object) -> Queue:
    """Usage is what is reserved: quota that a Workload holds before it is admitted is not available
    either.
    """
    usage = [
        Usage(
            text(flavor, "name"),
            text(resource, "name"),
            parse_amount(text(resource, "name"), resource.get("total")),
        )
        for flavor in items(found, "status", "flavorsReservation")
        for resource in items(flavor, "resources")
    ]
    return Queue(
        name=text(found, "metadata", "name"),
        parent=text(found, "spec", "cohortName"),
        usage=tuple(
            sorted((each for each in usage if each.amount), key=lambda each: (each.flavor, each.resource))
        ),
    )


def to_local_queue(found: object) -> LocalQueue:
    metadata = mapping(found, "metadata")
    return LocalQueue(
        text(metadata, "namespace"), text(metadata, "name"), text(found, "spec", "clusterQueue")
    )


def to_workload(found: object) -> Workload | None:
    """The Workload; None for one that has finished."""
    return None if is_true(found, "Finished") else parse_workload(found)


def parse_workload(found: object) -> Workload:
    """The Workload, finished or not."""
    conditions = tuple(_to_condition(each) for each in items(found, "status", "conditions"))
    assignments = {
        text(each, "name"): each for each in items(found, "status", "admission", "podSetAssignments")
    }
    return Workload(
        namespace=text(found, "metadata", "namespace"),
        name=text(found, "metadata", "name"),
        queue=text(found, "spec", "queueName"),
        created=moment(found, "metadata", "creationTimestamp") or _EPOCH,
        pod_sets=tuple(
            _to_pod_set(each, assignments.get(text(each, "name"), {}))
            for each in items(found, "spec", "podSets")
        ),
        state=_to_state(found, conditions),
        priority=number(found, "spec", "priority") or 0,
        priority_class=text(found, "spec", "priorityClassRef", "name"),
        cluster_queue=text(found, "status", "admission", "clusterQueue"),
        job=parse_job(found),
        conditions=conditions,
    )


def _to_state(found: object, conditions: tuple[Condition, ...]) -> State:
    if _is_true(conditions, "Admitted"):
        return State.ADMITTED
    if _is_true(conditions, "QuotaReserved"):
        return State.RESERVED
    return State.INACTIVE if mapping(found, "spec").get("active") is False else State.PENDING


def _is_true(conditions: tuple[Condition, ...], kind: str) -> bool:
    return any(each.type == kind and each.status == "True" for each in conditions)


def _to_condition(found: Mapping[str, object]) -> Condition:
    return Condition(
        text(found, "type"), text(found, "status"), text(found, "reason"), moment(found, "lastTransitionTime")
    )


def parse_job(found: object) -> Job | None:
    """The owner of an object."""
    owners = items(found, "metadata", "ownerReferences")
    owner = next((each for each in owners if each.get("controller") is True), None)
    return None if owner is None else Job(text(owner, "kind"), text(owner, "name"))


def _to_pod_set(found: Mapping[str, object], assignment: Mapping[str, object]) -> PodSet:
    return replace(
        parse_pods(
            mapping(found, "template", "spec"), name=text(found, "name"), count=number(found, "count")
        ),
        min_count=number(found, "minCount"),
        assigned=number(assignment, "count"),
        flavors=texts(assignment, "flavors"),
        usage={
            name: parse_amount(name, value)
            for name, value in sorted(mapping(assignment, "resourceUsage").items())
        },
    )


def parse_pods(spec: Mapping[str, object], *, name: str, count: int | None) -> PodSet:
    """Equal pods of this spec, which nothing was assigned to."""
    required = mapping(spec, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    return PodSet(
        name=name,
        count=count or 0,
        requests=_pod_requests(spec),
        node_selector=texts(spec, "nodeSelector"),
        tolerations=tuple(_to_toleration(each) for each in items(spec, "tolerations")),
        terms=tuple(_to_term(each) for each in items(required, "nodeSelectorTerms")),
    )


def _pod_requests(spec: Mapping[str, object]) -> dict[str, int]:
    """The requests of one pod; empty where a quantity does not parse, which an API server would have
    refused.
    """
    initials = [(each, text(each, "restartPolicy") == "Always") for each in items(spec, "initContainers")]
    try:
        amounts = pods.total(
            [pods.Initial(_container(each), is_sidecar) for each, is_sidecar in initials],
            [_container(each) for each in items(spec, "containers")],
            pods.read({}, mapping(spec, "overhead")),
            limits=pods.read(mapping(spec, "resources", "limits"), {}),
            requests=pods.read({}, mapping(spec, "resources", "requests")),
        )
    except ValueError:
        return {}
    return {
        name: math.ceil(value * 1000 if name == "cpu" else value) for name, value in sorted(amounts.items())
    }


def _container(found: Mapping[str, object]) -> pods.Amounts:
    return pods.read(mapping(found, "resources", "limits"), mapping(found, "resources", "requests"))


def parse_amount(resource: str, value: object) -> int:
    """A quantity in the unit of its resource, rounded up; 0 where it does not parse."""
    try:
        found = parse_quantity(str(value))
    except ValueError:
        return 0
    return math.ceil(found * 1000 if resource == "cpu" else found)


def _to_toleration(found: Mapping[str, object]) -> Toleration:
    return Toleration(*(text(found, key) for key in ("key", "operator", "value", "effect")))


def _to_term(found: Mapping[str, object]) -> Term:
    expressions = (
        Expression(text(each, "key"), text(each, "operator"), strings(each, "values"))
        for each in items(found, "matchExpressions")
    )
    return Term(tuple(expressions))


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
