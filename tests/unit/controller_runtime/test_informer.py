"""What a cache says of a kind that the API server does not serve, from the start or all of a sudden."""

import asyncio
import gc
import weakref
from collections.abc import Awaitable, Callable

from prometheus_client import CollectorRegistry

from muster.controller.kube.client import PAGE
from muster.controller.kube.errors import NotFound, Status, TransportError
from muster.controller.kube.reflector import BACKOFF_CAP
from muster.controller.runtime.informer import GONE_AFTER, Informer
from muster.controller.runtime.metrics import Metrics
from tests.unit.controller_kube.fake_apiserver import FakeApiServer, Fault
from tests.unit.controller_kube.test_reflector import THING, Thing, thing
from tests.unit.controller_runtime.virtual import named_after, now, on_virtual_time, virtual

Scenario = Callable[[FakeApiServer, Informer[Thing]], Awaitable[None]]
MISSING = NotFound(Status(code=404, reason="NotFound"))
DOWN = TransportError("refused")


def against(scenario: Scenario, *, is_served: bool = True) -> Callable[[], None]:
    async def run() -> None:
        async with FakeApiServer().running() as server:
            if not is_served:
                server.unserved.add(THING.plural)
            informer = Informer(server.client(), THING, metrics=Metrics(CollectorRegistry()))
            following = asyncio.ensure_future(informer.run())
            try:
                await scenario(server, informer)
            finally:
                following.cancel()
                await asyncio.gather(following, return_exceptions=True)

    return named_after(scenario, lambda: virtual(run()))


async def until(condition: Callable[[], bool], *, within: float) -> float:
    """How long it took."""
    began = now()
    async with asyncio.timeout(within):
        while not condition():
            await asyncio.sleep(0.5)
    return now() - began


async def removed(server: FakeApiServer, informer: Informer[Thing]) -> None:
    """Once its watch stands, the kind goes: the watch ends, and the next is answered with 404."""
    server.watch_faults.append(Fault("end"))
    await until(lambda: informer.has_synced and server.watches_open > 0, within=30)
    server.unserved.add(THING.plural)
    server.put(THING.plural, thing("last"))


def test_a_kind_that_was_never_served_is_missing_at_once() -> None:
    async def scenario(server: FakeApiServer, informer: Informer[Thing]) -> None:
        await until(lambda: informer.is_unserved, within=5)
        assert "does not serve Thing" in informer.unread
        server.unserved.clear()
        await until(lambda: informer.has_synced and not informer.is_unserved, within=2 * BACKOFF_CAP)

    against(scenario, is_served=False)()


def test_a_cache_of_a_kind_that_was_never_served_does_not_lag() -> None:
    """The alert of caches that lag would fire for what an older cluster does not have."""

    async def scenario(server: FakeApiServer, informer: Informer[Thing]) -> None:
        await asyncio.sleep(1000)
        assert informer.lag() < 2 * BACKOFF_CAP
        server.unserved.clear()
        await until(lambda: informer.has_synced, within=2 * BACKOFF_CAP)
        server.unserved.add(THING.plural)
        server.put(THING.plural, thing("last"))
        await until(lambda: informer.lag() > 300, within=2000)

    against(scenario, is_served=False)()


@against
async def test_a_kind_that_is_removed_is_missing_after_a_minute_and_until_it_is_served_again(
    server: FakeApiServer, informer: Informer[Thing]
) -> None:
    await removed(server, informer)
    assert await until(lambda: informer.is_unserved, within=600) >= GONE_AFTER
    assert informer.has_synced, "what was read may be better than nothing"
    assert not informer.unread
    server.unserved.clear()
    await until(lambda: not informer.is_unserved, within=2 * BACKOFF_CAP)
    await asyncio.sleep(1000)
    assert not informer.is_unserved


@against
async def test_a_server_that_does_not_know_its_kinds_yet_has_removed_none(
    server: FakeApiServer, informer: Informer[Thing]
) -> None:
    await removed(server, informer)
    served = now() + GONE_AFTER - 5
    while now() < served + 10 * GONE_AFTER:
        if now() >= served:
            server.unserved.clear()
        await asyncio.sleep(1)
        assert not informer.is_unserved


@on_virtual_time
async def test_an_error_is_not_kept_which_would_keep_what_its_list_had_read() -> None:
    errors: list[weakref.ref[Exception]] = []

    class Noted(Informer[Thing]):
        def failed(self, error: Exception) -> None:
            errors.append(weakref.ref(error))
            super().failed(error)

    async with FakeApiServer().running() as server:
        for number in range(PAGE + 1):
            server.put(THING.plural, thing(str(number)))
        server.list_faults.extend([Fault("none"), Fault("410")])
        informer = Noted(server.client(), THING, metrics=Metrics(CollectorRegistry()))
        following = asyncio.ensure_future(informer.run())
        await until(lambda: informer.has_synced and server.watches_open > 0, within=30)
        gc.collect()
        assert [error() for error in errors] == [None]
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


@against
async def test_other_trouble_neither_adds_to_the_minute_nor_brings_the_kind_back(
    server: FakeApiServer, informer: Informer[Thing]
) -> None:
    await until(lambda: informer.has_synced and server.watches_open > 0, within=30)
    await asyncio.sleep(1)
    for error in (MISSING, DOWN, MISSING):
        informer.failed(error)
        await asyncio.sleep(GONE_AFTER - 1)
        assert not informer.is_unserved
    await asyncio.sleep(1)
    informer.failed(MISSING)
    assert informer.is_unserved
    informer.failed(DOWN)
    assert informer.is_unserved
    informer.opened()
    assert not informer.is_unserved
