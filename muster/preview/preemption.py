"""Who may preempt whom.

Decides which team's waiting work may end which team's running work, on which pools and by which right. Every
input is what the tree was told: priorities, `withinClusterQueue`, `reclaimWithinCohort`, the cohorts and
their limits. "May" is said without looking at what runs: whether it happens depends on who has work. Leaves
comparing whole stacks to changes.py.

How Kueue 0.19.2 decides (pkg/scheduler/preemption): within a queue by `withinClusterQueue`; across queues by
`reclaimWithinCohort`, against queues that have borrowed, and, without fair sharing, only when the work fits
the quota of the preemptor's queue or of a Cohort above it that the victim is outside of. Fair sharing also
takes from those that have borrowed more of what both may borrow.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from muster.preview.tree import Node, Reach, Tree, is_closed

_LOWER = ("LowerPriority", "LowerOrNewerEqualPriority")


class Right(StrEnum):
    """On what ground: to get quota back that belongs to it, or to share evenly what both borrow."""

    RECLAIM = "reclaims its quota"
    FAIR = "fair sharing"


@dataclass(frozen=True, slots=True)
class Step:
    """A node of a profile's chain, for one pool. `has`: there is quota in it or below it."""

    has: bool
    lends: bool
    borrows: bool


@dataclass(frozen=True, slots=True)
class Profile:
    """All of a team that preemption depends on: two teams of one profile may do the same.

    `above` are the departments from its own to the top; `steps` by pool go from the team to the top.
    """

    above: tuple[str, ...]
    steps: tuple[tuple[str, tuple[Step, ...]], ...]
    borrowing: frozenset[str]
    within: str
    reclaim: str
    highest: int
    lowest: int
    is_weighted: bool


def to_profiles(tree: Tree) -> dict[str, Profile]:
    """Every team's profile."""
    reaches = {pool: tree.reach(pool) for pool in tree.pools}
    return {team.name: _profile(tree, tree.chain(team.name), reaches) for team in tree.teams()}


def preemption_rights(preemptor: Profile, victim: Profile) -> dict[str, Right]:
    """By which right on which pools one team may preempt another team."""
    if not (preemptor.above and victim.above) or preemptor.above[-1] != victim.above[-1]:
        return {}
    if not _outranks(preemptor, victim):
        return {}
    theirs, found = dict(victim.steps), {}
    p_depth, v_depth = _meeting(preemptor.above, victim.above)
    for pool, steps in preemptor.steps:
        if pool not in victim.borrowing or pool not in theirs:
            continue
        right = _right(steps[:p_depth], theirs[pool][:v_depth])
        if right is Right.FAIR and not (preemptor.is_weighted and pool in preemptor.borrowing):
            right = None
        if right is not None:
            found[pool] = right
    return found


def can_preempt_within(team: Profile) -> bool:
    """Whether work of the team may preempt other work of the same team."""
    if team.within == "LowerOrNewerEqualPriority":
        return True
    return team.within == "LowerPriority" and team.highest > team.lowest


def _right(ours: Sequence[Step], theirs: Sequence[Step]) -> Right | None:
    """`ours` and `theirs` go from each team to the last node below the one where both meet.

    A victim behind a department that borrows nothing has borrowed inside of it, and what it gives back comes
    out when that department and all above it lend.
    """
    closed = next((index for index, step in enumerate(theirs) if not step.borrows), None)
    if closed is None and _owns(ours):
        return Right.RECLAIM
    if not all(step.borrows for step in ours):
        return None
    return Right.FAIR if closed is None or all(step.lends for step in theirs[closed:]) else None


def _owns(ours: Sequence[Step]) -> bool:
    """Whether quota below the meeting point belongs to the preemptor, and somebody outside may hold it.

    It is the team's own, or that of a department on its way up from which it may borrow.
    """
    for index, step in enumerate(ours):
        if step.has and all(above.lends for above in ours[index:]):
            return True
        if not step.borrows:
            return False
    return False


def _outranks(preemptor: Profile, victim: Profile) -> bool:
    if preemptor.reclaim == "Any":
        return True
    return preemptor.reclaim in _LOWER and preemptor.highest > victim.lowest


def _meeting(ours: tuple[str, ...], theirs: tuple[str, ...]) -> tuple[int, int]:
    """How many nodes of each chain, the team included, lie below the first department that both are under."""
    shared = 0
    for mine, other in zip(reversed(ours), reversed(theirs), strict=False):
        if mine != other:
            break
        shared += 1
    return len(ours) + 1 - shared, len(theirs) + 1 - shared


def _profile(tree: Tree, chain: tuple[Node, ...], reaches: Mapping[str, Mapping[str, Reach]]) -> Profile:
    team = chain[0]
    pools = [pool for pool in tree.pools if pool in team.holdings]
    borrowing = {pool for pool in pools if reaches[pool][team.name].most > reaches[pool][team.name].subtree}
    return Profile(
        above=tuple(node.name for node in chain[1:]),
        steps=tuple((pool, _steps(tree, chain, pool, reaches[pool])) for pool in pools),
        borrowing=frozenset(borrowing),
        within=team.within,
        reclaim=team.reclaim,
        highest=team.highest,
        lowest=team.lowest,
        is_weighted=tree.is_weighted,
    )


def _steps(tree: Tree, chain: tuple[Node, ...], pool: str, reach: Mapping[str, Reach]) -> tuple[Step, ...]:
    steps = []
    for node in chain:
        holding, here = node.holdings.get(pool), reach[node.name]
        borrow, lend = (None, None) if holding is None else (holding.borrow, holding.lend)
        steps.append(
            Step(
                has=here.subtree > 0,
                lends=not is_closed(tree.pools[pool], lend),
                borrows=not is_closed(tree.pools[pool], borrow),
            )
        )
    return tuple(steps)
