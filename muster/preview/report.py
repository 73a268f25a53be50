"""Puts the report of a StackDiff together.

Responsible for the order of the sections and their weights. A new section is a module in sections/ and its
line in _DETAILS.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from muster.model.quantities import many
from muster.preview.banner import Banner, to_banner
from muster.preview.compare.changes import Changes
from muster.preview.compare.diff import StackDiff
from muster.preview.compare.replay import ReplayDiff
from muster.preview.compare.settings import owner_of
from muster.preview.document import Answer, Items, Report, Section, StackReport, Status, Text, UntrustedText
from muster.preview.events import new_evictions
from muster.preview.facts import facts
from muster.preview.sections import (
    kai,
    live,
    nodes,
    policies,
    pools,
    quotas,
    replay,
    resources,
    versions,
    warnings,
)

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
    rights = () if diff.changes is None else tuple(new_evictions(diff.changes, is_kai=diff.kai is not None))
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
    added = {f"team {name}" for name in changes.after.team_names - changes.before.team_names}
    yield from (each.place for each in changes.settings if owner_of(each.place) not in added)


# What is folded, in this order.
_DETAILS: Final[tuple[Callable[[StackDiff], Iterator[Section]], ...]] = (
    versions.sections,
    live.sections,
    quotas.sections,
    kai.sections,
    replay.sections,
    pools.sections,
    nodes.sections,
    resources.sections,
    warnings.sections,
)


def to_report(stacks: Sequence[StackDiff]) -> Report:
    """The report of all stacks. With several stacks, the first line is how many change."""
    return Report(
        tuple(to_stack_report(each) for each in stacks), _headline(stacks) if len(stacks) > 1 else ()
    )


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
    yield from policies.sections(diff)
    yield from quotas.teams(diff)
    yield from replay.lead(diff)


def _list(texts: tuple[str, ...]) -> Items:
    return Items(tuple((UntrustedText(text),) for text in texts))
