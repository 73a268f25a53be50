"""The VPC of a GKE cluster: one subnetwork with ranges for pods and services, a way out without public
addresses (Cloud NAT), and a way in for the control plane. Or an existing one.
"""

from dataclasses import dataclass

import pulumi
import pulumi_gcp as gcp

from muster.model import google_names
from muster.model.clusters import ExistingNetwork, GkeCluster

PODS = "pods"
SERVICES = "services"


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """What the cluster needs to know of it. `before`: what it waits for, since nodes pull no image and no
    webhook answers without.
    """

    network: pulumi.Input[str]
    subnetwork: pulumi.Input[str]
    pods: pulumi.Input[str]
    services: pulumi.Input[str]
    before: list[pulumi.Resource]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingNetworkArgs:
    """A VPC that Muster uses and never changes, from any resource of your program.

    `network`, `subnetwork`: id or self link. A shared VPC of another project is written
    `projects/PROJECT/global/networks/NAME`. Another network or subnetwork replaces the cluster.
    `pods`, `services`: names of secondary ranges of the subnetwork. Each node takes a /24 of `pods`, so its
    size limits how many nodes the cluster can have.

    Nodes have no public address: the network needs its own way out (Cloud NAT), or nodes cannot pull images.
    And a firewall rule that lets the control plane's range reach TCP 8082 and 9443 of the nodes, or no
    webhook answers (docs/runbooks/first-up-gke.md).
    """

    network: pulumi.Input[str]
    subnetwork: pulumi.Input[str]
    pods: pulumi.Input[str]
    services: pulumi.Input[str]


def network(
    cluster: GkeCluster, *, prefix: str, given: ExistingNetworkArgs | None, opts: pulumi.ResourceOptions
) -> Network:
    there = given or cluster.network.existing
    return _made(cluster, prefix, opts) if there is None else _existing(there)


def _existing(there: ExistingNetworkArgs | ExistingNetwork) -> Network:
    return Network(
        network=there.network,
        subnetwork=there.subnetwork,
        pods=there.pods,
        services=there.services,
        before=[],
    )


def _made(cluster: GkeCluster, prefix: str, opts: pulumi.ResourceOptions) -> Network:
    name, ranges = cluster.name, cluster.network
    vpc = gcp.compute.Network(
        prefix,
        name=google_names.network(cluster),
        project=cluster.project,
        auto_create_subnetworks=False,
        routing_mode="REGIONAL",
        opts=opts,
    )
    subnetwork = gcp.compute.Subnetwork(
        f"{prefix}-nodes",
        name=f"{name}-nodes",
        network=vpc.id,
        project=cluster.project,
        region=cluster.region,
        ip_cidr_range=ranges.nodes,
        # Without it nodes without a public address cannot reach Google's own registries and APIs.
        private_ip_google_access=True,
        secondary_ip_ranges=[
            gcp.compute.SubnetworkSecondaryIpRangeArgs(range_name=PODS, ip_cidr_range=ranges.pods),
            gcp.compute.SubnetworkSecondaryIpRangeArgs(range_name=SERVICES, ip_cidr_range=ranges.services),
        ],
        # Pods and Services live in them: while the cluster exists the API changes none, so a change replaces
        # the subnetwork.
        opts=pulumi.ResourceOptions.merge(
            opts, pulumi.ResourceOptions(replace_on_changes=["secondaryIpRanges"])
        ),
    )
    router = gcp.compute.Router(
        f"{prefix}-out",
        name=f"{name}-out",
        network=vpc.id,
        project=cluster.project,
        region=cluster.region,
        opts=opts,
    )
    nat = gcp.compute.RouterNat(
        f"{prefix}-out",
        name=f"{name}-out",
        router=router.name,
        project=cluster.project,
        region=cluster.region,
        nat_ip_allocate_option="AUTO_ONLY",
        source_subnetwork_ip_ranges_to_nat="ALL_SUBNETWORKS_ALL_IP_RANGES",
        log_config=gcp.compute.RouterNatLogConfigArgs(enable=True, filter="ERRORS_ONLY"),
        opts=opts,
    )
    # GKE's own rule opens 443 and 10250 alone. Webhooks of Kueue, KAI and ours, and Kueue's API for pending
    # work, are on other ports. All are open: through the kubelets the control plane may run anything anyway.
    # https://cloud.google.com/kubernetes-engine/docs/concepts/firewall-rules
    webhooks = gcp.compute.Firewall(
        f"{prefix}-control-plane",
        name=google_names.network(cluster),
        description="The control plane calls webhooks and aggregated APIs on the nodes",
        network=vpc.id,
        project=cluster.project,
        direction="INGRESS",
        source_ranges=[ranges.control_plane],
        allows=[gcp.compute.FirewallAllowArgs(protocol="tcp")],
        opts=opts,
    )
    return Network(
        network=vpc.id, subnetwork=subnetwork.id, pods=PODS, services=SERVICES, before=[nat, webhooks]
    )
