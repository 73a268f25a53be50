"""Cloud identities of teams: which identity a team's pods use, and whether Muster makes it.

Responsible for which teams have one, for its name, and for valid names of identities and buckets.

An identity that a team names is bound to its pods and not changed otherwise; its owner sets its rights.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from muster.model.clusters import Cluster, GkeCluster
from muster.model.clusters.gke import GOOGLE_ACCOUNT, team_account
from muster.model.queues import Team
from muster.model.stack import Stack

# Members: the users and groups that have a team's rights.

# Prefixes of a member: an IAM principal of AWS, and one person. A member without a prefix is a group.
AWS_PRINCIPAL: Final = "arn:"
USER: Final = "user:"


@dataclass(frozen=True, slots=True, order=True)
class AccessEntry:
    """An IAM principal and the groups of the cluster that it becomes: an EKS access entry of type STANDARD
    without an access policy, so that it may do what RBAC gives its groups and nothing else.
    """

    principal: str
    groups: tuple[str, ...]


def team_group(team: str) -> str:
    """The cluster's own group of a team's members, for principals that bring no group of their own."""
    return f"muster:{team}"


def access_entries(stack: Stack) -> tuple[AccessEntry, ...]:
    """The access entries that EKS needs: one a principal, with the groups of all its teams."""
    groups: dict[str, set[str]] = {}
    for _, team in stack.teams():
        for member in team.access.members:
            if member.startswith(AWS_PRINCIPAL):
                groups.setdefault(member, set()).add(team_group(team.name))
    return tuple(AccessEntry(principal, tuple(sorted(found))) for principal, found in sorted(groups.items()))


def google_security_group(stack: Stack) -> str | None:
    """The group in which GKE looks up what groups a person is in, None where no member is a Google Group.

    It has to have this name, in the domain of the groups, and the groups have to be members of it.
    Source: https://cloud.google.com/kubernetes-engine/docs/how-to/google-groups-rbac, read 2026-11-21
    """
    domains = {
        member.rpartition("@")[2]
        for _, team in stack.teams()
        for member in team.access.members
        if "@" in member and not member.startswith((USER, AWS_PRINCIPAL))
    }
    return f"gke-security-groups@{min(domains)}" if domains else None


# docs.aws.amazon.com, "IAM and AWS STS quotas": a role's name has 64 characters. Eight are a random suffix,
# so that a replacement can exist together with the role that it replaces.
_LONGEST_ROLE: Final = 64 - 8

# Pods without an explicit account run as this one, so a job can use its buckets and registry by default.
POD_ACCOUNT: Final = "default"

_IN_PROJECT: Final = ".iam"


def is_made(cluster: Cluster, team: Team) -> bool:
    """Whether Muster makes the team's identity: the team has buckets and names no identity."""
    return cluster.is_ours and bool(team.access.buckets) and team.access.identity is None


def google_address(cluster: GkeCluster, team: Team) -> str | None:
    """The Google service account that the team's pods act as; None where there is none."""
    if is_made(cluster, team):
        # A project of a domain (example.com:ml) is written the other way round.
        home = ".".join(reversed(cluster.project.split(":")))
        return f"{team_account(cluster, team.name)}@{home}.iam.gserviceaccount.com"
    return team.access.identity


@dataclass(frozen=True, slots=True)
class Bound:
    """A ServiceAccount of a namespace and the cloud identity that its pods act as; None is the team's own.

    `suffix` ends the name of its cloud resource. It follows from the names of team, namespace and account
    alone, so that another list of namespaces moves no binding. `formerly` is the suffix that a team's only
    namespace had whatever its name; None where it is the same.
    """

    suffix: str
    namespace: str
    account: str
    identity: str | None = None
    formerly: str | None = None


def bound_accounts(team: Team) -> Iterator[Bound]:
    """Every ServiceAccount of the team that acts as an identity, `default` of its first namespace first."""
    for namespace in team.namespaces:
        is_moved = namespace == team.namespace and team.name not in team.namespaces
        yield Bound(
            binding_suffix(team.name, namespace), namespace, POD_ACCOUNT, formerly="" if is_moved else None
        )
        for account, identity in sorted(team.access.accounts.items()):
            if identity is not None:
                yield Bound(
                    binding_suffix(team.name, namespace, account),
                    namespace,
                    account,
                    identity,
                    formerly=binding_suffix(team.name, team.name, account) if is_moved else None,
                )


def binding_suffix(team: str, namespace: str, account: str = POD_ACCOUNT) -> str:
    """No name of a team, a namespace or an account has a dot, so suffixes with one are never alike. That of
    the namespace with the team's own name has none: validation/identities.py refuses names that are alike.
    """
    if namespace == team:
        return "" if account == POD_ACCOUNT else f"-account-{account}"
    return f".{namespace}" if account == POD_ACCOUNT else f".{namespace}.account.{account}"


def google_project(cluster: GkeCluster, identity: str | None) -> str:
    """The project of a service account: the one in its address, or else the cluster's."""
    found = GOOGLE_ACCOUNT.match(identity or "")
    if found is None or not found["home"].endswith(_IN_PROJECT):
        return cluster.project
    return found["home"].removesuffix(_IN_PROJECT)


def amazon_role(cluster: str, team: str) -> str:
    """What the name of the IAM role begins with that is made for a team."""
    return _shortened(f"{cluster}-team-{team}", _LONGEST_ROLE)


def _shortened(name: str, longest: int) -> str:
    """The name; one that is too long ends in a part of its hash."""
    if len(name) <= longest:
        return name
    return f"{name[: longest - 9].rstrip('-')}-{sha256(name.encode()).hexdigest()[:8]}"
