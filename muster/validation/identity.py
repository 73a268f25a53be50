"""Names: what Kubernetes takes as one, and that no two things of the tree share one."""

import re
from collections.abc import Iterator
from typing import Final

from muster.model import names
from muster.model.identities import POD_ACCOUNT
from muster.model.queues import Department, Team
from muster.model.stack import Stack
from muster.model.tenancy import Namespaces
from muster.model.violations import Violation, at
from muster.model.work import WORK
from muster.validation.paths import department_path, team_path

_DNS_1123: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?\Z")
_LONGEST: Final = 63

# Namespaces that a cluster or this program uses for something else. `default` is not one of them: a team may
# have it, and its jobs there are queued like any other team's.
RESERVED_NAMESPACES: Final = frozenset(
    {
        "kube-node-lease",
        "kube-public",
        "kube-system",
        names.SYSTEM_NAMESPACE,
        names.KUEUE_NAMESPACE,
        names.RAY_NAMESPACE,
        names.KAI_NAMESPACE,
        # Policies trust the controllers in them.
        *(each.controller.partition(":")[0] for each in WORK if each.controller),
    }
)


def identity_rules(stack: Stack) -> list[Violation]:
    """Names of pools, departments, teams, namespaces and queues."""
    return [*_labels(stack), *_unique(stack), *_namespaces(stack)]


def is_dns_label(name: str) -> bool:
    return len(name) <= _LONGEST and _DNS_1123.match(name) is not None


def bad_name(path: str, name: str, noun: str) -> Iterator[Violation]:
    """A name that Kubernetes refuses as a label value, object or namespace name."""
    if not is_dns_label(name):
        message = f"{name!r} cannot be the name of a {noun}."
        yield Violation(
            path, message, "use at most 63 of a-z, 0-9 and -, beginning and ending with one of a-z, 0-9."
        )


def bad_object_name(path: str, name: str, noun: str, *, longest: int = _LONGEST) -> Iterator[Violation]:
    """A name that the API server refuses for an object of Kueue's, where dots are allowed. Names that jobs
    carry as a label are no longer than one.
    """
    if len(name) > longest or not all(map(_DNS_1123.match, name.split("."))):
        message = f"{name!r} cannot be the name of a {noun}."
        fix = (
            f"use at most {longest} of a-z, 0-9, - and ., with a-z or 0-9 at both ends and on both sides "
            "of each dot."
        )
        yield Violation(path, message, fix)


def _labels(stack: Stack) -> Iterator[Violation]:
    for pool in stack.pools:
        yield from bad_name(f"muster:pools.{pool.name}", pool.name, "pool")
    for above, department in stack.walk():
        yield from bad_name(department_path((*above, department)), department.name, "department")
    for chain, team in stack.teams():
        yield from bad_name(team_path(chain, team), team.name, "team")
        yield from bad_object_name(f"{team_path(chain, team)}.localQueue", team.local_queue, "LocalQueue")
        for path, name in _namespace_paths(chain, team):
            if name != team.name:
                yield from bad_name(path, name, "namespace")
        for name in team.access.accounts:
            yield from _account(at(team_path(chain, team), "serviceAccounts", name), name)


def _unique(stack: Stack) -> Iterator[Violation]:
    """Departments and teams share one space of names: for KAI both become a Queue."""
    seen: dict[str, str] = {}
    places = [(department.name, department_path((*above, department))) for above, department in stack.walk()]
    places += [(team.name, team_path(chain, team)) for chain, team in stack.teams()]
    for name, path in places:
        if name in seen:
            yield Violation(
                path, f"the name {name!r} is taken by {seen[name]}.", "give one of the two another name."
            )
        seen.setdefault(name, path)


def _namespaces(stack: Stack) -> Iterator[Violation]:
    seen: dict[str, str] = {}
    is_shared = stack.tenancy.namespaces is Namespaces.EXISTING
    for path, name in (each for chain, team in stack.teams() for each in _namespace_paths(chain, team)):
        if name in RESERVED_NAMESPACES and not is_shared:
            message = f"namespace {name!r} belongs to the cluster."
            yield Violation(path, message, "rename the team, or give it another `namespace:`.")
        if name in seen and not is_shared:
            message = f"namespace {name!r} is already {seen[name]}'s."
            yield Violation(path, message, "give each team a namespace of its own.")
        seen.setdefault(name, path)


def _namespace_paths(chain: tuple[Department, ...], team: Team) -> Iterator[tuple[str, str]]:
    """Where each of the team's namespaces is written, and its name."""
    path = team_path(chain, team)
    if team.further_namespaces:
        yield from ((at(path, "namespaces", index), name) for index, name in enumerate(team.namespaces))
    else:
        yield path if team.namespace == team.name else f"{path}.namespace", team.namespace


def _account(path: str, name: str) -> Iterator[Violation]:
    if name in (POD_ACCOUNT, names.MEMBER_ACCOUNT):
        message = f"{name!r} is an account that Muster makes in every namespace."
        fix = "give it another name; `identity` is that of `default`."
        yield Violation(path, message, fix)
    yield from bad_name(path, name, "ServiceAccount")
