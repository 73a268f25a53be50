"""The summary of a report: one line that says how careful to be, and what there is to see.

Responsible for what counts as grave: something refused, a team that loses quota, a resource replaced or
deleted, a team that uses more than its new quota, namespaces that Muster stops guarding.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from muster.model.pools import Pool
from muster.model.transitions import Verdict
from muster.preview import figures
from muster.preview.compare.changes import Changes
from muster.preview.compare.diff import GRAVE, StackDiff
from muster.preview.compare.quota import QuotaChange
from muster.preview.document import Span, Text, UntrustedText, join_names

_STOPPED: Final = "The preview failed: the engine stopped, so resources that it did not reach are not listed."


def summarize(diff: StackDiff) -> Iterator[Text]:
    """The first line, and the facts that it follows from."""
    refused = list(_refused(diff))
    if refused:
        yield from refused
    elif diff.is_empty:
        yield ("Nothing changes.",)
    else:
        yield (_line(diff),)
    if diff.changes is not None:
        yield from _for_whom(diff.changes)
    yield from _over(diff)
    yield from _bill(diff)
    yield from _resources(diff)
    warnings = sum(not each.is_mandatory for each in diff.policy_violations)
    if warnings:
        yield (f"Policies: {_many(warnings, 'warning')}.",)


def _refused(diff: StackDiff) -> Iterator[Text]:
    if diff.mistakes:
        yield (f"Refused: {_many(len(diff.mistakes), 'mistake')} in the stack's description.",)
    mandatory = sum(each.is_mandatory for each in diff.policy_violations)
    if mandatory:
        violations = _many(mandatory, "violation")
        yield (f"Refused by the policy pack: {violations}.",)
    steps = () if diff.changes is None else diff.changes.versions
    for step in steps:
        if step.verdict is Verdict.REFUSED:
            before, after = UntrustedText(step.before), UntrustedText(step.after)
            yield (f"Refused: {step.component} cannot go from ", before, " to ", after, ".")
    if diff.failures:
        yield (_STOPPED,)


def _line(diff: StackDiff) -> str:
    """What to look at closely, or that no team loses anything."""
    grave = list(_grave(diff))
    return f"Look closely: {', '.join(grave)}." if grave else "Changes, and no team loses anything."


def _grave(diff: StackDiff) -> Iterator[str]:
    if diff.changes is not None:
        gone = diff.changes.removed_teams
        if gone:
            yield f"{_many(len(gone), 'team')} removed"
        if diff.changes.releases_namespaces:
            yield "namespaces no longer guarded"
        losing = _movers(diff.changes, -1)
        if losing:
            yield f"{_many(len(losing), 'team')} {_verb(losing, 'loses')} quota"
        if _pairs(diff.changes, is_new=True):
            yield "new preemption"
        ordered = sum(each.verdict is Verdict.ORDERED for each in diff.changes.versions)
        if ordered:
            yield f"{_many(ordered, 'version')} that {'needs' if ordered == 1 else 'need'} an order"
    counts = [(sum(each.verb == verb for each in diff.resources(pending=False)), verb) for verb in GRAVE]
    for number, verb in counts:
        if number:
            yield f"{_many(number, 'resource')} {verb}"


def _resources(diff: StackDiff) -> Iterator[Text]:
    counts = [
        f"{len(found)} {verb}"
        for verb in GRAVE
        if (found := [each for each in diff.resources(pending=False) if each.verb == verb])
    ]
    if counts:
        yield (f"Resources: {', '.join(counts)}.",)


def _over(diff: StackDiff) -> Iterator[Text]:
    found = sorted({each.team for each in diff.overuse})
    if found:
        verb = "uses" if len(found) == 1 else "use"
        yield (
            f"{_many(len(found), 'team')} {verb} more than the new quota now: ",
            *join_names(tuple(found)),
            ".",
        )


def _bill(diff: StackDiff) -> Iterator[Text]:
    before = _gpu_hours(each.pool.before for each in diff.pools)
    after = _gpu_hours(each.pool.after for each in diff.pools)
    if before != after:
        yield (f"GPU-hours a day at most, of the pools that change: {before} → {after}.",)
    if diff.cost is not None:
        amounts = figures.format_change(f"{diff.cost.before:.2f}", f"{diff.cost.after:.2f}")
        spans: list[Span] = [f"Money an hour at most: {diff.cost.currency} {amounts}"]
        if diff.cost.unpriced:
            spans += [f"; {figures.NOT_PRICED}: ", *join_names(diff.cost.unpriced)]
        yield (*spans, ".")


def _gpu_hours(pools: Iterable[Pool | None]) -> int:
    return sum(pool.max_gpus * figures.HOURS_A_DAY for pool in pools if pool is not None)


def _for_whom(changes: Changes) -> Iterator[Text]:
    for total in changes.sums:
        pool = changes.after.pools.get(total.name) or changes.before.pools[total.name]
        amounts = figures.format_resources(pool, total.before, total.after)
        yield ("Guaranteed ", UntrustedText(total.name), f" {figures.format_unit(pool)} in sum: {amounts}.")
    gone = changes.removed_teams
    if gone:
        yield (*join_names(gone), " removed, with namespace and all that is in it.")
    if changes.releases_namespaces:
        yield (
            "The namespaces stay with their work and data; what Muster guards them with (limits, roles, "
            "network rules, accounts) is deleted.",
        )
    for verb, sign in (("gains", 1), ("loses", -1)):
        found = _movers(changes, sign)
        if found:
            yield (f"{_many(len(found), 'team')} {_verb(found, verb)} quota: ", *join_names(found), ".")
    new, old = (_pairs(changes, is_new=is_new) for is_new in (True, False))
    if new:
        yield (f"New: {_many(new, 'pair')} of teams of which one can preempt the other.",)
    if old:
        yield (f"No longer: {_many(old, 'pair')} of teams of which one could preempt the other.",)


def _movers(changes: Changes, sign: int) -> tuple[str, ...]:
    return tuple(sorted({each.name for each in changes.quotas if _moves(each, sign)}))


def _moves(change: QuotaChange, sign: int) -> bool:
    return change.is_team and change.difference * sign > 0


def _pairs(changes: Changes, *, is_new: bool) -> int:
    """Preemptors are grouped in the same way in every row, so no pair is counted twice."""
    victims: dict[tuple[str, ...], set[str]] = {}
    for row in changes.preemption:
        if row.is_new is is_new and row.right is not None:
            victims.setdefault(row.preemptors, set()).update(row.victims)
    return sum(len(who) * len(whom) - len(whom.intersection(who)) for who, whom in victims.items())


def _verb(who: tuple[str, ...], verb: str) -> str:
    return verb if len(who) == 1 else verb[:-1]


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
