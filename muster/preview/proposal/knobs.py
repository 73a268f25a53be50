"""Which amounts of a stack file may change: quotas of GPU pools, and what may be borrowed and lent of them.

Responsible for their bounds and their places in the file. An amount that the file writes as a word (`all`,
`none`, `unlimited`) is a decision and stays; so does what the file takes from another one. A pool's size is
no knob.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from muster.config.edit import StackText
from muster.model.kueue import replaces_pools
from muster.model.pools import Pool
from muster.model.queues import Allowance, Amount
from muster.model.stack import Stack


class Key(StrEnum):
    """The key of the stack file."""

    QUOTA = "quota"
    BORROW = "borrow"
    LEND = "lend"


@dataclass(frozen=True, slots=True, order=True)
class Knob:
    """An amount of `pool`, of the team or department `owner`."""

    key: Key
    owner: str
    pool: str


Values = Mapping[Knob, int]
"""GPUs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """`values` are those of the stack file. `sizes` and `steps`: pool -> GPUs in it, and those by which an
    amount changes; `fixed`: pool -> quota that no knob changes. `paths` are the places in the file,
    `departments` those above each team.
    """

    values: Values
    sizes: Mapping[str, int]
    steps: Mapping[str, int]
    fixed: Mapping[str, int]
    paths: Mapping[Knob, tuple[str, ...]]
    departments: Mapping[str, tuple[str, ...]]

    def bounds(self, knob: Knob, values: Values) -> tuple[int, int]:
        """The smallest and the greatest amount beside the other values. What is lent is part of a quota, and
        what is borrowed comes on top of it.
        """
        size = self.sizes[knob.pool]
        quota, lend = (Knob(key, knob.owner, knob.pool) for key in (Key.QUOTA, Key.LEND))
        if knob.key is Key.BORROW:
            return 0, size - values.get(quota, 0)
        if knob.key is Key.LEND:
            return 0, values.get(quota, size)
        return values.get(lend, 0), size

    def free(self, pool: str, values: Values) -> int:
        """What the quotas leave of a pool."""
        taken = sum(value for knob, value in values.items() if (knob.key, knob.pool) == (Key.QUOTA, pool))
        return self.sizes[pool] - self.fixed.get(pool, 0) - taken


def to_space(stack: Stack, text: StackText) -> Space:
    values: dict[Knob, int] = {}
    paths: dict[Knob, tuple[str, ...]] = {}
    fixed: dict[str, int] = {}
    pools = [pool for pool in stack.pools if pool.is_gpu]
    for allowance, owner, path, is_team in _owners(stack):
        for pool in pools:
            for key, amount in _amounts(allowance, pool, is_team=is_team):
                place = (*path, key, pool.name)
                if text.has((*place, "gpus")):
                    place = (*place, "gpus")
                knob = Knob(key, owner, pool.name)
                if text.has(path) and text.can_write(place):
                    values[knob], paths[knob] = amount, place
                elif key is Key.QUOTA:
                    fixed[pool.name] = fixed.get(pool.name, 0) + amount
    return Space(
        values=values,
        sizes={pool.name: int(pool.max_gpus) for pool in pools},
        steps={pool.name: _step(pool, values) for pool in pools},
        fixed=fixed,
        paths=paths,
        departments={
            team.name: tuple(department.name for department in chain) for chain, team in stack.owners()
        },
    )


def _owners(stack: Stack) -> Iterator[tuple[Allowance, str, tuple[str, ...], bool]]:
    for above, department in stack.walk():
        path = _path(*(each.name for each in (*above, department)))
        yield department.allowance, department.name, path, False
    for chain, team in stack.owners():
        if not replaces_pools(team.kueue.resource_groups):
            path = (*_path(*(each.name for each in chain)), "teams", team.name)
            yield team.allowance, team.name, path, True


def _path(*departments: str) -> tuple[str, ...]:
    first, *below = departments
    return ("muster:departments", first, *(key for name in below for key in ("departments", name)))


def _amounts(allowance: Allowance, pool: Pool, *, is_team: bool) -> Iterator[tuple[Key, int]]:
    """Without a line of its own, a team has a quota of 0 and borrows nothing; any other limit is open."""
    quota = allowance.quota.get(pool.name, Amount())
    if not quota.is_unlimited and (is_team or quota.gpus):
        yield Key.QUOTA, int(quota.gpus or 0)
    for key, limit in ((Key.BORROW, allowance.borrow), (Key.LEND, allowance.lend)):
        share = limit.of(pool.name)
        if isinstance(share, Amount):
            yield key, int(share.gpus or 0)
        elif share is None and key is Key.BORROW and is_team:
            yield key, 0


def _step(pool: Pool, values: Values) -> int:
    """Whole nodes, or slices of TPUs, where every amount of the pool is made of them; else single GPUs."""
    whole = pool.slots_per_node * pool.slice_nodes
    return whole if all(value % whole == 0 for knob, value in values.items() if knob.pool == pool.name) else 1


# Which changes of amounts are worth a try, by what the late jobs of a replay lacked.
# A move raises some amounts and lowers others by the same number of GPUs. Pure.

# Each move is at least one replay. These bounds leave most of forty for amounts.
_MOST_RECEIVERS: Final = 3
_MOST_DONORS: Final = 5
_MOST_LENDERS: Final = 2


@dataclass(frozen=True, slots=True)
class Move:
    """Amounts that rise and amounts that fall together."""

    up: tuple[Knob, ...] = ()
    down: tuple[Knob, ...] = ()

    @property
    def pool(self) -> str:
        return (*self.up, *self.down)[0].pool

    def apply(self, values: Values, amount: int) -> dict[Knob, int]:
        changed = dict(values)
        for knobs, sign in ((self.up, 1), (self.down, -1)):
            for knob in knobs:
                changed[knob] += sign * amount
        return changed

    def most(self, space: Space, values: Values) -> int:
        """By how many GPUs it can change these values: whole steps within the bounds and the pool."""
        rooms = [space.bounds(knob, values)[1] - values[knob] for knob in self.up]
        rooms += [values[knob] - space.bounds(knob, values)[0] for knob in self.down]
        quotas = [sum(knob.key is Key.QUOTA for knob in knobs) for knobs in (self.up, self.down)]
        if quotas[0] > quotas[1]:
            rooms.append(space.free(self.pool, values) // (quotas[0] - quotas[1]))
        step = space.steps[self.pool]
        return max(min(rooms), 0) // step * step


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What a replay showed. `late`: (team, pool) -> GPU-seconds that jobs waited too long. `idle`:
    (owner of a quota, pool) -> GPUs of it that were idle on average.
    """

    late: Mapping[tuple[str, str], float]
    idle: Mapping[tuple[str, str], float]


Tiers = Sequence[Sequence[Move]]


def to_tiers(space: Space, need: Need) -> Tiers:
    """What takes nothing from anyone; what limits others; what takes quota from others."""
    pairs = sorted(need.late, key=lambda pair: (-need.late[pair], pair))[:_MOST_RECEIVERS]
    kinds = (_gifts, _limits, _transfers)
    return [
        list(
            dict.fromkeys(
                move for pair in pairs for move in kind(space, need, *pair) if _is_known(move, space)
            )
        )
        for kind in kinds
    ]


def _is_known(move: Move, space: Space) -> bool:
    return all(knob in space.values for knob in (*move.up, *move.down))


def _gifts(space: Space, need: Need, team: str, pool: str) -> Iterator[Move]:
    """Also together what has no effect alone: a department's limit with the team's, and what others lend."""
    borrow = Knob(Key.BORROW, team, pool)
    chain = [Knob(Key.BORROW, name, pool) for name in space.departments.get(team, ())]
    above = tuple(knob for knob in chain if knob in space.values)
    lenders = [
        knob for owner in _by_idle(need, pool, team) if (knob := Knob(Key.LEND, owner, pool)) in space.values
    ][:_MOST_LENDERS]
    yield Move(up=(borrow,))
    yield Move(up=(Knob(Key.QUOTA, team, pool),))
    if above:
        yield Move(up=above)
        yield Move(up=(borrow, *above))
    for lender in lenders:
        yield Move(up=(lender,))
        yield Move(up=(borrow, *above, lender))


def _limits(space: Space, need: Need, team: str, pool: str) -> Iterator[Move]:
    for knob in sorted(space.values):
        if (knob.key, knob.pool) == (Key.BORROW, pool) and knob.owner != team:
            yield Move(down=(knob,))


def _transfers(space: Space, need: Need, team: str, pool: str) -> Iterator[Move]:
    for donor in _by_idle(need, pool, team)[:_MOST_DONORS]:
        yield Move(up=(Knob(Key.QUOTA, team, pool),), down=(Knob(Key.QUOTA, donor, pool),))


def _by_idle(need: Need, pool: str, but: str) -> list[str]:
    """The owners of quota of the pool, the idlest first."""
    owners = [owner for owner, name in need.idle if name == pool and owner != but]
    return sorted(owners, key=lambda owner: (-need.idle[owner, pool], owner))
