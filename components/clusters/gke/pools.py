"""The node pools of a GKE cluster: the system pool, and one a pool of the stack.

Node counts belong to the autoscaler: they are set once, at creation, and ignored afterwards.
"""

from typing import Final

import pulumi
import pulumi_gcp as gcp

from muster.model import gpu_operator, names
from muster.model.capacity import Capacity, Reservation
from muster.model.clusters import GkeCluster, GpuDriver, ReleaseChannel
from muster.model.pools import MOST_RUN, LocalDisks, NetworkProfile, NodeNetwork, Placement, Pool

# What a node of a GKE pool is made of: machine, disks, GPUs, driver, labels, taints, how it is bought.
# Sources of the values for queued pools: docs of flex-start with queued provisioning
# (https://cloud.google.com/kubernetes-engine/docs/how-to/provisioningrequest) and the preconditions of
# github.com/GoogleCloudPlatform/cluster-toolkit, modules/compute/gke-node-pool.

_SCOPES: Final = ("https://www.googleapis.com/auth/cloud-platform",)
_METADATA: Final = {"disable-legacy-endpoints": "true"}
_DRIVER: Final = {
    GpuDriver.DEFAULT: "DEFAULT",
    GpuDriver.LATEST: "LATEST",
    GpuDriver.INSTALLER: "INSTALLATION_DISABLED",
}
# Google gives these for a time and ends them: neither repaired nor drained for an upgrade.
FLEX: Final = (Capacity.QUEUED, Capacity.FLEX_START)
_RESERVATION_KEY: Final = "compute.googleapis.com/reservation-name"


def node_config(
    pool: Pool,
    cluster: GkeCluster,
    service_account: pulumi.Input[str],
    kms_key: pulumi.Input[str] | None,
) -> gcp.container.NodePoolNodeConfigArgs:
    return gcp.container.NodePoolNodeConfigArgs(
        machine_type=pool.machine.name,
        image_type="COS_CONTAINERD",
        disk_type=pool.machine.disk,
        disk_size_gb=pool.boot_disk_gib,
        boot_disk_kms_key=kms_key,
        service_account=service_account,
        oauth_scopes=list(_SCOPES),
        metadata=dict(_METADATA),
        labels=labels(pool, cluster),
        resource_labels={**cluster.labels, "muster-pool": pool.name},
        # GKE itself puts the taint on nodes with TPUs, which are part of the machine.
        taints=[_gpu_taint()] if pool.is_gpu and not pool.is_tpu else None,
        guest_accelerators=[_accelerator(pool, cluster)] if pool.is_gpu and not pool.is_tpu else None,
        gvnic=gcp.container.NodePoolNodeConfigGvnicArgs(enabled=True),
        gcfs_config=image_streaming(cluster),
        ephemeral_storage_local_ssd_config=_local_disks(pool),
        reservation_affinity=_affinity(pool),
        spot=True if pool.capacity is Capacity.SPOT else None,
        flex_start=True if pool.capacity in FLEX else None,
        max_run_duration=_max_run(pool),
        shielded_instance_config=shielded(is_gpu=pool.is_gpu),
        workload_metadata_config=hidden_metadata(),
        kubelet_config=gcp.container.NodePoolNodeConfigKubeletConfigArgs(
            insecure_kubelet_readonly_port_enabled="FALSE"
        ),
    )


def labels(pool: Pool, cluster: GkeCluster) -> dict[str, str]:
    """The pool's own labels and ours. The queued taint is GKE's to put there; its label is not always."""
    found = {**pool.labels, names.POOL_LABEL: pool.name, **gpu_operator.node_labels(pool, cluster)}
    if pool.capacity is Capacity.QUEUED:
        found[names.GKE_QUEUED_LABEL] = "true"
    if pool.network_profile is not None:
        found[names.GKE_NETWORK_DRIVER_LABEL] = "true"
    if pool.is_gpu and not pool.is_tpu and not cluster.gpu_driver.is_managed:
        found[names.GKE_NO_PLUGIN_LABEL] = "true"
    return found


def shielded(*, is_gpu: bool) -> gcp.container.NodePoolNodeConfigShieldedInstanceConfigArgs:
    """Secure boot loads signed kernel modules alone, and not every driver that can be installed is one."""
    return gcp.container.NodePoolNodeConfigShieldedInstanceConfigArgs(
        enable_integrity_monitoring=True, enable_secure_boot=not is_gpu
    )


def hidden_metadata() -> gcp.container.NodePoolNodeConfigWorkloadMetadataConfigArgs:
    """Pods get their own identity from the metadata server, never the node's."""
    return gcp.container.NodePoolNodeConfigWorkloadMetadataConfigArgs(mode="GKE_METADATA")


def image_streaming(cluster: GkeCluster) -> gcp.container.NodePoolNodeConfigGcfsConfigArgs | None:
    if cluster.image_streaming is None:
        return None
    return gcp.container.NodePoolNodeConfigGcfsConfigArgs(enabled=cluster.image_streaming)


def _gpu_taint() -> gcp.container.NodePoolNodeConfigTaintArgs:
    return gcp.container.NodePoolNodeConfigTaintArgs(
        key=names.GPU_TAINT_KEY, value=names.GPU_TAINT_VALUE, effect="NO_SCHEDULE"
    )


def _accelerator(pool: Pool, cluster: GkeCluster) -> gcp.container.NodePoolNodeConfigGuestAcceleratorArgs:
    sharing = gpu_operator.gke_sharing(pool, cluster) or gpu_operator.GkeSharing()
    return gcp.container.NodePoolNodeConfigGuestAcceleratorArgs(
        type=pool.machine.accelerator or "",
        count=pool.gpus_per_node,
        gpu_driver_installation_config=(
            gcp.container.NodePoolNodeConfigGuestAcceleratorGpuDriverInstallationConfigArgs(
                gpu_driver_version=_DRIVER[cluster.gpu_driver]
            )
        ),
        gpu_partition_size=sharing.partition,
        gpu_sharing_config=_sharing(sharing),
    )


def _sharing(
    sharing: gpu_operator.GkeSharing,
) -> gcp.container.NodePoolNodeConfigGuestAcceleratorGpuSharingConfigArgs | None:
    if sharing.strategy is None or sharing.clients is None:
        return None
    return gcp.container.NodePoolNodeConfigGuestAcceleratorGpuSharingConfigArgs(
        gpu_sharing_strategy=sharing.strategy, max_shared_clients_per_gpu=sharing.clients
    )


def _local_disks(pool: Pool) -> gcp.container.NodePoolNodeConfigEphemeralStorageLocalSsdConfigArgs | None:
    if pool.local_disks is LocalDisks.NONE:
        return None
    return gcp.container.NodePoolNodeConfigEphemeralStorageLocalSsdConfigArgs(
        local_ssd_count=pool.machine.local_disks
    )


def _affinity(pool: Pool) -> gcp.container.NodePoolNodeConfigReservationAffinityArgs:
    """Only a pool of capacity `reservation` takes from one: GKE would otherwise use up any open reservation
    of the same machine, and a queued pool is refused unless it is set to take none.
    """
    if pool.reservation is None:
        return gcp.container.NodePoolNodeConfigReservationAffinityArgs(
            consume_reservation_type="NO_RESERVATION"
        )
    return gcp.container.NodePoolNodeConfigReservationAffinityArgs(
        consume_reservation_type="SPECIFIC_RESERVATION",
        key=_RESERVATION_KEY,
        values=[_full_name(pool.reservation)],
    )


def _full_name(reservation: Reservation) -> str:
    if reservation.project is None:
        return reservation.name
    return f"projects/{reservation.project}/reservations/{reservation.name}"


def _max_run(pool: Pool) -> str | None:
    """A gang may ask for as long as flex-start nodes can live, so that is what their pool allows."""
    default = MOST_RUN if pool.capacity in FLEX else None
    seconds = pool.max_run or default
    return None if seconds is None else f"{seconds}s"


_COUNTS: Final = ["initialNodeCount", "nodeCount"]
_TIMEOUTS: Final = pulumi.CustomTimeouts(create="60m", update="90m", delete="60m")
# A region has at least three zones; which of them GKE takes is its choice.
_ZONES: Final = 3


def pool(
    one: Pool,
    cluster: GkeCluster,
    *,
    prefix: str,
    control_plane: gcp.container.Cluster,
    service_account: pulumi.Input[str],
    kms_key: pulumi.Input[str] | None,
    opts: pulumi.ResourceOptions,
) -> gcp.container.NodePool:
    zones = cluster.zones_of(one)
    return gcp.container.NodePool(
        f"{prefix}-{one.name}",
        name=one.name,
        cluster=control_plane.name,
        project=cluster.project,
        location=cluster.location,
        # The cluster's are repeated here: a pool that names none keeps those it had, whatever the cluster's
        # are.
        # https://registry.terraform.io/providers/hashicorp/google/latest/docs/resources/container_node_pool
        node_locations=list(zones) or None,
        initial_node_count=_initial(one.min_nodes, zones=len(zones) or _ZONES),
        autoscaling=autoscaling(one),
        management=management(one, cluster),
        upgrade_settings=upgrades(one),
        queued_provisioning=(
            gcp.container.NodePoolQueuedProvisioningArgs(enabled=True)
            if one.capacity is Capacity.QUEUED
            else None
        ),
        placement_policy=placement(one, policy=_workload_policy(one, cluster, prefix=prefix, opts=opts)),
        network_config=_networks(one.networks, one.network_profile),
        node_config=node_config(one, cluster, service_account, kms_key),
        opts=_options(opts, protect=cluster.protect and one.capacity.is_reserved),
    )


def system_pool(
    cluster: GkeCluster,
    *,
    prefix: str,
    control_plane: gcp.container.Cluster,
    service_account: pulumi.Input[str],
    kms_key: pulumi.Input[str] | None,
    opts: pulumi.ResourceOptions,
) -> gcp.container.NodePool:
    """Kueue, KubeRay and ours run here, apart from all work. It has no GPU and is never queued."""
    size = cluster.system_pool
    return gcp.container.NodePool(
        f"{prefix}-{names.SYSTEM_POOL}",
        name=names.SYSTEM_POOL,
        cluster=control_plane.name,
        project=cluster.project,
        location=cluster.location,
        node_locations=list(cluster.zones) or None,
        # Also where none has to be there: what is installed next waits for a node.
        initial_node_count=_initial(max(size.min_nodes, 1), zones=len(cluster.zones) or _ZONES),
        autoscaling=gcp.container.NodePoolAutoscalingArgs(
            total_min_node_count=size.min_nodes,
            total_max_node_count=size.max_nodes,
            location_policy="BALANCED",
        ),
        management=gcp.container.NodePoolManagementArgs(auto_repair=True, auto_upgrade=True),
        upgrade_settings=gcp.container.NodePoolUpgradeSettingsArgs(
            strategy="SURGE", max_surge=1, max_unavailable=0
        ),
        network_config=_networks(),
        node_config=gcp.container.NodePoolNodeConfigArgs(
            machine_type=size.machine.name,
            image_type="COS_CONTAINERD",
            disk_type=size.machine.disk,
            disk_size_gb=100,
            boot_disk_kms_key=kms_key,
            service_account=service_account,
            oauth_scopes=["https://www.googleapis.com/auth/cloud-platform"],
            metadata={"disable-legacy-endpoints": "true"},
            labels={names.POOL_LABEL: names.SYSTEM_POOL},
            resource_labels={**cluster.labels, "muster-pool": names.SYSTEM_POOL},
            gvnic=gcp.container.NodePoolNodeConfigGvnicArgs(enabled=True),
            gcfs_config=image_streaming(cluster),
            shielded_instance_config=shielded(is_gpu=False),
            workload_metadata_config=hidden_metadata(),
            kubelet_config=gcp.container.NodePoolNodeConfigKubeletConfigArgs(
                insecure_kubelet_readonly_port_enabled="FALSE"
            ),
        ),
        opts=_options(opts, protect=False),
    )


def autoscaling(one: Pool) -> gcp.container.NodePoolAutoscalingArgs:
    """A slice of TPUs is in one zone, and all of its nodes come and go at once: its bounds are a zone's."""
    if one.slice_nodes > 1:
        return gcp.container.NodePoolAutoscalingArgs(
            min_node_count=one.min_nodes, max_node_count=one.max_nodes, location_policy="ANY"
        )
    return gcp.container.NodePoolAutoscalingArgs(
        total_min_node_count=one.min_nodes,
        total_max_node_count=one.max_nodes,
        # GPUs wherever they are to be had; CPU nodes over the zones, so that one zone's loss is not all.
        location_policy="ANY" if one.is_gpu else "BALANCED",
    )


def placement(
    one: Pool, *, policy: pulumi.Input[str] | None = None
) -> gcp.container.NodePoolPlacementPolicyArgs | None:
    """A topology is written for slices of several nodes alone:
    https://cloud.google.com/kubernetes-engine/docs/how-to/tpus. `policy`: the name of its workload policy.
    """
    if one.slice_nodes > 1:
        return gcp.container.NodePoolPlacementPolicyArgs(
            type="COMPACT", policy_name=policy, tpu_topology=one.topology
        )
    if one.placement is Placement.COMPACT:
        return gcp.container.NodePoolPlacementPolicyArgs(type="COMPACT")
    return None


def _workload_policy(
    one: Pool, cluster: GkeCluster, *, prefix: str, opts: pulumi.ResourceOptions
) -> pulumi.Output[str] | None:
    """The name of the policy that a slice of some TPUs is placed by. The engine chooses it, so that another
    topology is another policy.

    Source: https://github.com/GoogleCloudPlatform/cluster-toolkit at 3c107070, examples/gke-tpu-7x and
    modules/compute/resource-policy, read 2026-11-27.
    """
    if one.slice_nodes == 1 or not one.machine.workload_policy:
        return None
    policy = gcp.compute.ResourcePolicy(
        f"{prefix}-{one.name}",
        project=cluster.project,
        region=cluster.region,
        workload_policy=gcp.compute.ResourcePolicyWorkloadPolicyArgs(
            type="HIGH_THROUGHPUT", accelerator_topology=one.topology
        ),
        opts=opts,
    )
    name: pulumi.Output[str] = policy.name
    return name


def management(one: Pool, cluster: GkeCluster) -> gcp.container.NodePoolManagementArgs:
    """Nodes of a gang are neither repaired nor upgraded under it: they live for one lease. In a channel
    auto-upgrade is on all the same, and changes none that runs (upgrades).
    """
    is_lasting = one.capacity not in FLEX
    return gcp.container.NodePoolManagementArgs(
        auto_repair=is_lasting,
        auto_upgrade=is_lasting or cluster.release_channel is not ReleaseChannel.NONE,
    )


def upgrades(one: Pool) -> gcp.container.NodePoolUpgradeSettingsArgs | None:
    """No GPU node is bought for the sake of an upgrade: there may be none, and a reservation has none to
    spare.
    """
    if one.capacity in FLEX:
        # GKE sets SHORT_LIVED by itself there; the provider does not know the value.
        return None
    surge, unavailable = (0, 1) if one.is_gpu else (1, 0)
    return gcp.container.NodePoolUpgradeSettingsArgs(
        strategy="SURGE", max_surge=surge, max_unavailable=unavailable
    )


def _initial(least: int, *, zones: int) -> int | None:
    """Nodes a zone to begin with: GKE does not raise a pool to its minimum on its own account."""
    return -(-least // zones) or None


def _networks(
    further: tuple[NodeNetwork, ...] = (), profile: NetworkProfile | None = None
) -> gcp.container.NodePoolNetworkConfigArgs:
    """Set for every pool: the provider keeps networks that an update leaves out."""
    return gcp.container.NodePoolNetworkConfigArgs(
        enable_private_nodes=True,
        accelerator_network_profile=profile,
        additional_node_network_configs=[
            gcp.container.NodePoolNetworkConfigAdditionalNodeNetworkConfigArgs(
                network=each.network, subnetwork=each.subnetwork
            )
            for each in further
        ]
        or None,
    )


def _options(opts: pulumi.ResourceOptions, *, protect: bool) -> pulumi.ResourceOptions:
    """A pool of a fixed name is replaced by deleting it first: there is no quota for both anyway."""
    return pulumi.ResourceOptions.merge(
        opts,
        pulumi.ResourceOptions(
            protect=protect,
            ignore_changes=_COUNTS,
            delete_before_replace=True,
            custom_timeouts=_TIMEOUTS,
        ),
    )
