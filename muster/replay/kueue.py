"""What a Workload of Kueue says about its job.

Pure: from the job as it was recorded so far and the Workload as it is now to the job as it is known now.
Times are those of the Workload's conditions, so that a state which was reached while nothing watched is dated
right. A run that began and ended between two observations is not seen.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from muster.live.conditions import find_condition, is_true, parse_preemptor
from muster.live.fields import moment, text
from muster.live.snapshot import PodSet as LivePodSet
from muster.live.snapshot import Workload
from muster.live.snapshot.kueue import parse_workload
from muster.model import names
from muster.replay.ids import Ids, tie
from muster.replay.recording import End, Job, PodSet, Run

_SAME = "QuotaReserved"
_HOST = "kubernetes.io/hostname"


def observe(found: Mapping[str, object], *, before: Job | None, ids: Ids, with_names: bool) -> Job:
    """The job of a Workload, with the runs of `before`."""
    workload, uid = parse_workload(found), text(found, "metadata", "uid")
    job = Job(
        id=ids.of(uid),
        team=workload.namespace,
        queue=workload.queue,
        cluster_queue=workload.cluster_queue or (before.cluster_queue if before else ""),
        created=workload.created.timestamp(),
        pod_sets=tuple(
            _to_pod_set(each if with_names else _without_host(each), each.name if with_names else f"p{index}")
            for index, each in enumerate(workload.pod_sets)
        ),
        priority=workload.priority,
        priority_class=workload.priority_class,
        tie=tie(uid),
        name=_name(workload) if with_names else "",
        runs=_runs(found, workload, () if before is None else before.runs, ids),
    )
    if not is_true(found, "Finished"):
        return job
    left = _since(found, "Finished")
    outcome = _outcome(found)
    return replace(job, left=left, outcome=outcome, runs=close(job.runs, at=left, end=outcome))


def finished_at(found: Mapping[str, object]) -> float | None:
    """When the Workload finished; None while it has not."""
    return _since(found, "Finished") if is_true(found, "Finished") else None


def deleted(job: Job, *, at: float) -> Job:
    """A job whose object is gone without having finished."""
    return replace(
        job, left=max(at, job.created), outcome=End.DELETED, runs=close(job.runs, at=at, end=End.DELETED)
    )


def close(runs: tuple[Run, ...], *, at: float | None, end: End | None, reason: str = "") -> tuple[Run, ...]:
    """The runs with the last one ended, where it had not."""
    if not runs or runs[-1].ended is not None or at is None:
        return runs
    last = runs[-1]
    # What the scheduler took away stays taken away: its word is kept.
    is_taken = last.end is not None
    ended = replace(
        last,
        ended=max(at, last.reserved),
        end=last.end if is_taken else end,
        reason=last.reason if is_taken else reason,
    )
    return (*runs[:-1], ended)


def _runs(
    found: Mapping[str, object], workload: Workload, before: tuple[Run, ...], ids: Ids
) -> tuple[Run, ...]:
    reserved = _since(found, _SAME)
    if not is_true(found, _SAME):
        end, reason, _ = _eviction(found, ids)
        return close(before, at=reserved, end=end or End.EVICTED, reason=reason)
    if reserved is None:
        return before
    current = before[-1] if before and before[-1].ended is None else None
    if current is not None and current.reserved != reserved:
        # It lost its quota and got quota again between two looks.
        before, current = close(before, at=reserved, end=End.EVICTED), None
    admitted = _since(found, "Admitted") if is_true(found, "Admitted") else None
    if admitted is None and current is not None:
        admitted = current.admitted
    run = replace(
        current or Run(reserved=reserved),
        admitted=admitted,
        flavors=tuple(sorted({name for pods in workload.pod_sets for name in pods.flavors.values()})),
        counts=_counts(workload),
    )
    if is_true(found, "Evicted"):
        end, reason, by = _eviction(found, ids)
        run = replace(run, evicted=_since(found, "Evicted"), end=end, reason=reason, by=by)
    return (*(before[:-1] if current is not None else before), run)


def _eviction(found: object, ids: Ids) -> tuple[End | None, str, str]:
    """Why it lost its quota: how, the scheduler's word, and the id of the job that preempted it."""
    if not is_true(found, "Evicted"):
        return None, text(find_condition(found, _SAME), "reason"), ""
    reason = text(find_condition(found, "Evicted"), "reason")
    if reason != "Preempted":
        return End.EVICTED, reason, ""
    by, how = parse_preemptor(found)
    return End.PREEMPTED, how, ids.of(by) if by else ""


def _outcome(found: object) -> End:
    return End.FAILED if text(find_condition(found, "Finished"), "reason") == "Failed" else End.FINISHED


def _since(found: object, kind: str) -> float | None:
    """When a condition came to be what it is."""
    at: datetime | None = moment(find_condition(found, kind), "lastTransitionTime")
    return None if at is None else at.timestamp()


def _counts(workload: Workload) -> tuple[int, ...]:
    counts = tuple(pods.count if pods.assigned is None else pods.assigned for pods in workload.pod_sets)
    return () if counts == tuple(pods.count for pods in workload.pod_sets) else counts


def _to_pod_set(found: LivePodSet, name: str) -> PodSet:
    """`name`: the worker groups of a Ray cluster have names of the user's."""
    pool = found.node_selector.get(names.POOL_LABEL)
    return PodSet(
        name=name,
        count=found.count,
        min_count=found.min_count,
        requests=found.requests,
        pools=(pool,) if pool else (),
        node_selector=found.node_selector,
        tolerations=found.tolerations,
        terms=found.terms,
    )


def _without_host(found: LivePodSet) -> LivePodSet:
    """Without the names of nodes. Kueue chooses no flavor by them: it reads labels that flavors have and no
    others. Where nothing is left of one term, every flavor matches (0.19, pkg/scheduler/flavorassigner,
    flavorSelector).
    """
    terms = [
        replace(term, expressions=tuple(each for each in term.expressions if each.key != _HOST))
        for term in found.terms
    ]
    return replace(
        found,
        node_selector={key: value for key, value in found.node_selector.items() if key != _HOST},
        terms=tuple(terms) if all(term.expressions for term in terms) else (),
    )


def _name(workload: Workload) -> str:
    job = workload.job
    return f"{workload.namespace}/{job.kind}/{job.name}" if job else f"{workload.namespace}/{workload.name}"
