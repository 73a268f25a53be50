"""The accounts of a team's namespace: its pods, its pipelines, its members.

Responsible for the ServiceAccounts and the RoleBinding. The rights of a member are in roles.py; those
of a cloud identity are set in the cloud.
"""

from collections.abc import Mapping
from typing import Final

from muster.model import names
from muster.model.clusters import GkeCluster
from muster.model.identities import POD_ACCOUNT, google_address
from muster.model.members import AWS_PRINCIPAL, USER, team_group
from muster.model.queues import Team
from muster.model.stack import Stack
from muster.render.manifest import Manifest, manifest

_RBAC: Final = "rbac.authorization.k8s.io"

# cloud.google.com, "Workload Identity Federation for GKE": which Google service account the pods act as. EKS
# binds the account from the other side, by a Pod Identity association.
GOOGLE_IDENTITY: Final = "iam.gke.io/gcp-service-account"


def accounts(stack: Stack, team: Team, labels: Mapping[str, str]) -> list[Manifest]:
    identity = google_address(stack.cluster, team) if isinstance(stack.cluster, GkeCluster) else None
    own = (
        team.access.accounts if isinstance(stack.cluster, GkeCluster) else dict.fromkeys(team.access.accounts)
    )
    return [
        _pods(team, labels, POD_ACCOUNT, identity),
        *(_pods(team, labels, name, own[name]) for name in sorted(own)),
        _pipelines(team, labels),
        _members(team, labels),
    ]


def _pods(team: Team, labels: Mapping[str, str], name: str, identity: str | None) -> Manifest:
    """An account of pods. Its token is not mounted: training code has no business with the cluster's API."""
    body = manifest(
        "v1",
        "ServiceAccount",
        name,
        namespace=team.namespace,
        labels=labels,
        automountServiceAccountToken=False,
    )
    if team.access.pull_secrets:
        body["imagePullSecrets"] = [{"name": name} for name in team.access.pull_secrets]
    if identity is not None:
        body["metadata"]["annotations"] = {GOOGLE_IDENTITY: identity}
    return body


def _pipelines(team: Team, labels: Mapping[str, str]) -> Manifest:
    """For automation that submits work. It requests a token; no Secret contains one."""
    return manifest(
        "v1",
        "ServiceAccount",
        names.MEMBER_ACCOUNT,
        namespace=team.namespace,
        labels=labels,
        automountServiceAccountToken=False,
    )


def _members(team: Team, labels: Mapping[str, str]) -> Manifest:
    subjects = [
        {"kind": "ServiceAccount", "name": names.MEMBER_ACCOUNT, "namespace": team.namespace},
        *(
            _subject(kind, name)
            for kind, name in sorted({_named(team, each) for each in team.access.members})
        ),
    ]
    return manifest(
        f"{_RBAC}/v1",
        "RoleBinding",
        "members",
        namespace=team.namespace,
        labels=labels,
        roleRef={"apiGroup": _RBAC, "kind": "ClusterRole", "name": names.MEMBER_ROLE},
        subjects=subjects,
    )


def _named(team: Team, member: str) -> tuple[str, str]:
    if member.startswith(USER):
        return "User", member.removeprefix(USER)
    return "Group", team_group(team.name) if member.startswith(AWS_PRINCIPAL) else member


def _subject(kind: str, name: str) -> dict[str, str]:
    return {"kind": kind, "name": name, "apiGroup": _RBAC}
