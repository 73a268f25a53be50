"""Who may evict whose work with KAI.

Decides the same question as preemption.py by KAI's rules, from the Queues of muster.model.kai: inside a queue
work gives way to higher work of its own team; across queues a queue takes back what others use beyond their
quota. Work of priority 100 and more never gives way, and never goes beyond a quota. "May" is said without
looking at what runs.

How KAI 0.17 decides (docs/scheduling-deep-dive): preemption never crosses a queue; reclaim takes preemptible
work alone, from queues over their quota or fair share, for queues below theirs, and compares two queues where
their chains of parents meet. What is within a quota is never reclaimed.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from muster.model.kai import within
from muster.model.kai.priorities import NON_PREEMPTIBLE, effective
from muster.model.kai.tree import Figures, Node, nodes
from muster.model.queues import Team
from muster.model.stack import Stack
from muster.preview.preemption import Right


@dataclass(frozen=True, slots=True)
class Step:
    """A queue of a team's chain, for one pool. `has`: a quota. `exceeds`: it may go beyond it."""

    has: bool
    exceeds: bool


@dataclass(frozen=True, slots=True)
class KaiProfile:
    """All of a team that eviction depends on. `above` are its departments from its own to the top; `steps` by
    pool go from the team to the top.
    """

    above: tuple[str, ...]
    steps: tuple[tuple[str, tuple[Step, ...]], ...]
    highest: int
    lowest: int

    @property
    def is_preemptible(self) -> bool:
        """Whether any of its work may be evicted."""
        return self.lowest < NON_PREEMPTIBLE


def to_profiles(stack: Stack) -> dict[str, KaiProfile]:
    """Every team's profile."""
    queues = {node.name: node for node in nodes(stack)}
    steps: dict[str, dict[str, tuple[Step, ...]]] = {team.name: {} for _, team in stack.teams()}
    for node in queues.values():
        if node.team is not None:
            steps[node.team.name] |= _steps(queues, node)
    return {
        team.name: KaiProfile(
            above=tuple(department.name for department in reversed(chain)),
            steps=tuple(steps[team.name].items()),
            **_ranks(stack, team),
        )
        for chain, team in stack.teams()
    }


def preemption_rights(evictor: KaiProfile, victim: KaiProfile) -> dict[str, Right]:
    """By which right on which pools one team may evict another team's work."""
    if not victim.is_preemptible:
        return {}
    ours, theirs = _below_meeting(evictor.above, victim.above)
    found, others = {}, dict(victim.steps)
    for pool, steps in evictor.steps:
        if pool in others and all(step.exceeds for step in others[pool][:theirs]):
            right = _right(steps[:ours], is_preemptible=evictor.is_preemptible)
            if right is not None:
                found[pool] = right
    return found


def can_preempt_within(team: KaiProfile) -> bool:
    """Whether work of the team may evict lower work of the same team."""
    return team.is_preemptible and team.highest > team.lowest


def _right(steps: tuple[Step, ...], *, is_preemptible: bool) -> Right | None:
    """What is beyond the team's own quota is for preemptible work alone."""
    if steps[0].has:
        return Right.RECLAIM
    if not is_preemptible:
        return None
    for step in steps:
        if step.has:
            return Right.RECLAIM
        if not step.exceeds:
            return None
    return Right.FAIR


def _steps(queues: Mapping[str, Node], team: Node) -> dict[str, tuple[Step, ...]]:
    """By pool. GPU pools are told by the GPU figure, the others by that of CPU."""
    chain = [team]
    while (parent := chain[-1].parent) is not None:
        chain.append(queues[parent])
    found = {}
    for pool in team.part.pools:
        steps = tuple(_step(node.figures["gpu" if pool.is_gpu else "cpu"]) for node in chain)
        if steps[0].has or steps[0].exceeds:
            found[pool.name] = steps
    return found


def _step(figures: Figures) -> Step:
    return Step(has=figures.quota != 0, exceeds=not within(figures.limit, figures.quota))


def _ranks(stack: Stack, team: Team) -> dict[str, int]:
    """The highest and the lowest value that the team's work may have."""
    values = [
        each.value
        for each in effective(stack.priorities)
        if not team.priorities or each.name in team.priorities
    ]
    return {"highest": max(values, default=0), "lowest": min(values, default=0)}


def _below_meeting(ours: tuple[str, ...], theirs: tuple[str, ...]) -> tuple[int, int]:
    """How many queues of each chain, the team's included, lie below where both meet; the root is the last
    place.
    """
    shared = 0
    for mine, other in zip(reversed(ours), reversed(theirs), strict=False):
        if mine != other:
            break
        shared += 1
    return len(ours) + 1 - shared, len(theirs) + 1 - shared
