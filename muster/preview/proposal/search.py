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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from muster.preview.proposal.knobs import Key, Knob, Move, Space, Tiers, Values


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
