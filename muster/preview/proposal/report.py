"""A proposal as text and as JSON."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from muster.model.quantities import many
from muster.preview import markdown
from muster.preview.json_report import to_json as diff_to_json
from muster.preview.proposal.knobs import Key
from muster.preview.proposal.proposal import Change, Measured, Proposal
from muster.preview.report import to_report
from muster.replay.figures import NEVER

_VERBS = {Key.QUOTA: "has", Key.BORROW: "borrows at most", Key.LEND: "lends at most"}


def format_proposal(found: Proposal) -> str:
    """What was found, the diff of the stack file, and the report of `muster diff --replay` on it."""
    parts = ["\n".join(_summary(found)) + "\n"]
    if found.changes:
        parts += [found.patch, markdown.format_comment(to_report([found.diff]), is_drawn=False)]
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
        "goals": [_measured(each) for each in found.goals],
        "keep": [_measured(each) for each in found.keeps],
        "changes": [asdict(each) for each in found.changes],
        "cost": asdict(found.cost),
        "patch": found.patch,
        "limits": list(found.limits),
        "replays": found.evaluations,
        "stopped": found.stopped or None,
        "diff": diff_to_json([found.diff]),
    }


def _measured(each: Measured) -> Mapping[str, Any]:
    return {
        "goal": each.goal.text,
        "before": None if each.before == NEVER else each.before,
        "after": None if each.after == NEVER else each.after,
        "met": each.is_met,
    }
