"""Releases gangs when the controller is uninstalled: each of them once.

Nodes with a taint of ours come first: no lifetime ends it. Responsible for the order, for how
many are released at a time, and for a second try where another client has written meanwhile. What is written
for which gang is each scheduler's; whether this shutdown is an uninstall, muster.controller.runtime's.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import structlog

from muster.controller.gangs.objects import Node
from muster.controller.gangs.placeholder_sets import held_for
from muster.controller.gangs.reconciler import D, Hooks, S, T
from muster.controller.gangs.taints import NodeTaints, closed_for
from muster.controller.kube.errors import KubeError
from muster.controller.kube.resource import Key
from muster.controller.runtime.informer import Informer

REASON: Final = "ControllerRemoved"
REMOVED: Final = "the gang-admission controller has been removed"
CONCURRENCY: Final = 16
ATTEMPTS: Final = 3
_PAUSE: Final = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class ShutdownHandler:
    """Releases every gang once. `announce` sets the conditions that all users see; `release_gang` releases
    one of `gangs`, from its latest state; `release_node` takes our taints off one of `nodes`.
    """

    announce: Callable[[], Awaitable[None]]
    gangs: Callable[[], Iterable[Key]]
    release_gang: Callable[[Key], Awaitable[None]]
    nodes: Callable[[], Iterable[Key]] = tuple
    release_node: Callable[[Key], Awaitable[None]] | None = None

    async def __call__(self) -> None:
        """As many gangs as time allows. A gang that fails does not delay the others."""
        log = structlog.get_logger("shutdown")
        try:
            await self.announce()
        except Exception:
            log.exception("conditions not set")
        if self.release_node:
            await _release_all("node", list(self.nodes()), self.release_node)
        await _release_all("gang", list(self.gangs()), self.release_gang)


async def _release_all(what: str, keys: Sequence[Key], release: Callable[[Key], Awaitable[None]]) -> None:
    log, slots, done = structlog.get_logger("shutdown"), asyncio.Semaphore(CONCURRENCY), set[Key]()

    async def attempt(key: Key) -> None:
        async with slots:
            for _ in range(ATTEMPTS):
                try:
                    await release(key)
                    done.add(key)
                    return
                except KubeError as error:
                    log.warning(f"{what} not released", key=str(key), error=str(error))
                except Exception:
                    log.exception(f"{what} not released", key=str(key))
                    return
                await asyncio.sleep(_PAUSE)

    try:
        await asyncio.gather(*map(attempt, keys))
    finally:
        missed = [str(key) for key in keys if key not in done]
        log.warning(f"{what}s released", **{f"{what}s": len(done)}, missed=len(missed), some=missed[:20])


def on_shutdown(
    hooks: Hooks[T, S, D],
    decide: Callable[[S], D],
    *,
    gangs: Callable[[], Iterable[Key]],
    conditions: Callable[[], Iterable[Awaitable[None]]],
    clock: Callable[[], datetime],
    nodes: Informer[Node],
    taints: NodeTaints,
) -> ShutdownHandler:
    """`decide` is a scheduler's last decision about a gang; `conditions` are the writes of those that all
    users see; `nodes` lose our taint.
    """

    async def announce() -> None:
        await asyncio.gather(*conditions())

    async def release_gang(key: Key) -> None:
        for target in hooks.targets(key) or ():
            snapshot = hooks.load(target, now=clock())
            await hooks.apply(decide(snapshot), snapshot)

    def held() -> Iterable[Key]:
        return [node.key for node in nodes.store if held_for(node) or closed_for(node)]

    async def release_node(key: Key) -> None:
        node = nodes.get(key)
        if node and (held_as := held_for(node)):
            await taints.release(key.name, held_as=held_as)
        if node and (reason := closed_for(node)):
            await taints.of_broken().release(key.name, held_as=reason)

    return ShutdownHandler(
        announce=announce, gangs=gangs, release_gang=release_gang, nodes=held, release_node=release_node
    )
