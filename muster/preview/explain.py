"""What a change means for one team, as a report and as JSON: `muster diff --explain TEAM`.

The figures are those of the whole report: everything is read from the Changes of both sides.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Final

from muster.model.kueue.tree import Reach, Tree, in_pool_unit
from muster.model.pools import Pool
from muster.model.violations import suggestion
from muster.preview import figures
from muster.preview.compare.diff import Changes, StackDiff, Used
from muster.preview.compare.preemption_rules import Right
from muster.preview.compare.quota import Quota, QuotaChange, quotas_of
from muster.preview.compare.settings import Owner
from muster.preview.document import (
    Items,
    Mark,
    Report,
    Section,
    Span,
    StackReport,
    Table,
    Text,
    UntrustedText,
    join_names,
    row,
)
from muster.preview.inputs import InputError
from muster.preview.sections.quotas import mark_of
from muster.preview.tree_diagram import to_bars

# One team: its quota in each pool, whom it shares with, and who may evict it.


class Bound(StrEnum):
    """What keeps a team from using more than it could use at most."""

    OWN_LIMIT = "own limit"
    OTHERS = "others"
    ALONE = "alone"
    NO_QUOTA = "no quota"


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolView:
    """A team's quota in one pool on both sides. `lenders` are the teams that may lend it quota in head, with
    the most that each lends, in the pool's unit. `used` is None where nothing is known.
    """

    change: QuotaChange
    bound: Bound
    lenders: tuple[tuple[str, int], ...]
    used: int | None


@dataclass(frozen=True, slots=True)
class Eviction:
    """One team may evict another on some pools. `was` and `now`: on which side. `right` is head's, or base's
    where head has none.
    """

    team: str
    pools: tuple[str, ...]
    right: Right
    was: bool
    now: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamView:
    """`queue` is the team that owns the queue, another one where several teams share it. `path` are the
    departments above it, from the top. `evicted_by` and `evicts` name other teams.
    """

    name: str
    queue: str
    path: tuple[str, ...]
    is_alone: bool
    pools: tuple[PoolView, ...]
    evicted_by: tuple[Eviction, ...]
    evicts: tuple[Eviction, ...]


def view_team(changes: Changes, name: str, used: Used) -> TeamView | None:
    """None when neither side has the team."""
    trees = (changes.before, changes.after)
    queues = (trees[0].guests.get(name, name), trees[1].guests.get(name, name))
    side = 1 if name in trees[1].team_names else 0
    node = trees[side].nodes.get(queues[side])
    if node is None or not node.is_team:
        return None
    path = tuple(each.name for each in reversed(trees[side].chain(node.name)[1:])) or (node.department,)
    others = sorted(each.name for each in {**trees[0].nodes, **trees[1].nodes}.values() if each.is_team)
    return TeamView(
        name=name,
        queue=node.name,
        path=path,
        is_alone=node.is_alone,
        pools=tuple(_pool_views(changes, queues, path, used)),
        evicted_by=tuple(
            each
            for other in others
            for each in _evictions_of(other, [_rights_of(changes, at, other, queues[at]) for at in (0, 1)])
        ),
        evicts=tuple(
            each
            for other in others
            for each in _evictions_of(other, [_rights_of(changes, at, queues[at], other) for at in (0, 1)])
        ),
    )


def _pool_views(
    changes: Changes, queues: tuple[str, str], path: tuple[str, ...], used: Used
) -> Iterator[PoolView]:
    trees = (changes.before, changes.after)
    for name, pool in {**changes.before.pools, **changes.after.pools}.items():
        before, after = (quotas_of(tree, name).get(queue) for tree, queue in zip(trees, queues, strict=True))
        if not any(map(_has_something, (before, after))):
            continue
        change = QuotaChange(
            name=queues[1],
            path=(*path, queues[1]),
            is_team=True,
            pool=pool,
            before=before,
            after=after,
            is_written=any(
                queue in tree.nodes and name in tree.nodes[queue].written
                for tree, queue in zip(trees, queues, strict=True)
            ),
        )
        reach = changes.after.reach(name) if name in changes.after.pools else {}
        yield PoolView(
            change=change,
            bound=_bound(changes.after, queues[1], pool, after),
            lenders=tuple(_lenders_of(changes.after, queues[1], reach)),
            used=used.get((queues[1], name)),
        )


def _has_something(side: Quota | None) -> bool:
    return side is not None and (side.holding is not None or bool(side.most))


def _bound(tree: Tree, name: str, pool: Pool, side: Quota | None) -> Bound:
    if side is None or side.holding is None:
        return Bound.NO_QUOTA
    if tree.nodes[name].is_alone:
        return Bound.ALONE
    limit = side.holding.borrow
    own = in_pool_unit(pool, side.own)
    is_own = limit is not None and side.most == own + in_pool_unit(pool, limit)
    return Bound.OWN_LIMIT if is_own else Bound.OTHERS


def _lenders_of(tree: Tree, name: str, reach: Mapping[str, Reach]) -> Iterator[tuple[str, int]]:
    """The other teams whose quota can reach this one, with the most that each lends, the largest first."""
    if name not in reach or tree.nodes[name].is_alone:
        return
    ours = {node.name for node in tree.chain(name)}
    found: list[tuple[str, int]] = []
    for node in tree.teams():
        chain = [each.name for each in tree.chain(node.name)]
        if node.name != name and chain[-1] in ours:
            # What each department below the first common one lets through.
            found.append((node.name, min(reach[each].lent for each in chain if each not in ours)))
    yield from sorted((each for each in found if each[1]), key=lambda each: (-each[1], each[0]))


def _rights_of(changes: Changes, side: int, preemptor: str, victim: str) -> Mapping[str, Right]:
    return {} if preemptor == victim else changes.rules[side].rights(preemptor, victim)


def _evictions_of(other: str, sides: Sequence[Mapping[str, Right]]) -> Iterator[Eviction]:
    """Pools with the same right on the same sides are one."""
    before, after = sides
    found: dict[tuple[Right, bool, bool], list[str]] = {}
    for pool in sorted({*before, *after}):
        right = after[pool] if pool in after else before[pool]
        found.setdefault((right, pool in before, pool in after), []).append(pool)
    for (right, was, now), pools in found.items():
        yield Eviction(other, tuple(pools), right, was, now)


_QUOTA: Final = ("Pool", "Quota", "Change", "May borrow", "May lend", "Could use at most", "Uses now")
# The columns that apply to both schedulers.
_OWN: Final = 3
_RIGHTS: Final = ("Change", "Team", "On pools", "Why")
_LENDERS: Final = 5
_BOUNDS: Final = {
    Bound.OWN_LIMIT: "bounded by its own borrowing limit",
    Bound.OTHERS: "bounded by what others lend and by the limits of the departments above it",
    Bound.ALONE: "because its department shares with no other (cohort: none)",
}


def explain(diffs: Sequence[StackDiff], team: str) -> Report:
    """What the change means for the team, in each stack that has it. InputError where none has."""
    views = _views(diffs, team)
    return Report(tuple(_stack(diff, view) for diff, view in views))


def explain_to_json(diffs: Sequence[StackDiff], team: str) -> dict[str, Any]:
    """The same for programs. Amounts are in the pool's unit: GPUs, or thousandths of a CPU."""
    return {"version": 1, "stacks": [_record(diff, view) for diff, view in _views(diffs, team)]}


def _views(diffs: Sequence[StackDiff], team: str) -> list[tuple[StackDiff, TeamView]]:
    compared = [(diff, diff.changes) for diff in diffs if diff.changes is not None]
    found = [
        (diff, view)
        for diff, changes in compared
        if (view := view_team(changes, team, diff.used)) is not None
    ]
    if compared and not found:
        known = {
            name
            for _, changes in compared
            for tree in (changes.before, changes.after)
            for name in tree.team_names
        }
        raise InputError(f"--explain {team}: no such team.", fix=suggestion(team, known, noun="team"))
    return found


def _stack(diff: StackDiff, view: TeamView) -> StackReport:
    return StackReport(
        name=UntrustedText(f"{view.name} in {diff.name}"),
        summary=tuple(_summary(diff, view)),
        sections=tuple(_sections(diff, view)),
    )


def _summary(diff: StackDiff, view: TeamView) -> Iterator[Text]:
    if view.queue != view.name:
        owner = UntrustedText(view.queue)
        yield (UntrustedText(view.name), " uses the queue of ", owner, " and shares all its figures.")
    is_removed = _is_removed(diff, view)
    if is_removed:
        yield (UntrustedText(view.name), " is not in head.")
    moved = [each.change for each in view.pools if each.change.loss or each.change.gain]
    beside = [each for each in diff.changes.beside_pools if each.team == view.queue] if diff.changes else []
    for each in beside:
        verb = "loses" if each.is_loss else "gains"
        name, resource, flavor = map(UntrustedText, (view.name, each.resource, each.flavor))
        yield (name, f" {verb} quota of ", resource, " of flavor ", flavor, f": {each.amounts}.")
    if not (moved or beside or is_removed):
        yield ("The quota of ", UntrustedText(view.name), " does not change.")
    for change in moved:
        sides = (change.before, change.after)
        unit = figures.format_unit(change.pool)
        amounts = (0 if side is None else in_pool_unit(change.pool, side.own) for side in sides)
        verb = "loses" if change.loss else "gains"
        lost = figures.format_amount(change.pool, abs(change.difference))
        yield (
            UntrustedText(view.name),
            f" {verb} {lost} {'quota' if lost == 'unlimited' else unit} of ",
            UntrustedText(change.pool.name),
            f": {figures.format_amounts(change.pool, *amounts)} guaranteed.",
        )
    new = tuple(each.team for each in view.evicted_by if each.now and not each.was)
    if new:
        yield (*join_names(tuple(dict.fromkeys(new))), " can newly evict its work.")
    for over in diff.overuse:
        if over.team == view.queue:
            used, quota = (figures.format_amount(over.pool, each) for each in (over.used, over.after))
            unit = figures.format_unit(over.pool)
            yield (f"It uses {used} {unit} of ", UntrustedText(over.pool.name), f" now, and keeps {quota}.")


def _is_removed(diff: StackDiff, view: TeamView) -> bool:
    return diff.changes is not None and view.name not in diff.changes.after.team_names


def _sections(diff: StackDiff, view: TeamView) -> Iterator[Section]:
    if view.pools:
        # A column has one unit.
        units = (
            [each for each in view.pools if each.change.pool.is_gpu is is_gpu] for is_gpu in (True, False)
        )
        tables = tuple(_quotas(diff, pools) for pools in units if pools)
        yield Section("Guaranteed and borrowable", 10, tables)
        if not _is_removed(diff, view):
            yield Section("Where the figures come from", 6, (Items(tuple(_origins(diff, view))),))
    for title, weight, found in (
        ("Who can evict it", 9, view.evicted_by),
        ("Whom it can evict", 8, view.evicts),
    ):
        blocks = (_rights(found),) if found else (Items((("No other team.",),)),)
        yield Section(title, weight, blocks)
    changes = diff.changes
    settings = (
        [each for each in changes.settings if each.owner == Owner("team", view.name)] if changes else []
    )
    if settings:
        rows = tuple(
            tuple((UntrustedText(text or "–"),) for text in (each.place, each.before, each.after))
            for each in settings
        )
        yield Section("Other settings", 5, (Table(("Setting", "Before", "After"), rows),))


def _quotas(diff: StackDiff, pools: list[PoolView]) -> Table:
    has_flavors = diff.kai is None
    shown = _OWN if not has_flavors else len(_QUOTA) if diff.taken is not None else len(_QUOTA) - 1
    changes = [each.change for each in pools]
    marks = [Mark.SAME] * len(changes)
    if diff.changes is not None:
        marks = [mark_of(diff.changes, each) if each.loss or each.gain else Mark.SAME for each in changes]
    return Table(
        _QUOTA[:shown],
        tuple(_quota(each)[:shown] for each in pools),
        _QUOTA[1:shown],
        marks=tuple(marks),
        bars=to_bars(changes, diff.used) if has_flavors else (),
        minor=("May lend", "May borrow"),
    )


def _quota(view: PoolView) -> tuple[Text, ...]:
    change = view.change
    own = [None if side is None else side.own for side in (change.before, change.after)]
    used = "–" if view.used is None else figures.format_amount(change.pool, view.used)
    return row(
        (UntrustedText(change.pool.name), f" {figures.format_unit(change.pool)}"),
        figures.format_resources(change.pool, own[0], own[1]),
        figures.format_signed(change.pool, change.difference),
        figures.format_limits(change, "borrow"),
        figures.format_limits(change, "lend"),
        figures.format_reach(change),
        used,
    )


def _origins(diff: StackDiff, view: TeamView) -> Iterator[Text]:
    place = ".departments.".join(("muster:departments." + view.path[0], *view.path[1:]))
    for each in view.pools:
        pool, key = each.change.pool, f"{place}.teams.{view.queue}"
        name = UntrustedText(pool.name)
        if each.change.is_written:
            yield (name, ": the quota is written under ", UntrustedText(f"{key}.quota.{pool.name}"), ".")
        elif each.change.after is not None and each.change.after.own.gpus == 0 and pool.is_gpu:
            yield (name, ": no quota is written, so none is guaranteed.")
        else:
            yield (name, ": no quota is written, so Muster divides what the others leave of the pool.")
        if diff.kai is None:
            yield _reach(each)


def _reach(view: PoolView) -> Text:
    """How the most that the team could use follows from the rest."""
    change, pool = view.change, view.change.pool
    if change.after is None or view.bound is Bound.NO_QUOTA:
        return (UntrustedText(pool.name), f": nothing can be used: {view.bound}.")
    own, most = (
        each if pool.is_gpu else round(each, -3)
        for each in (in_pool_unit(pool, change.after.own), change.after.most)
    )
    total, guaranteed, more = (figures.format_amount(pool, each) for each in (most, own, max(most - own, 0)))
    spans: list[Span] = [
        UntrustedText(pool.name),
        f": at most {total} is {guaranteed} guaranteed and {more} borrowed, {_BOUNDS[view.bound]}",
    ]
    if most > own and view.lenders:
        spans += ["; idle quota may come from ", *_lenders(view)]
    return (*spans, ".")


def _lenders(view: PoolView) -> Iterator[Span]:
    for index, (team, amount) in enumerate(view.lenders[:_LENDERS]):
        yield from (", " if index else "", UntrustedText(team))
        yield f" (up to {figures.format_amount(view.change.pool, amount)})"
    if len(view.lenders) > _LENDERS:
        yield f" and {len(view.lenders) - _LENDERS} more"


def _rights(found: tuple[Eviction, ...]) -> Table:
    words = {(False, True): "new", (True, True): "as before", (True, False): "no longer"}
    ordered = sorted(found, key=lambda each: (each.was, not each.now))
    rows = tuple(
        row(
            words[each.was, each.now],
            UntrustedText(each.team),
            join_names(each.pools, most=20),
            str(each.right),
        )
        for each in ordered
    )
    marks = tuple(Mark.RISK if not each.was else Mark.SAME for each in ordered)
    return Table(_RIGHTS, rows, marks=marks)


def _record(diff: StackDiff, view: TeamView) -> dict[str, Any]:
    return {
        "stack": diff.name,
        "team": view.name,
        "queue": view.queue,
        "path": list(view.path),
        "shares": not view.is_alone,
        "pools": [_pool(each) for each in view.pools],
        "evictedBy": [_eviction(each) for each in view.evicted_by],
        "evicts": [_eviction(each) for each in view.evicts],
    }


def _pool(view: PoolView) -> dict[str, Any]:
    change = view.change
    sides = {
        name: None if side is None else {"guaranteed": in_pool_unit(change.pool, side.own), "most": side.most}
        for name, side in (("before", change.before), ("after", change.after))
    }
    return {
        "pool": change.pool.name,
        "written": change.is_written,
        **sides,
        "boundedBy": view.bound.value,
        "lenders": [{"team": team, "most": amount} for team, amount in view.lenders],
        "used": view.used,
    }


def _eviction(each: Eviction) -> dict[str, Any]:
    return {**asdict(each), "pools": list(each.pools), "right": str(each.right)}
