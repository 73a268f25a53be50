"""The EKS cluster itself: endpoint, encryption, logs, and who may reach its API."""

from typing import Final

import pulumi
import pulumi_aws as aws

from muster.components.clusters.eks import auto_mode, raised, roles
from muster.components.clusters.eks.network import Network
from muster.model.clusters import Access, AccessPolicy, EksCluster

_POLICIES: Final = {
    AccessPolicy.CLUSTER_ADMIN: "AmazonEKSClusterAdminPolicy",
    AccessPolicy.ADMIN: "AmazonEKSAdminPolicy",
    AccessPolicy.EDIT: "AmazonEKSEditPolicy",
    AccessPolicy.VIEW: "AmazonEKSViewPolicy",
}
VPC_TAG: Final = "muster.dev/vpc"
# What a cluster keeps for life, while the provider would take another one and do nothing with it, or fail: a
# change of it is a new cluster, and announced as one. The key: resourceClusterUpdate in
# terraform-provider-aws, internal/service/eks/cluster.go. The VPC, which is no input and therefore a tag:
# https://docs.aws.amazon.com/eks/latest/APIReference/API_UpdateClusterConfig.html
_KEPT: Final = ["encryptionConfig", f'tags["{VPC_TAG}"]']
_TIMEOUTS: Final = pulumi.CustomTimeouts(create="45m", update="90m", delete="45m")


def key(cluster: EksCluster, *, name: str, opts: pulumi.ResourceOptions) -> pulumi.Input[str]:
    """ARN of the key that encrypts Secrets, which outlives a mistaken destroy by 30 days."""
    made = aws.kms.Key(
        name,
        description=f"Secrets of the EKS cluster {cluster.name}",
        enable_key_rotation=True,
        deletion_window_in_days=30,
        tags=dict(cluster.tags) or None,
        opts=pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(protect=cluster.protect)),
    )
    arn: pulumi.Output[str] = made.arn
    return arn


def control_plane(
    cluster: EksCluster,
    *,
    name: str,
    network: Network,
    vpc: pulumi.Input[str] | None,
    key_arn: pulumi.Input[str],
    opts: pulumi.ResourceOptions,
) -> aws.eks.Cluster:
    """`name`: of the resources. `vpc`: the id of an existing VPC, None for one that is made here."""
    role, grants = roles.service_role(
        f"{name}-cluster",
        "eks.amazonaws.com",
        (*roles.CLUSTER_POLICIES, *(auto_mode.CLUSTER_POLICIES if cluster.is_auto else ())),
        tags=cluster.tags,
        opts=opts,
        tags_sessions=cluster.is_auto,
    )
    # EKS makes the group itself, with unlimited retention, unless it exists before.
    logs = aws.cloudwatch.LogGroup(
        f"{name}-logs",
        name=f"/aws/eks/{cluster.name}/cluster",
        retention_in_days=cluster.log_days,
        tags=dict(cluster.tags) or None,
        opts=opts,
    )
    return aws.eks.Cluster(
        name,
        name=cluster.name,
        version=cluster.version,
        role_arn=role.arn,
        vpc_config=aws.eks.ClusterVpcConfigArgs(
            subnet_ids=[network.subnets[zone] for zone in sorted(network.subnets)],
            endpoint_private_access=True,
            endpoint_public_access=bool(cluster.public_cidrs),
            public_access_cidrs=list(cluster.public_cidrs) or None,
        ),
        access_config=aws.eks.ClusterAccessConfigArgs(
            # Access entries alone: no ConfigMap with which one careless edit locks every user out.
            authentication_mode="API",
            # The user who runs the program installs into the cluster that it makes.
            bootstrap_cluster_creator_admin_permissions=True,
        ),
        encryption_config=aws.eks.ClusterEncryptionConfigArgs(
            provider=aws.eks.ClusterEncryptionConfigProviderArgs(key_arn=key_arn), resources=["secrets"]
        ),
        enabled_cluster_log_types=list(cluster.logs),
        upgrade_policy=aws.eks.ClusterUpgradePolicyArgs(support_type="STANDARD"),
        deletion_protection=cluster.protect,
        tags={**cluster.tags, VPC_TAG: _vpc_identity(cluster, vpc)},
        **(auto_mode.settings() if cluster.is_auto else {}),
        opts=pulumi.ResourceOptions.merge(
            opts,
            pulumi.ResourceOptions(
                protect=cluster.protect,
                ignore_changes=raised.ignored(cluster, opts),
                replace_on_changes=_KEPT,
                custom_timeouts=_TIMEOUTS,
                depends_on=[*grants, logs],
            ),
        ),
    )


def _vpc_identity(cluster: EksCluster, vpc: pulumi.Input[str] | None) -> pulumi.Input[str]:
    """Another one is another cluster. A VPC of ours is known by its range, before it has an id."""
    if vpc is None or isinstance(vpc, str):
        return f"{cluster.region}:{vpc or cluster.network.cidr}"
    return pulumi.Output.concat(cluster.region, ":", vpc)


def grant(
    name: str,
    access: Access,
    *,
    cluster: aws.eks.Cluster,
    described: EksCluster,
    opts: pulumi.ResourceOptions,
) -> aws.eks.AccessEntry:
    """One access entry, with one of EKS's policies for the whole cluster, groups of our RBAC, or both.
    `name`: of the resources.
    """
    entry = aws.eks.AccessEntry(
        name,
        cluster_name=cluster.name,
        principal_arn=access.principal,
        # An empty list, not None: the provider keeps groups that an update leaves out.
        kubernetes_groups=list(access.groups),
        type="STANDARD",
        tags=dict(described.tags) or None,
        opts=opts,
    )
    if access.policy is not None:
        aws.eks.AccessPolicyAssociation(
            name,
            cluster_name=cluster.name,
            principal_arn=access.principal,
            policy_arn=f"arn:aws:eks::aws:cluster-access-policy/{_POLICIES[access.policy]}",
            access_scope=aws.eks.AccessPolicyAssociationAccessScopeArgs(type="cluster"),
            opts=pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=[entry])),
        )
    return entry
