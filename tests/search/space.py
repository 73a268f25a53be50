"""Explicit-state search, by the number of departures: what is found is a story with the fewest.

One story follows from doing at once whatever is due, in a fixed order. Each other order departs from it at
some states: by a fault, by a controller that dies, by a program that is late or early. All stories with one
departure are visited before those with two, so that a search that runs out of time has a bound that it can
name, and reaches the end of stories from the beginning.

A state is known by a digest of everything that later steps can depend on. Of two orders that end in the same
state only the first is followed.
"""

import time
import traceback
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

Step = tuple[str, Callable[[], "State"], bool]
"""Its name, what makes the next state, and whether it departs from what is due."""


class State(ABC):
    """One moment of a world. Never changed: a step makes another one."""

    @abstractmethod
    def key(self) -> bytes:
        """Equal for states from which the same can follow."""

    @abstractmethod
    def steps(self) -> Iterator[Step]:
        """What can happen next; one of them at most is due. One that breaks a rule raises AssertionError."""

    @abstractmethod
    def judge(self) -> None:
        """Raise AssertionError where a rule is broken here, or where what is due from here on breaks one."""


@dataclass(frozen=True, slots=True)
class Violation:
    """`path`: the steps from the start, the last of which broke the rule."""

    path: tuple[str, ...]
    rule: str


@dataclass(slots=True)
class Progress:
    """`departures`: every story with so many is known, -1 where not even the one without is. `seconds` of CPU
    time.
    """

    states: int = 1
    transitions: int = 0
    departures: int = -1
    waiting: int = 0
    seconds: float = 0.0
    is_complete: bool = False
    """However many departures a story has."""
    violations: list[Violation] = field(default_factory=list)


def explore(
    start: State,
    *,
    seconds: float,
    departures: int | None = None,
    report: Callable[[Progress], None] = lambda _: None,
) -> Progress:
    """Visit states, those with the fewest departures first, until none is left, a rule is broken, or
    `seconds` of CPU time are over. `report` is called about once a second.
    """
    began, reported = time.process_time(), time.monotonic()
    progress = Progress()
    before: dict[bytes, tuple[bytes, str] | None] = {start.key(): None}
    expanded: set[bytes] = set()
    level: deque[tuple[bytes, State]] = deque([(start.key(), start)])
    following: deque[tuple[bytes, State]] = deque()

    def fail(error: Exception, *path: str) -> Progress:
        progress.violations.append(Violation(path, explain(error)))
        return progress

    try:
        start.judge()
    except Exception as error:  # A decision that raises is one, too.
        return fail(error)
    while level:
        while level:
            now = time.monotonic()
            progress.seconds = time.process_time() - began
            progress.waiting = len(level) + len(following)
            if now - reported > 1:
                reported = now
                report(progress)
            if progress.seconds > seconds:
                return progress
            key, state = level.popleft()
            if key in expanded:
                continue
            expanded.add(key)
            for name, step, departs in state.steps():
                progress.transitions += 1
                try:
                    reached = step()
                    found = reached.key()
                    if found not in before:
                        before[found] = key, name
                        progress.states += 1
                        reached.judge()
                        (following if departs else level).append((found, reached))
                    elif not departs and found not in expanded:
                        # With fewer departures than before: what is expanded is this one, by this path.
                        before[found] = key, name
                        level.append((found, reached))
                except Exception as error:  # A decision that raises is one, too.
                    return fail(error, *_path(before, key), name)
        progress.departures += 1
        if progress.departures == departures:
            return progress
        level, following = following, level
    progress.is_complete = True
    return progress


def replay(start: State, path: Iterable[str]) -> State:
    """The state at the end of these steps; raises AssertionError where one breaks a rule."""
    state = start
    state.judge()
    for name in path:
        offered = {each: step for each, step, _ in state.steps()}
        if name not in offered:
            raise LookupError(f"{name} cannot happen here any more, but: {', '.join(offered)}")
        state = offered[name]()
        state.judge()
    return state


def _path(before: dict[bytes, tuple[bytes, str] | None], key: bytes) -> tuple[str, ...]:
    names: list[str] = []
    while (link := before[key]) is not None:
        key, name = link
        names.append(name)
    return tuple(reversed(names))


def explain(error: BaseException) -> str:
    """The rule's own words, or the line that holds it."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    if not isinstance(error, AssertionError):
        return f"raises {type(error).__name__}: {error} in {last.name}"
    return " ".join(str(error).split()) or f"{last.name}: {last.line}"
