"""Compares the KAI queues of two stacks, and what they hold now.

Compared are quota, limit and over-quota weight of each resource, and the priority of each queue.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from muster.live.snapshot import Snapshot
from muster.model import names
from muster.model.kai import NON_PREEMPTIBLE, Figure, Unlimited, is_preemptible, within
from muster.model.kai.tree import RESOURCES, Figures, Node, nodes
from muster.model.priorities import Priority
from muster.model.queues import Team
from muster.model.stack import Scheduler, Stack
from muster.preview.compare.preemption_rules import PreemptionRules, Right, below_common_parent

# Who may evict whose work with KAI.
# Inside a queue, work yields to higher-priority work of its own team. Across queues, a queue reclaims what
# other queues use beyond their quota. Work of priority 100 and more is never evicted, and never exceeds a
# quota. How KAI 0.17 decides (docs/scheduling-deep-dive): preemption never crosses a queue; reclaim takes
# preemptible work alone, from queues over their quota or fair share, for queues below theirs, and compares
# two queues where their chains of parents meet. What is within a quota is never reclaimed.


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
class KaiRules(PreemptionRules[KaiProfile]):
    @classmethod
    def of(cls, stack: Stack) -> "KaiRules":
        """The rules for the teams of a stack."""
        return cls(_profiles(stack))

    def takers(self, team: str) -> tuple[str, str]:
        return self.profiles[team].extremes

    @staticmethod
    def is_preempted_within(team: KaiProfile) -> bool:
        return team.is_preemptible and team.highest > team.lowest

    @staticmethod
    def rights_between(preemptor: KaiProfile, victim: KaiProfile) -> dict[str, Right]:
        if not victim.is_preemptible:
            return {}
        ours, theirs = below_common_parent(preemptor.above, victim.above)
        found, others = {}, dict(victim.steps)
        for pool, steps in preemptor.steps:
            if pool in others and all(step.exceeds for step in others[pool][:theirs]):
                right = _right(steps[:ours], is_preemptible=preemptor.is_preemptible)
                if right is not None:
                    found[pool] = right
        return found


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
        for each in stack.all_priorities
        if not team.priorities or each.name in team.priorities
    ]
    if not found:
        return {"highest": 0, "lowest": 0, "extremes": ("", "")}
    high, low = max(found), min(found)
    return {"highest": high.value, "lowest": low.value, "extremes": (high.name, low.name)}


# KAI's name of a resource -> the name that nodes use.
RESOURCE_OF: Final[Mapping[str, str]] = {"gpu": names.GPU_RESOURCE, "cpu": "cpu", "memory": "memory"}


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueChange:
    """One resource of one Queue. A side is None where the Queue does not exist. `is_written`: a side's stack
    names the Queue's own quota, which is otherwise that of its pools.
    """

    queue: str
    path: tuple[str, ...]
    resource: str
    before: Figures | None
    after: Figures | None
    is_written: bool

    @property
    def difference(self) -> float:
        """The gain or loss of quota, in thousandths; infinite to or from unlimited."""
        before, after = (0.0 if side is None else _size(side.quota) for side in (self.before, self.after))
        return 0.0 if before == after else after - before


@dataclass(frozen=True, slots=True)
class QueuePriorityChange:
    """The priority of a Queue that both sides have."""

    name: str
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class EvictionChange:
    """A priority that both sides have, and whose work can now be evicted, or can no longer be."""

    priority: Priority
    is_protected: bool


@dataclass(frozen=True, slots=True)
class QueueOveruse:
    """A Queue that holds more of a resource than its quota or limit. `used` in whole GPUs; `quota`, which is
    the quota or limit that is exceeded, in thousandths.
    """

    queue: str
    resource: str
    used: int
    quota: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KaiDiff:
    """What changes for KAI. `over_quota`: Queues that hold more now than head's quota."""

    queues: tuple[QueueChange, ...]
    priorities: tuple[QueuePriorityChange, ...]
    evictions: tuple[EvictionChange, ...]
    over_quota: tuple[QueueOveruse, ...]


def diff_kai(base: Stack | None, head: Stack | None, snapshot: Snapshot | None) -> KaiDiff | None:
    """None when KAI schedules neither side."""
    if not is_kai(base, head):
        return None
    return KaiDiff(
        queues=queue_changes(base, head),
        priorities=queue_priority_changes(base, head),
        evictions=eviction_changes(base, head),
        over_quota=() if snapshot is None else tuple(queues_over_quota(head, snapshot)),
    )


def is_kai(*stacks: Stack | None) -> bool:
    """Whether KAI schedules any of them."""
    return any(stack is not None and stack.scheduler is Scheduler.KAI for stack in stacks)


def queue_changes(base: Stack | None, head: Stack | None) -> tuple[QueueChange, ...]:
    """Every resource of every Queue that differs, in the order of the tree."""
    old, new = _nodes(base), _nodes(head)
    found = []
    for name in dict.fromkeys([*new, *old]):
        for resource in RESOURCES:
            before, after = (_figures(side.get(name), resource) for side in (old, new))
            if before != after:
                sides = [side[name] for side in (new, old) if name in side]
                change = QueueChange(
                    queue=name,
                    path=_path(sides[0]),
                    resource=resource,
                    before=before,
                    after=after,
                    is_written=any(_names_quota(side, resource) for side in sides),
                )
                found.append(change)
    return tuple(found)


def queue_priority_changes(base: Stack | None, head: Stack | None) -> tuple[QueuePriorityChange, ...]:
    """Queues whose priority for free resources differs."""
    old = {name: node.owner.kai.priority for name, node in _nodes(base).items()}
    new = {name: node.owner.kai.priority for name, node in _nodes(head).items()}
    both = [name for name in new if name in old and new[name] != old[name]]
    return tuple(QueuePriorityChange(name, old[name], new[name]) for name in both)


def eviction_changes(base: Stack | None, head: Stack | None) -> tuple[EvictionChange, ...]:
    """Priorities whose work became non-preemptible, or preemptible."""
    old, new = ({each.name: each for each in _priorities(stack)} for stack in (base, head))
    return tuple(
        EvictionChange(each, not is_preemptible(each))
        for name, each in sorted(new.items())
        if name in old and is_preemptible(each) is not is_preemptible(old[name])
    )


def queues_over_quota(head: Stack | None, snapshot: Snapshot) -> Iterator[QueueOveruse]:
    """Queues of teams that hold more GPUs now than their new quota."""
    used = _gpus_in_use(snapshot)
    for name, node in _nodes(head).items():
        quota, now = node.figures["gpu"].quota, used.get(name, 0)
        if node.team is not None and not isinstance(quota, Unlimited) and now * 1000 > quota:
            yield QueueOveruse(name, "gpu", now, quota)


def queues_at_limit(head: Stack | None, snapshot: Snapshot) -> Iterator[QueueOveruse]:
    """Queues of teams and departments that hold as many GPUs as their new limit, or more. KAI ends no work
    for that, and starts none that would exceed the limit (docs/queues of kai-scheduler/KAI-Scheduler 0.17).
    """
    used = _gpus_in_use(snapshot)
    for name, node in _nodes(head).items():
        limit, now = node.figures["gpu"].limit, used.get(name, 0)
        if now and not isinstance(limit, Unlimited) and now * 1000 >= limit:
            yield QueueOveruse(name, "gpu", now, limit)


def _gpus_in_use(snapshot: Snapshot) -> dict[str, int]:
    """Queue -> GPUs that it holds now. KAI has no flavors."""
    return {
        queue.name: each.amount
        for queue in snapshot.queues
        for each in queue.usage
        if not each.flavor and each.resource == RESOURCE_OF["gpu"]
    }


def moves_beside_pools(kai: KaiDiff | None, of_pools: Collection[str]) -> Iterator[QueueChange]:
    """GPU quotas that differ and are named by Queue. `of_pools`: the teams and departments whose quotas of
    pools say it already.
    """
    for each in () if kai is None else kai.queues:
        if each.resource == "gpu" and each.is_written and each.difference and each.path[-1] not in of_pools:
            yield each


def format_move(change: QueueChange) -> str:
    """`-6 GPU`, or `GPU 8 to unlimited`."""
    if math.isinf(change.difference):
        sides = (change.before, change.after)
        before, after = ("0" if each is None else format_figure("gpu", each.quota) for each in sides)
        return f"GPU {before} to {after}"
    return f"{change.difference / 1000:+g} GPU"


def _size(figure: Figure[int]) -> float:
    return math.inf if isinstance(figure, Unlimited) else figure


def format_figure(resource: str, figure: Figure[int]) -> str:
    """A figure in GPUs, CPUs or mebibytes."""
    if isinstance(figure, Unlimited):
        return "unlimited"
    if resource == "memory":
        return f"{figure // 2**20} MiB"
    return f"{figure / 1000:g}"


def _nodes(stack: Stack | None) -> dict[str, Node]:
    return {node.name: node for node in nodes(stack)} if stack is not None and is_kai(stack) else {}


def _priorities(stack: Stack | None) -> list[Priority]:
    return stack.all_priorities if stack is not None and is_kai(stack) else []


def _figures(node: Node | None, resource: str) -> Figures | None:
    return None if node is None else node.figures[resource]


def _names_quota(node: Node, resource: str) -> bool:
    return getattr(node.owner.kai.of(node.part.pool), resource).quota is not None


def _path(node: Node) -> tuple[str, ...]:
    own = () if node.team is None else (node.team.name,)
    return (*(department.name for department in node.above), *own)
