"""A team's IAM role: made with the rights on its buckets, and bound to the team's pods by Pod Identity.

A bucket that is encrypted under a KMS key of its owner's needs that key as well: then the team names a role
that has it.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

import pulumi
import pulumi_aws as aws

from muster.components.clusters.bindings import renamed
from muster.components.clusters.eks import roles
from muster.model.clusters import EksCluster
from muster.model.identities import amazon_role, bound_accounts, is_made
from muster.model.queues import Team
from muster.model.tenancy import BucketRight

# Of a bucket, and of the objects in it.
# https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazons3.html
_LISTS: Final = ("s3:GetBucketLocation", "s3:ListBucket")
_READS: Final = ("s3:GetObject",)
_LISTS_UPLOADS: Final = ("s3:ListBucketMultipartUploads",)
_WRITES: Final = (
    "s3:AbortMultipartUpload",
    "s3:DeleteObject",
    "s3:ListMultipartUploadParts",
    "s3:PutObject",
)


def policy(buckets: Mapping[str, BucketRight]) -> dict[str, Any]:
    """Who may write may read: a resumed job reads its own checkpoint."""
    every = sorted(buckets)
    written = [name for name in every if buckets[name] is BucketRight.WRITE]
    statements = [_allowed(_LISTS, every), _allowed(_READS, every, of="/*")]
    if written:
        statements += [_allowed(_LISTS_UPLOADS, written), _allowed(_WRITES, written, of="/*")]
    return {"Version": "2012-10-17", "Statement": statements}


def team_identity(
    team: Team, *, prefix: str, cluster: EksCluster, opts: pulumi.ResourceOptions
) -> list[pulumi.Resource]:
    """Make what has to exist before the team's pods; nothing for a team without an identity. `prefix`:
    of the names of the resources.
    """
    role_arn: pulumi.Input[str] | None = team.access.identity
    found: list[pulumi.Resource] = []
    if is_made(cluster, team):
        role, grant = _made(team, prefix, cluster, opts)
        role_arn, found = role.arn, [role, grant]
    after = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=list(found)))
    name = f"{prefix}-team-{team.name}"
    for each in bound_accounts(team):
        arn = each.identity or role_arn
        if arn is not None:
            association = aws.eks.PodIdentityAssociation(
                f"{name}{each.suffix}",
                cluster_name=cluster.name,
                namespace=each.namespace,
                service_account=each.account,
                role_arn=arn,
                tags=dict(cluster.tags) or None,
                opts=renamed(name, each, after),
            )
            found.append(association)
    return found


def _made(
    team: Team, prefix: str, cluster: EksCluster, opts: pulumi.ResourceOptions
) -> tuple[aws.iam.Role, aws.iam.RolePolicy]:
    name = amazon_role(prefix, team.name)
    role = roles.pod_role(name, tags=cluster.tags, opts=opts)
    document = json.dumps(policy(team.access.buckets))
    return role, aws.iam.RolePolicy(name, role=role.name, policy=document, opts=opts)


def _allowed(actions: tuple[str, ...], buckets: list[str], *, of: str = "") -> dict[str, Any]:
    resources = [f"arn:aws:s3:::{bucket}{of}" for bucket in buckets]
    return {"Effect": "Allow", "Action": list(actions), "Resource": resources}
