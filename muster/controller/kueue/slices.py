"""Elastic gangs: the slices that a growing Ray cluster is made of.

For each scale-up of a job with the annotation `kueue.x-k8s.io/elastic-job`, Kueue creates a new, larger
Workload and finishes the one before (reason WorkloadSliceReplaced) as soon as the new one has quota. The pods
of the old one keep running. Each slice records what it grows out of, counted once when the slice before is
finished: how many pods run, and whose capacity they use. So a slice is read without those before it, however
many a cluster has had. scale_up.py and running.py act on it. Read in pkg/workloadslicing and pkg/scheduler of
Kueue 0.19.2.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from muster.controller.kube.resource import Key
from muster.controller.kueue.objects import Workload
from muster.model.names import ELASTIC_JOB, MULTI_KUEUE_ORIGIN, RUNS_ANNOTATION, RUNS_ON_ANNOTATION
from muster.model.quantities import read_count

REPLACES: Final = "kueue.x-k8s.io/workload-slice-replacement-for"
_NOTHING: Final[frozenset[str]] = frozenset()

Find = Callable[[Key], Workload | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningBase:
    """What already runs when a slice scales up. `runs`: pods by PodSet; empty when it requests
    everything.
    """

    runs: Mapping[str, int]
    is_counted: bool = True
    is_open: bool = False
    """The slice before it is not finished yet: what runs of it can still change."""
    most: Mapping[str, int] | None = None
    """Until it is counted: no more than these can run. A pod that is about to be deleted still counts."""


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


def cluster_of(workload: Workload) -> list[tuple[str, bool]]:
    """Index of Workloads: the uid of the cluster whose slice it is, and whether the slice lives."""
    if not is_elastic(workload):
        return []
    owners = (each.uid for each in workload.metadata.owner_references if each.controller)
    return [(uid, is_live(workload)) for uid in owners]


def is_live(workload: Workload) -> bool:
    return not workload.status.holds("Finished") and not workload.metadata.deletion_timestamp


def base(workload: Workload, find: Find) -> RunningBase:
    """What already runs when this slice requests capacity. Once it is evicted its cluster is suspended, and
    nothing runs any more.
    """
    key = replaces(workload)
    if key is None or was_evicted(workload) or not is_live(workload):
        return NO_BASE
    runs = _recorded_counts(workload) or {}
    if recorded_slices(workload) is not None:
        return RunningBase(runs=runs)
    before = find(key)
    is_open = before is not None and not before.status.holds("Finished")
    return RunningBase(runs=runs, is_counted=False, is_open=is_open, most=_most(before) if before else None)


def _most(before: Workload) -> Mapping[str, int] | None:
    if before.status.holds("Admitted"):
        return {pod_set.name: pod_set.count for pod_set in before.spec.pod_sets}
    return _recorded_counts(before)


def _recorded_counts(workload: Workload) -> Mapping[str, int] | None:
    recorded = workload.metadata.annotations.get(RUNS_ANNOTATION)
    if recorded is None:
        return None
    pairs = (each.partition("=") for each in recorded.split(","))
    counts = ((name, read_count(count, most_digits=6)) for name, _, count in pairs)
    return {name: count for name, count in counts if count is not None}


def recorded_slices(workload: Workload) -> frozenset[str] | None:
    """The earlier slices whose pods run on; None where they have not been counted."""
    recorded = workload.metadata.annotations.get(RUNS_ON_ANNOTATION)
    return None if recorded is None else frozenset(name for name in recorded.split(",") if name)


def record(
    workload: Workload, running: Mapping[str, int], *, slices: Iterable[str], most: Mapping[str, int] | None
) -> dict[str, str]:
    """The annotations that hold what runs. A count that requests were made from stays as it is."""
    bound = running if most is None else most
    counts = (f"{name}={least}" for name in running if (least := min(running[name], bound.get(name, 0))))
    written = workload.metadata.annotations.get(RUNS_ANNOTATION)
    return {
        RUNS_ANNOTATION: ",".join(sorted(counts)) if written is None else written,
        RUNS_ON_ANNOTATION: ",".join(sorted({*slices} - {workload.metadata.name})),
    }


def earlier_slices(workload: Workload, find: Find) -> list[Workload]:
    """The slices before it whose pods run on, the last first."""
    names = uses(workload) or _NOTHING
    found = (find(Key(workload.metadata.namespace, name)) for name in names)
    return sorted(filter(None, found), key=_age, reverse=True)


def _age(workload: Workload) -> tuple[float, str]:
    created = workload.metadata.creation_timestamp
    return created.timestamp() if created else 0.0, workload.metadata.name


def uses(workload: Workload) -> frozenset[str] | None:
    """The names of earlier slices whose capacity this one keeps; None for all that there are, until it is
    counted.
    """
    if replaces(workload) is None or was_evicted(workload) or not is_live(workload):
        return _NOTHING
    return recorded_slices(workload)


def is_used(workload: Workload, living: Iterable[Workload]) -> bool:
    """Whether pods of this finished slice run under a later one, so that its capacity is not to be given
    back. `living`: the slices of its cluster that are not finished.
    """
    if not workload.status.holds("Admitted") or workload.metadata.deletion_timestamp:
        return False
    kept = (uses(each) for each in living if each.key != workload.key)
    return any(names is None or workload.metadata.name in names for names in kept)


def is_stranded(workload: Workload, others: Iterable[Workload]) -> bool:
    """Whether pods of earlier slices may run on although no slice has quota. `others`: those of its job, the
    ones that are not finished first.

    Kueue 0.19.2 finishes an evicted slice while a larger one waits, and stops a job only by a slice that is
    evicted and not finished: none is left (https://github.com/kubernetes-sigs/kueue/pull/15661). On a
    MultiKueue worker its manager finishes them.
    """
    is_waiting = workload.spec.active and is_live(workload) and not workload.status.holds("QuotaReserved")
    if not is_waiting or was_evicted(workload) or MULTI_KUEUE_ORIGIN in workload.metadata.labels:
        return False
    other = next((each for each in others if each.key != workload.key), None)
    return other is not None and not is_live(other)


def lets_go(before: Workload | None, after: Workload | None) -> bool:
    """Whether a slice used capacity of earlier ones that it does not use any more."""
    had = uses(before) if before else _NOTHING
    has = uses(after) if after else _NOTHING
    return has is not None and (had is None or bool(had - has))


def was_evicted(workload: Workload) -> bool:
    """Ever: Kueue counts evictions, and their condition stays."""
    stats = workload.status.scheduling_stats
    return bool(stats and stats.evictions) or workload.status.condition("Evicted") is not None
