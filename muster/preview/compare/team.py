"""What a change means for one team: its quota in each pool, whom it shares with, and who may evict it.

Everything is read from the Changes of both sides, so it cannot differ from the report.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from muster.model.kueue.tree import Reach, Tree, in_pool_unit
from muster.model.pools import Pool
from muster.preview.compare.changes import Changes
from muster.preview.compare.overuse import Used
from muster.preview.compare.preemption_rules import Right
from muster.preview.compare.quota import Quota, QuotaChange, quotas_of


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
        pools=tuple(_pools(changes, queues, path, used)),
        evicted_by=tuple(
            each
            for other in others
            for each in _evictions(other, [_rights(changes, at, other, queues[at]) for at in (0, 1)])
        ),
        evicts=tuple(
            each
            for other in others
            for each in _evictions(other, [_rights(changes, at, queues[at], other) for at in (0, 1)])
        ),
    )


def _pools(
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
            lenders=tuple(_lenders(changes.after, queues[1], reach)),
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


def _lenders(tree: Tree, name: str, reach: Mapping[str, Reach]) -> Iterator[tuple[str, int]]:
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


def _rights(changes: Changes, side: int, preemptor: str, victim: str) -> Mapping[str, Right]:
    return {} if preemptor == victim else changes.rules[side].rights(preemptor, victim)


def _evictions(other: str, sides: Sequence[Mapping[str, Right]]) -> Iterator[Eviction]:
    """Pools with the same right on the same sides are one."""
    before, after = sides
    found: dict[tuple[Right, bool, bool], list[str]] = {}
    for pool in sorted({*before, *after}):
        right = after[pool] if pool in after else before[pool]
        found.setdefault((right, pool in before, pool in after), []).append(pool)
    for (right, was, now), pools in found.items():
        yield Eviction(other, tuple(pools), right, was, now)
