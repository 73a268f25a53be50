"""The round of a controller that is removed for good: to whoever waits for it, once.

Decides in which order it is said, how many at a time, and that what others write meanwhile is taken in and
tried again. What is said to whom is each scheduler's; whether this end is a removal,
muster.controller.runtime's.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Final

import structlog

from muster.controller.gangs.requests import StaleDecision
from muster.controller.kube.errors import KubeError
from muster.controller.kube.resource import Key

REASON: Final = "ControllerRemoved"
AT_A_TIME: Final = 16
TRIES: Final = 3
_PAUSE: Final = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class ShutdownHandler:
    """Releases every gang once. `announce` sets the conditions that all users see; `release_gang` releases
    one of `gangs`, from its latest state.
    """

    announce: Callable[[], Awaitable[None]]
    gangs: Callable[[], Iterable[Key]]
    release_gang: Callable[[Key], Awaitable[None]]

    async def __call__(self) -> None:
        """To everybody that there is time for. Nobody's trouble keeps it from the others."""
        log = structlog.get_logger("farewell")
        try:
            await self.announce()
        except Exception:
            log.exception("not said where all see it")
        slots, gangs, done = asyncio.Semaphore(AT_A_TIME), list(self.gangs()), set[Key]()
        try:
            await asyncio.gather(*(self._release(key, slots, done) for key in gangs))
        finally:
            missed = [str(key) for key in gangs if key not in done]
            log.warning("left", gangs=len(done), missed=len(missed), some=missed[:20])

    async def _release(self, key: Key, slots: asyncio.Semaphore, done: set[Key]) -> None:
        log = structlog.get_logger("farewell")
        async with slots:
            for _ in range(TRIES):
                try:
                    await self.release_gang(key)
                    done.add(key)
                    return
                except (StaleDecision, KubeError) as error:
                    log.warning("not left in order", key=str(key), error=str(error))
                except Exception:
                    log.exception("not left in order", key=str(key))
                    return
                await asyncio.sleep(_PAUSE)
