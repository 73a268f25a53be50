"""The EKS cluster as one component: network, key, roles, control plane, add-ons, nodes, and the way in."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Final

import pulumi
import pulumi_aws as aws

from muster.components.clusters import cloud
from muster.components.clusters.cloud import Cloud, Provisioning
from muster.components.clusters.eks import karpenter, roles
from muster.components.clusters.eks.groups import NodeGroups
from muster.components.clusters.eks.karpenter import provisioning
from muster.components.clusters.eks.network import ExistingVpcArgs, Network, network
from muster.components.component import Component
from muster.model.clusters import Access, AccessPolicy, EksCluster, NodeProvisioner, StorageDriver
from muster.model.pools import Pool
from muster.model.programs import Version


@dataclass(frozen=True, slots=True, kw_only=True)
class EksGpuClusterArgs:
    """`cluster`: name, region, zones and settings. Another region or name replaces the cluster, with
    everything in it; `cluster.protect` refuses that.

    `pools`: one managed node group for each zone of each. A pool that is taken out is deleted with its
    nodes, whatever runs there. Where Karpenter or Auto Mode makes the nodes, pools are objects in the
    cluster: `provisioning` of the component holds them, and `muster.components.karpenter` applies them.

    `access`: a name for it -> who else may reach the API, beside `cluster.access`: a team's people, with the
    groups that its RBAC binds. An entry that is taken out loses its access at once.

    Each of the following comes from another resource and takes the place of the setting of `cluster`:

    `vpc`: an existing VPC. None makes one with the range of `cluster.network`.
    `kms_key`: ARN of the key that encrypts Secrets. Another key replaces the cluster. None makes a key.
    """

    cluster: EksCluster
    pools: Sequence[Pool]
    access: Mapping[str, Access] = field(default_factory=lambda: MappingProxyType({}))
    vpc: ExistingVpcArgs | None = None
    kms_key: pulumi.Input[str] | None = None


class EksGpuCluster(Component):
    """`kubernetes` and `bundles` are the providers of everything that is installed into the cluster.

    `provisioning`: what Karpenter or Auto Mode launches nodes from; None with managed node groups.

    Outputs: `name`, `endpoint`, `region`, `version`, `pools` (name -> its node groups), `keyArn`, and
    `kubeconfig`, which is secret.
    """

    def __init__(
        self, name: str, args: EksGpuClusterArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("muster:clusters:EksGpuCluster", name, opts)
        cluster = args.cluster
        amazon = aws.Provider(f"{name}-aws", region=cluster.region, opts=pulumi.ResourceOptions(parent=self))
        child = self.child_options(provider=amazon)
        existing = args.vpc or cluster.network.existing
        subnets = network(cluster, prefix=name, given=args.vpc, opts=child)
        key_arn = cluster.kms_key if args.kms_key is None else args.kms_key
        if key_arn is None:
            key_arn = key(cluster, name=name, opts=child)
        made = control_plane(
            cluster,
            name=name,
            network=subnets,
            vpc=existing.vpc if existing is not None else None,
            key_arn=key_arn,
            opts=child,
        )
        self.cloud: Cloud | None = Cloud(
            provider=amazon, control_plane=made, team_identity=partial(roles.team_identity, cluster=cluster)
        )
        for who, entry in sorted(_entries(cluster.access, args.access).items()):
            grant(f"{name}-access-{who}", entry, cluster=made, described=cluster, opts=child)
        self.system: aws.eks.NodeGroup | None = None
        self.pools: dict[str, list[aws.eks.NodeGroup]] = {}
        self.provisioning: Provisioning | None = None
        # What has to be there before anything is installed, and until all of it is gone.
        before = self._nodes(args, name=name, made=made, network=subnets, opts=child)
        self.kubeconfig = cloud.kubeconfig(
            cluster.name,
            endpoint=made.endpoint,
            authority=made.certificate_authority.apply(lambda authority: authority.data or ""),
            plugin=_plugin(cluster),
        )
        self.kubernetes, self.bundles = cloud.providers(
            name,
            kubeconfig=self.kubeconfig,
            context=cluster.name,
            after=before,
            parent=self,
        )
        self.outputs: dict[str, pulumi.Input[object]] = {
            "name": made.name,
            "region": cluster.region,
            "version": made.version,
            "endpoint": made.endpoint,
            "keyArn": key_arn,
            "kubeconfig": self.kubeconfig,
            "kubeconfigCommand": pulumi.Output.concat(
                "aws eks update-kubeconfig --name ", made.name, f" --region {cluster.region}"
            ),
            "pools": {pool: [each.node_group_name for each in groups] for pool, groups in self.pools.items()},
        }
        self.register_outputs(self.outputs)

    def _nodes(
        self,
        args: EksGpuClusterArgs,
        *,
        name: str,
        made: aws.eks.Cluster,
        network: Network,
        opts: pulumi.ResourceOptions,
    ) -> list[pulumi.Resource]:
        cluster, queue = args.cluster, None
        if cluster.is_auto:
            role, ready = karpenter.node_role(cluster, prefix=name, cluster=made, opts=opts)
            late = [*ready, *network.way_out]
        else:
            late = self._groups(args, name=name, made=made, network=network, opts=opts)
            if cluster.autoscaler is NodeProvisioner.CLUSTER_AUTOSCALER:
                return [*late, roles.autoscaler_identity(cluster, prefix=name, cluster=made, opts=opts)]
            found = karpenter.identity(cluster, prefix=name, cluster=made, opts=opts)
            role, queue, late = found.role, found.queue, [*late, *found.ready]
        self.provisioning = provisioning(
            cluster,
            args.pools,
            prefix=name,
            control_plane=made,
            network=network,
            role=role,
            queue=queue,
            opts=opts,
        )
        return late

    def _groups(
        self,
        args: EksGpuClusterArgs,
        *,
        name: str,
        made: aws.eks.Cluster,
        network: Network,
        opts: pulumi.ResourceOptions,
    ) -> list[pulumi.Resource]:
        """The system pool, and the pools that cluster-autoscaler resizes; the add-ons around them. Returns
        the last of all, which have waited for the system pool.
        """
        cluster = args.cluster
        role, grants = roles.service_role(
            f"{name}-nodes", "ec2.amazonaws.com", roles.NODE_POLICIES, tags=cluster.tags, opts=opts
        )
        early = addons(BEFORE_NODES, prefix=name, cluster=made, described=cluster, opts=opts)
        groups = NodeGroups(
            cluster,
            prefix=name,
            control_plane=made,
            role_arn=role.arn,
            network=network,
            after=[*grants, *early, *network.way_out],
            opts=opts,
        )
        self.system = groups.system()
        if cluster.answers_requests:
            self.pools = {pool.name: groups.of(pool) for pool in args.pools}
        *late, _ = addons(
            (*after_nodes(cluster), MONITOR),
            prefix=name,
            cluster=made,
            described=cluster,
            after=[self.system],
            opts=opts,
        )
        return late


def _plugin(cluster: EksCluster) -> cloud.Plugin:
    return cloud.Plugin(
        command="aws",
        arguments=(
            "eks",
            "get-token",
            "--output=json",
            f"--cluster-name={cluster.name}",
            f"--region={cluster.region}",
        ),
        hint="install it: https://docs.aws.amazon.com/cli/latest/userguide/getting-started-install.html",
    )


def _entries(ours: Mapping[str, Access], teams: Mapping[str, Access]) -> dict[str, Access]:
    """One entry a principal, which is all that EKS takes: a team's groups are added to those of the stack."""
    by_principal = {entry.principal: who for who, entry in ours.items()}
    found = dict(ours)
    for who, entry in teams.items():
        known = by_principal.get(entry.principal)
        if known is None:
            found[who] = entry
        else:
            found[known] = replace(found[known], groups=tuple(sorted({*found[known].groups, *entry.groups})))
    return found


# EKS's own add-ons: the network, names, the proxy, Pod Identity, storage and the monitoring of nodes, as
# EKS offers them by default for the cluster's version. Those that nodes need to become Ready come before
# nodes; those that need nodes come after.

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


# The Kubernetes version that an EKS cluster runs, which AWS may have raised.
# When standard support of a version ends, AWS raises the control plane. The provider sends any other
# version of the stack to UpdateClusterVersion (terraform-provider-aws, internal/service/eks/cluster.go),
# which refuses a lower one, and one that the cluster has already.

_LIST: Final = "aws:eks/getClusters:getClusters"
_DESCRIBE: Final = "aws:eks/getCluster:getCluster"


def ignored(cluster: EksCluster, opts: pulumi.ResourceOptions) -> list[str]:
    """The inputs to leave alone: `version`, unless the cluster runs an older one than the stack names."""
    running = _running(cluster.name, opts)
    if running is None or running < Version.of(cluster.version):
        return []
    if running > Version.of(cluster.version):
        minor = f"{running.major}.{running.minor}"
        pulumi.log.warn(
            f"cluster {cluster.name} runs Kubernetes {minor}, and the stack names {cluster.version}: AWS "
            f'raised it. Nothing is lowered. Write `version: "{minor}"`, which raises the nodes, too.'
        )
    return ["version"]


def _running(name: str, opts: pulumi.ResourceOptions) -> Version | None:
    """None where there is no cluster of this name. A function that fails would end the program."""
    provider = opts.provider if isinstance(opts.provider, pulumi.ProviderResource) else None
    asking = pulumi.InvokeOptions(provider=provider)
    if name not in (pulumi.runtime.invoke(_LIST, {}, asking).value.get("names") or ()):
        return None
    return Version.of(pulumi.runtime.invoke(_DESCRIBE, {"name": name}, asking).value["version"])


# The EKS cluster itself: endpoint, encryption, logs, and who may reach its API.

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
        (*roles.CLUSTER_POLICIES, *(karpenter.CLUSTER_POLICIES if cluster.is_auto else ())),
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
        **(karpenter.settings() if cluster.is_auto else {}),
        opts=pulumi.ResourceOptions.merge(
            opts,
            pulumi.ResourceOptions(
                protect=cluster.protect,
                ignore_changes=ignored(cluster, opts),
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
