"""What a node of a GKE pool is made of: machine, disks, GPUs, driver, labels, taints, how it is bought.

Sources of the values for queued pools: docs of flex-start with queued provisioning
(https://cloud.google.com/kubernetes-engine/docs/how-to/provisioningrequest) and the preconditions of
github.com/GoogleCloudPlatform/cluster-toolkit, modules/compute/gke-node-pool.
"""

from typing import Final

import pulumi
import pulumi_gcp as gcp

from muster.model import gpu_operator, names
from muster.model.capacity import Capacity, Reservation
from muster.model.clusters import GkeCluster, GpuDriver
from muster.model.nodes import LocalDisks
from muster.model.pools import MOST_RUN, Pool

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
