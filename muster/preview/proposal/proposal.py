"""Puts a proposal together: what is wanted, the change that was found, its diff and its replay."""

import difflib
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

from muster.model.pools import Pool
from muster.model.quantities import many
from muster.model.stack import Stack
from muster.model.violations import at
from muster.preview.compare.diff import LoadedSide, StackDiff, diff_stack
from muster.preview.document import Report
from muster.preview.json_report import to_json as diff_to_json
from muster.preview.proposal.evaluate import (
    Budget,
    Evaluation,
    Evaluator,
    Goal,
    GoalError,
    Kind,
    OnEvaluation,
    Subject,
    check_goals,
)
from muster.preview.proposal.search import Cost, Key, Need, Space, Values, cost, search, to_tiers
from muster.preview.replay.both import compare, queues_of
from muster.preview.report import to_report
from muster.replay.figures import NEVER, Played, devices, run_gpus
from muster.replay.player import PlayedRun
from muster.replay.recording import Header
from muster.replay.side import to_side

# Why no change of quotas and limits reaches a goal: a full pool, or something that is no amount. Pure.

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


# What jobs lacked in a replay: in which pool they waited too long, and whose quota was idle there. Pure.


def to_need(evaluation: Evaluation, goals: Sequence[Goal], space: Space, header: Header) -> Need:
    late: dict[tuple[str, str], float] = defaultdict(float)
    length = header.end - header.start
    owners = _owners(evaluation.stack)
    pools = _pools(evaluation.stack)
    sample = evaluation.sample
    for job, waited in zip(sample.jobs, sample.waits, strict=True):
        runs = evaluation.playback.runs[job.label]
        seconds = sum(_lacked(goal, waited, runs, length) for goal in goals if goal.concerns(job))
        if seconds:
            for pool in _wanted_pools(runs, pools):
                late[owners[job.team], pool] += seconds * max(job.gpus, 1)
    return Need(late=late, idle=_idle(evaluation, space, header, owners, pools))


def _lacked(goal: Goal, waited: float, runs: Sequence[PlayedRun], length: float) -> float:
    """Seconds that more quota might have saved it."""
    if goal.kind is Kind.PREEMPTIONS:
        return float(sum((run.end or run.start) - run.start for run in runs if run.is_evicted))
    if goal.kind is Kind.WAIT and not goal.is_late(waited):
        return 0.0
    return length if waited == NEVER else waited


def _wanted_pools(runs: Sequence[PlayedRun], pools: Mapping[str, str]) -> Iterator[str]:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A goal in the stack as it is and with the change; `is_met` is with the change."""

    goal: Goal
    before: float
    after: float
    is_met: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """An amount that changes, in GPUs. `path` is that of the stack file."""

    path: str
    key: Key
    owner: str
    pool: str
    before: int
    after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """The best change that was found. `patch` is a unified diff of the stack file, and `text` its new text.
    `stopped`: why the search ended early, or "". `limits`: why it does not reach the goals, as sentences.
    """

    goals: tuple[Measured, ...]
    keeps: tuple[Measured, ...]
    changes: tuple[Change, ...]
    cost: Cost
    patch: str
    text: str
    diff: StackDiff
    evaluations: int
    stopped: str
    limits: tuple[str, ...]

    @property
    def is_met(self) -> bool:
        return all(each.is_met for each in (*self.goals, *self.keeps))


def propose(
    subject: Subject, *, name: str, program: Path, budget: Budget, on_evaluation: OnEvaluation
) -> Proposal:
    """`name` is the stack's. GoalError where a goal does not fit the recording."""
    evaluator = Evaluator(subject, program=program, budget=budget, on_evaluation=on_evaluation)
    base = evaluator.base()
    _check(subject, base)
    need = to_need(base, subject.goals, evaluator.space, subject.recording.header)
    found = search(evaluator.space, to_tiers(evaluator.space, need), evaluator)
    after = base if found.values == evaluator.space.values else evaluator.evaluation(found.values)
    text = evaluator.text(found.values)
    goals = tuple(_measured(subject.goals, base, after))
    return Proposal(
        goals=goals,
        keeps=tuple(_measured(subject.keeps, base, after)),
        changes=tuple(_changes(evaluator.space, found.values)),
        cost=cost(evaluator.space.values, found.values),
        patch=to_patch(subject.file, subject.text, text),
        text=text,
        diff=_diff(subject, name, base, after),
        evaluations=evaluator.evaluations,
        stopped=found.stopped,
        limits=tuple(
            dict.fromkeys(line for each in goals if not each.is_met for line in limits(after, each.goal))
        ),
    )


def _check(subject: Subject, base: Evaluation) -> None:
    check_goals((*subject.goals, *subject.keeps), base.sample.jobs)
    for each in subject.keeps:
        if each.shortfall(base.sample):
            now = each.format(each.value(base.sample))
            raise GoalError(
                f"{each.text!r} is not kept by the stack as it is: it is {now}.",
                fix="make it a --goal, or name a bound that the stack keeps.",
            )


def _measured(goals: Sequence[Goal], base: Evaluation, after: Evaluation) -> Iterator[Measured]:
    for goal in goals:
        yield Measured(
            goal=goal,
            before=goal.value(base.sample),
            after=goal.value(after.sample),
            is_met=not goal.shortfall(after.sample),
        )


def _changes(space: Space, values: Values) -> Iterator[Change]:
    for knob, value in sorted(values.items()):
        if value != space.values[knob]:
            yield Change(
                path=at(*space.paths[knob]),
                key=knob.key,
                owner=knob.owner,
                pool=knob.pool,
                before=space.values[knob],
                after=value,
            )


def _diff(subject: Subject, name: str, base: Evaluation, after: Evaluation) -> StackDiff:
    """The report of the change with what was replayed already."""
    sides = [to_side(queues_of(each.stack), subject.recording, subject.assumptions) for each in (base, after)]
    replayed = compare(
        subject.recording,
        (base.stack, after.stack),
        sides,
        (base.playback, after.playback),
        subject.assumptions,
    )
    return diff_stack(
        name,
        LoadedSide(exists=True, stack=base.stack),
        LoadedSide(exists=True, stack=after.stack),
        replay=lambda _base, _head: replayed,
    )


def to_patch(file: Path, before: str, after: str) -> str:
    """A unified diff that `git apply` and `patch -p1` take where the file is named by a relative path."""
    old, new = (f"{side}/{file}" if not file.is_absolute() else str(file) for side in "ab")
    lines = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), fromfile=old, tofile=new
    )
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )


# A proposal as text and as JSON.

_VERBS = {Key.QUOTA: "has", Key.BORROW: "borrows at most", Key.LEND: "lends at most"}


def format_proposal(found: Proposal, format_report: Callable[[Report], str]) -> str:
    """What was found, the diff of the stack file, and the report of `muster diff --replay` on it."""
    parts = ["\n".join(_summary(found)) + "\n"]
    if found.changes:
        parts += [found.patch, format_report(to_report([found.diff]))]
    return "\n".join(parts)


def _summary(found: Proposal) -> Iterator[str]:
    yield from map(_goal, found.goals)
    yield from map(_goal, found.keeps)
    yield ""
    yield _verdict(found)
    yield from found.limits
    for change in found.changes:
        yield f"  {format_change(change)}"
    if found.changes:
        yield _cost(found)
    early = f" The search ended early, because {found.stopped}." if found.stopped else ""
    yield f"{many(found.evaluations, 'replay')} of the recording.{early}"


def _goal(each: Measured) -> str:
    before, after = each.goal.format(each.before), each.goal.format(each.after)
    moved = f"{before} → {after}" if before != after else before
    return f"{each.goal.text}: {moved}, {'met' if each.is_met else 'not met'}"


def _verdict(found: Proposal) -> str:
    if not found.is_met:
        best = "The best one that was found:" if found.changes else "None that was tried brings it nearer."
        return f"No change of quotas and limits that was tried reaches the goals. {best}"
    if not found.changes:
        return "The stack meets the goals as it is."
    return f"The smallest change that was found{'; a smaller one may exist' if found.stopped else ''}:"


def format_change(change: Change) -> str:
    after = many(change.after, "GPU")
    return f"{change.owner} {_VERBS[change.key]} {after} of {change.pool}, not {change.before}"


def _cost(found: Proposal) -> str:
    losers = [
        f"{change.owner} {change.before - change.after} of {change.pool}"
        for change in found.changes
        if change.key is Key.QUOTA and change.after < change.before
    ]
    return f"It takes quota: {', '.join(losers)}." if losers else "It takes no quota from anyone."


def to_json(found: Proposal) -> Mapping[str, Any]:
    """Waits are in seconds; null is a wait that never ends."""
    return {
        "version": 1,
        "met": found.is_met,
        "goals": [_measured_to_json(each) for each in found.goals],
        "keep": [_measured_to_json(each) for each in found.keeps],
        "changes": [asdict(each) for each in found.changes],
        "cost": asdict(found.cost),
        "patch": found.patch,
        "limits": list(found.limits),
        "replays": found.evaluations,
        "stopped": found.stopped or None,
        "diff": diff_to_json([found.diff]),
    }


def _measured_to_json(each: Measured) -> Mapping[str, Any]:
    return {
        "goal": each.goal.text,
        "before": None if each.before == NEVER else each.before,
        "after": None if each.after == NEVER else each.after,
        "met": each.is_met,
    }
