"""Pools of GKE as ComputeClasses, from which GKE makes node pools by itself for pods that wait.

Pure: the email of the nodes' service account is handed in. Fields:
https://cloud.google.com/kubernetes-engine/docs/reference/crds/computeclass
"""

from collections.abc import Sequence
from typing import Any, Final

from muster.model import gpu_operator, names
from muster.model.capacity import Capacity, Reservation
from muster.model.clusters import GkeCluster
from muster.model.nodes import LocalDisks
from muster.model.pool_zones import pool_zones
from muster.model.pools import Pool
from muster.render.manifest import Manifest, manifest

_API: Final = "cloud.google.com/v1"
# Only a node without pods goes, after the least time that GKE takes. Between its placeholders and its pods a
# gang's node is empty for a moment (docs/decisions/023-gangs-by-placeholders.md).
_EMPTY_MINUTES: Final = 1


def compute_classes(pools: Sequence[Pool], cluster: GkeCluster, *, service_account: str) -> list[Manifest]:
    return [compute_class(pool, cluster, service_account=service_account) for pool in pools]


def compute_class(pool: Pool, cluster: GkeCluster, *, service_account: str) -> Manifest:
    """One pool. GKE puts the class into a label and a taint of its nodes by itself, and taints GPU nodes."""
    labels = {**pool.labels, names.POOL_LABEL: pool.name, **gpu_operator.node_labels(pool, cluster)}
    return manifest(
        _API,
        "ComputeClass",
        pool.name,
        spec={
            "priorities": [_rule(pool, cluster, each) for each in (pool.capacity, *pool.fallback)],
            # Any other machine would have none of the pool's GPUs.
            "whenUnsatisfiable": "DoNotScaleUp",
            "nodePoolAutoCreation": {"enabled": True},
            "nodePoolConfig": {
                "imageType": "cos_containerd",
                "serviceAccount": service_account,
                "nodeLabels": dict(sorted(labels.items())),
            },
            # A move to a better rule would take nodes from what runs.
            "activeMigration": {"optimizeRulePriority": False},
            "autoscalingPolicy": {
                "consolidationDelayMinutes": _EMPTY_MINUTES,
                "consolidationThreshold": 0,
                "gpuConsolidationThreshold": 0,
            },
        },
    )


def _rule(pool: Pool, cluster: GkeCluster, capacity: Capacity) -> dict[str, Any]:
    reservation = pool.reservation if capacity.is_reserved else None
    zones = list(pool_zones(pool, cluster))
    storage: dict[str, Any] = {"bootDiskSize": pool.boot_disk_gib}
    if pool.machine.disk:
        storage["bootDiskType"] = pool.machine.disk
    if cluster.kms_key:
        storage["bootDiskKMSKey"] = cluster.kms_key
    if pool.local_disks is LocalDisks.EPHEMERAL:
        storage["localSSDCount"] = pool.machine.local_disks
    rule: dict[str, Any] = {
        "machineType": pool.machine.name,
        "spot": capacity is Capacity.SPOT,
        "storage": storage,
        "reservations": _reservations(reservation, zones),
    }
    if pool.is_gpu:
        rule["gpu"] = {
            "type": pool.machine.accelerator,
            "count": pool.gpus_per_node,
            "driverVersion": cluster.gpu_driver.value,
        }
    # With a reservation its zones are said there, and GKE refuses both.
    if zones and reservation is None:
        rule["location"] = {"zones": zones}
    if pool.max_run is not None:
        rule["maxRunDurationSeconds"] = pool.max_run
    return rule


def _reservations(reservation: Reservation | None, zones: list[str]) -> dict[str, Any]:
    """A pool takes from its own reservation alone: without a word GKE would use up any that is open."""
    if reservation is None:
        return {"affinity": "None"}
    project = {"project": reservation.project} if reservation.project else {}
    return {"affinity": "Specific", "specific": [{"name": reservation.name, **project, "zones": zones}]}
