"""The meaning of a quota in CPU, memory and GPUs.

Responsible for the CPU and memory that come with a GPU, and for the default share of a team in the CPU pools.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from muster.model.kueue import replaces_pools
from muster.model.pools import Pool
from muster.model.quantities import GIB, MIB, Bytes, Gpus, Millicores, Quantity
from muster.model.queues import Allowance, Amount, Bound, Share
from muster.model.stack import Stack


@dataclass(frozen=True, slots=True)
class Resources:
    """An amount of each resource that Kueue counts. Memory is in whole MiB."""

    cpu: Millicores
    memory: Bytes
    gpus: Gpus
    others: tuple[tuple[str, Quantity], ...] = ()

    def __add__(self, other: "Resources") -> "Resources":
        both = {*dict(self.others), *dict(other.others)}
        return Resources(
            Millicores(self.cpu + other.cpu),
            Bytes(self.memory + other.memory),
            Gpus(self.gpus + other.gpus),
            tuple((name, self.other(name) + other.other(name)) for name in sorted(both)),
        )

    def other(self, name: str) -> Quantity:
        """The amount of a resource that is neither CPU, memory nor GPU."""
        return dict(self.others).get(name, _ZERO)

    def within(self, other: "Resources") -> bool:
        """Judges CPU, memory and GPUs."""
        return self.cpu <= other.cpu and self.memory <= other.memory and self.gpus <= other.gpus

    def beyond(self, other: "Resources") -> list[str]:
        """The other resources of which there is more than `other` has."""
        return [name for name, amount in self.others if amount.value > other.other(name).value]


_ZERO: Final = Quantity(Fraction(0))
NOTHING = Resources(Millicores(0), Bytes(0), Gpus(0))
# Kueue has no word for a quota without a bound. These are more than nodes have, and little enough that 64-bit
# sums over ten thousands of teams do not overflow.
_MOST: Final = Resources(Millicores(10**9), Bytes(100 * 1024 * GIB), Gpus(10**6))


def whole(pool: Pool) -> Resources:
    """The capacity of the pool with maxNodes nodes."""
    return Resources(pool.max_cpu, _mebibytes(pool.max_memory), pool.max_gpus, _others(pool, pool.max_nodes))


def unlimited(pool: Pool) -> Resources:
    """What stands for a quota of the pool without a bound."""
    most = whole(pool)
    return Resources(
        max(_MOST.cpu, most.cpu),
        max(_MOST.memory, most.memory),
        _MOST.gpus if pool.is_gpu else Gpus(0),
        _others(pool, _MOST.gpus),
    )


def is_unlimited(pool: Pool, amount: int) -> bool:
    """Whether an amount in the pool's unit, or a sum or difference, comes from a quota without a bound."""
    return 2 * abs(amount) >= (_MOST.gpus if pool.is_gpu else _MOST.cpu)


def resources(pool: Pool, amount: Amount) -> Resources:
    """What `amount` of the pool is worth, rounded down, so that shares never sum to more than the pool.

    On a GPU pool each GPU brings its part of its node's allocatable CPU and memory, and of its other
    resources; on a CPU pool each core brings its part of the rest. Explicit figures of `amount` override
    derived ones.
    """
    if amount.is_unlimited:
        return unlimited(pool)
    gpus = amount.gpus or Gpus(0)
    if pool.is_gpu:
        parts, of = int(gpus), pool.slots_per_node
    else:
        parts, of = int(amount.cpu or 0), int(pool.machine.allocatable_cpu)
    cpu = amount.cpu if amount.cpu is not None else Millicores(pool.machine.allocatable_cpu * parts // of)
    memory = (
        amount.memory if amount.memory is not None else Bytes(pool.machine.allocatable_memory * parts // of)
    )
    others = {**dict(_others(pool, Fraction(parts, of))), **amount.others}
    return Resources(cpu, _mebibytes(memory), gpus, tuple(sorted(others.items())))


def _others(pool: Pool, nodes: Fraction | int) -> tuple[tuple[str, Quantity], ...]:
    """What so many nodes of the pool have of its `resources`, in whole units."""
    found = {
        name: Quantity(Fraction(int(each.value * nodes)), each.is_binary)
        for name, each in pool.resources.items()
    }
    return tuple(sorted((name, amount) for name, amount in found.items() if amount.value))


@dataclass(frozen=True, slots=True)
class Unnamed:
    """What quotas leave of each CPU pool, and the weights among which it is divided, by pool.

    Computed once for a stack: a thousand teams divide the same rest.
    """

    left: Mapping[str, Resources]
    weights: Mapping[str, int]


def unnamed(stack: Stack) -> Unnamed:
    """What is left of each CPU pool after every quota that is named, for the teams that name none."""
    left, weights = {}, {}
    sharing = [team for _, team in stack.owners() if not replaces_pools(team.kueue.resource_groups)]
    for pool in stack.cpu_pools:
        named, most = named_quota(stack, pool) + _in_groups(stack, pool), whole(pool)
        rest = Millicores(max(most.cpu - named.cpu, 0)), Bytes(max(most.memory - named.memory, 0))
        left[pool.name] = Resources(*rest, Gpus(0))
        weights[pool.name] = sum(team.weight for team in sharing if pool.name not in team.allowance.quota)
    return Unnamed(left, weights)


def _in_groups(stack: Stack, pool: Pool) -> Resources:
    """What `resourceGroups` guarantee of the pool's CPU and memory."""
    groups = [group for _, team in stack.teams() for group in team.kueue.resource_groups]
    groups += [group for _, department in stack.walk() for group in department.kueue.resource_groups]
    quotas = [
        quota
        for group in groups
        for flavor in group.flavors
        if flavor.name == pool.flavor
        for quota in flavor.resources
    ]
    cpu, memory = (
        sum((each.nominal.value for each in quotas if each.name == name), Fraction(0))
        for name in ("cpu", "memory")
    )
    return Resources(Millicores(int(cpu * 1000)), _mebibytes(int(memory)), Gpus(0))


def quota(rest: Unnamed, allowance: Allowance, pool: Pool, *, weight: int | None) -> Resources | None:
    """The guaranteed part of `pool`, None where there is none.

    A team (`weight` given) that names no quota of a CPU pool gets its weighted share of the rest: every
    gang has a CPU head, so a team without CPU could start nothing.
    """
    named = allowance.quota.get(pool.name)
    if named is not None:
        return resources(pool, named)
    if pool.is_gpu or weight is None:
        return None
    return cpu_share(rest, pool, weight=weight)


def cpu_share(rest: Unnamed, pool: Pool, *, weight: int) -> Resources:
    """A team's default share of a CPU pool: capacity without an explicit quota, divided by weight among the
    teams without one.
    """
    left, total = rest.left[pool.name], rest.weights[pool.name]
    if total == 0:
        return NOTHING
    return Resources(
        Millicores(left.cpu * weight // total), _mebibytes(left.memory * weight // total), Gpus(0)
    )


def named_quota(stack: Stack, pool: Pool) -> Resources:
    """The sum of the quotas of a pool that the stack names, for teams and departments. One without a bound is
    no guarantee, and takes nothing from others.
    """
    total = NOTHING
    for allowance in allowances(stack).values():
        amount = allowance.quota.get(pool.name)
        if amount is not None and not amount.is_unlimited:
            total += resources(pool, amount)
    return total


def allowances(stack: Stack) -> Mapping[str, Allowance]:
    """Every department's and team's allowance by name; the names are unique across both (rules)."""
    found = {department.name: department.allowance for _, department in stack.walk()}
    return found | {team.name: team.allowance for _, team in stack.teams()}


def borrowing(pool: Pool, allowance: Allowance, *, is_team: bool) -> Resources | None:
    """The most that may be borrowed of a pool; None is without limit.

    Unnamed, a team borrows any free CPU and no GPU. A department borrows whatever its teams may.
    """
    default = Bound.NONE if is_team and pool.is_gpu else Bound.ALL
    return _limit(pool, allowance.borrow.of(pool.name), default)


def lending(pool: Pool, allowance: Allowance) -> Resources | None:
    """The most that may be lent of a pool's quota; None is all of it, which is the default."""
    return _limit(pool, allowance.lend.of(pool.name), Bound.ALL)


def _limit(pool: Pool, share: Share | None, default: Bound) -> Resources | None:
    share = default if share is None else share
    if isinstance(share, Amount):
        return resources(pool, share)
    return NOTHING if share is Bound.NONE else None


def _mebibytes(size: int) -> Bytes:
    return Bytes(size // MIB * MIB)
