"""A team's Google service account: made with the rights on its buckets, and bound to the team's pods.

Workload Identity knows pods by project, namespace and ServiceAccount, not by cluster: a cluster of the same
project that another team runs can have pods with the same name.
https://cloud.google.com/kubernetes-engine/docs/concepts/workload-identity#identity_sameness
"""

from typing import Final

import pulumi
import pulumi_gcp as gcp

from muster.components.clusters.bindings import renamed
from muster.model.clusters import GkeCluster
from muster.model.google_names import team_account
from muster.model.identities import bound_accounts, google_address, google_project, is_made
from muster.model.queues import Team
from muster.model.tenancy import BucketRight

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
    own = google_address(cluster, team)
    name = f"{prefix}-team-{team.name}"
    found: list[pulumi.Resource] = []
    if own is not None and is_made(cluster, team):
        found = _made(team, name, own, cluster, opts)
        opts = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=found[:1]))
    for each in bound_accounts(team):
        address = each.identity or own
        if address is not None:
            home = google_project(cluster, each.identity or team.access.identity)
            binding = gcp.serviceaccount.IAMMember(
                f"{name}{each.suffix}",
                service_account_id=f"projects/{home}/serviceAccounts/{address}",
                role=ACT_AS,
                member=f"serviceAccount:{cluster.project}.svc.id.goog[{each.namespace}/{each.account}]",
                opts=renamed(name, each, opts),
            )
            found.append(binding)
    return found


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
