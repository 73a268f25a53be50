"""Names of Kueue's objects: that Kubernetes takes them, and that no two objects of a kind share one."""

from collections.abc import Iterable, Iterator

from muster.model import names
from muster.model.stack import GangMode, Stack
from muster.model.violations import Violation, at
from muster.validation.identity import bad_name
from muster.validation.kueue.config_paths import check_path, cohort_path, pool_path, queue_path

_Title = tuple[str, str]
"""A name and the config path where it is written."""


def object_name_rules(stack: Stack) -> list[Violation]:
    """Names of ResourceFlavors, Topologies, Cohorts, ClusterQueues, LocalQueues and AdmissionChecks."""
    kinds = {
        "ResourceFlavor": [*_flavors(stack)],
        "Topology": [
            (each.name, at("muster:kueue", "topologies", each.name)) for each in stack.kueue.topologies
        ],
        "Cohort": [*_cohorts(stack)],
        "ClusterQueue": [*_queues(stack)],
        "AdmissionCheck": [*_checks(stack)],
    }
    found = [violation for kind, titles in kinds.items() for violation in _kind(kind, titles)]
    return [*found, *_local_queues(stack)]


def _kind(kind: str, titles: Iterable[_Title]) -> Iterator[Violation]:
    seen: dict[str, str] = {}
    for name, path in titles:
        yield from bad_name(path, name, kind)
        if name in seen:
            yield Violation(path, f"the {kind} {name!r} is also {seen[name]}'s.", "give one another name.")
        seen.setdefault(name, path)


def _flavors(stack: Stack) -> Iterator[_Title]:
    for pool in stack.pools:
        yield pool.flavor, pool_path(pool, "flavor") if pool.kueue.flavor else f"muster:pools.{pool.name}"
    for flavor in stack.kueue.flavors:
        yield flavor.name, at("muster:kueue", "flavors", flavor.name)


def _cohorts(stack: Stack) -> Iterator[_Title]:
    for above, department in stack.walk():
        if department.kueue.exists:
            yield department.kueue.name or department.name, cohort_path((*above, department), "cohort")


def _queues(stack: Stack) -> Iterator[_Title]:
    for chain, team in stack.teams():
        yield team.kueue.cluster_queue or team.name, queue_path(chain, team, "clusterQueue")


def _checks(stack: Stack) -> Iterator[_Title]:
    if stack.gang_admission.mode is GangMode.MUSTER and stack.queued_pools:
        yield names.ADMISSION_CHECK, "muster:gangAdmission"
    for check in stack.kueue.admission_checks:
        yield check.name, check_path(check)


def _local_queues(stack: Stack) -> Iterator[Violation]:
    for chain, team in stack.teams():
        for queue in team.kueue.local_queues:
            path = at(queue_path(chain, team, "localQueues"), queue.name)
            yield from bad_name(path, queue.name, "LocalQueue")
