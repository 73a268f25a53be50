"""The EKS cluster as one component: network, key, roles, control plane, add-ons, groups, and the way in."""

from collections.abc import Mapping
from dataclasses import replace

import pulumi
import pulumi_aws as aws

from muster.components.clusters import access
from muster.components.clusters.cloud import Cloud
from muster.components.clusters.eks import addons, autoscaler, control_plane, roles
from muster.components.clusters.eks.groups import NodeGroups
from muster.components.clusters.eks.network import network
from muster.model.clusters import Access, EksCluster
from muster.model.pools import Pool


class EksGpuCluster(pulumi.ComponentResource):
    """`kubernetes` and `bundles` are the providers of everything that is installed into the cluster.

    `access` is who else may reach the API, by a name for it, beside what the stack says of the cluster:
    a team's people, with the groups that its RBAC binds.

    Outputs: `name`, `endpoint`, `region`, `version`, `pools` (name -> node group), `keyArn`, and
    `kubeconfig`, which is secret.
    """

    def __init__(
        self,
        name: str,
        *,
        cluster: EksCluster,
        stack_pools: tuple[Pool, ...],
        access_for: Mapping[str, Access] | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("muster:clusters:EksGpuCluster", name, None, opts)
        amazon = aws.Provider(f"{name}-aws", region=cluster.region, opts=pulumi.ResourceOptions(parent=self))
        child = pulumi.ResourceOptions(parent=self, provider=amazon)
        subnets = network(cluster, opts=child)
        key_arn = control_plane.key(cluster, opts=child)
        ours = control_plane.control_plane(cluster, network=subnets, key_arn=key_arn, opts=child)
        self.cloud: Cloud | None = Cloud(provider=amazon, control_plane=ours)
        for who, entry in sorted(_entries(cluster.access, access_for or {}).items()):
            control_plane.grant(who, entry, cluster=ours, described=cluster, opts=child)
        role, grants = roles.service_role(
            f"{name}-nodes", "ec2.amazonaws.com", roles.NODE_POLICIES, tags=cluster.tags, opts=child
        )
        early = addons.addons(addons.BEFORE_NODES, cluster=ours, described=cluster, opts=child)
        groups = NodeGroups(
            cluster,
            control_plane=ours,
            role_arn=role.arn,
            network=subnets,
            after=[*grants, *early, *subnets.way_out],
            opts=child,
        )
        self.system = groups.system()
        self.pools = {pool.name: groups.of(pool) for pool in stack_pools}
        late = addons.addons(
            addons.AFTER_NODES,
            cluster=ours,
            described=cluster,
            after=[self.system],
            opts=child,
        )
        scaling = autoscaler.identity(cluster, cluster=ours, opts=child)
        self.kubeconfig = access.kubeconfig(
            name,
            endpoint=ours.endpoint,
            authority=ours.certificate_authority.apply(lambda authority: authority.data or ""),
            plugin=access.Plugin(
                command="aws",
                arguments=(
                    "eks",
                    "get-token",
                    "--output=json",
                    f"--cluster-name={name}",
                    f"--region={cluster.region}",
                ),
                hint="install it: https://docs.aws.amazon.com/cli/latest/userguide/getting-started-install.html",
            ),
        )
        self.kubernetes, self.bundles = access.providers(
            name,
            kubeconfig=self.kubeconfig,
            context=name,
            # The late add-ons have waited for the system pool.
            after=[*late, scaling],
            parent=self,
        )
        self.outputs: dict[str, pulumi.Input[object]] = {
            "name": ours.name,
            "region": cluster.region,
            "version": ours.version,
            "endpoint": ours.endpoint,
            "keyArn": key_arn,
            "kubeconfig": self.kubeconfig,
            "pools": {pool: made.node_group_name for pool, made in self.pools.items()},
        }
        self.register_outputs(self.outputs)


def _entries(ours: Mapping[str, Access], teams: Mapping[str, Access]) -> dict[str, Access]:
    """One entry a principal, which is all that EKS takes: a team's groups come on top of what the stack
    says.
    """
    by_principal = {entry.principal: who for who, entry in ours.items()}
    found = dict(ours)
    for who, entry in teams.items():
        known = by_principal.get(entry.principal)
        if known is None:
            found[who] = entry
        else:
            found[known] = replace(found[known], groups=tuple(sorted({*found[known].groups, *entry.groups})))
    return found
