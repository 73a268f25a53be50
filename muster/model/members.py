"""Members: the users and groups that have a team's rights.

Responsible for turning a member of the stack file into a subject of the cluster's RBAC, and for what a cloud
needs so that the cluster knows its identities. Not responsible for the rights (render/tenancy).
"""

from dataclasses import dataclass
from typing import Final

from muster.model.stack import Stack

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
