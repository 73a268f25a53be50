"""What jobs lacked in a replay: in which pool they waited too long, and whose quota was idle there. Pure."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from muster.model.stack import Stack
from muster.preview.proposal.evaluate import Evaluation
from muster.preview.proposal.goals import Goal, Kind
from muster.preview.proposal.knobs import Key, Space
from muster.preview.proposal.moves import Need
from muster.replay.figures import NEVER, Played, devices, run_gpus
from muster.replay.playback import PlayedRun
from muster.replay.recording import Header


def to_need(evaluation: Evaluation, goals: Sequence[Goal], space: Space, header: Header) -> Need:
    late: dict[tuple[str, str], float] = defaultdict(float)
    length = header.end - header.start
    owners = _owners(evaluation.stack)
    pools = _pools(evaluation.stack)
    sample = evaluation.sample
    for job, waited in zip(sample.jobs, sample.waits, strict=True):
        runs = evaluation.playback.runs[job.label]
        seconds = sum(_lacked(goal, job, waited, runs, length) for goal in goals if goal.concerns(job))
        if seconds:
            for pool in _wanted(runs, pools):
                late[owners[job.team], pool] += seconds * max(job.gpus, 1)
    return Need(late=late, idle=_idle(evaluation, space, header, owners, pools))


def _lacked(goal: Goal, job: Played, waited: float, runs: Sequence[PlayedRun], length: float) -> float:
    """Seconds that more quota might have saved it."""
    if goal.kind is Kind.PREEMPTIONS:
        return float(sum((run.end or run.start) - run.start for run in runs if run.is_evicted))
    if goal.kind is Kind.WAIT and not goal.is_late(waited):
        return 0.0
    return length if waited == NEVER else waited


def _wanted(runs: Sequence[PlayedRun], pools: Mapping[str, str]) -> Iterator[str]:
    """The pools that its first run was given; any where it never ran."""
    if not runs:
        yield from pools.values()
        return
    for flavor, amounts in runs[0].usage.items():
        if flavor in pools and devices(amounts):
            yield pools[flavor]


def _idle(
    evaluation: Evaluation, space: Space, header: Header, owners: Mapping[str, str], pools: Mapping[str, str]
) -> dict[tuple[str, str], float]:
    used: dict[tuple[str, str], float] = defaultdict(float)
    length = max(header.end - header.start, 1.0)
    for job in evaluation.sample.jobs:
        for run in evaluation.playback.runs[job.label]:
            end = header.end if run.end is None else min(run.end, header.end)
            for flavor in run.usage.keys() & pools.keys():
                used[owners[job.team], pools[flavor]] += run_gpus(run) * max(end - run.start, 0.0) / length
    departments = {name for names in space.departments.values() for name in names}
    return {
        (knob.owner, knob.pool): 0.0
        # Its teams use a department's quota by borrowing it.
        if knob.owner in departments
        else max(value - used[knob.owner, knob.pool], 0.0)
        for knob, value in space.values.items()
        if knob.key is Key.QUOTA and value
    }


def _owners(stack: Stack) -> dict[str, str]:
    """Team -> the team whose queue it uses."""
    return {team.name: team.queue or team.name for _, team in stack.teams()}


def _pools(stack: Stack) -> dict[str, str]:
    """Flavor -> pool, of those with GPUs."""
    return {pool.flavor: pool.name for pool in stack.pools if pool.is_gpu}
