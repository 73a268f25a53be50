"""The EKS cluster as one component: network, key, roles, control plane, add-ons, nodes, and the way in."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType

import pulumi
import pulumi_aws as aws

from muster.components.clusters import cloud
from muster.components.clusters.cloud import Cloud, Provisioning
from muster.components.clusters.eks import control_plane, karpenter, roles
from muster.components.clusters.eks.groups import NodeGroups
from muster.components.clusters.eks.karpenter import provisioning
from muster.components.clusters.eks.network import ExistingVpcArgs, Network, network
from muster.components.component import Component
from muster.model.clusters import Access, EksCluster, NodeProvisioner
from muster.model.pools import Pool


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
            key_arn = control_plane.key(cluster, name=name, opts=child)
        made = control_plane.control_plane(
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
            control_plane.grant(f"{name}-access-{who}", entry, cluster=made, described=cluster, opts=child)
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
        early = control_plane.addons(
            control_plane.BEFORE_NODES, prefix=name, cluster=made, described=cluster, opts=opts
        )
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
        *late, _ = control_plane.addons(
            (*control_plane.after_nodes(cluster), control_plane.MONITOR),
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
