"""The EKS cluster as one component: network, key, roles, control plane, add-ons, groups, and the way in."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import pulumi
import pulumi_aws as aws

from muster.components.clusters import access
from muster.components.clusters.cloud import Cloud
from muster.components.clusters.eks import addons, autoscaler, control_plane, roles
from muster.components.clusters.eks.groups import NodeGroups
from muster.components.clusters.eks.network import ExistingVpcArgs, network
from muster.components.component import Component
from muster.model.clusters import Access, EksCluster
from muster.model.pools import Pool


@dataclass(frozen=True, slots=True, kw_only=True)
class EksGpuClusterArgs:
    """`cluster`: name, region, zones and settings. Another region or name replaces the cluster, with
    everything in it; `cluster.protect` refuses that.

    `pools`: one managed node group for each zone of each. A pool that is taken out is deleted with its
    nodes, whatever runs there.

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
        self.cloud: Cloud | None = Cloud(provider=amazon, control_plane=made)
        for who, entry in sorted(_entries(cluster.access, args.access).items()):
            control_plane.grant(f"{name}-access-{who}", entry, cluster=made, described=cluster, opts=child)
        role, grants = roles.service_role(
            f"{name}-nodes", "ec2.amazonaws.com", roles.NODE_POLICIES, tags=cluster.tags, opts=child
        )
        early = addons.addons(addons.BEFORE_NODES, prefix=name, cluster=made, described=cluster, opts=child)
        groups = NodeGroups(
            cluster,
            prefix=name,
            control_plane=made,
            role_arn=role.arn,
            network=subnets,
            after=[*grants, *early, *subnets.way_out],
            opts=child,
        )
        self.system = groups.system()
        self.pools = {pool.name: groups.of(pool) for pool in args.pools}
        late = addons.addons(
            addons.AFTER_NODES,
            prefix=name,
            cluster=made,
            described=cluster,
            after=[self.system],
            opts=child,
        )
        scaling = autoscaler.identity(cluster, prefix=name, cluster=made, opts=child)
        self.kubeconfig = access.kubeconfig(
            cluster.name,
            endpoint=made.endpoint,
            authority=made.certificate_authority.apply(lambda authority: authority.data or ""),
            plugin=_plugin(cluster),
        )
        self.kubernetes, self.bundles = access.providers(
            name,
            kubeconfig=self.kubeconfig,
            context=cluster.name,
            # The late add-ons have waited for the system pool.
            after=[*late, scaling],
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


def _plugin(cluster: EksCluster) -> access.Plugin:
    return access.Plugin(
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
