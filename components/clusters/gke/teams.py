"""A team's Google service account: made with the rights on its buckets, and bound to the team's pods.

Workload Identity knows pods by project, namespace and ServiceAccount, not by cluster: a cluster of the same
project that another team runs can have pods with the same name.
https://cloud.google.com/kubernetes-engine/docs/concepts/workload-identity#identity_sameness
"""

from typing import Final

import pulumi
import pulumi_gcp as gcp

from muster.model.clusters import GkeCluster
from muster.model.google_names import team_account
from muster.model.identities import google_address, google_project, is_made
from muster.model.queues import Team
from muster.model.tenancy import BucketRight
from muster.render.tenancy.accounts import POD_ACCOUNT

ACT_AS: Final = "roles/iam.workloadIdentityUser"
# Objects alone: neither changes who may do what with the bucket.
# https://cloud.google.com/storage/docs/access-control/iam-roles
ROLES: Final = {
    BucketRight.READ: "roles/storage.objectViewer",
    BucketRight.WRITE: "roles/storage.objectUser",
}


def team_identity(
    team: Team, *, prefix: str, cluster: GkeCluster, opts: pulumi.ResourceOptions
) -> list[pulumi.Resource]:
    """Make what has to exist before the team's pods; nothing for a team without an identity. `prefix`:
    of the names of the resources.
    """
    address = google_address(cluster, team)
    if address is None:
        return []
    name = f"{prefix}-team-{team.name}"
    found: list[pulumi.Resource] = []
    if is_made(cluster, team):
        found = _made(team, name, address, cluster, opts)
        opts = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=found[:1]))
    binding = gcp.serviceaccount.IAMMember(
        name,
        service_account_id=f"projects/{google_project(cluster, team)}/serviceAccounts/{address}",
        role=ACT_AS,
        member=f"serviceAccount:{cluster.project}.svc.id.goog[{team.namespace}/{POD_ACCOUNT}]",
        opts=opts,
    )
    return [*found, binding]


def _made(
    team: Team, name: str, address: str, cluster: GkeCluster, opts: pulumi.ResourceOptions
) -> list[pulumi.Resource]:
    """The account first, then what it may do."""
    account = gcp.serviceaccount.Account(
        name,
        account_id=team_account(cluster, team.name),
        project=cluster.project,
        display_name=f"Pods of team {team.name} in the GKE cluster {cluster.name}",
        opts=opts,
    )
    after = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=[account]))
    grants = [
        gcp.storage.BucketIAMMember(
            f"{name}-{bucket}",
            bucket=bucket,
            role=ROLES[right],
            member=f"serviceAccount:{address}",
            opts=after,
        )
        for bucket, right in sorted(team.access.buckets.items())
    ]
    return [account, *grants]
