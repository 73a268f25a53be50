"""Names of Kueue's objects: that Kubernetes takes them, and that no two objects of a kind share one."""

from collections.abc import Iterable, Iterator
from typing import Final

from muster.model import names
from muster.model.kueue import AdmissionCheck
from muster.model.pools import Pool
from muster.model.queues import Department, Team
from muster.model.stack import GangMode, Stack
from muster.model.tenancy import Namespaces
from muster.model.violations import Violation, at
from muster.render.kueue.queues import local_queues
from muster.validation.identities import bad_name, bad_object_name
from muster.validation.paths import department_path, team_path

# Config paths of `kueue:` sections.


def pool_path(pool: Pool, *parts: str | int) -> str:
    return at("muster:pools", pool.name, "kueue", *parts)


def cohort_path(chain: tuple[Department, ...], *parts: str | int) -> str:
    return at(department_path(chain), "kueue", *parts)


def queue_path(chain: tuple[Department, ...], team: Team, *parts: str | int) -> str:
    return at(team_path(chain, team), "kueue", *parts)


def check_path(check: AdmissionCheck, *parts: str | int) -> str:
    return at("muster:kueue", "admissionChecks", check.name, *parts)


# Of objects that no label names.
_LONGEST: Final = 253

_Title = tuple[str, str, bool]
"""A name, the config path where it is written, and whether it is written as the object's: otherwise it is
that of a pool, a team or a department, which other rules judge.
"""


def object_name_rules(stack: Stack) -> list[Violation]:
    """Names of ResourceFlavors, Topologies, Cohorts, ClusterQueues, LocalQueues and AdmissionChecks."""
    kinds = {
        "ResourceFlavor": [*_flavors(stack)],
        "Topology": [
            (each.name, at("muster:kueue", "topologies", each.name), True) for each in stack.kueue.topologies
        ],
        "Cohort": [*_cohorts(stack)],
        "ClusterQueue": [*_queues(stack)],
        "AdmissionCheck": [*_checks(stack)],
    }
    found = [violation for kind, titles in kinds.items() for violation in _kind(kind, titles)]
    return [*found, *_local_queues(stack)]


def _kind(kind: str, titles: Iterable[_Title]) -> Iterator[Violation]:
    seen: dict[str, str] = {}
    for name, path, is_own in titles:
        if is_own:
            yield from bad_object_name(path, name, kind, longest=_LONGEST)
        if name in seen:
            yield Violation(path, f"the {kind} {name!r} is also {seen[name]}'s.", "give one another name.")
        seen.setdefault(name, path)


def _flavors(stack: Stack) -> Iterator[_Title]:
    for pool in stack.pools:
        is_own = bool(pool.kueue.flavor)
        yield pool.flavor, pool_path(pool, "flavor") if is_own else f"muster:pools.{pool.name}", is_own
    for flavor in stack.kueue.flavors:
        yield flavor.name, at("muster:kueue", "flavors", flavor.name), True


def _cohorts(stack: Stack) -> Iterator[_Title]:
    for above, department in stack.walk():
        if department.kueue.exists:
            chain, name = (*above, department), department.kueue.name
            yield name or department.name, cohort_path(chain, "cohort"), bool(name)


def _queues(stack: Stack) -> Iterator[_Title]:
    for chain, team in stack.owners():
        name = team.kueue.cluster_queue
        yield name or team.name, queue_path(chain, team, "clusterQueue"), bool(name)


def _checks(stack: Stack) -> Iterator[_Title]:
    if stack.gang_admission.mode is GangMode.MUSTER and stack.gang_pools:
        yield names.ADMISSION_CHECK, "muster:gangAdmission", False
    for check in stack.kueue.admission_checks:
        yield check.name, check_path(check), True


def _local_queues(stack: Stack) -> Iterator[Violation]:
    for chain, team in stack.teams():
        for queue in team.kueue.local_queues:
            path = at(queue_path(chain, team, "localQueues"), queue.name)
            yield from bad_object_name(path, queue.name, "LocalQueue")
            for index, namespace in enumerate(queue.namespaces or ()):
                yield from bad_name(at(path, "namespaces", index), namespace, "namespace")
            if queue.namespaces is not None and stack.tenancy.namespaces is Namespaces.MANAGED:
                message = "a team's queues are in its own namespace, which Muster makes and guards."
                fix = "remove it, or write `muster:tenancy: {mode: off, namespaces: existing}`."
                yield Violation(at(path, "namespaces"), message, fix)
    if stack.tenancy.namespaces is Namespaces.EXISTING:
        yield from _same_place(stack)


def _same_place(stack: Stack) -> Iterator[Violation]:
    """With namespaces of others, teams may share one: two LocalQueues of it need two names."""
    seen: dict[tuple[str, str], str] = {}
    for chain, team in stack.teams():
        for namespace, name in local_queues(team, team):
            path = queue_path(chain, team, "localQueues", name)
            if (namespace, name) in seen:
                message = (
                    f"namespace {namespace} has a LocalQueue {name!r} already, {seen[namespace, name]}'s."
                )
                yield Violation(path, message, "give one of the two another name.")
            seen.setdefault((namespace, name), team.name)
