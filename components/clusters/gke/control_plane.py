"""The GKE cluster itself, without nodes: its default pool is removed, pools are resources of their own."""

from dataclasses import dataclass
from typing import Final

import pulumi
import pulumi_gcp as gcp

from muster.model.clusters import (
    ExistingNetwork,
    GkeAddon,
    GkeCluster,
    MaintenanceExclusion,
    MaintenanceWindow,
    ReleaseChannel,
    gke,
)

# The VPC of a GKE cluster: one subnetwork with ranges for pods and services, a way out without public
# addresses (Cloud NAT), and a way in for the control plane. Or an existing one.

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
    return _make_network(cluster, prefix, opts) if there is None else _find_network(there)


def _find_network(there: ExistingNetworkArgs | ExistingNetwork) -> Network:
    return Network(
        network=there.network,
        subnetwork=there.subnetwork,
        pods=there.pods,
        services=there.services,
        before=[],
    )


def _make_network(cluster: GkeCluster, prefix: str, opts: pulumi.ResourceOptions) -> Network:
    name, ranges = cluster.name, cluster.network
    vpc = gcp.compute.Network(
        prefix,
        name=gke.network(cluster),
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
        name=gke.network(cluster),
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


_CHANNELS: Final = {channel: channel.value.upper() for channel in ReleaseChannel} | {
    ReleaseChannel.NONE: "UNSPECIFIED"
}
# The default pool exists for minutes and is removed. Node counts belong to the autoscaler.
_NOT_OURS: Final = ["initialNodeCount", "nodeConfig", "nodePools", "nodeVersion"]
_TIMEOUTS: Final = pulumi.CustomTimeouts(create="60m", update="90m", delete="60m")


def control_plane(
    cluster: GkeCluster,
    *,
    name: str,
    network: Network,
    service_account: pulumi.Input[str],
    multi_networking: bool,
    security_group: pulumi.Input[str] | None,
    kms_key: pulumi.Input[str] | None,
    opts: pulumi.ResourceOptions,
) -> gcp.container.Cluster:
    """`name`: of the resource. `multi_networking`: some pool has further networks."""
    return gcp.container.Cluster(
        name,
        name=cluster.name,
        # Repeated here: otherwise the preview shows a move to another project as an update.
        project=cluster.project,
        location=cluster.location,
        # Those besides its own zone, for a zonal cluster:
        # https://registry.terraform.io/providers/hashicorp/google/latest/docs/resources/container_cluster
        node_locations=None if cluster.zone else list(cluster.zones) or None,
        min_master_version=cluster.version,
        maintenance_policy=_maintenance(cluster.maintenance),
        release_channel=gcp.container.ClusterReleaseChannelArgs(channel=_CHANNELS[cluster.release_channel]),
        network=network.network,
        subnetwork=network.subnetwork,
        networking_mode="VPC_NATIVE",
        ip_allocation_policy=gcp.container.ClusterIpAllocationPolicyArgs(
            cluster_secondary_range_name=network.pods, services_secondary_range_name=network.services
        ),
        datapath_provider="ADVANCED_DATAPATH",
        enable_multi_networking=multi_networking or None,
        # The API calls these two and the authorised networks deprecated. The provider has no other inputs; it
        # sends their successors: networkConfig.defaultEnablePrivateNodes and controlPlaneEndpointsConfig.
        # Source: resource_container_cluster.go of hashicorp/terraform-provider-google-beta at 7.45.0
        # (expandControlPlaneEndpointsConfig, expandDefaultEnablePrivateNodes), read 2026-11-27
        private_cluster_config=gcp.container.ClusterPrivateClusterConfigArgs(
            enable_private_nodes=True,
            enable_private_endpoint=cluster.private_endpoint,
            master_ipv4_cidr_block=cluster.network.control_plane,
        ),
        master_authorized_networks_config=_authorized(cluster),
        # Set in both cases: the provider keeps an endpoint that an update leaves out.
        control_plane_endpoints_config=gcp.container.ClusterControlPlaneEndpointsConfigArgs(
            dns_endpoint_config=gcp.container.ClusterControlPlaneEndpointsConfigDnsEndpointConfigArgs(
                allow_external_traffic=cluster.dns_endpoint
            )
        ),
        addons_config=_addons(cluster.addons),
        workload_identity_config=gcp.container.ClusterWorkloadIdentityConfigArgs(
            workload_pool=f"{cluster.project}.svc.id.goog"
        ),
        master_auth=gcp.container.ClusterMasterAuthArgs(
            client_certificate_config=gcp.container.ClusterMasterAuthClientCertificateConfigArgs(
                issue_client_certificate=False
            )
        ),
        authenticator_groups_config=_groups(security_group),
        enable_shielded_nodes=True,
        enable_legacy_abac=False,
        database_encryption=_encryption(kms_key),
        remove_default_node_pool=True,
        initial_node_count=1,
        node_config=gcp.container.ClusterNodeConfigArgs(
            machine_type=cluster.system_pool.machine.name,
            service_account=service_account,
            oauth_scopes=["https://www.googleapis.com/auth/cloud-platform"],
            boot_disk_kms_key=kms_key,
        ),
        deletion_protection=cluster.protect,
        resource_labels=dict(cluster.labels) or None,
        opts=pulumi.ResourceOptions.merge(
            opts,
            pulumi.ResourceOptions(
                protect=cluster.protect,
                ignore_changes=_NOT_OURS,
                custom_timeouts=_TIMEOUTS,
                depends_on=network.before,
            ),
        ),
    )


def _maintenance(window: MaintenanceWindow | None) -> gcp.container.ClusterMaintenancePolicyArgs | None:
    if window is None:
        return None
    begin, end = window.first
    return gcp.container.ClusterMaintenancePolicyArgs(
        recurring_window=gcp.container.ClusterMaintenancePolicyRecurringWindowArgs(
            start_time=begin, end_time=end, recurrence=window.recurrence
        ),
        maintenance_exclusions=[_exclusion(name, each) for name, each in sorted(window.exclusions.items())]
        or None,
    )


def _exclusion(
    name: str, exclusion: MaintenanceExclusion
) -> gcp.container.ClusterMaintenancePolicyMaintenanceExclusionArgs:
    return gcp.container.ClusterMaintenancePolicyMaintenanceExclusionArgs(
        exclusion_name=name,
        start_time=exclusion.first,
        end_time=exclusion.last,
        exclusion_options=gcp.container.ClusterMaintenancePolicyMaintenanceExclusionExclusionOptionsArgs(
            scope=exclusion.scope.name,
            end_time_behavior="UNTIL_END_OF_SUPPORT" if exclusion.last is None else None,
        ),
    )


def _authorized(cluster: GkeCluster) -> gcp.container.ClusterMasterAuthorizedNetworksConfigArgs:
    """Always on: an empty list authorises no address from outside; nodes keep their own access."""
    return gcp.container.ClusterMasterAuthorizedNetworksConfigArgs(
        cidr_blocks=[
            gcp.container.ClusterMasterAuthorizedNetworksConfigCidrBlockArgs(
                cidr_block=block, display_name=name
            )
            for name, block in sorted(cluster.authorized_networks.items())
        ],
        gcp_public_cidrs_access_enabled=False,
    )


def _addons(on: tuple[GkeAddon, ...] | None) -> gcp.container.ClusterAddonsConfigArgs | None:
    """All or none are written: the provider keeps an add-on that an update leaves out."""
    if on is None:
        return None
    return gcp.container.ClusterAddonsConfigArgs(
        gcs_fuse_csi_driver_config=gcp.container.ClusterAddonsConfigGcsFuseCsiDriverConfigArgs(
            enabled=GkeAddon.GCS_FUSE in on
        ),
        gcp_filestore_csi_driver_config=gcp.container.ClusterAddonsConfigGcpFilestoreCsiDriverConfigArgs(
            enabled=GkeAddon.FILESTORE in on
        ),
        lustre_csi_driver_config=gcp.container.ClusterAddonsConfigLustreCsiDriverConfigArgs(
            enabled=GkeAddon.LUSTRE in on
        ),
    )


def _groups(
    security_group: pulumi.Input[str] | None,
) -> gcp.container.ClusterAuthenticatorGroupsConfigArgs | None:
    if security_group is None:
        return None
    return gcp.container.ClusterAuthenticatorGroupsConfigArgs(security_group=security_group)


def _encryption(key: pulumi.Input[str] | None) -> gcp.container.ClusterDatabaseEncryptionArgs:
    """Set in both cases: the provider keeps an encryption that an update leaves out."""
    if key is None:
        return gcp.container.ClusterDatabaseEncryptionArgs(state="DECRYPTED")
    return gcp.container.ClusterDatabaseEncryptionArgs(state="ENCRYPTED", key_name=key)
