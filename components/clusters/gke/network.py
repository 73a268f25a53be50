"""The VPC of a GKE cluster: one subnetwork with ranges for pods and services, and a way out without public
addresses (Cloud NAT). Or an existing one.
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
    """What the cluster needs to know of it. `way_out`: what nodes need before they can pull an image."""

    network: pulumi.Input[str]
    subnetwork: pulumi.Input[str]
    pods: pulumi.Input[str]
    services: pulumi.Input[str]
    way_out: list[pulumi.Resource]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingNetworkArgs:
    """A VPC that Muster uses and never changes, from any resource of your program.

    `network`, `subnetwork`: id or self link. A shared VPC of another project is written
    `projects/PROJECT/global/networks/NAME`. Another network or subnetwork replaces the cluster.
    `pods`, `services`: names of secondary ranges of the subnetwork. Each node takes a /24 of `pods`, so its
    size limits how many nodes the cluster can have.

    Nodes have no public address: the network needs its own way out (Cloud NAT), or nodes cannot pull images.
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
        way_out=[],
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
    return Network(network=vpc.id, subnetwork=subnetwork.id, pods=PODS, services=SERVICES, way_out=[nat])
