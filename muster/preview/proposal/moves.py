"""Which changes of amounts are worth a try, by what the late jobs of a replay lacked.

A move raises some amounts and lowers others by the same number of GPUs. Pure.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from muster.preview.proposal.knobs import Key, Knob, Space, Values

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
