"""Which amounts of a stack file may change: quotas of GPU pools, and what may be borrowed and lent of them.

Responsible for their bounds and their places in the file. An amount that the file writes as a word (`all`,
`none`, `unlimited`) is a decision and stays; so does what the file takes from another one. A pool's size is
no knob.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

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
