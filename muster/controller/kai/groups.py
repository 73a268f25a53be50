"""How many pods of each group a gang needs before KAI starts any of them.

Of a Ray cluster it counts exactly as KAI's own grouper (pkg/podgrouper/podgrouper/plugins/ray/ray_grouper.go,
v0.17): the head and, of every worker group, minReplicas × numOfHosts, or replicas × numOfHosts where
minReplicas is 0. With fewer, nodes would be bought for a gang that KAI does not start. Other work needs all
pods that its controller makes at a time, whatever KAI starts with.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from muster.controller.gangs.identity import ATTEMPT, digest
from muster.controller.gangs.retry import parse_history
from muster.controller.kai.labels import HEAD_GROUP, group_of, is_gated, part_of
from muster.controller.kai.objects import CountedWork, GangOwner, GatedPod, RayCluster, WorkerGroup
from muster.model.names import KAI_BATCH_MINIMUM
from muster.model.quantities import many, read_count
from muster.model.work import MAIN, Work, made_later, value_at


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
    if work.kind.family is Work.JOBSET and any(made_later(work.kind, work.spec)):
        raise ValueError(
            # A policy refuses such JobSets, but for those that are made of a runtime.
            "some of its Jobs are made when others run, so its pods never wait at the gate together"
        )
    left = work.kind.counts({"spec": work.spec, "status": work.status})
    return left if work.kind.labels and work.kind.labels.group else {MAIN: sum(left.values())}


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


# Which pods of a gang are ungated together.
#
# Computed from the pods alone. Until KAI's minimum exists, the pods that complete it are one batch: all of
# them or none. Later pods (a cluster that scales up, a pod created again above the minimum) are ungated group
# by group, so that together with earlier ones they make whole replicas.
#
# An object of which KAI makes several gangs, as of the groups of a LeaderWorkerSet, has batches for each by
# itself.
#
# Every batch has a leader, its oldest gated pod. The leader's uid and its number of attempts identify an
# attempt, and its gate is removed last: after a crash or a change of leaders in the middle of a release the
# same batch is found again, with what is still gated and, by their annotation, what has passed.


_FIRST = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """`gated` starts with the leader; `ungated` are those whose gate this very attempt has removed."""

    attempt: str
    gated: tuple[GatedPod, ...]
    ungated: tuple[GatedPod, ...] = ()
    missing_reason: str = ""
    """Why it is not complete; empty when all of its pods exist."""
    refills: bool = False
    """It completes a minimum of which other pods have passed before."""
    unit: int = 0
    """0: all or none. Else it may pass in part, so many pods at a time fewer."""

    @property
    def leader(self) -> GatedPod:
        return self.gated[0]

    @property
    def pods(self) -> tuple[GatedPod, ...]:
        return (*self.gated, *self.ungated)

    @property
    def parts(self) -> range:
        """How many pods of it may pass in part, the most first."""
        return range(len(self.pods) - self.unit, 0, -self.unit) if self.unit else range(0)

    def first(self, count: int) -> "Batch":
        """The batch cut to so many pods, those that have passed among them."""
        kept = max(1, count - len(self.ungated))
        return Batch(
            attempt=self.attempt,
            gated=self.gated[:kept],
            ungated=self.ungated,
            missing_reason=self.missing_reason,
            refills=self.refills,
            unit=self.unit,
        )


def batches(cluster: GangOwner, pods: Sequence[GatedPod], *, leaders: Collection[str]) -> tuple[Batch, ...]:
    """The batches of a cluster's live pods. `leaders`: uids that requests in the API name as their leader.

    Raises ValueError for a cluster that KAI refuses to group.
    """
    parts: dict[str, list[GatedPod]] = {}
    for pod in sorted(pods, key=lambda pod: _order(pod, leaders)):
        parts.setdefault(part_of(pod, cluster), []).append(pod)
    return tuple(batch for members in parts.values() for batch in _batches_of(cluster, members, leaders))


def _batches_of(cluster: GangOwner, pods: Sequence[GatedPod], leaders: Collection[str]) -> tuple[Batch, ...]:
    by_group: dict[str, list[GatedPod]] = {}
    for pod in pods:
        by_group.setdefault(group_of(pod), []).append(pod)
    least = needed(cluster)
    open_groups = {
        group: count
        for group, count in least.items()
        if sum(not is_gated(pod) for pod in by_group.get(group, ())) < count
    }
    if open_groups:
        core = _core(cluster, by_group, least, open_groups, leaders)
        return (core,) if core else ()
    return tuple(
        _growth(cluster, group, members) for group, members in by_group.items() if any(map(is_gated, members))
    )


def _core(
    cluster: GangOwner,
    by_group: Mapping[str, list[GatedPod]],
    least: Mapping[str, int],
    open_groups: Mapping[str, int],
    leaders: Collection[str],
) -> Batch | None:
    waiting = [pod for group in open_groups for pod in by_group.get(group, ()) if is_gated(pod)]
    if not waiting:
        return None
    leader = min(waiting, key=lambda pod: _order(pod, leaders))
    attempt = attempt_of(cluster, leader)
    gated, ungated, missing_reason, refills = [], [], [], False
    for group, count in least.items():
        members = by_group.get(group, [])
        passed = [pod for pod in members if not is_gated(pod) and _attempt(pod) == attempt]
        others = sum(not is_gated(pod) for pod in members) - len(passed)
        chosen = [pod for pod in members if is_gated(pod)][: max(0, count - others - len(passed))]
        gated += chosen
        ungated += passed
        refills = refills or others > 0
        if others + len(passed) + len(chosen) < count:
            why = ", which is suspended" if suspended(cluster, group) else ""
            # Not how many exist: each pod that KubeRay makes would be a write.
            missing_reason.append(f"{many(count, 'pod')} of {group}{why}")
    gated.sort(key=lambda pod: _order(pod, leaders))
    return Batch(
        attempt=attempt,
        gated=tuple(gated),
        ungated=tuple(ungated),
        missing_reason=", ".join(missing_reason),
        refills=refills,
    )


def _growth(cluster: GangOwner, group: str, members: Sequence[GatedPod]) -> Batch:
    gated = tuple(pod for pod in members if is_gated(pod))
    attempt = attempt_of(cluster, gated[0])
    ungated = tuple(pod for pod in members if not is_gated(pod) and _attempt(pod) == attempt)
    unit = hosts(cluster, group)
    # A replica may lack only one pod that was lost: KubeRay makes that one again, and no other with it.
    others = len(members) - len(gated) - len(ungated)
    whole = len(members) // unit * unit - others
    missing_reason = "" if whole > 0 else f"{many(unit, 'pod')} of a replica of {group}"
    batch = Batch(attempt=attempt, gated=gated, ungated=ungated, missing_reason=missing_reason, unit=unit)
    return batch if missing_reason else batch.first(whole)


def attempt_of(cluster: GangOwner, leader: GatedPod) -> str:
    """The identity of the leader's present attempt, fit for a label."""
    return digest(cluster.metadata.uid, leader.metadata.uid, str(parse_history(leader).tries))


def _attempt(pod: GatedPod) -> str:
    return pod.metadata.annotations.get(ATTEMPT, "")


def _order(pod: GatedPod, leaders: Collection[str]) -> tuple[bool, bool, datetime, str]:
    """Who leads already, then the head, then by age: pods made within one second are ordered by name."""
    meta = pod.metadata
    is_head = group_of(pod) == HEAD_GROUP
    return meta.uid not in leaders, not is_head, meta.creation_timestamp or _FIRST, meta.name
