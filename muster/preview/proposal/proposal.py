"""Puts a proposal together: what is wanted, the change that was found, its diff and its replay."""

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from muster.live.errors import PreviewError
from muster.model.stack import Scheduler
from muster.model.violations import at
from muster.preview.compare.diff import StackDiff, diff_stack
from muster.preview.compare.side import LoadedSide
from muster.preview.proposal.evaluate import Budget, Evaluation, Evaluator, OnEvaluation, Subject
from muster.preview.proposal.goals import Goal, GoalError, check_goals
from muster.preview.proposal.knobs import Key, Space, Values
from muster.preview.proposal.limits import limits
from muster.preview.proposal.moves import to_tiers
from muster.preview.proposal.need import to_need
from muster.preview.proposal.search import Cost, cost, search
from muster.preview.replay.both import compare
from muster.preview.replay.queues import queues_of
from muster.replay.side import to_side


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
    if subject.stack.scheduler is not Scheduler.KUEUE:
        raise PreviewError(
            f"muster plan plays Kueue's queues, and the stack is scheduled by {subject.stack.scheduler}.",
            fix="name a stack with Kueue.",
        )
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
