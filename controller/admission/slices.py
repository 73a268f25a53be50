"""Elastic gangs: the slices that a Ray cluster which grows is made of.

Kueue makes a new Workload for each growth of a job with the annotation `kueue.x-k8s.io/elastic-job`, larger
than the one before, which it finishes (reason WorkloadSliceReplaced) as soon as the new one has quota. The
pods of the old one run on. Decides what of a slice runs already and who stands on whom; leaves what follows
to machine.py. Read in pkg/workloadslicing and pkg/scheduler of Kueue 0.19.2.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from controller.admission.objects import Workload
from controller.kube.resource import Key

ELASTIC: Final = "kueue.x-k8s.io/elastic-job"
REPLACES: Final = "kueue.x-k8s.io/workload-slice-replacement-for"
LONGEST: Final = 1000
"""Slices that are followed back: a bound for a chain that somebody has tied into a ring."""

Find = Callable[[Key], Workload | None]
Successors = Callable[[Key], Iterable[Workload]]


def is_elastic(workload: Workload) -> bool:
    return workload.metadata.annotations.get(ELASTIC) == "true"


def replaces(workload: Workload) -> Key | None:
    """The slice that this one grows out of."""
    namespace, _, name = workload.metadata.annotations.get(REPLACES, "").partition("/")
    return Key(namespace, name) if name and is_elastic(workload) else None


def replaced(workload: Workload) -> list[Key]:
    """Index of Workloads: whom this one replaces."""
    key = replaces(workload)
    return [key] if key else []


def granted(workload: Workload, find: Find) -> Mapping[str, int]:
    """Pods that run already when this slice asks for capacity, by PodSet; empty when it asks for everything.

    That is what the last slice before it which was admitted has. Once this slice is evicted its cluster is
    suspended, and nothing runs any more. A slice before it that somebody has deleted tells nothing: then all
    is asked for, which costs money and starts nothing too early.
    """
    if was_evicted(workload):
        return {}
    for before in before_it(workload, find):
        if before.status.holds("Admitted"):
            return {pod_set.name: pod_set.count for pod_set in before.spec.pod_sets}
    return {}


def before_it(workload: Workload, find: Find) -> Iterator[Workload]:
    """The slices that this one grew out of, the last first."""
    for _ in range(LONGEST):
        key = replaces(workload)
        found = find(key) if key else None
        if found is None:
            return
        yield found
        workload = found


def was_evicted(workload: Workload) -> bool:
    """Ever: Kueue counts evictions, and their condition stays."""
    stats = workload.status.scheduling_stats
    return bool(stats and stats.evictions) or workload.status.condition("Evicted") is not None


def is_stood_on(workload: Workload, successors: Successors) -> bool:
    """Whether pods of this finished slice run under a later one, so that its capacity is not to be given
    back.
    """
    if not workload.status.holds("Admitted") or workload.metadata.deletion_timestamp:
        return False
    seen, finished = {workload.key}, [workload]
    while finished:
        for later in successors(finished.pop().key):
            if later.key in seen or later.metadata.deletion_timestamp:
                continue
            seen.add(later.key)
            if later.status.holds("Finished"):
                finished.append(later)
            elif not was_evicted(later):
                return True
    return False
