"""The GKE cluster as one component: identity and network, control plane, pools, and the way in. Then a team's
Google service account: made with the rights on its buckets, and bound to the team's pods.

Workload Identity knows pods by project, namespace and ServiceAccount, not by cluster: a cluster of the same
project that another team runs can have pods with the same name.
https://cloud.google.com/kubernetes-engine/docs/concepts/workload-identity#identity_sameness
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import pulumi
import pulumi_gcp as gcp

from muster.components.bundle import text
from muster.components.clusters import cloud
from muster.components.clusters.cloud import Cloud, Provisioning, renamed
from muster.components.clusters.gke import pools
from muster.components.clusters.gke.control_plane import ExistingNetworkArgs, control_plane, network
from muster.components.component import Component
from muster.errors import MusterError
from muster.model.capacity import Capacity
from muster.model.clusters import GkeCluster
from muster.model.clusters.gke import node_account, team_account
from muster.model.identities import bound_accounts, google_address, google_project, is_made
from muster.model.pools import Pool
from muster.model.queues import Team
from muster.model.tenancy import BucketRight
from muster.render.karpenter import compute_classes

# Who a GKE node is: a service account with what the node's own agents need, and nothing else.
# Pods do not use it: Workload Identity gives them their own, and the metadata server hides the node's.

# Logs, metrics and what kubelet asks for; and images of the project's own registry.
# https://cloud.google.com/kubernetes-engine/docs/how-to/hardening-your-cluster#use_least_privilege_sa
ROLES: Final = ("roles/container.defaultNodeServiceAccount", "roles/artifactregistry.reader")


class NodeIdentity:
    """`email` of the account; `granted`: its roles, to wait for before nodes start. `given`: an account that
    exists already, which gets no roles here.
    """

    email: pulumi.Input[str]
    granted: list[pulumi.Resource]

    def __init__(
        self,
        cluster: GkeCluster,
        *,
        prefix: str,
        given: pulumi.Input[str] | None,
        opts: pulumi.ResourceOptions,
    ) -> None:
        self.granted = []
        if given is not None:
            self.email = given
            return
        account = gcp.serviceaccount.Account(
            f"{prefix}-nodes",
            account_id=node_account(cluster),
            project=cluster.project,
            display_name=f"Nodes of the GKE cluster {cluster.name}",
            opts=opts,
        )
        self.email = account.email
        for role in ROLES:
            grant = gcp.projects.IAMMember(
                f"{prefix}-nodes-{role.rpartition('.')[2].rpartition('/')[2]}",
                project=cluster.project,
                role=role,
                member=account.email.apply(lambda email: f"serviceAccount:{email}"),
                opts=opts,
            )
            self.granted.append(grant)


# The ComputeClasses of a GKE cluster, with the nodes' service account and key filled in.


def provisioning(
    pools: Sequence[Pool],
    cluster: GkeCluster,
    *,
    service_account: pulumi.Input[str],
    kms_key: pulumi.Input[str] | None,
) -> Provisioning:
    """`service_account`: email of the nodes' account. `kms_key`: of their disks."""
    if queued := [pool.name for pool in pools if pool.capacity is Capacity.QUEUED]:
        raise MusterError(
            f"pool {', '.join(queued)}: nodes of a ComputeClass answer no ProvisioningRequest.",
            fix="use another capacity, or `autoscaler: node-pools`.",
        )

    def rendered(known: Sequence[str]) -> str:
        account, key = known
        keyed = replace(cluster, kms_key=key or None)
        return text(compute_classes(pools, keyed, service_account=account))

    return Provisioning(objects=pulumi.Output.all(service_account, kms_key or "").apply(rendered), queue=None)


_PLUGIN: Final = cloud.Plugin(
    command="gke-gcloud-auth-plugin",
    hint="install it: https://cloud.google.com/kubernetes-engine/docs/how-to/cluster-access-for-kubectl",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GkeGpuClusterArgs:
    """`cluster`: name, project, region and settings. Another project, region or name replaces the cluster,
    with everything in it; `cluster.protect` refuses that.

    `pools`: one node pool each. A pool that is taken out is deleted with its nodes, whatever runs there.

    `security_group`: the Google Group whose groups RBAC may name. Without it, RBAC rules for groups match no
    one.

    Each of the following comes from another resource and takes the place of the setting of `cluster`:

    `network`: an existing VPC. None makes one with the address ranges of `cluster.network`.
    `kms_key`: full name of the key that encrypts Secrets in etcd and the nodes' disks. None: Google's own
    keys.
    `node_service_account`: email of an existing account. Muster then grants it nothing: without
    `roles/container.defaultNodeServiceAccount` nodes stay NotReady, and without a reader's role on the
    registry they pull no images. None makes an account with both.
    """

    cluster: GkeCluster
    pools: Sequence[Pool]
    security_group: pulumi.Input[str] | None = None
    network: ExistingNetworkArgs | None = None
    kms_key: pulumi.Input[str] | None = None
    node_service_account: pulumi.Input[str] | None = None


class GkeGpuCluster(Component):
    """`kubernetes` and `bundles` are the providers of everything that is installed into the cluster.

    Outputs: `name`, `endpoint`, `location`, `pools` (name -> node pool), `nodeServiceAccount`, and
    `kubeconfig`, which is secret.
    """

    def __init__(
        self, name: str, args: GkeGpuClusterArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("muster:clusters:GkeGpuCluster", name, opts)
        cluster = args.cluster
        kms_key = cluster.kms_key if args.kms_key is None else args.kms_key
        account = args.node_service_account
        google = gcp.Provider(
            f"{name}-gcp",
            project=cluster.project,
            region=cluster.region,
            opts=pulumi.ResourceOptions(parent=self),
        )
        child = self.child_options(provider=google)
        identity = NodeIdentity(
            cluster,
            prefix=name,
            given=cluster.node_service_account if account is None else account,
            opts=child,
        )
        made = control_plane(
            cluster,
            name=name,
            network=network(cluster, prefix=name, given=args.network, opts=child),
            service_account=identity.email,
            multi_networking=any(pool.networks for pool in args.pools),
            security_group=args.security_group,
            kms_key=kms_key,
            opts=child,
        )
        self.cloud: Cloud | None = Cloud(
            provider=google, control_plane=made, team_identity=partial(team_identity, cluster=cluster)
        )
        self.provisioning: Provisioning | None = None
        nodes = pulumi.ResourceOptions.merge(child, pulumi.ResourceOptions(depends_on=identity.granted))
        self.system = pools.system_pool(
            cluster,
            prefix=name,
            control_plane=made,
            service_account=identity.email,
            kms_key=kms_key,
            opts=nodes,
        )
        self.pools: dict[str, gcp.container.NodePool] = {}
        if cluster.answers_requests:
            self.pools = {
                pool.name: pools.pool(
                    pool,
                    cluster,
                    prefix=name,
                    control_plane=made,
                    service_account=identity.email,
                    kms_key=kms_key,
                    opts=nodes,
                )
                for pool in args.pools
            }
        else:
            self.provisioning = provisioning(
                args.pools, cluster, service_account=identity.email, kms_key=kms_key
            )
        authority = made.master_auth.apply(lambda auth: auth.cluster_ca_certificate or "")
        endpoint = _dns_endpoint(made) if cluster.dns_endpoint else made.endpoint
        self.kubeconfig = cloud.kubeconfig(
            cluster.name,
            endpoint=endpoint,
            authority=None if cluster.dns_endpoint else authority,
            plugin=_PLUGIN,
        )
        self.kubernetes, self.bundles = cloud.providers(
            name,
            kubeconfig=self.kubeconfig,
            context=cluster.name,
            # Another way in is no other cluster; another cluster has another authority.
            identifier=authority.apply(lambda text: hashlib.sha256(text.encode()).hexdigest()),
            after=[self.system],
            parent=self,
        )
        self.outputs: dict[str, pulumi.Input[object]] = {
            "name": made.name,
            "location": made.location,
            "endpoint": endpoint,
            "kubeconfig": self.kubeconfig,
            "kubeconfigCommand": pulumi.Output.concat(
                *("gcloud container clusters get-credentials ", made.name),
                *(" --location ", made.location, f" --project {cluster.project}"),
                " --dns-endpoint" if cluster.dns_endpoint else "",
            ),
            "nodeServiceAccount": identity.email,
            "pools": {pool: each.name for pool, each in self.pools.items()},
        }
        self.register_outputs(self.outputs)


def _dns_endpoint(made: gcp.container.Cluster) -> pulumi.Output[str]:
    """Its certificate is one that every machine trusts, and not the cluster's own.
    Source: github.com/danielfoehrKn/kubeswitch pull request 163, read 2026-11-27
    """
    endpoint: pulumi.Output[str] = made.control_plane_endpoints_config.apply(
        lambda each: (each.dns_endpoint_config and each.dns_endpoint_config.endpoint) or ""
    )
    return endpoint


ACT_AS: Final = "roles/iam.workloadIdentityUser"
# Objects alone: neither changes who may do what with the bucket.
# https://cloud.google.com/storage/docs/access-control/iam-roles
TEAM_ROLES: Final = {
    BucketRight.READ: "roles/storage.objectViewer",
    BucketRight.WRITE: "roles/storage.objectUser",
}


def team_identity(
    team: Team, *, prefix: str, cluster: GkeCluster, opts: pulumi.ResourceOptions
) -> list[pulumi.Resource]:
    """As Cloud.team_identity says it."""
    own = google_address(cluster, team)
    name = f"{prefix}-team-{team.name}"
    found: list[pulumi.Resource] = []
    if own is not None and is_made(cluster, team):
        found = _make_account(team, name, own, cluster, opts)
        opts = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=found[:1]))
    for each in bound_accounts(team):
        address = each.identity or own
        if address is not None:
            home = google_project(cluster, each.identity or team.access.identity)
            binding = gcp.serviceaccount.IAMMember(
                f"{name}{each.suffix}",
                service_account_id=f"projects/{home}/serviceAccounts/{address}",
                role=ACT_AS,
                member=f"serviceAccount:{cluster.project}.svc.id.goog[{each.namespace}/{each.account}]",
                opts=renamed(name, each, opts),
            )
            found.append(binding)
    return found


def _make_account(
    team: Team, name: str, address: str, cluster: GkeCluster, opts: pulumi.ResourceOptions
) -> list[pulumi.Resource]:
    """The account first, then what it may do."""
    account = gcp.serviceaccount.Account(
        name,
        account_id=team_account(cluster, team.name),
        project=cluster.project,
        display_name=f"Pods of team {team.name} in the GKE cluster {cluster.name}",
        opts=opts,
    )
    after = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=[account]))
    grants = [
        gcp.storage.BucketIAMMember(
            f"{name}-{bucket}",
            bucket=bucket,
            role=TEAM_ROLES[right],
            member=f"serviceAccount:{address}",
            opts=after,
        )
        for bucket, right in sorted(team.access.buckets.items())
    ]
    return [account, *grants]
