"""Which calls are broken, and how: drawn from a seed.

A draw depends on the seed, on what is called and on how often that was called before, so that the same seed
breaks the same calls again however the processes race. Each kind of call meets every fault of its menu in an
order of its own before it meets one again; after `horizon` calls of a kind the faults are over.

What is drawn need not come to pass: a watch may end before its event. So that nothing is only ever drawn,
three seeds that follow one another (1, 2, 3) share each menu. Each begins with its third and owes that, and a
watch whose fault did not happen is followed by one with the same.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from tests.faults.breaks import Break, Call, Fault

_READS: Final = (
    (Fault.CUT, Fault.DELAY, Fault.TOO_MANY),
    (Fault.LOST, Fault.FREEZE, Fault.BROKEN),
    (Fault.TRUNCATE, Fault.UNAVAILABLE, Fault.GONE),
)
_MENUS: Final = {
    "read": _READS,
    "news": _READS,
    "write": (
        (Fault.CUT, Fault.DELAY, Fault.TOO_MANY, Fault.TWICE),
        (Fault.LOST, Fault.FREEZE, Fault.BROKEN),
        (Fault.TRUNCATE, Fault.UNAVAILABLE, Fault.CONFLICT, Fault.STARTING),
    ),
    # The last of each goes on for as long as the watch does, which meets nothing else then.
    "watch": (
        (Fault.CUT, Fault.GONE, Fault.DELAY),
        (Fault.TRUNCATE, Fault.GAP, Fault.DUPLICATE),
        (Fault.FREEZE, Fault.BROKEN, Fault.REORDER),
    ),
}
_OWED: Final = ("read", "write", "watch")
EVERYTHING: Final = frozenset((kind, fault) for kind in _OWED for third in _MENUS[kind] for fault in third)
_HORIZON: Final = 12
_RATE: Final = 0.5
_LONGEST_DELAY: Final = 0.6
_MOST_EVENTS: Final = 4
_FEW_EVENTS: Final = 1
"""Before what is owed: most watches here tell of little."""


@dataclass(slots=True)
class Drawn:
    """What is to happen to one call, and whether it has."""

    call: str
    number: int
    kind: str
    fault: Fault
    at: int
    seconds: float
    kills: bool = False
    happened: bool = False

    def happens(self) -> None:
        self.happened = True

    def __str__(self) -> str:
        where = f" after {self.at} events" if self.kind == "watch" else ""
        how = f" {self.seconds:.2f} s" if self.fault is Fault.DELAY else ""
        what = "killed" if self.kills else self.fault
        return f"{self.call} #{self.number}: {what}{how}{where}{'' if self.happened else ', did not happen'}"


class Schedule:
    """The plan of one seed. `story` is what it has drawn, in order. With `kill`, some cuts of writes are the
    manager's own end.
    """

    def __init__(self, seed: int, *, kill: Callable[[], None] | None = None) -> None:
        self.seed, self._kill = seed, kill
        self.story: list[Drawn] = []
        self._calls: Counter[str] = Counter()
        self._drawn: dict[str, list[Drawn]] = {}
        self._menus: dict[str, Iterator[Fault]] = {}

    @property
    def kills(self) -> int:
        return sum(each.kills for each in self.story)

    @property
    def owed(self) -> frozenset[tuple[str, Fault]]:
        """What this seed has to do; its two neighbours do the rest."""
        return frozenset((kind, fault) for kind in _OWED for fault in self._share(kind))

    @property
    def happened(self) -> frozenset[tuple[str, Fault]]:
        """What it really did, and to which kind of call."""
        return frozenset((each.kind, each.fault) for each in self.story if each.happened)

    def judge(self, call: Call) -> Break | None:
        name, kind = str(call), _kind(call)
        number = self._calls[name]
        self._calls[name] += 1
        draw = random.Random(f"{self.seed}/{name}/{number}")
        before = self._drawn.setdefault(name, [])
        fault = self._fault(name, kind, draw, before) if number < _HORIZON else None
        if fault is None:
            return None
        most = _FEW_EVENTS if fault in self._share(kind) else _MOST_EVENTS
        at = draw.randint(0, most) if kind == "watch" else 0
        drawn = Drawn(name, number, kind, fault, at, draw.uniform(0.05, _LONGEST_DELAY))
        before.append(drawn)
        self.story.append(drawn)
        if self._kill is not None and kind == "write" and fault is Fault.CUT:
            drawn.kills = drawn.happened = True
            self._kill()
        return Break(fault, seconds=drawn.seconds, at=at, happened=drawn.happens)

    def done(self, call: Call) -> None: ...

    def _fault(self, name: str, kind: str, draw: random.Random, before: list[Drawn]) -> Fault | None:
        owed, met = len(self._share(kind)), len({each.fault for each in before})
        if kind == "watch" and before and not before[-1].happened and met <= owed:
            return before[-1].fault
        # A watch may live as long as the test does: the first few are all there may be.
        is_broken = draw.random() < _RATE or (kind == "watch" and met < owed)
        return next(self._menus.setdefault(name, self._menu(name, kind))) if is_broken else None

    def _share(self, kind: str) -> tuple[Fault, ...]:
        return _MENUS[kind][self.seed % len(_MENUS[kind])]

    def _menu(self, name: str, kind: str) -> Iterator[Fault]:
        """Its own third first."""
        order, mine = random.Random(f"{self.seed}/{name}"), self._share(kind)
        others = [fault for third in _MENUS[kind] for fault in third if fault not in mine]
        if kind == "watch":
            yield from (*order.sample(mine[:-1], len(mine) - 1), mine[-1])
        else:
            yield from order.sample(mine, len(mine))
        yield from order.sample(others, len(others))
        while True:
            yield from order.sample((*mine, *others), len(mine) + len(others))

    def __str__(self) -> str:
        lines = "\n".join(f"  {line}" for line in self.story)
        return f"seed {self.seed} (again: make soak SEED={self.seed})\n{lines}"


def _kind(call: Call) -> str:
    if call.verb == "watch":
        return "watch"
    if call.verb in ("get", "list"):
        return "read"
    return "write" if call.writes else "news"
