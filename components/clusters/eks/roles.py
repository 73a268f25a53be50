"""The IAM roles of an EKS cluster: of its control plane, of its nodes, and of pods that use Pod Identity.

Nodes hold the two managed policies that joining and pulling images need; whatever a pod may do beyond comes
through Pod Identity, for its own ServiceAccount alone. A team's role has the rights on its buckets. A bucket
that is encrypted under a KMS key of its owner's needs that key as well: then the team names a role that has
it.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pulumi
import pulumi_aws as aws

from muster.components.clusters.cloud import renamed
from muster.model import names
from muster.model.clusters import EksCluster
from muster.model.identities import amazon_role, bound_accounts, is_made
from muster.model.queues import Team
from muster.model.tenancy import BucketRight

_AWS: Final = "arn:aws:iam::aws:policy"
CLUSTER_POLICIES: Final = (f"{_AWS}/AmazonEKSClusterPolicy",)
# https://docs.aws.amazon.com/eks/latest/userguide/create-node-role.html. The CNI's own rights go to it by
# Pod Identity, not to the node.
NODE_POLICIES: Final = (
    f"{_AWS}/AmazonEKSWorkerNodeMinimalPolicy",
    f"{_AWS}/AmazonEC2ContainerRegistryPullOnly",
)
CNI_POLICY: Final = f"{_AWS}/AmazonEKS_CNI_Policy"


def service_role(
    name: str,
    service: str,
    policies: Sequence[str],
    *,
    tags: Mapping[str, str],
    opts: pulumi.ResourceOptions,
    tags_sessions: bool = False,
) -> tuple[aws.iam.Role, list[pulumi.Resource]]:
    """A role that an AWS service takes, and its grants, to wait for before the role is used."""
    role = aws.iam.Role(
        name,
        assume_role_policy=_trust(
            service, ["sts:AssumeRole", *(["sts:TagSession"] if tags_sessions else [])]
        ),
        tags=dict(tags) or None,
        opts=opts,
    )
    grants: list[pulumi.Resource] = [
        aws.iam.RolePolicyAttachment(
            f"{name}-{policy.rpartition('/')[2]}", role=role.name, policy_arn=policy, opts=opts
        )
        for policy in policies
    ]
    return role, grants


def pod_role(name: str, *, tags: Mapping[str, str], opts: pulumi.ResourceOptions) -> aws.iam.Role:
    """A role that pods take through Pod Identity.
    https://docs.aws.amazon.com/eks/latest/userguide/pod-id-role.html
    """
    return aws.iam.Role(
        name,
        assume_role_policy=_trust("pods.eks.amazonaws.com", ["sts:AssumeRole", "sts:TagSession"]),
        tags=dict(tags) or None,
        opts=opts,
    )


def _trust(service: str, actions: list[str]) -> str:
    statement = {"Effect": "Allow", "Principal": {"Service": service}, "Action": actions}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


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


def team_policy(buckets: Mapping[str, BucketRight]) -> dict[str, Any]:
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
    """As Cloud.team_identity says it."""
    role_arn: pulumi.Input[str] | None = team.access.identity
    found: list[pulumi.Resource] = []
    if is_made(cluster, team):
        role, grant = _make_team_role(team, prefix, cluster, opts)
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


def _make_team_role(
    team: Team, prefix: str, cluster: EksCluster, opts: pulumi.ResourceOptions
) -> tuple[aws.iam.Role, aws.iam.RolePolicy]:
    name = amazon_role(prefix, team.name)
    role = pod_role(name, tags=cluster.tags, opts=opts)
    document = json.dumps(team_policy(team.access.buckets))
    return role, aws.iam.RolePolicy(name, role=role.name, policy=document, opts=opts)


def _allowed(actions: tuple[str, ...], buckets: list[str], *, of: str = "") -> dict[str, Any]:
    resources = [f"arn:aws:s3:::{bucket}{of}" for bucket in buckets]
    return {"Effect": "Allow", "Action": list(actions), "Resource": resources}


# What cluster-autoscaler may do in AWS: look at everything, and resize the groups of its own cluster.
# https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/cloudprovider/aws/README.md
_LOOKS: Final = (
    "autoscaling:DescribeAutoScalingGroups",
    "autoscaling:DescribeAutoScalingInstances",
    "autoscaling:DescribeLaunchConfigurations",
    "autoscaling:DescribeScalingActivities",
    "autoscaling:DescribeTags",
    "ec2:DescribeImages",
    "ec2:DescribeInstanceTypes",
    "ec2:DescribeLaunchTemplateVersions",
    "ec2:GetInstanceTypesFromInstanceRequirements",
    "eks:DescribeNodegroup",
)
_RESIZES: Final = ("autoscaling:SetDesiredCapacity", "autoscaling:TerminateInstanceInAutoScalingGroup")


def autoscaler_policy(cluster: str) -> dict[str, Any]:
    """EKS tags the groups that it makes with the cluster's name, as `owned`."""
    owned = {"StringEquals": {f"aws:ResourceTag/k8s.io/cluster-autoscaler/{cluster}": "owned"}}
    return {
        "Version": "2012-10-17",
        "Statement": [
            {"Effect": "Allow", "Action": list(_LOOKS), "Resource": "*"},
            {"Effect": "Allow", "Action": list(_RESIZES), "Resource": "*", "Condition": owned},
        ],
    }


def autoscaler_identity(
    described: EksCluster, *, prefix: str, cluster: aws.eks.Cluster, opts: pulumi.ResourceOptions
) -> pulumi.Resource:
    """The role, and the ServiceAccount that gets it by Pod Identity."""
    name = f"{prefix}-autoscaler"
    role = pod_role(name, tags=described.tags, opts=opts)
    grant = aws.iam.RolePolicy(
        name, role=role.name, policy=json.dumps(autoscaler_policy(described.name)), opts=opts
    )
    association: pulumi.Resource = aws.eks.PodIdentityAssociation(
        name,
        cluster_name=cluster.name,
        namespace=names.AUTOSCALER_NAMESPACE,
        service_account=names.AUTOSCALER,
        role_arn=role.arn,
        tags=dict(described.tags) or None,
        opts=pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=[grant])),
    )
    return association
