"""Every Queue of a stack with all of its figures.

Responsible for translating quota, borrowing and weight into quota, limit and over-quota weight: a parent's
quota includes its children's, a limit is quota plus borrowing, and a top-level department is limited to its
own quota (departments share nothing, as with Kueue) unless its `kai:` section has another limit.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from muster.model.kai import UNLIMITED, Figure, QueueSettings, Sharding, Share, added
from muster.model.pools import Pool
from muster.model.queues import Allowance, Department, Team
from muster.model.quotas import NOTHING, Resources, Unnamed, borrowing, quota, unnamed
from muster.model.stack import Stack

# Partitions: which pools one KAI scheduler serves, and the names of the queues there.
#
# A KAI Queue has one GPU figure for all kinds of GPU. That is enough for one GPU pool. With two, a team's
# quota of one pool would be usable in the other. Then every pool gets a scheduler of its own (a
# SchedulingShard for the nodes, queues and gangs with the pool's label), and a team has a Queue in each.
# docs/decisions/008-kai-queues.md compares the alternatives.

DEFAULT_SHARD: Final = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """`pool` is the name that its nodes, queues and gangs carry as label; None: those without the label."""

    name: str
    pool: str | None
    pools: tuple[Pool, ...]

    def queue(self, owner: str) -> str:
        """The name of a team's or department's Queue in this partition."""
        return owner if self.pool is None else f"{owner}-{self.pool}"


def sharding(stack: Stack) -> Sharding:
    """The stack's setting, or by default the sharding that keeps the quotas of its pools separate."""
    if stack.kai.sharding is not None:
        return stack.kai.sharding
    gpu_pools = [pool for pool in stack.pools if pool.is_gpu]
    return Sharding.PER_POOL if len(gpu_pools) > 1 else Sharding.ONE


def partitions(stack: Stack) -> tuple[Partition, ...]:
    """The partitions of the stack, in the order of its pools."""
    if sharding(stack) is Sharding.ONE:
        return (Partition(name=DEFAULT_SHARD, pool=None, pools=stack.pools),)
    return tuple(Partition(name=pool.name, pool=pool.name, pools=(pool,)) for pool in stack.pools)


RESOURCES: Final = ("gpu", "cpu", "memory")


@dataclass(frozen=True, slots=True)
class Figures:
    """One resource of one Queue: thousandths of a GPU or of a CPU, or bytes."""

    quota: Figure[int]
    limit: Figure[int]
    weight: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A Queue. `above` is the chain of departments from the top; `team` is None for a department's own Queue,
    which is that of the last of the chain.
    """

    part: Partition
    above: tuple[Department, ...]
    team: Team | None
    figures: Mapping[str, Figures]

    @property
    def owner(self) -> Department | Team:
        return self.above[-1] if self.team is None else self.team

    @property
    def name(self) -> str:
        return self.part.queue(_queue(self.owner))

    @property
    def parent(self) -> str | None:
        """The Queue above, None at the top."""
        chain = self.above[:-1] if self.team is None else self.above
        above = [each for each in chain if each.kai.exists]
        return self.part.queue(_queue(above[-1])) if above else None

    @property
    def is_open(self) -> bool:
        """Whether anything could ever run here. Without CPU nothing can."""
        return self.figures["cpu"].limit != 0


def _queue(owner: Department | Team) -> str:
    return owner.kai.queue or owner.name


def nodes(stack: Stack) -> Iterator[Node]:
    """Every Queue, each behind its parent, a department's teams right behind it.

    A team has none in a partition where it may hold nothing, and a department none where none of its teams
    has: only queues without children take work, and it would be one. A department with `queue: none` has none
    anywhere.
    """
    rest = unnamed(stack)
    for part in partitions(stack):
        for above, department in stack.walk():
            yield from _department_nodes(rest, part, (*above, department))


def _department_nodes(rest: Unnamed, part: Partition, chain: tuple[Department, ...]) -> Iterator[Node]:
    department = chain[-1]
    if not any(_team(rest, part, team)["cpu"].limit for team in _everybody(department)):
        return
    if department.kai.exists:
        is_top = not any(each.kai.exists for each in chain[:-1])
        figures = _department(rest, part, department, is_top=is_top)
        yield Node(part=part, above=chain, team=None, figures=figures)
    for team in department.owners:
        node = Node(part=part, above=chain, team=team, figures=_team(rest, part, team))
        if node.is_open:
            yield node


def _everybody(department: Department) -> Iterator[Team]:
    return (team for _, below in department.walk() for team in below.owners)


def _team(rest: Unnamed, part: Partition, team: Team) -> Mapping[str, Figures]:
    own = [_own_figures(rest, team.allowance, pool, weight=team.weight) for pool in part.pools]
    taken = _taken(part, team.allowance, is_team=True)
    quotas = {key: added(each[key] for each in own) for key in RESOURCES}
    return _figures(quotas, taken, explicit=_explicit_shares(team.kai, part), weight=team.weight)


def _department(
    rest: Unnamed, part: Partition, department: Department, *, is_top: bool
) -> Mapping[str, Figures]:
    """A department's own figures plus those of all teams and departments below it."""
    allowance = department.allowance
    own = [_own_figures(rest, allowance, pool, weight=None) for pool in part.pools]
    below = [_department(rest, part, child, is_top=False) for child in department.departments]
    below += [_team(rest, part, team) for team in department.owners]
    quotas = {
        key: added([*(each[key] for each in own), *(figures[key].quota for figures in below)])
        for key in RESOURCES
    }
    taken: Mapping[str, Figure[int]] = (
        dict.fromkeys(RESOURCES, 0) if is_top else _taken(part, allowance, is_team=False)
    )
    weight = 1 if allowance.weight is None else allowance.weight
    return _figures(quotas, taken, explicit=_explicit_shares(department.kai, part), weight=weight)


def _own_figures(
    rest: Unnamed, allowance: Allowance, pool: Pool, *, weight: int | None
) -> Mapping[str, Figure[int]]:
    """The guaranteed part of a pool, by resource."""
    named = allowance.quota.get(pool.name)
    if named is not None and named.is_unlimited:
        return {"gpu": UNLIMITED if pool.is_gpu else 0, "cpu": UNLIMITED, "memory": UNLIMITED}
    owned = quota(rest, allowance, pool, weight=weight) or NOTHING
    return {key: value(owned, key) for key in RESOURCES}


def _taken(part: Partition, allowance: Allowance, *, is_team: bool) -> Mapping[str, Figure[int]]:
    """The most that may be borrowed of each resource. A pool without GPUs has none to borrow."""
    found: dict[str, list[Figure[int]]] = {key: [] for key in RESOURCES}
    for pool in part.pools:
        most = borrowing(pool, allowance, is_team=is_team)
        for key in RESOURCES if pool.is_gpu else ("cpu", "memory"):
            found[key].append(UNLIMITED if most is None else value(most, key))
    return {key: added(figures) for key, figures in found.items()}


def _figures(
    quotas: Mapping[str, Figure[int]],
    taken: Mapping[str, Figure[int]],
    *,
    explicit: Mapping[str, Share[int]],
    weight: int,
) -> Mapping[str, Figures]:
    """The derived figures, overridden by those of a `kai:` section."""
    found = {}
    for key, share in explicit.items():
        owned = quotas[key] if share.quota is None else share.quota
        limit = added([owned, taken[key]])
        found[key] = Figures(
            quota=owned,
            limit=limit if share.limit is None else share.limit,
            weight=weight if share.over_quota_weight is None else share.over_quota_weight,
        )
    return found


def _explicit_shares(settings: QueueSettings, part: Partition) -> Mapping[str, Share[int]]:
    shares = settings.of(part.pool)
    return {"gpu": shares.gpu, "cpu": shares.cpu, "memory": shares.memory}


def value(amount: Resources, key: str) -> int:
    """An amount of one resource: thousandths of a GPU or CPU, or bytes."""
    return {"gpu": amount.gpus * 1000, "cpu": int(amount.cpu), "memory": int(amount.memory)}[key]
