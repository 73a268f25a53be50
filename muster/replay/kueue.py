"""What a Workload of Kueue says about its job.

Pure: from the job as it was recorded so far and the Workload as it is now to the job as it is known now.
Times are those of the Workload's conditions, so that a state which was reached while nothing watched is dated
right; they have whole seconds. What a watch delivered within about that second is dated by the watch, to the
millisecond. A run that began and ended between two observations is not seen.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final, Protocol

from muster.live.fields import find_condition, is_true, moment, parse_preemptor, text
from muster.live.snapshot import Workload
from muster.live.snapshot.kueue import parse_workload
from muster.model import names
from muster.replay.durations import Distribution, Seen, to_distribution
from muster.replay.recording import End, Ids, Job, Run, close, tie
from muster.replay.stored import to_pod_set

# How long the nodes of a pool take: from the reservation of quota to the admission. Pure.

# Kubernetes keeps whole seconds: both conditions may fall on either side of one.
_AT_ONCE: Final = 1.0
_MOST: Final = 0.9


class NodePool(Protocol):
    """A pool of a stack, or a pool as a ResourceFlavor of a cluster describes it."""

    @property
    def name(self) -> str: ...

    @property
    def flavor(self) -> str:
        """The name of its ResourceFlavor."""

    @property
    def is_gpu(self) -> bool:
        """Whether its nodes have GPUs or TPUs."""


def provisioning(jobs: Iterable[Job], pools: Iterable[NodePool], *, at: float) -> dict[str, Distribution]:
    """By pool, what was known at a moment. A pool in which no run was admitted until then is missing.

    A run in several pools counts for those with devices, whose nodes take longest. One that lost its quota
    before it was admitted says that it takes longer.
    """
    by_flavor = {pool.flavor: pool for pool in pools}
    seen: dict[str, list[Seen]] = defaultdict(list)
    for run in (run for job in jobs for run in job.runs if run.reserved <= at):
        used = [by_flavor[flavor] for flavor in run.flavors if flavor in by_flavor]
        for pool in [pool for pool in used if pool.is_gpu] or used:
            seen[pool.name].append(_seen(run, at))
    return {
        pool: to_distribution(found) for pool, found in seen.items() if any(each.is_over for each in found)
    }


def has_waits(found: Distribution) -> bool:
    """Whether one run in ten at least waited for its nodes."""
    return found.length(_MOST) > _AT_ONCE


def _seen(run: Run, at: float) -> Seen:
    if run.admitted is not None and run.admitted <= at:
        return Seen(seconds=run.admitted - run.reserved, is_over=True)
    ends = [each for each in (run.evicted, run.ended, at) if each is not None]
    return Seen(seconds=max(min(ends) - run.reserved, 0.0), is_over=False)


_RESERVED: Final = "QuotaReserved"
# From a time that was cut to its second until a watch brings it: clocks may differ by a second, and the watch
# may be a second late.
_EARLY_SECONDS: Final = 1.0
_LATE_SECONDS: Final = 2.0


def observe(
    found: Mapping[str, object], *, before: Job | None, at: float | None, ids: Ids, with_names: bool
) -> Job:
    """The job of a Workload, with the runs of `before`. `at`: when a watch brought it, None for a list's."""
    workload, uid = parse_workload(found), text(found, "metadata", "uid")
    created = workload.created.timestamp()
    arrived = before.arrived if before is not None else None
    if before is None and at is not None and _fits(created, at):
        arrived = at
    job = replace(
        _job(workload, ids.of(uid), with_names=with_names),
        cluster_queue=workload.cluster_queue or (before.cluster_queue if before else ""),
        tie=tie(uid),
        arrived=arrived,
        runs=_runs(found, workload, () if before is None else before.runs, at=at, ids=ids),
    )
    if not is_true(found, "Finished"):
        return job
    left = _since(found, "Finished", at=at)
    outcome = _outcome(found)
    return replace(job, left=left, outcome=outcome, runs=close(job.runs, at=left, end=outcome))


def to_job(workload: Workload) -> Job:
    """The job of a Workload that has not finished, with its name as its id. Of its runs, the one that holds
    quota is known.
    """
    reserved, admitted = workload.since("QuotaReserved"), workload.since("Admitted")
    job = _job(workload, workload.name, with_names=True)
    if not workload.is_holding:
        return job
    run = Run(
        reserved=(reserved or admitted or workload.created).timestamp(),
        admitted=admitted.timestamp() if admitted else None,
        flavors=_flavors(workload),
        counts=_counts(workload),
        device_flavors=_device_flavors(workload),
    )
    return replace(job, runs=(run,))


def refined(stated: float, at: float | None) -> float:
    """A time in whole seconds, by the moment that brought it where that came in about the same second."""
    return at if at is not None and _fits(stated, at) else stated


def finished_at(found: Mapping[str, object]) -> float | None:
    """When the Workload finished; None while it has not."""
    return _since(found, "Finished") if is_true(found, "Finished") else None


def _job(workload: Workload, id: str, *, with_names: bool) -> Job:
    return Job(
        id=id,
        team=workload.namespace,
        queue=workload.queue,
        cluster_queue=workload.cluster_queue,
        created=workload.created.timestamp(),
        pod_sets=tuple(
            to_pod_set(each, index, with_names=with_names) for index, each in enumerate(workload.pod_sets)
        ),
        priority=workload.priority,
        priority_class=workload.priority_class,
        name=_name(workload) if with_names else "",
    )


def _flavors(workload: Workload) -> tuple[str, ...]:
    return tuple(sorted({name for pods in workload.pod_sets for name in pods.flavors.values()}))


def _device_flavors(workload: Workload) -> tuple[str, ...]:
    """Of each pod set, where there are several flavors."""
    if len(_flavors(workload)) < 2:
        return ()
    return tuple(
        next((pods.flavors[each] for each in names.DEVICE_RESOURCES if each in pods.flavors), "")
        for pods in workload.pod_sets
    )


def _runs(
    found: Mapping[str, object],
    workload: Workload,
    before: tuple[Run, ...],
    *,
    at: float | None,
    ids: Ids,
) -> tuple[Run, ...]:
    current = before[-1] if before and before[-1].ended is None else None
    reserved = _since(found, _RESERVED, at=at, known=current.reserved if current else None)
    if not is_true(found, _RESERVED):
        end, reason, _ = _eviction(found, ids)
        return close(before, at=_since(found, _RESERVED, at=at), end=end or End.EVICTED, reason=reason)
    if reserved is None:
        return before
    if current is not None and current.reserved != reserved:
        # It lost its quota and got quota again between two looks.
        before, current = close(before, at=reserved, end=End.EVICTED), None
    admitted = current.admitted if current is not None else None
    if is_true(found, "Admitted"):
        admitted = _since(found, "Admitted", at=at, known=admitted)
    run = replace(
        current or Run(reserved=reserved),
        admitted=admitted,
        flavors=_flavors(workload),
        counts=_counts(workload),
        device_flavors=_device_flavors(workload),
        idle=_idle(found, admitted),
    )
    if is_true(found, "Evicted"):
        end, reason, by = _eviction(found, ids)
        evicted = _since(found, "Evicted", at=at, known=run.evicted)
        run = replace(run, evicted=evicted, end=end, reason=reason, by=by)
    return (*(before[:-1] if current is not None else before), run)


def _idle(found: object, admitted: float | None) -> float | None:
    """Since when its GPUs do nothing; None for what is left of an earlier run."""
    since = moment(found, "metadata", "annotations", names.IDLE_SINCE_ANNOTATION)
    is_of_run = since is not None and admitted is not None and since.timestamp() >= admitted
    return since.timestamp() if since is not None and is_of_run else None


def _eviction(found: object, ids: Ids) -> tuple[End | None, str, str]:
    """Why it lost its quota: how, the scheduler's word, and the id of the job that preempted it."""
    if not is_true(found, "Evicted"):
        return None, text(find_condition(found, _RESERVED), "reason"), ""
    reason = text(find_condition(found, "Evicted"), "reason")
    if reason != "Preempted":
        return End.EVICTED, reason, ""
    by, how = parse_preemptor(found)
    return End.PREEMPTED, how, ids.of(by) if by else ""


def _outcome(found: object) -> End:
    return End.FAILED if text(find_condition(found, "Finished"), "reason") == "Failed" else End.FINISHED


def _since(found: object, kind: str, *, at: float | None = None, known: float | None = None) -> float | None:
    """When a condition last changed: `known` if it means the same change, else `at` if that does."""
    stated: datetime | None = moment(find_condition(found, kind), "lastTransitionTime")
    if stated is None:
        return None
    return refined(stated.timestamp(), at if known is None or not _fits(stated.timestamp(), known) else known)


def _fits(stated: float, at: float) -> bool:
    return -_EARLY_SECONDS <= at - stated <= _LATE_SECONDS


def _counts(workload: Workload) -> tuple[int, ...]:
    counts = tuple(pods.count if pods.assigned is None else pods.assigned for pods in workload.pod_sets)
    return () if counts == tuple(pods.count for pods in workload.pod_sets) else counts


def _name(workload: Workload) -> str:
    job = workload.job
    return f"{workload.namespace}/{job.kind}/{job.name}" if job else f"{workload.namespace}/{workload.name}"
