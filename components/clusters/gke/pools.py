"""The node pools of a GKE cluster: the system pool, and one a pool of the stack.

Node counts belong to the autoscaler: they are set once, at creation, and ignored afterwards.
"""

from typing import Final

import pulumi
import pulumi_gcp as gcp

from muster.components.clusters.gke import nodes
from muster.model import names
from muster.model.capacity import Capacity
from muster.model.clusters import GkeCluster, ReleaseChannel
from muster.model.nodes import NetworkProfile, NodeNetwork, Placement
from muster.model.pool_zones import pool_zones
from muster.model.pools import Pool

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
    zones = pool_zones(one, cluster)
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
        node_config=nodes.node_config(one, cluster, service_account, kms_key),
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
            gcfs_config=nodes.image_streaming(cluster),
            shielded_instance_config=nodes.shielded(is_gpu=False),
            workload_metadata_config=nodes.hidden_metadata(),
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
    is_lasting = one.capacity not in nodes.FLEX
    return gcp.container.NodePoolManagementArgs(
        auto_repair=is_lasting,
        auto_upgrade=is_lasting or cluster.release_channel is not ReleaseChannel.NONE,
    )


def upgrades(one: Pool) -> gcp.container.NodePoolUpgradeSettingsArgs | None:
    """No GPU node is bought for the sake of an upgrade: there may be none, and a reservation has none to
    spare.
    """
    if one.capacity in nodes.FLEX:
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
