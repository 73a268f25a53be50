"""How long the nodes of a pool take: from the reservation of quota to the admission. Pure."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Final, Protocol

from muster.replay.durations import Distribution, Seen, to_distribution
from muster.replay.recording import Job, Run

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
