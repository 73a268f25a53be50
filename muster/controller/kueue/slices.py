"""Elastic gangs: the slices that a Ray cluster which grows is made of.

Kueue makes a new Workload for each growth of a job with the annotation `kueue.x-k8s.io/elastic-job`, larger
than the one before, which it finishes (reason WorkloadSliceReplaced) as soon as the new one has quota. The
pods of the old one run on. Decides what of a slice runs already, what it stands on and who stands on whom;
leaves what follows to growth.py and running.py. Read in pkg/workloadslicing and pkg/scheduler of Kueue
0.19.2.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from muster.controller.gangs.retry import history
from muster.controller.kube.resource import Key
from muster.controller.kueue.identity import attempt
from muster.controller.kueue.objects import Workload
from muster.model.names import ELASTIC_JOB, RUNS_ANNOTATION

REPLACES: Final = "kueue.x-k8s.io/workload-slice-replacement-for"
LONGEST: Final = 1000
"""Slices that are followed back: a bound for a chain that somebody has tied into a ring."""

Find = Callable[[Key], Workload | None]
Successors = Callable[[Key], Iterable[Workload]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """What a slice that grows comes upon. `runs`: pods that run already, by PodSet; empty when it asks for
    everything.
    """

    runs: Mapping[str, int]
    is_uncounted: bool = False
    """The slice before it may have been replaced before its pods could be scheduled: nobody has looked."""
    is_open: bool = False
    """The slice before it is not finished yet: what runs of it can still change."""


GROUND: Final = Base(runs={})


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


def base(workload: Workload, find: Find) -> Base:
    """What this slice comes upon when it asks for capacity.

    That is what the last slice before it which was admitted has. Once this slice is evicted its cluster is
    suspended, and nothing runs any more. A slice before it that somebody has deleted tells nothing: then all
    is asked for, which costs money and starts nothing too early.
    """
    if was_evicted(workload):
        return GROUND
    above = list(before_it(workload, find))
    if not above:
        return GROUND
    is_open = not above[0].status.holds("Finished")
    if (seen := counted(workload)) is not None:
        return Base(runs=seen)
    for before in above:
        if before.status.holds("Admitted"):
            return Base(runs=_counts(before), is_uncounted=not _has_stood(before), is_open=is_open)
        if (seen := counted(before)) is not None:
            return Base(runs=seen, is_open=is_open)
    return Base(runs={}, is_open=is_open)


def _has_stood(before: Workload) -> bool:
    """All its pods have been seen free to be scheduled, in its present reservation."""
    said = history(before)
    return said.unclaimed in (attempt(before), attempt(before, tries=said.tries))


def counted(workload: Workload) -> Mapping[str, int] | None:
    """The pods that ran already when somebody looked; None where nobody has."""
    said = workload.metadata.annotations.get(RUNS_ANNOTATION)
    if said is None:
        return None
    pairs = (each.partition("=") for each in said.split(","))
    return {name: int(count) for name, _, count in pairs if count.isdecimal() and len(count) < 7}


def written(runs: Mapping[str, int]) -> str:
    """As an annotation says it; `counted` reads it."""
    return ",".join(f"{name}={count}" for name, count in sorted(runs.items()) if count)


def _counts(workload: Workload) -> Mapping[str, int]:
    return {pod_set.name: pod_set.count for pod_set in workload.spec.pod_sets}


def before_it(workload: Workload, find: Find) -> Iterator[Workload]:
    """The slices that this one grew out of, the last first."""
    for _ in range(LONGEST):
        key = replaces(workload)
        found = find(key) if key else None
        if found is None:
            return
        yield found
        workload = found


def beneath(workload: Workload, find: Find) -> Iterator[Workload]:
    """The admitted slices before it whose pods run on, the last first."""
    if was_evicted(workload) or counted(workload) == {}:
        return
    for before in before_it(workload, find):
        if before.status.holds("Admitted"):
            yield before
        if was_evicted(before) or counted(before) == {}:
            return


def was_evicted(workload: Workload) -> bool:
    """Ever: Kueue counts evictions, and their condition stays."""
    stats = workload.status.scheduling_stats
    return bool(stats and stats.evictions) or workload.status.condition("Evicted") is not None


def heirs(workload: Workload, successors: Successors) -> Iterator[Workload]:
    """The slices that live and stand on this one."""
    seen, over = {workload.key}, [workload]
    while over:
        for later in successors(over.pop().key):
            if later.key in seen or later.metadata.deletion_timestamp or counted(later) == {}:
                continue
            seen.add(later.key)
            if later.status.holds("Finished"):
                over.append(later)
            else:
                yield later


def is_stood_on(workload: Workload, successors: Successors) -> bool:
    """Whether pods of this finished slice run under a later one, so that its capacity is not to be given
    back.
    """
    if not workload.status.holds("Admitted") or workload.metadata.deletion_timestamp:
        return False
    return any(not was_evicted(heir) for heir in heirs(workload, successors))
