"""The GKE cluster as one component: identity and network, control plane, pools, and the way in."""

from typing import Final

import pulumi
import pulumi_gcp as gcp

from muster.components.clusters import access
from muster.components.clusters.cloud import Cloud
from muster.components.clusters.gke import pools
from muster.components.clusters.gke.control_plane import control_plane
from muster.components.clusters.gke.identity import NodeIdentity
from muster.components.clusters.gke.network import network
from muster.model.clusters import GkeCluster
from muster.model.pools import Pool

_PLUGIN: Final = access.Plugin(
    command="gke-gcloud-auth-plugin",
    hint="install it: https://cloud.google.com/kubernetes-engine/docs/how-to/cluster-access-for-kubectl",
)


class GkeGpuCluster(pulumi.ComponentResource):
    """`kubernetes` and `bundles` are the providers of everything that is installed into the cluster.

    `security_group` is the Google Group whose groups RBAC may name, None for none.

    Outputs: `name`, `endpoint`, `location`, `pools` (name -> node pool), `nodeServiceAccount`, and
    `kubeconfig`, which is secret.
    """

    def __init__(
        self,
        name: str,
        *,
        cluster: GkeCluster,
        stack_pools: tuple[Pool, ...],
        security_group: str | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("muster:clusters:GkeGpuCluster", name, None, opts)
        google = gcp.Provider(
            f"{name}-gcp",
            project=cluster.project,
            region=cluster.region,
            opts=pulumi.ResourceOptions(parent=self),
        )
        child = pulumi.ResourceOptions(parent=self, provider=google)
        identity = NodeIdentity(cluster, opts=child)
        ours = control_plane(
            cluster,
            network=network(cluster, opts=child),
            service_account=identity.email,
            multi_networking=any(pool.networks for pool in stack_pools),
            security_group=security_group,
            opts=child,
        )
        self.cloud: Cloud | None = Cloud(provider=google, control_plane=ours)
        nodes = pulumi.ResourceOptions.merge(child, pulumi.ResourceOptions(depends_on=identity.granted))
        self.system = pools.system_pool(
            cluster, control_plane=ours, service_account=identity.email, opts=nodes
        )
        self.pools = {
            pool.name: pools.pool(
                pool, cluster, control_plane=ours, service_account=identity.email, opts=nodes
            )
            for pool in stack_pools
        }
        self.kubeconfig = access.kubeconfig(
            name,
            endpoint=ours.endpoint,
            authority=ours.master_auth.apply(lambda auth: auth.cluster_ca_certificate or ""),
            plugin=_PLUGIN,
        )
        self.kubernetes, self.bundles = access.providers(
            name, kubeconfig=self.kubeconfig, context=name, after=[self.system], parent=self
        )
        self.outputs: dict[str, pulumi.Input[object]] = {
            "name": ours.name,
            "location": ours.location,
            "endpoint": ours.endpoint,
            "kubeconfig": self.kubeconfig,
            "nodeServiceAccount": identity.email,
            "pools": {pool: made.name for pool, made in self.pools.items()},
        }
        self.register_outputs(self.outputs)
