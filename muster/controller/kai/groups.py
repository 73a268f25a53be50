"""How many pods of each group a gang needs before KAI starts any of them.

Of a Ray cluster it counts exactly as KAI's own grouper (pkg/podgrouper/podgrouper/plugins/ray/ray_grouper.go,
v0.17): the head and, of every worker group, minReplicas × numOfHosts, or replicas × numOfHosts where
minReplicas is 0. With fewer, nodes would be bought for a gang that KAI does not start. Other work needs all
pods that its controller makes at a time, whatever KAI starts with.
"""

from collections.abc import Mapping
from typing import Any

from muster.controller.kai.labels import HEAD_GROUP
from muster.controller.kai.objects import CountedWork, GangOwner, RayCluster, WorkerGroup
from muster.model.names import KAI_BATCH_MINIMUM
from muster.model.quantities import many, read_count
from muster.model.work import MAIN, Work, value_at


def needed(cluster: GangOwner) -> Mapping[str, int]:
    """Pods by group, the head first. Raises ValueError for what KAI refuses to group, or never starts.

    A suspended group counts, because it does to KAI: its grouper looks for a field that KubeRay does not
    have, so a cluster with such a group never starts, and nothing may be bought for it.
    """
    if isinstance(cluster, CountedWork):
        return _counted(cluster)
    counts = {HEAD_GROUP: 1}
    for index, group in enumerate(cluster.spec.worker_group_specs):
        if count := _least(group):
            counts[group.group_name or f"worker-group-{index}"] = count * max(1, group.num_of_hosts)
    return counts


def _counted(work: CountedWork) -> Mapping[str, int]:
    whole = work.kind.counts({"spec": work.spec})
    least = _minimum_of(work)
    if work.kind.family is Work.JOB and least > max(1, sum(whole.values())):
        raise ValueError(
            f"its annotation {KAI_BATCH_MINIMUM} is {least}, and it has no more than "
            f"{many(sum(whole.values()), 'pod')} at a time; lower it"
        )
    if work.kind.labels and work.kind.labels.maker and not all(whole.values()):
        empty = ", ".join(group for group, count in whole.items() if not count)
        raise ValueError(f"it has no pods of {empty}, and KAI does not group such work; remove that part")
    if work.kind.family is Work.JOBSET and _is_staged(work.spec):
        raise ValueError(
            "some of its Jobs are made when others run, so its pods never wait at the gate together"
        )
    left = work.kind.counts({"spec": work.spec, "status": work.status})
    return left if work.kind.labels and work.kind.labels.group else {MAIN: sum(left.values())}


def _is_staged(spec: Mapping[str, Any]) -> bool:
    """A policy refuses such JobSets, but for those that are made of a runtime."""
    jobs = spec.get("replicatedJobs") or ()
    order = value_at(spec, "startupPolicy.startupPolicyOrder")
    return order == "InOrder" or any(each.get("dependsOn") for each in jobs)


def _minimum_of(work: CountedWork) -> int:
    """What KAI starts it with, where that does not follow from its object."""
    is_read = work.kind.family is Work.JOB
    said = work.metadata.annotations.get(KAI_BATCH_MINIMUM, "") if is_read else ""
    return read_count(said, most_digits=9) or 1


def is_kept_whole(gang: GangOwner) -> bool:
    """Whether KAI has a minimum of its own for it, below which it neither starts it nor leaves it running."""
    if not isinstance(gang, CountedWork):
        return True
    if gang.kind.family not in (Work.JOB, Work.STATEFULSET):
        return value_at(gang.spec, "elasticPolicy.minReplicas") is None
    return _minimum_of(gang) >= sum(needed(gang).values())


def hosts(cluster: GangOwner, group: str) -> int:
    """Pods of one replica of the group."""
    if isinstance(cluster, CountedWork):
        return 1
    found = (each for each in cluster.spec.worker_group_specs if each.group_name == group)
    return max(1, next((each.num_of_hosts for each in found), 1))


def suspended(cluster: GangOwner, group: str) -> bool:
    groups = cluster.spec.worker_group_specs if isinstance(cluster, RayCluster) else ()
    return any(each.group_name == group and each.suspend for each in groups)


def _least(group: WorkerGroup) -> int:
    replicas, least = group.replicas or 0, group.min_replicas or 0
    if least > replicas:
        raise ValueError(
            f"worker group {group.group_name} has minReplicas {least} above replicas {replicas}, "
            f"which KAI does not group; raise replicas"
        )
    return least or replicas
