"""Why no change of quotas and limits reaches a goal: a full pool, or something that is no amount. Pure."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from muster.model.plural import many
from muster.model.pools import Pool
from muster.preview.proposal.evaluate import Evaluation
from muster.preview.proposal.goals import Goal, Kind
from muster.replay.figures import NEVER, Played, devices
from muster.replay.playback import PlayedRun

# Moments of a wait that are looked at.
_MOMENTS: Final = 48
# From this share of its waiting time on, a lack of GPUs is what a job waits for.
_MOSTLY: Final = 0.5


@dataclass(frozen=True, slots=True)
class _Usage:
    """GPUs in use: `levels` from `times` on, which ascend."""

    times: Sequence[float]
    levels: Sequence[int]

    def at(self, second: float) -> int:
        index = bisect_right(self.times, second)
        return self.levels[index - 1] if index else 0


def limits(evaluation: Evaluation, goal: Goal) -> Iterator[str]:
    """Sentences on what the late jobs of a goal wait for, by pool."""
    if goal.kind is not Kind.WAIT:
        return
    pools = {pool.flavor: pool for pool in evaluation.stack.pools if pool.is_gpu}
    usage = _usage(evaluation.playback.runs, pools)
    waited: dict[str, float] = defaultdict(float)
    full: dict[str, float] = defaultdict(float)
    unstarted = 0
    for job, wait in zip(evaluation.sample.jobs, evaluation.sample.waits, strict=True):
        if not goal.concerns(job) or not goal.is_late(wait):
            continue
        runs = evaluation.playback.runs[job.label]
        if wait == NEVER or not runs:
            unstarted += 1
            continue
        for flavor, amounts in runs[0].usage.items():
            if flavor in pools and (gpus := devices(amounts)):
                seconds = runs[0].start - job.arrival
                waited[flavor] += seconds
                full[flavor] += seconds * _share_full(usage[flavor], pools[flavor], job, gpus, seconds)
    for flavor in sorted(waited, key=lambda each: -waited[each]):
        yield _sentence(pools[flavor], full[flavor] / max(waited[flavor], 1.0))
    if unstarted:
        yield f"{many(unstarted, 'job')} would never start: no quota, limit or pool is large enough for them."


def _sentence(pool: Pool, share: float) -> str:
    lacked = f"fewer GPUs of {pool.name} were free than the late jobs need"
    if share >= _MOSTLY:
        return (
            f"For {share:.0%} of their wait, {lacked}: the pool is full. More nodes than its "
            f"{pool.max_nodes} help, or shorter or fewer jobs."
        )
    return (
        f"For only {share:.0%} of their wait, {lacked}. Something else than the pool's size holds them back: "
        "a word such as `none` in the stack file, the order of the queue, or preemption that is not allowed."
    )


def _share_full(usage: _Usage, pool: Pool, job: Played, gpus: int, seconds: float) -> float:
    """The share of its wait in which the pool had fewer free GPUs than it needs."""
    step = seconds / _MOMENTS
    moments = [job.arrival + step * (index + 0.5) for index in range(_MOMENTS)]
    return sum(pool.max_gpus - usage.at(each) < gpus for each in moments) / _MOMENTS


def _usage(runs: Mapping[str, Sequence[PlayedRun]], pools: Mapping[str, Pool]) -> dict[str, _Usage]:
    changes: dict[str, list[tuple[float, int]]] = {flavor: [] for flavor in pools}
    for found in runs.values():
        for run in found:
            for flavor, amounts in run.usage.items():
                if flavor in pools:
                    changes[flavor].append((run.start, devices(amounts)))
                    if run.end is not None:
                        changes[flavor].append((run.end, -devices(amounts)))
    usage = {}
    for flavor, each in changes.items():
        each.sort()
        usage[flavor] = _Usage([at for at, _ in each], list(accumulate(change for _, change in each)))
    return usage
