"""Puts the report of a StackDiff together.

Responsible for the order of the sections and their weights. A new section is a function in sections/ and its
line in _DETAILS.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from muster.model.clusters import ReleaseChannel
from muster.model.pools import Pool
from muster.model.quantities import many
from muster.preview import figures
from muster.preview.banner import Banner, new_evictions, to_banner
from muster.preview.compare.diff import Changes, StackDiff
from muster.preview.compare.quota import QuotaChange
from muster.preview.compare.replay import ReplayDiff
from muster.preview.compare.settings import LostVolume, Owner
from muster.preview.document import (
    Answer,
    Items,
    Report,
    Section,
    Span,
    StackReport,
    Status,
    Text,
    UntrustedText,
    join_names,
)
from muster.preview.sections import quotas, replay, resources

# The answer of a report: yes, look, refused, or nothing changes.
# Yes is the answer where every team keeps what it has: no loss, no new right to evict another team, no
# setting that changes for a team of before, no changed pool, no more guaranteed than the pool has, and no
# longer wait in a replay. Everything else has to be looked at by a person.


def to_status(diff: StackDiff, banner: Banner) -> Status:
    """The answer for one stack, and why."""
    if diff.is_refused:
        return Status(Answer.REFUSED, "cannot be deployed as it is")
    if diff.is_empty:
        return Status(Answer.NOTHING, "")
    reasons = tuple(_reasons(diff, banner))
    if reasons:
        return Status(Answer.LOOK, ", ".join(reasons))
    return Status(Answer.YES, "no team loses, and no team can newly evict another")


def _reasons(diff: StackDiff, banner: Banner) -> Iterator[str]:
    losses = len(banner.losses)
    if losses:
        yield many(losses, "loss", "losses")
    others = len(banner.others)
    if others:
        yield f"{many(others, 'other point')} to decide"
    rights = () if diff.changes is None else tuple(new_evictions(diff.changes))
    if rights and not others:
        yield f"{many(len(rights), 'new right')} to evict"
    short = () if diff.changes is None else tuple(_overcommitted(diff.changes))
    if short:
        yield f"{many(len(short), 'pool')} with more guaranteed than there is"
    settings = 0 if diff.changes is None else sum(1 for _ in _foreign_settings(diff.changes))
    if settings and not others:
        yield f"{many(settings, 'setting')} changed"
    pools = 0 if diff.changes is None else len(diff.changes.pools)
    if pools and not others:
        yield f"{many(pools, 'pool')} changed"
    if diff.replay is not None:
        yield from _replayed(diff.replay)
    if diff.policy_violations:
        yield f"{many(len(diff.policy_violations), 'warning')} of policies"


def _replayed(replay: ReplayDiff) -> Iterator[str]:
    if not replay.played:
        yield "no job of the recording could be played"
    if replay.slower:
        yield f"{many(len(replay.slower), 'team')} with longer waits in the replay"
    if replay.missing:
        yield f"{many(replay.missing, 'job')} that head cannot play"


def _overcommitted(changes: Changes) -> Iterator[str]:
    """Pools of which more GPUs are guaranteed than before, and more than the pool can have."""
    for each in changes.sums:
        pool = changes.after.pools.get(each.name)
        if pool is not None and pool.is_gpu and each.after.gpus > max(each.before.gpus, pool.max_gpus):
            yield each.name


def _foreign_settings(changes: Changes) -> Iterator[str]:
    """Settings that change for others than a team which only head has."""
    added = {Owner("team", name) for name in changes.after.team_names - changes.before.team_names}
    yield from (each.place for each in changes.settings if each.owner not in added)


# What is folded, in this order.
_DETAILS: Final[tuple[Callable[[StackDiff], Iterator[Section]], ...]] = (
    resources.versions,
    quotas.running_work,
    quotas.sections,
    quotas.kai_queues,
    replay.sections,
    resources.pools,
    resources.nodes,
    resources.changed_resources,
    resources.warnings,
)


def to_report(stacks: Sequence[StackDiff], *, is_whole: bool = False) -> Report:
    """The report of all stacks. With several stacks, the first line is how many change. `is_whole`: they are
    all that a project has, and those that the change does not touch are only named in that line.
    """
    quiet = tuple(each.name for each in stacks if is_whole and each.is_empty)
    shown = tuple(to_stack_report(each) for each in stacks if each.name not in quiet)
    headline = _headline(stacks) if len(stacks) > 1 else ()
    if quiet:
        headline = (*(headline or ("Nothing changes.",)), " Not touched: ", *join_names(quiet, most=20), ".")
    return Report(shown, headline)


def to_stack_report(diff: StackDiff) -> StackReport:
    """The report of one stack."""
    banner = to_banner(diff)
    details = (replace(each, is_folded=True) for sections in _DETAILS for each in sections(diff))
    return StackReport(
        name=UntrustedText(diff.name),
        summary=(banner.text,),
        sections=(*_lead(diff), *details),
        status=to_status(diff, banner),
        banner=banner.phrases,
        facts=tuple(facts(diff)),
    )


def _headline(stacks: Sequence[StackDiff]) -> Text:
    refused = sum(each.is_refused for each in stacks)
    quiet = sum(each.is_empty for each in stacks)
    changing = len(stacks) - refused - quiet
    counts = ((refused, "refused or failed"), (changing, "change"), (quiet, "do not change"))
    return (f"{len(stacks)} stacks: {', '.join(f'{count} {what}' for count, what in counts if count)}.",)


def _lead(diff: StackDiff) -> Iterator[Section]:
    """What is not folded: why the change is refused, and the quota of teams."""
    if diff.mistakes:
        yield Section("Mistakes in the description", 100, (_list(diff.mistakes),))
    if diff.failures:
        yield Section("Errors of the preview", 98, (_list(diff.failures),))
    yield from resources.policies(diff)
    yield from quotas.teams(diff)
    yield from replay.lead(diff)


def _list(texts: tuple[str, ...]) -> Items:
    return Items(tuple((UntrustedText(text),) for text in texts))


# The facts behind the banner of a report, as sentences.

# Sentences about preemption; the section about preemption has all of them.
_MAX_SENTENCES: Final = 3


def facts(diff: StackDiff) -> Iterator[Text]:
    """What the change means, one sentence each."""
    if diff.changes is not None:
        yield from _for_whom(diff.changes)
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
    yield from _evictions(changes)
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


def _evictions(changes: Changes) -> Iterator[Text]:
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
    found = list(new_evictions(changes))
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
