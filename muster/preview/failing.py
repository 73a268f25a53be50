"""Decides whether `muster diff --fail-on` fails, and whether a report is usable at all.

Responsible for the predicates and their messages. What cannot be compared counts as a failure, so that a gate
never passes on missing information.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from muster.errors import MusterError
from muster.model.quantities import many
from muster.model.transitions import Verdict
from muster.preview.banner import to_banner
from muster.preview.compare.diff import StackDiff
from muster.preview.compare.kai import format_figure, format_move, moves_beside_pools
from muster.preview.compare.pools import lost_nodes
from muster.preview.document import Answer
from muster.preview.figures import format_amount, format_unit
from muster.preview.plan import GRAVE
from muster.preview.report import to_status
from muster.printable import sanitize_line


class FailOn(StrEnum):
    """What a change may be refused for."""

    LOSS = "loss"
    PREEMPTION = "preemption"
    REPLACE = "replace"
    REFUSED = "refused"
    OVERUSE = "overuse"
    LOOK = "look"


class HeadError(MusterError):
    """A head stack file that does not validate, or that lacks what `--fail-on` needs."""


def failures(stacks: Sequence[StackDiff], on: Collection[FailOn]) -> list[str]:
    """One sentence for each reason to fail, in the order of the stacks. HeadError without a needed plan."""
    return [
        sanitize_line(f"{diff.name}: {reason}")
        for diff in stacks
        for kind in FailOn
        if kind in on
        for reason in _PREDICATES[kind](diff)
    ]


def require_valid_heads(stacks: Sequence[StackDiff]) -> None:
    """Raise HeadError when a head does not validate. The report may be written before."""
    broken = [diff for diff in stacks if diff.head_mistakes]
    if not broken:
        return
    counts = ", ".join(f"{diff.name} ({many(len(diff.head_mistakes), 'mistake')})" for diff in broken)
    mistake = broken[0].head_mistakes[0]
    first = sanitize_line(f"{mistake.path}: {mistake.message}").rstrip(".")
    raise HeadError(
        f"The head stack file does not validate: {counts}. The first mistake: {first}.",
        fix="correct the mistakes, which the report and `muster validate STACK` list.",
    )


def _losses(diff: StackDiff) -> Iterator[str]:
    """Teams that are removed, data that is deleted, and guaranteed quota that shrinks. A derived share is no
    guarantee.
    """
    if diff.changes is None:
        yield from _not_compared(diff, "quota")
        return
    removed = diff.changes.removed_teams
    for team in removed:
        yield f"team {team} is removed."
    for space in diff.changes.namespaces:
        yield f"namespace {space.name} of team {space.team} is deleted."
    for volume in diff.changes.volumes:
        yield f"volume {volume.name} of team {volume.team} in namespace {volume.before} is deleted."
    for change in diff.changes.quotas:
        lost = change.loss
        if change.is_team and lost and change.name not in removed:
            amount = f"{format_amount(change.pool, lost)} {format_unit(change.pool)}"
            yield f"team {change.name} loses {amount} of quota in pool {change.pool.name}."
    for each in diff.changes.beside_pools:
        if each.is_loss:
            named = f"{each.resource} of flavor {each.flavor}, which no pool has"
            yield f"team {each.team} loses quota of {named}: {each.amounts}."
    of_pools = {change.name for change in diff.changes.quotas if change.loss}
    for move in moves_beside_pools(diff.kai, {*of_pools, *removed}):
        if move.difference < 0:
            yield f"Queue {move.queue} loses guaranteed quota: {format_move(move)}."


def _preemptions(diff: StackDiff) -> Iterator[str]:
    """New rights of one team to preempt another team."""
    if diff.changes is None:
        yield from _not_compared(diff, "preemption")
        return
    for reason in diff.changes.not_compared:
        yield f"cannot tell whether preemption changes: {reason}"
    for row in diff.changes.preemption:
        if row.is_new and row.right is not None:
            who, whom = ", ".join(row.preemptors), ", ".join(row.victims)
            yield f"{who} can newly preempt {whom} in pool {', '.join(row.pools)} ({row.right})."


def _replacements(diff: StackDiff) -> Iterator[str]:
    """Resources that are replaced or deleted, and pools whose nodes are."""
    if diff.head_plan is None:
        if diff.has_head:
            raise HeadError(
                f"--fail-on {FailOn.REPLACE}: stack {diff.name} has no plan of head.",
                fix=(
                    f"run `pulumi preview --json --stack {diff.name} > head.json` and add "
                    f"--head-plan {diff.name}=head.json."
                ),
            )
        return
    if diff.failures:
        yield "the preview failed, so it does not list every resource that changes."
    for resource in diff.resources(pending=False):
        if resource.verb in GRAVE:
            yield f"{resource.type} {resource.name} is {resource.verb}."
    for nodes in lost_nodes(diff.resources(pending=False)):
        if nodes.is_rolled:
            yield f"{nodes.name}: {nodes.effect}."


def _refusals(diff: StackDiff) -> Iterator[str]:
    """Steps of versions, policies and previews that keep the change from being deployed."""
    if diff.changes is None:
        yield from _not_compared(diff, "versions")
    for step in diff.changes.versions if diff.changes else ():
        if step.verdict is Verdict.REFUSED:
            yield f"{step.component} cannot go from {step.before} to {step.after}: {step.reason}."
    if any(each.is_mandatory for each in diff.policy_violations):
        yield "the policy pack refuses it."
    if diff.failures:
        yield "the preview failed."


def _overuse(diff: StackDiff) -> Iterator[str]:
    """Teams that were within their quota, and use more now than what the change leaves them."""
    if diff.taken is None:
        if diff.has_head:
            raise HeadError(
                f"--fail-on {FailOn.OVERUSE}: it is unknown what the teams of stack {diff.name} use now.",
                fix=f"add --snapshot {diff.name}=FILE or --kubeconfig {diff.name}=FILE.",
            )
        return
    for each in diff.overuse:
        if each.is_new:
            used, after = (format_amount(each.pool, amount) for amount in (each.used, each.after))
            unit = format_unit(each.pool)
            yield f"team {each.team} uses {used} {unit} of pool {each.pool.name} now, and keeps {after}."
    if diff.kai is not None:
        for over in diff.kai.over_quota:
            quota = format_figure(over.resource, over.quota)
            yield f"queue {over.queue} holds {over.used} GPU now, and keeps {quota}."


def _points(diff: StackDiff) -> Iterator[str]:
    """Everything but a plain yes."""
    status = to_status(diff, to_banner(diff))
    if status.answer in (Answer.LOOK, Answer.REFUSED):
        yield f"a person has to look at the change: {status.why}."


def _not_compared(diff: StackDiff, what: str) -> Iterator[str]:
    yield f"cannot compare {what}: a stack file does not validate ({many(len(diff.mistakes), 'mistake')})."


_PREDICATES: Final[Mapping[FailOn, Callable[[StackDiff], Iterator[str]]]] = MappingProxyType(
    {
        FailOn.LOSS: _losses,
        FailOn.PREEMPTION: _preemptions,
        FailOn.REPLACE: _replacements,
        FailOn.REFUSED: _refusals,
        FailOn.OVERUSE: _overuse,
        FailOn.LOOK: _points,
    }
)
