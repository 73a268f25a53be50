"""Which calls are broken, and how: drawn from a seed.

A draw depends on the seed, on what is called and on how often that was called before, so that the same seed
breaks the same calls again however the processes race. Each kind of call meets every fault of its menu in an
order of its own before it meets one again; after `horizon` calls of a kind the faults are over.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from tests.faults.breaks import Break, Call, Fault

_ALWAYS: Final = (Fault.CUT, Fault.LOST, Fault.TRUNCATE, Fault.DELAY, Fault.FREEZE)
_REFUSED: Final = (Fault.TOO_MANY, Fault.BROKEN, Fault.UNAVAILABLE)
_READS: Final = (*_ALWAYS, *_REFUSED, Fault.GONE)
_WRITES: Final = (*_ALWAYS, *_REFUSED, Fault.CONFLICT, Fault.TWICE)
_WATCHES: Final = (
    *(Fault.CUT, Fault.TRUNCATE, Fault.DELAY, Fault.FREEZE, Fault.BROKEN, Fault.GONE),
    *(Fault.DUPLICATE, Fault.REORDER, Fault.GAP),
)
MENU: Final = frozenset((*_READS, *_WRITES, *_WATCHES))
_HORIZON: Final = 12
_RATE: Final = 0.5
_LONGEST_DELAY: Final = 0.6
_MOST_EVENTS: Final = 4


class Schedule:
    """The plan of one seed. `story` is what it has done, in order. With `kill`, some cuts of writes are the
    manager's own end.
    """

    def __init__(self, seed: int, *, kill: Callable[[], None] | None = None) -> None:
        self.seed, self._kill = seed, kill
        self.kills = 0
        self.story: list[str] = []
        self.met: set[Fault] = set()
        self._calls: Counter[str] = Counter()
        self._menus: dict[str, Iterator[Fault]] = {}

    def judge(self, call: Call) -> Break | None:
        kind = str(call)
        number = self._calls[kind]
        self._calls[kind] += 1
        draw = random.Random(f"{self.seed}/{kind}/{number}")
        if number >= _HORIZON or draw.random() >= _RATE:
            return None
        fault = next(self._menus.setdefault(kind, self._menu(call)))
        at = draw.randint(0, _MOST_EVENTS) if call.verb == "watch" else 0
        found = Break(fault, seconds=draw.uniform(0.05, _LONGEST_DELAY), at=at)
        self.met.add(fault)
        ends = self._ends(call, fault)
        self.story.append(f"{kind} #{number}: {ends or fault} (event {at}, {found.seconds:.2f} s)")
        return found

    def _ends(self, call: Call, fault: Fault) -> str:
        if self._kill is None or fault is not Fault.CUT or not call.writes:
            return ""
        self.kills += 1
        self._kill()
        return "killed"

    def done(self, call: Call) -> None: ...

    def _menu(self, call: Call) -> Iterator[Fault]:
        menu = _WATCHES if call.verb == "watch" else _WRITES if call.writes else _READS
        order = random.Random(f"{self.seed}/{call}")
        while True:
            yield from order.sample(menu, len(menu))

    def __str__(self) -> str:
        lines = "\n".join(f"  {line}" for line in self.story)
        return f"seed {self.seed} (again: make soak SEED={self.seed})\n{lines}"
