"""The VPC of a GKE cluster: one subnetwork with ranges for pods and services, and a way out without public
addresses (Cloud NAT). Or the one that is there.
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
    pods: str
    services: str
    way_out: list[pulumi.Resource]


def network(cluster: GkeCluster, *, opts: pulumi.ResourceOptions) -> Network:
    there = cluster.network.existing
    return _made(cluster, opts) if there is None else _existing(there)


def _existing(there: ExistingNetwork) -> Network:
    return Network(
        network=there.network,
        subnetwork=there.subnetwork,
        pods=there.pods,
        services=there.services,
        way_out=[],
    )


def _made(cluster: GkeCluster, opts: pulumi.ResourceOptions) -> Network:
    name, ranges = cluster.name, cluster.network
    vpc = gcp.compute.Network(
        name,
        name=google_names.network(cluster),
        project=cluster.project,
        auto_create_subnetworks=False,
        routing_mode="REGIONAL",
        opts=opts,
    )
    subnetwork = gcp.compute.Subnetwork(
        f"{name}-nodes",
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
        # Pods and Services live in them: while the cluster stands the API changes none, so it goes with them.
        opts=pulumi.ResourceOptions.merge(
            opts, pulumi.ResourceOptions(replace_on_changes=["secondaryIpRanges"])
        ),
    )
    router = gcp.compute.Router(
        f"{name}-out",
        name=f"{name}-out",
        network=vpc.id,
        project=cluster.project,
        region=cluster.region,
        opts=opts,
    )
    nat = gcp.compute.RouterNat(
        f"{name}-out",
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
