"""The facts behind the banner of a report, as sentences."""

from collections.abc import Iterable, Iterator
from typing import Final

from muster.model.clusters import ReleaseChannel
from muster.model.pools import Pool
from muster.model.quantities import many
from muster.preview import figures
from muster.preview.compare.changes import Changes
from muster.preview.compare.diff import StackDiff
from muster.preview.compare.quota import QuotaChange
from muster.preview.compare.spaces import LostVolume
from muster.preview.document import Span, Text, UntrustedText, join_names
from muster.preview.events import new_evictions

# Sentences about preemption; the section about preemption has all of them.
_MAX_SENTENCES: Final = 3


def facts(diff: StackDiff) -> Iterator[Text]:
    """What the change means, one sentence each."""
    if diff.changes is not None:
        yield from _for_whom(diff.changes, is_kai=diff.kai is not None)
        if (channel := diff.changes.channel) is not None and channel.before == ReleaseChannel.NONE:
            yield (
                "From now on GKE upgrades control plane and nodes by itself, but for what "
                "muster:cluster.maintenance.exclusions holds back. It replaces no running node of a queued "
                "pool. The cluster and its pools are changed in place.",
            )
    yield from _over(diff)
    yield from _bill(diff)
    warnings = sum(not each.is_mandatory for each in diff.policy_violations)
    if warnings:
        yield (f"Policies: {many(warnings, 'warning')}.",)


def _over(diff: StackDiff) -> Iterator[Text]:
    found = sorted({each.team for each in diff.overuse})
    if found:
        verb = "uses" if len(found) == 1 else "use"
        yield (
            f"{many(len(found), 'team')} {verb} more than the new quota now: ",
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


def _for_whom(changes: Changes, *, is_kai: bool) -> Iterator[Text]:
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
    for space in changes.namespaces:
        name, team = UntrustedText(space.name), UntrustedText(space.team)
        yield ("Namespace ", name, " of team ", team, " is deleted with all that is in it.")
    for volume in changes.volumes:
        yield _lost(volume)
    for verb, found in (
        ("loses", _teams(each for each in changes.quotas if each.loss)),
        ("gains", _teams(each for each in changes.quotas if each.gain)),
    ):
        if found:
            yield (f"{many(len(found), 'team')} {_verb(found, verb)} quota: ", *join_names(found), ".")
    yield from _evictions(changes, is_kai=is_kai)
    old = _lost_pairs(changes)
    if old:
        yield (f"No longer: {many(old, 'pair')} of teams of which one could preempt the other.",)


def _lost(volume: LostVolume) -> Text:
    spans: list[Span] = ["The volume ", UntrustedText(volume.name), " of team ", UntrustedText(volume.team)]
    if volume.after is not None:
        spans += [" is made anew, empty, in ", UntrustedText(volume.after), "; the one"]
    return (*spans, " in ", UntrustedText(volume.before), " is deleted with its data.")


def _teams(changes: Iterable[QuotaChange]) -> tuple[str, ...]:
    return tuple(sorted({each.name for each in changes if each.is_team}))


def _evictions(changes: Changes, *, is_kai: bool) -> Iterator[Text]:
    """The new rights as sentences, and what a new priority means for the teams that may use it."""
    for each in changes.priorities:
        if each.before is None and each.teams:
            yield (
                "New priority ",
                UntrustedText(each.name),
                f" ({each.after}): ",
                *join_names(each.teams),
                " may use it. Its work goes before work of lower priorities.",
            )
    found = list(new_evictions(changes, is_kai=is_kai))
    yield from ((*sentence, ".") for sentence in found[:_MAX_SENTENCES])
    if len(found) > _MAX_SENTENCES:
        yield (f"New as well: {many(len(found) - _MAX_SENTENCES, 'right')} to evict.",)


def _lost_pairs(changes: Changes) -> int:
    """Preemptors are grouped in the same way in every row, so no pair is counted twice."""
    victims: dict[tuple[str, ...], set[str]] = {}
    for row in changes.preemption:
        if not row.is_new and row.right is not None:
            victims.setdefault(row.preemptors, set()).update(row.victims)
    return sum(len(who) * len(whom) - len(whom.intersection(who)) for who, whom in victims.items())


def _verb(who: tuple[str, ...], verb: str) -> str:
    return verb if len(who) == 1 else verb[:-1]
