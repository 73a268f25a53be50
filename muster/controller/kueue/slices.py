"""Elastic gangs: the slices that a growing Ray cluster is made of.

For each scale-up of a job with the annotation `kueue.x-k8s.io/elastic-job`, Kueue creates a new, larger
Workload and finishes the one before (reason WorkloadSliceReplaced) as soon as the new one has quota. The pods
of the old one keep running. Computes what of a slice already runs, which earlier slices it uses and which
later ones use it; scale_up.py and running.py act on it. Read in pkg/workloadslicing and pkg/scheduler of
Kueue 0.19.2.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from muster.controller.gangs.retry import parse_history
from muster.controller.kube.resource import Key
from muster.controller.kueue.identity import attempt
from muster.controller.kueue.objects import Workload
from muster.model.names import ELASTIC_JOB, RUNS_ANNOTATION
from muster.model.quantities import read_count

REPLACES: Final = "kueue.x-k8s.io/workload-slice-replacement-for"
MAX_CHAIN: Final = 1000
"""Slices that are followed back: a bound for a chain that is a cycle."""

Find = Callable[[Key], Workload | None]
FindSuccessors = Callable[[Key], Iterable[Workload]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningBase:
    """What already runs when a slice scales up. `runs`: pods by PodSet; empty when it requests
    everything.
    """

    runs: Mapping[str, int]
    is_uncounted: bool = False
    """The slice before it may have been replaced before its pods were schedulable and counted."""
    is_open: bool = False
    """The slice before it is not finished yet: what runs of it can still change."""


NO_BASE: Final = RunningBase(runs={})


def is_elastic(workload: Workload) -> bool:
    return workload.metadata.annotations.get(ELASTIC_JOB) == "true"


def replaces(workload: Workload) -> Key | None:
    """The slice that this one grows out of."""
    namespace, _, name = workload.metadata.annotations.get(REPLACES, "").partition("/")
    return Key(namespace, name) if name and is_elastic(workload) else None


def replaced(workload: Workload) -> list[Key]:
    """Index of Workloads: whom this one replaces."""
    key = replaces(workload)
    return [key] if key else []


def base(workload: Workload, find: Find) -> RunningBase:
    """What already runs when this slice requests capacity.

    That is what the last slice before it which was admitted has. Once this slice is evicted its cluster is
    suspended, and nothing runs any more. A slice before it that was deleted shows nothing: then all
    is asked for, which costs money and starts nothing too early.
    """
    if was_evicted(workload):
        return NO_BASE
    earlier = list(slices_before_it(workload, find))
    if not earlier:
        return NO_BASE
    is_open = not earlier[0].status.holds("Finished")
    if (seen := recorded_counts(workload)) is not None:
        return RunningBase(runs=seen)
    for before in earlier:
        if before.status.holds("Admitted"):
            return RunningBase(runs=_counts(before), is_uncounted=not _has_run_whole(before), is_open=is_open)
        if (seen := recorded_counts(before)) is not None:
            return RunningBase(runs=seen, is_open=is_open)
    return RunningBase(runs={}, is_open=is_open)


def _has_run_whole(before: Workload) -> bool:
    """All its pods have been seen free to be scheduled, in its present reservation."""
    recorded = parse_history(before)
    return recorded.unclaimed in (attempt(before), attempt(before, tries=recorded.tries))


def recorded_counts(workload: Workload) -> Mapping[str, int] | None:
    """The pods that ran when they were counted; None where they were not."""
    recorded = workload.metadata.annotations.get(RUNS_ANNOTATION)
    if recorded is None:
        return None
    pairs = (each.partition("=") for each in recorded.split(","))
    counts = ((name, read_count(count, most_digits=6)) for name, _, count in pairs)
    return {name: count for name, count in counts if count is not None}


def format_counts(runs: Mapping[str, int]) -> str:
    """As an annotation holds it; `recorded_counts` reads it."""
    return ",".join(f"{name}={count}" for name, count in sorted(runs.items()) if count)


def _counts(workload: Workload) -> Mapping[str, int]:
    return {pod_set.name: pod_set.count for pod_set in workload.spec.pod_sets}


def slices_before_it(workload: Workload, find: Find) -> Iterator[Workload]:
    """The slices that this one grew out of, the last first."""
    for _ in range(MAX_CHAIN):
        key = replaces(workload)
        found = find(key) if key else None
        if found is None:
            return
        yield found
        workload = found


def earlier_slices(workload: Workload, find: Find) -> Iterator[Workload]:
    """The admitted slices before it whose pods run on, the last first."""
    if was_evicted(workload) or recorded_counts(workload) == {}:
        return
    for before in slices_before_it(workload, find):
        if before.status.holds("Admitted"):
            yield before
        if was_evicted(before) or recorded_counts(before) == {}:
            return


def was_evicted(workload: Workload) -> bool:
    """Ever: Kueue counts evictions, and their condition stays."""
    stats = workload.status.scheduling_stats
    return bool(stats and stats.evictions) or workload.status.condition("Evicted") is not None


def successors(workload: Workload, find_successors: FindSuccessors) -> Iterator[Workload]:
    """The live slices that use this one."""
    seen, todo = {workload.key}, [workload]
    while todo:
        for later in find_successors(todo.pop().key):
            if later.key in seen or later.metadata.deletion_timestamp or recorded_counts(later) == {}:
                continue
            seen.add(later.key)
            if later.status.holds("Finished"):
                todo.append(later)
            else:
                yield later


def has_running_successor(workload: Workload, find_successors: FindSuccessors) -> bool:
    """Whether pods of this finished slice run under a later one, so that its capacity is not to be given
    back.
    """
    if not workload.status.holds("Admitted") or workload.metadata.deletion_timestamp:
        return False
    return any(not was_evicted(successor) for successor in successors(workload, find_successors))
