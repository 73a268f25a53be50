"""EKS's own add-ons: the network, names, the proxy, Pod Identity and disks, as EKS offers them by default for
the cluster's version.

Those that nodes need to become Ready come before nodes; those that need nodes come after.
"""

import json
from collections.abc import Sequence
from typing import Final

import pulumi
import pulumi_aws as aws

from muster.components.clusters.eks import roles
from muster.model.clusters import EksCluster

# add-on -> (ServiceAccount, managed policy) of what needs rights in AWS.
_RIGHTS: Final = {
    "vpc-cni": ("aws-node", roles.CNI_POLICY),
    "aws-ebs-csi-driver": (
        "ebs-csi-controller-sa",
        "arn:aws:iam::aws:policy/service-role/AmazonEBSCSIDriverPolicy",
    ),
}
# Without it EKS accepts NetworkPolicies and enforces none of them: tenants would not be isolated.
# https://docs.aws.amazon.com/eks/latest/userguide/cni-network-policy-configure.html
_SETTINGS: Final = {"vpc-cni": {"enableNetworkPolicy": "true"}}
BEFORE_NODES: Final = ("eks-pod-identity-agent", "vpc-cni", "kube-proxy")
AFTER_NODES: Final = ("coredns", "aws-ebs-csi-driver")


def addons(
    names: tuple[str, ...],
    *,
    prefix: str,
    cluster: aws.eks.Cluster,
    described: EksCluster,
    opts: pulumi.ResourceOptions,
    after: Sequence[pulumi.Resource] = (),
) -> list[pulumi.Resource]:
    """`after`: what the add-ons themselves wait for, their roles do not. `prefix`: of all resource names."""
    return [
        _addon(name, prefix=prefix, cluster=cluster, described=described, after=after, opts=opts)
        for name in names
    ]


def _addon(
    name: str,
    *,
    prefix: str,
    cluster: aws.eks.Cluster,
    described: EksCluster,
    after: Sequence[pulumi.Resource],
    opts: pulumi.ResourceOptions,
) -> aws.eks.Addon:
    identities, before = None, list(after)
    if name in _RIGHTS:
        account, policy = _RIGHTS[name]
        role, grants = _pod_role(f"{prefix}-{name}", policy, described, opts)
        identities = [aws.eks.AddonPodIdentityAssociationArgs(role_arn=role.arn, service_account=account)]
        before += grants
    return aws.eks.Addon(
        f"{prefix}-{name}",
        cluster_name=cluster.name,
        addon_name=name,
        pod_identity_associations=identities,
        configuration_values=json.dumps(_SETTINGS[name]) if name in _SETTINGS else None,
        # A new cluster has unmanaged copies of some: the add-on takes them over.
        resolve_conflicts_on_create="OVERWRITE",
        resolve_conflicts_on_update="PRESERVE",
        tags=dict(described.tags) or None,
        opts=pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=before)),
    )


def _pod_role(
    name: str, policy: str, described: EksCluster, opts: pulumi.ResourceOptions
) -> tuple[aws.iam.Role, list[pulumi.Resource]]:
    role = roles.pod_role(name, tags=described.tags, opts=opts)
    return role, [aws.iam.RolePolicyAttachment(name, role=role.name, policy_arn=policy, opts=opts)]
