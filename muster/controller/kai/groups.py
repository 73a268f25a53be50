"""How many pods of each group a Ray cluster needs before KAI starts any of them.

Counts exactly as KAI's own grouper (pkg/podgrouper/podgrouper/plugins/ray/ray_grouper.go, v0.17): the head
and, of every worker group, minReplicas × numOfHosts, or replicas × numOfHosts where minReplicas is 0. With
fewer, nodes would be bought for a gang that KAI does not start.
"""

from collections.abc import Mapping

from muster.controller.kai.labels import HEAD_GROUP
from muster.controller.kai.objects import RayCluster, WorkerGroup


def needed(cluster: RayCluster) -> Mapping[str, int]:
    """Pods by group, the head first. Raises ValueError for a cluster that KAI refuses to group.

    A suspended group counts, because it does to KAI: its grouper looks for a field that KubeRay does not
    have, so a cluster with such a group never starts, and nothing may be bought for it.
    """
    counts = {HEAD_GROUP: 1}
    for index, group in enumerate(cluster.spec.worker_group_specs):
        if count := _least(group):
            counts[group.group_name or f"worker-group-{index}"] = count * max(1, group.num_of_hosts)
    return counts


def hosts(cluster: RayCluster, group: str) -> int:
    """Pods of one replica of the group."""
    found = (each for each in cluster.spec.worker_group_specs if each.group_name == group)
    return max(1, next((each.num_of_hosts for each in found), 1))


def suspended(cluster: RayCluster, group: str) -> bool:
    return any(each.group_name == group and each.suspend for each in cluster.spec.worker_group_specs)


def _least(group: WorkerGroup) -> int:
    replicas, least = group.replicas or 0, group.min_replicas or 0
    if least > replicas:
        raise ValueError(
            f"worker group {group.group_name} has minReplicas {least} above replicas {replicas}, "
            f"which KAI does not group; raise replicas"
        )
    return least or replicas
