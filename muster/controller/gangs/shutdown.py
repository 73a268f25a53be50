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
class Farewell:
    """`close` says it where all see it; `part` leaves one of those that `waiting` names, from the newest that
    is known of it.
    """

    close: Callable[[], Awaitable[None]]
    waiting: Callable[[], Iterable[Key]]
    part: Callable[[Key], Awaitable[None]]

    async def __call__(self) -> None:
        """To everybody that there is time for. Nobody's trouble keeps it from the others."""
        log = structlog.get_logger("farewell")
        try:
            await self.close()
        except Exception:
            log.exception("not said where all see it")
        slots, waiting, left = asyncio.Semaphore(AT_A_TIME), list(self.waiting()), set[Key]()
        try:
            await asyncio.gather(*(self._leave(key, slots, left) for key in waiting))
        finally:
            missed = [str(key) for key in waiting if key not in left]
            log.warning("left", gangs=len(left), missed=len(missed), some=missed[:20])

    async def _leave(self, key: Key, slots: asyncio.Semaphore, left: set[Key]) -> None:
        log = structlog.get_logger("farewell")
        async with slots:
            for _ in range(TRIES):
                try:
                    await self.part(key)
                    left.add(key)
                    return
                except (StaleDecision, KubeError) as error:
                    log.warning("not left in order", key=str(key), error=str(error))
                except Exception:
                    log.exception("not left in order", key=str(key))
                    return
                await asyncio.sleep(_PAUSE)
