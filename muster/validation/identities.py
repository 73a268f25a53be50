"""Cloud identities of teams: identities and buckets that the stack's cloud can provide."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Final

from muster.model import names
from muster.model.clusters import Cluster, GkeCluster
from muster.model.identities import POD_ACCOUNT, bound_accounts, is_made
from muster.model.keys import camel_case
from muster.model.programs import EXPORTERS
from muster.model.queues import Department, Team
from muster.model.stack import Stack
from muster.model.tenancy import Namespaces
from muster.model.violations import Violation, at
from muster.model.work import BROUGHT

# Names: what Kubernetes takes as one, and that no two things of the tree share one.

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
        # The controller believes the exporters in them.
        *(each.namespace for each in EXPORTERS),
        # Policies trust the controllers in them.
        *(each.controller.partition(":")[0] for each in BROUGHT),
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


def cloud_identity_rules(stack: Stack) -> list[Violation]:
    found: list[Violation] = []
    for chain, team in stack.teams():
        path = team_path(chain, team)
        if not stack.cluster.is_ours:
            found += _nothing_made(path, team)
        else:
            found += [*_forms(path, stack.cluster, team), *_rights_of_others(path, team)]
    return [*found, *_alike(stack)]


def _nothing_made(path: str, team: Team) -> Iterator[Violation]:
    """A warning only: the same file may later describe a cluster that Muster makes."""
    said = {"identity": POD_ACCOUNT} if team.access.identity else {}
    said |= {"buckets": POD_ACCOUNT} if team.access.buckets else {}
    said |= {
        at("serviceAccounts", name): name
        for name, identity in team.access.accounts.items()
        if identity is not None
    }
    for key, account in said.items():
        message = "it has no effect in an existing cluster, whose owner makes its cloud identities."
        # An account itself is made there too, and may stay without its identity.
        what = key if account == POD_ACCOUNT else f"the identity of {account}"
        fix = (
            f"bind the ServiceAccount {account} of namespace {' and '.join(team.namespaces)} to an identity "
            f"yourself, or take {what} away."
        )
        yield Violation(at(path, key), message, fix, "warning")


def _forms(path: str, cluster: Cluster, team: Team) -> Iterator[Violation]:
    form = cluster.IDENTITY
    own = {at("serviceAccounts", name): identity for name, identity in team.access.accounts.items()}
    for key, identity in {"identity": team.access.identity, **own}.items():
        if identity is not None and not form.pattern.match(identity):
            message = f"{identity!r} is not {form.noun}."
            yield Violation(at(path, key), message, f"write one like {form.example}.")
    for bucket in team.access.buckets:
        if not cluster.BUCKET.pattern.match(bucket):
            message = f"{bucket!r} cannot be the name of a bucket in {cluster.BUCKET.noun}."
            fix = "write only its name, without s3://, gs://, a path or a wildcard."
            yield Violation(at(path, f"buckets.{bucket}"), message, fix)


def _rights_of_others(path: str, team: Team) -> Iterator[Violation]:
    if team.access.identity is not None and team.access.buckets:
        message = "an identity that a team names gets no rights from here, so these would never be granted."
        fix = "take `identity` away, and one is made with these rights; or grant them yourself."
        yield Violation(at(path, "buckets"), message, fix)


def _alike(stack: Stack) -> Iterator[Violation]:
    """Two resources of one name, which Pulumi refuses."""
    seen: dict[tuple[str, str], str] = {}
    for chain, team in stack.teams():
        path = team_path(chain, team)
        for key, kind, name in _resources(stack.cluster, team):
            owner = seen.setdefault((kind, name), path)
            if owner != path:
                message = f"its resource would have the same name as one of {owner}: team-{name}."
                yield Violation(at(path, key) if key else path, message, "rename one of the two teams.")


def _resources(cluster: Cluster, team: Team) -> Iterator[tuple[str, str, str]]:
    """Key, kind and name of what is made in the cloud for a team, former names included."""
    if not cluster.is_ours:
        return
    has_own = team.access.identity is not None or is_made(cluster, team)
    for each in bound_accounts(team):
        key = "" if each.account == POD_ACCOUNT else at("serviceAccounts", each.account)
        if each.identity is not None or has_own:
            yield key, "binding", f"{team.name}{each.suffix}"
            if each.formerly is not None:
                yield key, "binding", f"{team.name}{each.formerly}"
    if isinstance(cluster, GkeCluster) and is_made(cluster, team):
        for bucket in team.access.buckets:
            yield at("buckets", bucket), "grant", f"{team.name}-{bucket}"


# Config paths of departments and teams.


def department_path(chain: tuple[Department, ...]) -> str:
    """`muster:departments.research.departments.vision` for the chain from the top to the department."""
    parts = ["muster:departments"]
    for department in chain:
        parts += [department.name, "departments"]
    return at(*parts[:-1])


def team_path(chain: tuple[Department, ...], team: Team) -> str:
    return at(department_path(chain), "teams", team.name)


# The keys of a section that differ from their default.
#
# Responsible for the key of a model's field in a stack file: its metadata's `key`, or its name in camel case.
# An empty key means that the fields of the field are in the section itself.

_KEY: Final = "key"


def explicit_keys(section: Any, default: Any) -> Iterator[str]:
    """The keys, dotted, of everything in `section` that differs from `default`."""
    for each in fields(section):
        value, other = getattr(section, each.name), getattr(default, each.name)
        if value == other:
            continue
        prefix = each.metadata.get(_KEY, camel_case(each.name))
        for below in _below(value, other):
            yield ".".join(part for part in (prefix, below) if part)


def _below(value: Any, default: Any) -> Iterator[str]:
    if is_dataclass(value) and type(value) is type(default):
        yield from explicit_keys(value, default)
    elif isinstance(value, dict):  # in another project's words
        for key, item in value.items():
            for below in _below(item, None):
                yield ".".join(part for part in (key, below) if part)
    elif isinstance(value, Mapping):
        yield from value
    else:
        yield ""
