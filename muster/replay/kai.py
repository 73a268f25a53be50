"""What a PodGroup of KAI and its pods say about their job.

Pure: from the job as it was recorded so far and the objects as they are now to the job as it is known now.
KAI writes no time of an admission. A job starts when as many of its pods are bound as its PodGroup needs at
least, and its run ends when none of its pods holds a node any more. A PodGroup outlives the pods that KAI
evicts: the job waits then, and starts again with new pods.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from muster.live.fields import to_json
from muster.live.snapshot import GroupPod, PodGroup
from muster.live.snapshot import PodSet as LivePodSet
from muster.replay.recording import End, Job, PodSet, Run
from muster.replay.stored import to_pod_set

# The action by which KAI ends what lost a part of its gang. By all others a job takes the place of another.
_STALE: Final = "stalegangeviction"
# An Event comes by another way than the pod that it is about, and its time has whole seconds.
_LATE_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """`shape` is a pod set of one and `key` its `key_of`. `bound`: when it got a node; `ended`: when it
    succeeded or failed. `is_going`: it is being deleted.
    """

    shape: PodSet
    key: str
    bound: float | None = None
    ended: float | None = None
    is_failed: bool = False
    is_going: bool = False

    @property
    def is_holding(self) -> bool:
        return self.bound is not None and self.ended is None


@dataclass(frozen=True, slots=True)
class Eviction:
    """`action` is KAI's word, such as `reclaim`; `by` the id of the job that takes the place, or ""."""

    at: float
    action: str
    by: str


def observe(
    group: Job,
    pods: Sequence[Pod],
    evictions: Sequence[Eviction],
    *,
    least: int,
    before: Job | None,
    at: float,
) -> Job:
    """The job of a PodGroup. `group` is what the PodGroup alone says, `least` how many pods it starts with.
    `at` dates what no object dates: that the last pod is gone.
    """
    runs = _runs(pods, evictions, least=least, before=() if before is None else before.runs, at=at)
    job = replace(
        group, pod_sets=_pod_sets(pods, least, () if before is None else before.pod_sets), runs=runs
    )
    last = runs[-1] if runs else None
    has_more = any(pod.ended is None for pod in pods)
    if last is None or last.ended is None or has_more or last.end in (End.PREEMPTED, End.EVICTED):
        return job
    return replace(job, left=last.ended, outcome=last.end)


def to_job(group: PodGroup, *, at: float) -> Job:
    """The job of a PodGroup as a cluster has it, with the PodGroup's name as its id. Of its runs, the one
    that goes on at a moment is known.
    """
    owner = f"{group.job.kind}/{group.job.name}" if group.job else group.name
    found = Job(
        id=group.name,
        team=group.namespace,
        queue=group.queue,
        cluster_queue=group.queue,
        created=group.created.timestamp(),
        pod_sets=(),
        priority_class=group.priority_class,
        name=f"{group.namespace}/{owner}",
    )
    started = (group.started or group.created).timestamp()
    pods = [_to_pod(each, bound=started) for each in group.pods]
    return observe(found, pods, (), least=group.least, before=None, at=at)


def _to_pod(pod: GroupPod, *, bound: float) -> Pod:
    shape = LivePodSet(
        name="",
        count=1,
        requests=pod.requests,
        node_selector=pod.node_selector,
        tolerations=pod.tolerations,
        terms=pod.terms,
    )
    found = to_pod_set(shape, 0, with_names=True)
    is_bound = bool(pod.node) and not pod.is_ending
    return Pod(shape=found, key=key_of(found), bound=bound if is_bound else None, is_going=pod.is_ending)


def _runs(
    pods: Sequence[Pod], evictions: Sequence[Eviction], *, least: int, before: tuple[Run, ...], at: float
) -> tuple[Run, ...]:
    last = before[-1] if before else None
    if last is None or last.ended is not None:
        if last is not None and last.end is End.DELETED:
            last = _evicted(last, evictions)
            before = (*before[:-1], last)
        since = 0.0 if last is None or last.ended is None else math.floor(last.ended)
        bound = sorted(pod.bound for pod in pods if pod.bound is not None and pod.bound >= since)
        if len(bound) < least:
            return before
        before, last = (*before, Run(reserved=bound[least - 1], admitted=bound[least - 1])), None
    run = before[-1]
    if sum(pod.is_holding and not pod.is_going for pod in pods) < least:
        run = _evicted(run, evictions)
    if not any(pod.is_holding for pod in pods):
        run = _ended(run, pods, at)
    return (*before[:-1], run)


def _evicted(run: Run, evictions: Iterable[Eviction]) -> Run:
    """The run with the eviction that ended it, where KAI has reported one."""
    until = math.inf if run.ended is None else run.ended + _LATE_SECONDS
    found = next((each for each in evictions if math.floor(run.reserved) <= each.at <= until), None)
    if found is None or run.evicted is not None:
        return run
    return replace(
        run,
        evicted=found.at if run.ended is None else min(found.at, run.ended),
        end=End.EVICTED if found.action == _STALE else End.PREEMPTED,
        reason=found.action,
        by=found.by,
    )


def _ended(run: Run, pods: Sequence[Pod], at: float) -> Run:
    if run.evicted is not None:
        return replace(run, ended=max(at, run.evicted))
    over = [(pod.ended, pod.is_failed) for pod in pods if pod.ended is not None]
    if not over:
        return replace(run, ended=max(at, run.reserved), end=End.DELETED)
    is_failed = any(failed for _, failed in over)
    ended = max(ended for ended, _ in over)
    return replace(run, ended=max(ended, run.reserved), end=End.FAILED if is_failed else End.FINISHED)


def _pod_sets(pods: Iterable[Pod], least: int, before: Sequence[PodSet]) -> tuple[PodSet, ...]:
    """Pods of equal shape, as many as there were at once: the pods of a job come one by one, and are fewer
    after an eviction. A failed pod and one that is being deleted have a successor.
    """
    present = [pod for pod in pods if not pod.is_failed and not pod.is_going]
    counts = Counter(pod.key for pod in present)
    shapes = {key_of(each): each for each in before} | {pod.key: pod.shape for pod in present}
    known = {key_of(each): each.count for each in before}
    found = [
        replace(shape, name=f"p{index}", count=max(known.get(key, 0), counts[key]), min_count=None)
        for index, (key, shape) in enumerate(shapes.items())
    ]
    if len(found) == 1 and least < found[0].count:
        return (replace(found[0], min_count=least),)
    return tuple(found)


def key_of(shape: PodSet) -> str:
    """Equal for equal pods."""
    return json.dumps(to_json(replace(shape, name="", count=1, min_count=None), omits_defaults=True))
