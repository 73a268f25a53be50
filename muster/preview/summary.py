"""What a reviewer reads first: one line that says how careful to be, and what there is to see.

Decides what is grave: something refused, somebody who loses, something replaced or deleted, somebody who
uses more than is left.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from muster.model.pools import Pool
from muster.preview import cost, figures
from muster.preview.compare.changes import Changes, QuotaChange
from muster.preview.compare.diff import GRAVE, StackDiff
from muster.preview.document import Span, Text, UntrustedText, join_names
from muster.preview.overuse import quota_overuse

_STOPPED: Final = "The preview failed: the engine stopped, and what it had not reached is not told here."


def summarize(told: StackDiff) -> Iterator[Text]:
    """The verdict line, and what it is drawn from."""
    refused = list(_refused(told))
    if refused:
        yield from refused
    elif told.is_empty:
        yield ("Nothing changes.",)
    else:
        yield (_line(told),)
    if told.changes is not None:
        yield from _for_whom(told.changes)
    yield from _over(told)
    yield from _bill(told)
    yield from _resources(told)
    warnings = sum(not each.is_mandatory for each in told.breaches)
    if warnings:
        yield (f"Policies: {_many(warnings, 'warning')}.",)


def _refused(told: StackDiff) -> Iterator[Text]:
    if told.mistakes:
        yield (f"Refused: {_many(len(told.mistakes), 'mistake')} in the stack's description.",)
    mandatory = sum(each.is_mandatory for each in told.breaches)
    if mandatory:
        breaches = _many(mandatory, "breach", "breaches")
        yield (f"Refused by the policy pack: {breaches}.",)
    if told.failures:
        yield (_STOPPED,)


def _line(told: StackDiff) -> str:
    """Whom the change hurts, or that it hurts nobody."""
    grave = list(_grave(told))
    return f"Look closely: {', '.join(grave)}." if grave else "Changes, and takes nothing from anybody."


def _grave(told: StackDiff) -> Iterator[str]:
    if told.changes is not None:
        gone = _gone(told.changes)
        if gone:
            yield f"{_many(len(gone), 'team')} removed"
        losing = _movers(told.changes, -1)
        if losing:
            yield f"{_many(len(losing), 'team')} {_verb(losing, 'loses')} quota"
        if _pairs(told.changes, is_new=True):
            yield "new preemption"
    counts = [(sum(each.verb == verb for each in told.resources(pending=False)), verb) for verb in GRAVE]
    for number, verb in counts:
        if number:
            yield f"{_many(number, 'resource')} {verb}"


def _resources(told: StackDiff) -> Iterator[Text]:
    counts = [
        f"{len(found)} {verb}"
        for verb in GRAVE
        if (found := [each for each in told.resources(pending=False) if each.verb == verb])
    ]
    if counts:
        yield (f"Resources: {', '.join(counts)}.",)


def _over(told: StackDiff) -> Iterator[Text]:
    if told.changes is None or told.snapshot is None:
        return
    found = sorted({each.team for each in quota_overuse(told.changes, told.snapshot)})
    if found:
        verb = "uses" if len(found) == 1 else "use"
        yield (
            f"{_many(len(found), 'team')} {verb} more than the new quota now: ",
            *join_names(tuple(found)),
            ".",
        )


def _bill(told: StackDiff) -> Iterator[Text]:
    if told.changes is None or not told.changes.pools:
        return
    before = _gpu_hours(each.before for each in told.changes.pools)
    after = _gpu_hours(each.after for each in told.changes.pools)
    if before != after:
        yield (f"GPU-hours a day at most, of the pools that change: {before} → {after}.",)
    total = cost.total_cost(told.changes.pools, told.base, told.head, told.prices)
    if total is not None:
        amounts = figures.format_change(f"{total.before:.2f}", f"{total.after:.2f}")
        spans: list[Span] = [f"Money an hour at most: {total.currency} {amounts}"]
        if total.unpriced:
            spans += [f"; {cost.NOT_PRICED}: ", *join_names(total.unpriced)]
        yield (*spans, ".")


def _gpu_hours(pools: Iterable[Pool | None]) -> int:
    return sum(pool.max_gpus * figures.HOURS_A_DAY for pool in pools if pool is not None)


def _for_whom(changes: Changes) -> Iterator[Text]:
    for total in changes.sums:
        pool = changes.after.pools.get(total.name) or changes.before.pools[total.name]
        amounts = figures.format_resources(pool, total.before, total.after)
        yield ("Guaranteed ", UntrustedText(total.name), f" {figures.format_unit(pool)} in sum: {amounts}.")
    gone = _gone(changes)
    if gone:
        yield (*join_names(gone), " removed, with namespace and all that is in it.")
    for verb, sign in (("gains", 1), ("loses", -1)):
        found = _movers(changes, sign)
        if found:
            yield (f"{_many(len(found), 'team')} {_verb(found, verb)} quota: ", *join_names(found), ".")
    new, old = (_pairs(changes, is_new=is_new) for is_new in (True, False))
    if new:
        yield (f"New: {_many(new, 'pair')} of teams of which one can preempt the other.",)
    if old:
        yield (f"No longer: {_many(old, 'pair')} of teams of which one could preempt the other.",)


def _gone(changes: Changes) -> tuple[str, ...]:
    nodes = changes.before.nodes
    return tuple(sorted(name for name in nodes if nodes[name].is_team and name not in changes.after.nodes))


def _movers(changes: Changes, sign: int) -> tuple[str, ...]:
    return tuple(sorted({each.name for each in changes.quotas if _moves(each, sign)}))


def _moves(change: QuotaChange, sign: int) -> bool:
    return change.is_team and figures.quota_difference(change) * sign > 0


def _pairs(changes: Changes, *, is_new: bool) -> int:
    """Teams that stand in one row's first place do so together in every row: no pair is counted twice."""
    victims: dict[tuple[str, ...], set[str]] = {}
    for row in changes.preemption:
        if row.is_new is is_new and row.right is not None:
            victims.setdefault(row.preemptors, set()).update(row.victims)
    return sum(len(who) * len(whom) - len(whom.intersection(who)) for who, whom in victims.items())


def _verb(who: tuple[str, ...], verb: str) -> str:
    return verb if len(who) == 1 else verb[:-1]


def _many(count: int, noun: str, plural: str = "") -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {plural or noun + 's'}"
