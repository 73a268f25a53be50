"""How long an operation may still take.

Time out and cancellation are the same exception to the code that waits.
"""

import asyncio
import contextlib


class DeadlineError(Exception):
    """The operation's time is over, or the user cancelled it."""


class Deadline:
    """Counts down from its creation. Setting `cancelled` ends every wait on it at once."""

    def __init__(self, seconds: float, *, cancelled: asyncio.Event | None = None) -> None:
        self._end = asyncio.get_running_loop().time() + seconds
        self._cancelled = cancelled or asyncio.Event()
        self.seconds = seconds

    @property
    def cancelled(self) -> bool:
        return self._cancelled.is_set()

    def remaining(self) -> float:
        return self._end - asyncio.get_running_loop().time()

    def check(self) -> None:
        if self.cancelled:
            raise DeadlineError("cancelled")
        if self.remaining() <= 0:
            raise DeadlineError(f"not done after {self.seconds:.0f} s")

    def within(self, seconds: float) -> "Deadline":
        """A shorter one inside this one."""
        return Deadline(max(0.0, min(seconds, self.remaining())), cancelled=self._cancelled)

    async def sleep(self, seconds: float) -> None:
        """Raises DeadlineError instead of sleeping past the end."""
        self.check()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._cancelled.wait(), min(seconds, max(0.0, self.remaining())))
        self.check()
