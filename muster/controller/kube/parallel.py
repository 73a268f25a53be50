"""Calls to the API side by side.

A gang of 64 pods has 64 placeholders: written one after another they take 64 times the latency of the API
server.
"""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, Final

AT_ONCE: Final = 16
"""Enough to hide the latency of an API server that is far away, and few beside all that it serves."""


async def side_by_side(calls: Iterable[Coroutine[Any, Any, object]], *, at_once: int = AT_ONCE) -> None:
    """Make every call, at most `at_once` at a time. What one of them raises ends all, and is raised as it is:
    callers that react to a refusal know no groups.
    """
    free = asyncio.Semaphore(at_once)

    async def within_limit(call: Coroutine[Any, Any, object]) -> None:
        async with free:
            await call

    listed = list(calls)
    try:
        async with asyncio.TaskGroup() as tasks:
            for call in listed:
                tasks.create_task(within_limit(call))
    except ExceptionGroup as group:
        raise group.exceptions[0] from group
    finally:
        for call in listed:
            call.close()  # One that was never begun would be reported as forgotten.
