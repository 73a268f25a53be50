"""EKS's own add-ons: the network, names, the proxy, Pod Identity, storage and the monitoring of nodes, as EKS
offers them by default for the cluster's version.

Those that nodes need to become Ready come before nodes; those that need nodes come after.
"""

import json
from collections.abc import Sequence
from typing import Final

import pulumi
import pulumi_aws as aws

from muster.components.clusters.eks import roles
from muster.model.clusters import EksCluster, StorageDriver

# add-on -> (ServiceAccount, managed policy) of what needs rights in AWS.
_AWS: Final = "arn:aws:iam::aws:policy"
_RIGHTS: Final = {
    "vpc-cni": ("aws-node", roles.CNI_POLICY),
    "aws-ebs-csi-driver": ("ebs-csi-controller-sa", f"{_AWS}/service-role/AmazonEBSCSIDriverPolicy"),
    "aws-efs-csi-driver": ("efs-csi-controller-sa", f"{_AWS}/service-role/AmazonEFSCSIDriverPolicy"),
    "aws-fsx-csi-driver": ("fsx-csi-controller-sa", f"{_AWS}/AmazonFSxFullAccess"),
}
# Mountpoint has no rights of its own: a volume with `authenticationSource: pod` is read with the identity of
# the pod that mounts it.
# Source: github.com/awslabs/mountpoint-s3-csi-driver, docs/CONFIGURATION.md at 57c6bed, read 2026-11-27
_DRIVERS: Final = {
    StorageDriver.EFS: "aws-efs-csi-driver",
    StorageDriver.FSX_LUSTRE: "aws-fsx-csi-driver",
    StorageDriver.MOUNTPOINT_S3: "aws-mountpoint-s3-csi-driver",
}
BEFORE_NODES: Final = ("eks-pod-identity-agent", "vpc-cni", "kube-proxy")


# Node repair sees faults of GPUs by it alone. Nothing else waits for it: each resource that everything
# depends on multiplies what the engine walks for the guard (tests/mocks/test_refusal.py).
MONITOR: Final = "eks-node-monitoring-agent"


def after_nodes(cluster: EksCluster) -> tuple[str, ...]:
    """What everything that is installed waits for. Auto Mode brings all but the drivers."""
    return ("coredns", "aws-ebs-csi-driver", *(_DRIVERS[driver] for driver in cluster.storage.drivers))


def _settings(cluster: EksCluster) -> dict[str, dict[str, object]]:
    """Without the first EKS accepts NetworkPolicies and enforces none of them: tenants would not be isolated.
    Without the second no class of the cluster is the default. Without the third the agent asks GPUs for
    nothing on nodes that are tainted for them.
    Source: https://docs.aws.amazon.com/eks/latest/userguide/cni-network-policy-configure.html;
    https://github.com/kubernetes-sigs/aws-ebs-csi-driver, charts at v1.64.0;
    https://github.com/aws/eks-node-monitoring-agent, charts/configuration.schema.json at 51af549,
    read 2026-11-27
    """
    return {
        "vpc-cni": {"enableNetworkPolicy": "true"},
        "aws-ebs-csi-driver": {"defaultStorageClass": {"enabled": cluster.storage.default_class}},
        MONITOR: {"dcgmAgent": {"tolerations": [{"operator": "Exists"}]}},
    }


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
    settings = _settings(described).get(name)
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
        configuration_values=None if settings is None else json.dumps(settings),
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
