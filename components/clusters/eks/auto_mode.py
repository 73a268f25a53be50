"""What EKS Auto Mode has in AWS: further rights of the control plane, which launches the nodes, and the role
of those nodes.
https://docs.aws.amazon.com/eks/latest/userguide/auto-cluster-iam-role.html, .../create-node-class.html
"""

from typing import Final

import pulumi
import pulumi_aws as aws

from muster.components.clusters.eks import roles
from muster.model.clusters import EksCluster

_AWS: Final = "arn:aws:iam::aws:policy"
CLUSTER_POLICIES: Final = (
    f"{_AWS}/AmazonEKSBlockStoragePolicy",
    f"{_AWS}/AmazonEKSComputePolicy",
    f"{_AWS}/AmazonEKSLoadBalancingPolicy",
    f"{_AWS}/AmazonEKSNetworkingPolicy",
)
_NODES: Final = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSAutoNodePolicy"


def settings() -> dict[str, object]:
    """Of the cluster: EKS takes all three or none, and brings network, names and Pod Identity itself. Its
    built-in pools are off: the stack's are the only ones.
    https://registry.terraform.io/providers/hashicorp/aws/latest/docs/resources/eks_cluster
    """
    return {
        "bootstrap_self_managed_addons": False,
        "compute_config": aws.eks.ClusterComputeConfigArgs(enabled=True),
        "kubernetes_network_config": aws.eks.ClusterKubernetesNetworkConfigArgs(
            elastic_load_balancing=aws.eks.ClusterKubernetesNetworkConfigElasticLoadBalancingArgs(
                enabled=True
            )
        ),
        "storage_config": aws.eks.ClusterStorageConfigArgs(
            block_storage=aws.eks.ClusterStorageConfigBlockStorageArgs(enabled=True)
        ),
    }


def node_role(
    described: EksCluster, *, prefix: str, cluster: aws.eks.Cluster, opts: pulumi.ResourceOptions
) -> tuple[pulumi.Output[str], list[pulumi.Resource]]:
    """The name of the role, and what has to exist before a node joins with it."""
    name = f"{prefix}-auto-nodes"
    tags = dict(described.tags) or None
    role, grants = roles.service_role(
        name, "ec2.amazonaws.com", roles.NODE_POLICIES, tags=described.tags, opts=opts
    )
    entry = aws.eks.AccessEntry(
        name, cluster_name=cluster.name, principal_arn=role.arn, type="EC2", tags=tags, opts=opts
    )
    joins = aws.eks.AccessPolicyAssociation(
        name,
        cluster_name=cluster.name,
        principal_arn=role.arn,
        policy_arn=_NODES,
        access_scope=aws.eks.AccessPolicyAssociationAccessScopeArgs(type="cluster"),
        opts=pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=[entry])),
    )
    return role.name, [*grants, joins]
