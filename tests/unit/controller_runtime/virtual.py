"""An event loop whose clock jumps: nothing waits, every timer still fires in order.

Sockets of this one process work too: before the clock jumps, the kernel gets a moment to deliver what is
under way.
"""

import asyncio
import functools
import selectors
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

DELIVERY = 0.002
"""Real seconds in which loopback delivers what was sent."""


class _JumpingSelector(selectors.BaseSelector):
    """Reports what is ready now; where the loop would have waited for a timer, moves its clock instead."""

    def __init__(self) -> None:
        self._real = selectors.DefaultSelector()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = self._real.select(0)
        if (
            not ready and timeout != 0 and len(self._real.get_map()) > 1
        ):  # more than the loop's own wake-up pipe
            ready = self._real.select(DELIVERY)
        if ready or timeout == 0:
            return ready
        if timeout is None:
            raise RuntimeError("deadlock: every task waits for something that no timer will bring")
        self.now += max(timeout, 0.0)
        return []

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._real.unregister(fileobj)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._real.get_map()

    def close(self) -> None:
        self._real.close()


class VirtualLoop(asyncio.SelectorEventLoop):
    """asyncio on virtual seconds, starting at 0."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)
        # asyncio runs timers that are due within this. Its own nanosecond is less than a float can add to the
        # seconds of half a year, so that a timer would be due and never run.
        self._clock_resolution = 1e-6

    def time(self) -> float:
        return self._jumping.now


def virtual(coroutine: Coroutine[Any, Any, R]) -> R:
    """Run a coroutine to its end on virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(coroutine)


def on_virtual_time(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Makes a test of a coroutine."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        virtual(test(*args, **kwargs))

    return run


def named_after(scenario: Callable[..., object], test: Callable[[], None]) -> Callable[[], None]:
    """A test with the name and the words of its scenario, whose parameters pytest takes for no fixtures."""
    vars(functools.update_wrapper(test, scenario)).pop("__wrapped__")
    return test


def now() -> float:
    return asyncio.get_running_loop().time()


async def settle(rounds: int = 20) -> None:
    """Let every task that can go on go on, without letting time pass."""
    for _ in range(rounds):
        await asyncio.sleep(0)
