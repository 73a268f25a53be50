"""The progress display of a build: one bar for each task, and the time left.

Responsible for: the estimate and its display (bars on a terminal, a plain line every 15 seconds elsewhere).
It starts no work. Bars need rich, which only the extra `local` brings: without it there are lines.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from math import inf
from typing import TYPE_CHECKING, Final, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_PLAIN_SECONDS: Final = 15.0
_REFRESH_SECONDS: Final = 0.25
# So much of the record holds as it stands: one short task says little about a machine.
_PRIOR_SECONDS: Final = 60.0
# By how much the estimate may grow above the least that was shown.
_GROWTH: Final = 1.1
# What is not finished never looks finished.
_ALMOST: Final = 0.97
OVERDUE: Final = "takes longer than recorded"


class State(StrEnum):
    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"


@dataclass(slots=True)
class Item:
    """One task: `expected` seconds come from a recorded run on another machine."""

    name: str
    expected: float
    state: State = State.WAITING
    note: str = ""
    signal: float = 0.0
    started: float = 0.0
    took: float = 0.0
    learnable: bool = True


class Board:
    """All tasks of one build. Safe to use from several threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._items: dict[str, Item] = {}
        self._lock = threading.RLock()
        self._least = inf

    def add(self, name: str, expected: float) -> None:
        with self._lock:
            self._items.setdefault(name, Item(name=name, expected=max(expected, 0.1)))

    def start(self, name: str, note: str = "") -> None:
        with self._lock:
            item = self._items[name]
            item.state, item.started, item.note = State.RUNNING, self._clock(), note

    def advance(self, name: str, fraction: float, note: str | None = None) -> None:
        """`fraction` is the share that is done by an inner signal, such as packages compiled."""
        with self._lock:
            item = self._items[name]
            item.signal = max(item.signal, min(fraction, 1.0))
            if note is not None:
                item.note = note

    def note(self, name: str, note: str) -> None:
        with self._lock:
            self._items[name].note = note

    def done(self, name: str, note: str = "", *, learnable: bool = True) -> None:
        """`learnable` is False for what was not built: its time does not describe this machine."""
        with self._lock:
            item = self._items[name]
            item.took = self._clock() - item.started if item.state is State.RUNNING else 0.0
            item.state, item.note, item.learnable = State.DONE, note, learnable

    def items(self) -> list[Item]:
        with self._lock:
            return list(self._items.values())

    def scale(self) -> float:
        """How many seconds here one recorded second takes, from what has been built so far."""
        with self._lock:
            learned = [item for item in self._items.values() if item.state is State.DONE and item.learnable]
            recorded = sum(item.expected for item in learned)
            return (sum(item.took for item in learned) + _PRIOR_SECONDS) / (recorded + _PRIOR_SECONDS)

    def fraction(self, item: Item) -> float:
        if item.state is State.DONE:
            return 1.0
        if item.state is State.WAITING:
            return 0.0
        passed = (self._clock() - item.started) / (item.expected * self.scale())
        return min(max(item.signal, min(passed, 0.9)), _ALMOST)

    def left(self, item: Item) -> float:
        """Seconds until the task ends; 0 where it is overdue. The record counts at its beginning, and its own
        signal the more the further it is: the packages that are compiled first are not like the last.
        """
        if item.state is State.DONE:
            return 0.0
        whole = item.expected * self.scale()
        if item.state is State.WAITING:
            return whole
        elapsed = self._clock() - item.started
        if not item.signal:
            return max(whole - elapsed, 0.0)
        return 0.0 if item.signal >= _ALMOST else max(whole, elapsed) * (1 - item.signal)

    def is_overdue(self, item: Item) -> bool:
        """Whether nothing is known of its end: the record or its signal has come to an end before."""
        if item.state is not State.RUNNING:
            return False
        is_late = self._clock() - item.started >= item.expected * self.scale()
        return item.signal >= _ALMOST or (not item.signal and is_late)

    def total_left(self) -> float:
        with self._lock:
            return sum(self.left(item) for item in self._items.values())

    def time_left(self) -> str:
        """Of the whole build, such as "about 40s left". It grows by a tenth at most above the least that it
        has been: beyond that it says "more than".
        """
        with self._lock:
            left, most = self.total_left(), self._least * _GROWTH
            is_late = left > most or any(map(self.is_overdue, self._items.values()))
            left = min(left, most)
            self._least = min(self._least, left)
        if not is_late:
            return f"about {clock_text(left)} left"
        return f"more than {clock_text(left)} left" if left >= 1 else OVERDUE

    @contextmanager
    def task(self, name: str) -> Iterator[None]:
        self.start(name)
        yield
        self.done(name)


def clock_text(seconds: float) -> str:
    """63 -> "1m03s"."""
    whole = int(seconds + 0.5)
    return f"{whole // 60}m{whole % 60:02d}s" if whole >= 60 else f"{whole}s"


@contextmanager
def shown(board: Board, stream: TextIO | None = None) -> Iterator[None]:
    """Show the board until the block ends: bars on a terminal where rich is installed, lines otherwise."""
    target = stream or sys.stderr
    finished = threading.Event()
    draw = _draw_bars if target.isatty() and _has_rich() else _draw_lines
    painter = threading.Thread(target=draw, args=(board, target, finished), daemon=True)
    painter.start()
    try:
        yield
    finally:
        finished.set()
        painter.join()


def plain_line(board: Board) -> str:
    """Such as "3 of 14 done, now kueue 43% (210 packages compiled); about 9m12s left"."""
    items = board.items()
    ready = sum(item.state is State.DONE for item in items)
    now = ", ".join(
        f"{item.name} {board.fraction(item):.0%}" + (f" ({item.note})" if item.note else "")
        for item in items
        if item.state is State.RUNNING
    )
    return f"{ready} of {len(items)} done" + (f", now {now}; {board.time_left()}" if now else "")


def _draw_lines(board: Board, target: TextIO, finished: threading.Event) -> None:
    shown_already: set[str] = set()
    next_line = time.monotonic() + _PLAIN_SECONDS
    while True:
        over = finished.wait(_REFRESH_SECONDS)
        for item in board.items():
            if item.state is State.DONE and item.name not in shown_already:
                shown_already.add(item.name)
                if item.learnable:
                    print(f"  {item.name}: {item.note or 'built'} in {clock_text(item.took)}", file=target)
        if over:
            return
        if time.monotonic() >= next_line:
            next_line += _PLAIN_SECONDS
            print(f"  {plain_line(board)}", file=target, flush=True)


def _has_rich() -> bool:
    try:
        import_module("rich")
    except ModuleNotFoundError:
        return False
    return True


def _draw_bars(board: Board, target: TextIO, finished: threading.Event) -> None:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (
        TextColumn("{task.description:<28}"),
        BarColumn(bar_width=30),
        TextColumn("{task.percentage:>3.0f}%"),
        TextColumn("{task.fields[left]}", style="cyan"),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=Console(file=target), refresh_per_second=4) as bars:
        rows: dict[str, TaskID] = {}
        whole = bars.add_task("in all", total=1.0, note="", left="")
        while True:
            over = finished.wait(_REFRESH_SECONDS)
            for item in board.items():
                _paint(bars, rows, board=board, item=item)
            _paint_whole(bars, whole, board)
            if over:
                return


def _paint(bars: Progress, rows: dict[str, TaskID], *, board: Board, item: Item) -> None:
    if item.state is State.WAITING:
        return
    if item.name not in rows:
        if item.state is State.DONE and not item.learnable:
            return  # nothing was built: not worth a row
        rows[item.name] = bars.add_task(item.name, total=1.0, note="", left="")
    left = f"{clock_text(board.left(item))} left"
    if item.state is State.DONE:
        left = f"took {clock_text(item.took)}"
    elif board.is_overdue(item):
        left = OVERDUE
    bars.update(rows[item.name], completed=board.fraction(item), note=item.note, left=left)


def _paint_whole(bars: Progress, row: TaskID, board: Board) -> None:
    items = board.items()
    weight = sum(item.expected for item in items) or 1.0
    share = sum(item.expected * board.fraction(item) for item in items) / weight
    bars.update(row, completed=share, left=board.time_left(), note="")
