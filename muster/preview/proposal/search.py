"""Finds the smallest change of amounts that meets the goals. Pure but for the evaluation, which replays.

The order is fixed, so equal inputs give equal answers, however many replays run side by side:

1. Each move of the first tier is tried as far as it goes. Where one meets the goals, bisection finds the
   smallest amount that does. Where none does, the best one stays and the others are tried on top of it.
2. When a tier gains no more, the next one joins: first what takes nothing from others, then their limits,
   then their quota.
3. What was found, goals met or not, is made smaller as long as it reaches no less: each move is left out or
   bisected, the most expensive first.

Bisection takes for granted that more of a move brings the goals nearer. Where that is wrong, the answer still
meets the goals, because it was replayed, and may not be the smallest.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from muster.config.edit import StackText
from muster.model.kueue import replaces_pools
from muster.model.pools import Pool
from muster.model.queues import Allowance, Amount
from muster.model.stack import Stack

# Which amounts of a stack file may change: quotas of GPU pools, and what may be borrowed and lent of them.
#
# Responsible for their bounds and their places in the file. An amount that the file writes as a word (`all`,
# `none`, `unlimited`) is a decision and stays; so does what the file takes from another one. A pool's size is
# no knob.


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


@dataclass(frozen=True, slots=True)
class Score:
    """How far a change is from the goals and from what is to be kept: 0 where they are met."""

    shortfall: float
    broken: float

    @property
    def is_met(self) -> bool:
        return self.shortfall == 0.0 and self.broken == 0.0


class StoppedError(Exception):
    """The budget is spent, or the user interrupted. `why` is a phrase such as "40 replays are done". `found`
    are the scores of the first changes of the call.
    """

    def __init__(self, why: str, found: Sequence[Score | None] = ()) -> None:
        super().__init__(why)
        self.why = why
        self.found = found


Evaluate = Callable[[Sequence[Values]], Sequence[Score | None]]
"""Replays changed amounts; None for a change that `muster validate` refuses. StoppedError when it may not go
on."""


@dataclass(frozen=True, slots=True, order=True)
class Cost:
    """The smaller, the better; the first field that differs decides. `taken`: GPUs of quota that owners lose.
    `limited`: GPUs of limits that owners lose. `values`: how many amounts change, and `gpus` by how much.
    """

    taken: int
    limited: int
    values: int
    gpus: int


def cost(before: Values, after: Values) -> Cost:
    changes = {knob: after[knob] - before[knob] for knob in before if after[knob] != before[knob]}
    losses = {knob: -change for knob, change in changes.items() if change < 0}
    return Cost(
        taken=sum(lost for knob, lost in losses.items() if knob.key is Key.QUOTA),
        limited=sum(lost for knob, lost in losses.items() if knob.key is not Key.QUOTA),
        values=len(changes),
        gpus=sum(map(abs, changes.values())),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """`values` are the best that were replayed. `stopped`: why the search ended early, or ""."""

    values: Values
    score: Score
    stopped: str


# Moves that meet the goals and are bisected side by side.
_TOGETHER: Final = 3

_MET: Final = Score(0.0, 0.0)

Steps = Mapping[Move, int]
"""By how many GPUs each move changes the stack file's amounts."""


@dataclass(slots=True)
class _Search:
    space: Space
    evaluate: Evaluate
    scores: dict[tuple[tuple[Knob, int], ...], Score | None] = field(default_factory=dict)

    def values(self, steps: Steps) -> Values:
        values = self.space.values
        for move, amount in steps.items():
            values = move.apply(values, amount)
        return values

    def try_all(self, tried: Sequence[Steps]) -> list[Score | None]:
        keys = [_key(self.values(steps)) for steps in tried]
        fresh = [key for key in dict.fromkeys(keys) if key not in self.scores]
        try:
            self.scores.update(zip(fresh, self.evaluate([dict(key) for key in fresh]), strict=True))
        except StoppedError as error:
            self.scores.update(zip(fresh, error.found, strict=False))
            raise
        return [self.scores[key] for key in keys]

    def cost(self, steps: Steps) -> Cost:
        return cost(self.space.values, self.values(steps))

    def most(self, steps: Steps, move: Move) -> int:
        return move.most(self.space, self.values(steps))

    def best(self) -> tuple[Values, Score]:
        """What meets the goals at the least cost; else what keeps what is to be kept and comes nearest."""
        ranked = [
            ((score.broken, score.shortfall), cost(self.space.values, dict(key)), key, score)
            for key, score in self.scores.items()
            if score is not None
        ]
        _, _, key, score = min(ranked, key=lambda each: each[:3])
        return dict(key), score

    def run(self, tiers: Tiers) -> None:
        start: Steps = {}
        (current,) = self.try_all([start])
        if current is None or current.is_met:
            return
        joined: list[Move] = []
        for tier in tiers:
            joined += tier
            while True:
                solution, start, after = self.advance(start, current, joined)
                if solution is not None:
                    self.shrink(solution, _MET)
                    return
                if after == current:
                    break
                current = after
        self.shrink(start, current)

    def advance(
        self, start: Steps, current: Score, moves: Sequence[Move]
    ) -> tuple[Steps | None, Steps, Score]:
        """The cheapest solution with one more move. Without one, the move that gains most."""
        possible = {move: most for move in moves if (most := self.most(start, move)) > 0}
        scores = dict(
            zip(possible, self.try_all([_more(start, *each) for each in possible.items()]), strict=True)
        )
        if solved := self.solve(start, possible, scores):
            return min(solved, key=self.cost), start, current
        gaining = {
            move: possible[move]
            for move, score in scores.items()
            if score and score.shortfall < current.shortfall
        }
        steps = self.within_kept(start, gaining, scores)
        found = [
            (score.shortfall, self.cost(each), each, score)
            for each, score in zip(steps, self.try_all(steps), strict=True)
            if score and not score.broken and score.shortfall < current.shortfall
        ]
        if not found:
            return None, start, current
        _, _, start, current = min(found, key=lambda each: each[:2])
        return None, start, current

    def solve(
        self, start: Steps, possible: Mapping[Move, int], scores: Mapping[Move, Score | None]
    ) -> list[Steps]:
        """The smallest amounts of the cheapest moves that meet everything; of the next where none does."""
        ranked = [
            (bool(score.broken), self.cost(_more(start, move, self.step(move))), index, move)
            for index, (move, score) in enumerate(scores.items())
            if score is not None and not score.shortfall
        ]
        moves = [move for *_, move in sorted(ranked, key=lambda each: each[:3])]
        for first in range(0, len(moves), _TOGETHER):
            tried = {move: possible[move] for move in moves[first : first + _TOGETHER]}
            least = self.bisect(start, tried, lambda score: not score.shortfall)
            solutions = [_more(start, *each) for each in least.items()]
            found = zip(solutions, self.try_all(solutions), strict=True)
            if solved := [steps for steps, score in found if _is_met(score)]:
                return solved
        return []

    def within_kept(
        self, start: Steps, moves: Mapping[Move, int], scores: Mapping[Move, Score | None]
    ) -> list[Steps]:
        """Each move as far as what is to be kept still is."""
        breaking = {move: most for move, most in moves.items() if (score := scores[move]) and score.broken}
        too_much = self.bisect(start, breaking, lambda score: bool(score.broken))
        most = {move: too_much[move] - self.step(move) if move in too_much else moves[move] for move in moves}
        return [_more(start, move, amount) for move, amount in most.items() if amount > 0]

    def bisect(
        self, start: Steps, moves: Mapping[Move, int], holds: Callable[[Score], bool]
    ) -> dict[Move, int]:
        """The smallest amount of each move for which it holds; it does for the amounts given. One amount of
        each move is replayed at a time, all side by side.
        """
        spans = {move: (0, most) for move, most in moves.items()}
        while True:
            middles = {
                move: middle
                for move, (low, high) in spans.items()
                if (middle := self.middle(move, low, high)) > low
            }
            if not middles:
                return {move: high for move, (_, high) in spans.items()}
            scores = self.try_all([_more(start, *each) for each in middles.items()])
            for (move, middle), score in zip(middles.items(), scores, strict=True):
                low, high = spans[move]
                spans[move] = (low, middle) if score is not None and holds(score) else (middle, high)

    def step(self, move: Move) -> int:
        return self.space.steps[move.pool]

    def middle(self, move: Move, low: int, high: int) -> int:
        step = self.step(move)
        return low + (high - low) // step // 2 * step

    def shrink(self, steps: Steps, reached: Score) -> None:
        """Leave out each move, or bisect it, as long as no less is reached; the most expensive first."""
        if len(steps) == 1 and reached.is_met:
            # Bisection found it.
            return
        is_again = False
        while True:
            before = steps
            for move in sorted(steps, key=lambda each: self.cost({each: steps[each]}), reverse=True):
                steps = self.with_less(steps, move, reached, is_again=is_again)
            if steps == before or len(steps) < 2:
                return
            is_again = True

    def with_less(self, steps: Steps, move: Move, reached: Score, *, is_again: bool) -> Steps:
        """With less of the move, or without it. `is_again`: it was made small before another one was, so one
        step less shows whether it can be smaller.
        """

        def holds(score: Score | None) -> bool:
            return score is not None and score.shortfall <= reached.shortfall and not score.broken

        others = {each: amount for each, amount in steps.items() if each != move}
        most = steps[move]
        if is_again:
            most -= self.step(move)
            if not (most and holds(*self.try_all([_more(others, move, most)]))):
                return steps
        elif holds(*self.try_all([others])):
            return others
        least = self.bisect(others, {move: most}, holds)
        return _more(others, move, least[move])


def search(space: Space, tiers: Tiers, evaluate: Evaluate) -> Found:
    """The base is evaluated first: StoppedError passes where not even that was possible."""
    found, stopped = _Search(space, evaluate), ""
    try:
        found.run(tiers)
    except StoppedError as error:
        if not found.scores:
            raise
        stopped = error.why
    values, score = found.best()
    return Found(values=values, score=score, stopped=stopped)


def _is_met(score: Score | None) -> bool:
    return score is not None and score.is_met


def _more(steps: Steps, move: Move, amount: int) -> Steps:
    return {**steps, move: steps.get(move, 0) + amount}


def _key(values: Values) -> tuple[tuple[Knob, int], ...]:
    return tuple(sorted(values.items()))
