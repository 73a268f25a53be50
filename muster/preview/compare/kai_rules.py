"""Who may evict whose work with KAI.

Responsible for the same question as kueue_rules.py, by KAI's rules and from the Queues of muster.model.kai.
Inside a queue, work yields to higher-priority work of its own team. Across queues, a queue reclaims what
other queues use beyond their quota. Work of priority 100 and more is never evicted, and never exceeds a
quota.

How KAI 0.17 decides (docs/scheduling-deep-dive): preemption never crosses a queue; reclaim takes preemptible
work alone, from queues over their quota or fair share, for queues below theirs, and compares two queues where
their chains of parents meet. What is within a quota is never reclaimed.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from muster.model.kai import within
from muster.model.kai.priorities import NON_PREEMPTIBLE, effective
from muster.model.kai.tree import Figures, Node, nodes
from muster.model.queues import Team
from muster.model.stack import Stack
from muster.preview.compare.preemption_rules import Right, below_common_parent


@dataclass(frozen=True, slots=True)
class Step:
    """A queue of a team's chain, for one pool. `has`: it has a quota. `exceeds`: it may use more than
    that.
    """

    has: bool
    exceeds: bool


@dataclass(frozen=True, slots=True)
class KaiProfile:
    """Everything of a team that eviction depends on. `above` are the departments with a Queue, from the
    team's own to the top. `steps`, by pool, go from the team to the top.
    """

    above: tuple[str, ...]
    steps: tuple[tuple[str, tuple[Step, ...]], ...]
    highest: int
    lowest: int
    extremes: tuple[str, str]
    """The names of these priorities."""

    @property
    def is_preemptible(self) -> bool:
        """Whether any of its work may be evicted."""
        return self.lowest < NON_PREEMPTIBLE


@dataclass(frozen=True, slots=True)
class KaiRules:
    """KAI's PreemptionRules, by team."""

    profiles: Mapping[str, KaiProfile]

    @classmethod
    def of(cls, stack: Stack) -> "KaiRules":
        """The rules for the teams of a stack."""
        return cls(_profiles(stack))

    @property
    def teams(self) -> Collection[str]:
        return self.profiles.keys()

    def profile(self, team: str) -> KaiProfile:
        return self.profiles[team]

    def rights(self, preemptor: str, victim: str) -> dict[str, Right]:
        one, two = self.profiles.get(preemptor), self.profiles.get(victim)
        return {} if one is None or two is None else _rights(one, two)

    def can_preempt_within(self, team: str) -> bool:
        found = self.profiles.get(team)
        return found is not None and found.is_preemptible and found.highest > found.lowest

    def extremes(self, team: str) -> tuple[str, str]:
        return self.profiles[team].extremes


def _profiles(stack: Stack) -> dict[str, KaiProfile]:
    queues = {node.name: node for node in nodes(stack)}
    steps: dict[str, dict[str, tuple[Step, ...]]] = {team.name: {} for _, team in stack.owners()}
    for node in queues.values():
        if node.team is not None:
            steps[node.team.name] |= _steps(queues, node)
    members = stack.queue_members()
    return {
        team.name: KaiProfile(
            above=tuple(department.name for department in reversed(chain) if department.kai.exists),
            steps=tuple(steps[team.name].items()),
            **_ranks(stack, members[team.name]),
        )
        for chain, team in stack.owners()
    }


def _rights(evictor: KaiProfile, victim: KaiProfile) -> dict[str, Right]:
    if not victim.is_preemptible:
        return {}
    ours, theirs = below_common_parent(evictor.above, victim.above)
    found, others = {}, dict(victim.steps)
    for pool, steps in evictor.steps:
        if pool in others and all(step.exceeds for step in others[pool][:theirs]):
            right = _right(steps[:ours], is_preemptible=evictor.is_preemptible)
            if right is not None:
                found[pool] = right
    return found


def _right(steps: tuple[Step, ...], *, is_preemptible: bool) -> Right | None:
    """Only preemptible work may use more than the team's own quota."""
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
    """By pool. A GPU pool is judged by its GPU quota, any other pool by its CPU quota."""
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


def _ranks(stack: Stack, teams: Iterable[Team]) -> dict[str, Any]:
    """The highest and the lowest priority that the teams' work may have."""
    found = [
        each
        for team in teams
        for each in effective(stack.priorities)
        if not team.priorities or each.name in team.priorities
    ]
    if not found:
        return {"highest": 0, "lowest": 0, "extremes": ("", "")}
    high, low = max(found), min(found)
    return {"highest": high.value, "lowest": low.value, "extremes": (high.name, low.name)}
