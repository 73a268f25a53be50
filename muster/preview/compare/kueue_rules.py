"""Who may preempt whom with Kueue.

Responsible for which team's pending work may preempt which team's running work, on which pools and by which
right. The input is what Kueue gets: priorities, `withinClusterQueue`, `reclaimWithinCohort`, the Cohorts and
their limits.

How Kueue 0.19.2 decides (pkg/scheduler/preemption): within a queue by `withinClusterQueue`; across queues by
`reclaimWithinCohort`, against queues that have borrowed, and, without fair sharing, only when the work fits
the quota of the preemptor's queue or of a Cohort above it that the victim is outside of. Fair sharing also
takes from queues that have borrowed more of what both may borrow.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from muster.model.kueue.tree import Node, Reach, Tree, is_closed
from muster.preview.compare.preemption_rules import Right, below_common_parent

_LOWER = ("LowerPriority", "LowerOrNewerEqualPriority")


@dataclass(frozen=True, slots=True)
class Step:
    """A node of a profile's chain, for one pool. `has`: it or a node below it has quota."""

    has: bool
    lends: bool
    borrows: bool


@dataclass(frozen=True, slots=True)
class Profile:
    """Everything of a team that preemption depends on: teams with equal profiles have equal rights.

    `above` are the departments from the team's own to the top. `steps`, by pool, go from the team to the top.
    """

    above: tuple[str, ...]
    steps: tuple[tuple[str, tuple[Step, ...]], ...]
    borrowing: frozenset[str]
    within: str
    reclaim: str
    highest: int
    lowest: int
    is_weighted: bool


@dataclass(frozen=True, slots=True)
class KueueRules:
    """Kueue's PreemptionRules, by team."""

    profiles: Mapping[str, Profile]

    @classmethod
    def of(cls, tree: Tree) -> "KueueRules":
        """The rules for the teams of a queue tree."""
        reaches = {pool: tree.reach(pool) for pool in tree.pools}
        return cls({team.name: _profile(tree, tree.chain(team.name), reaches) for team in tree.teams()})

    @property
    def teams(self) -> Collection[str]:
        return self.profiles.keys()

    def profile(self, team: str) -> Profile:
        return self.profiles[team]

    def rights(self, preemptor: str, victim: str) -> dict[str, Right]:
        one, two = self.profiles.get(preemptor), self.profiles.get(victim)
        return {} if one is None or two is None else _rights(one, two)

    def can_preempt_within(self, team: str) -> bool:
        found = self.profiles.get(team)
        if found is None:
            return False
        if found.within == "LowerOrNewerEqualPriority":
            return True
        return found.within == "LowerPriority" and found.highest > found.lowest


def _rights(preemptor: Profile, victim: Profile) -> dict[str, Right]:
    if not (preemptor.above and victim.above) or preemptor.above[-1] != victim.above[-1]:
        return {}
    if not _outranks(preemptor, victim):
        return {}
    theirs, found = dict(victim.steps), {}
    p_depth, v_depth = below_common_parent(preemptor.above, victim.above)
    for pool, steps in preemptor.steps:
        if pool not in victim.borrowing or pool not in theirs:
            continue
        right = _right(steps[:p_depth], theirs[pool][:v_depth])
        if right is Right.FAIR and not (preemptor.is_weighted and pool in preemptor.borrowing):
            right = None
        if right is not None:
            found[pool] = right
    return found


def _right(ours: Sequence[Step], theirs: Sequence[Step]) -> Right | None:
    """The right by which the first team may preempt the second, on one pool.

    `ours` and `theirs` go from each team to the last node below the first common department. A victim below a
    department that cannot borrow has borrowed inside that department. What it gives back is only available
    outside if that department and every one above it lend.
    """
    closed = next((index for index, step in enumerate(theirs) if not step.borrows), None)
    if closed is None and _owns(ours):
        return Right.RECLAIM
    if not all(step.borrows for step in ours):
        return None
    return Right.FAIR if closed is None or all(step.lends for step in theirs[closed:]) else None


def _owns(ours: Sequence[Step]) -> bool:
    """Whether the preemptor owns quota below the common department that another queue may be using.

    The quota is the team's own, or that of a department above it from which the team may borrow.
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
