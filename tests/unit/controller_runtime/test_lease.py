"""One leader at a time, on virtual time, against a real HTTP server."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry

from muster.controller.gangs.objects import POD_TEMPLATE, PodTemplate
from muster.controller.kube.resource import Key, ObjectMeta
from muster.controller.runtime.controller import NotLeading
from muster.controller.runtime.events import EventRecorder
from muster.controller.runtime.health import Health
from muster.controller.runtime.lease import (
    LEASE,
    LEASE_SECONDS,
    RENEW_DEADLINE,
    RETRY_PERIOD,
    LeaderElection,
    LeaseLost,
)
from muster.controller.runtime.manager import Manager
from muster.controller.runtime.metrics import Metrics
from tests.unit.controller_kube.fake_apiserver import FakeApiServer
from tests.unit.controller_runtime.virtual import named_after, now, virtual

KEY = Key("muster-system", "gang-admission")
ADDRESS = ("leases", KEY.namespace, KEY.name)


def candidate(server: FakeApiServer, identity: str, *, year: int = 2026) -> LeaderElection:
    return LeaderElection(
        server.client(),
        KEY,
        identity=identity,
        metrics=Metrics(CollectorRegistry()),
        jitter=lambda: 0.0,
        wall_clock=lambda: datetime(year, 1, 1, tzinfo=UTC),
    )


def manager_of(server: FakeApiServer, election: LeaderElection | None) -> Manager:
    metrics = Metrics(CollectorRegistry())
    client, health = server.client(), Health(metrics, port=0)
    events = EventRecorder(client, reporter="test", instance="test", metrics=metrics)
    return Manager(client, metrics=metrics, health=health, events=events, election=election)


def with_server(scenario: Callable[[FakeApiServer], Awaitable[None]]) -> Callable[[], None]:
    async def run() -> None:
        async with FakeApiServer().running() as server:
            await scenario(server)
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                if task.get_coro().__qualname__.startswith("LeaderElection"):  # type: ignore[union-attr]  # coroutines have it
                    task.cancel()

    return named_after(scenario, lambda: virtual(run()))


@with_server
async def test_a_second_candidate_waits_and_takes_over_a_dead_holders_lease_after_its_duration(
    server: FakeApiServer,
) -> None:
    one, two = candidate(server, "one"), candidate(server, "two", year=1999)
    await one.acquire()
    one.check()
    with pytest.raises(NotLeading):
        two.check()
    started = now()
    await two.acquire()
    assert now() - started >= LEASE_SECONDS, "wall clocks decide nothing"
    assert not one.leads
    two.check()
    assert server.objects[ADDRESS]["spec"]["leaseTransitions"] == 2


@with_server
async def test_a_holder_that_renews_keeps_the_lease(server: FakeApiServer) -> None:
    one, two = candidate(server, "one"), candidate(server, "two")
    await one.acquire()
    holding = asyncio.ensure_future(one.hold())
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(300):
            await two.acquire()
    one.check()
    assert not holding.done()


@with_server
async def test_a_released_lease_is_taken_at_the_next_try(server: FakeApiServer) -> None:
    one, two = candidate(server, "one"), candidate(server, "two")
    await one.acquire()
    await one.release()
    with pytest.raises(NotLeading):
        one.check()
    started = now()
    await two.acquire()
    assert now() - started < RETRY_PERIOD


@with_server
async def test_a_holder_that_cannot_renew_stops_before_anybody_else_may_start(server: FakeApiServer) -> None:
    one = candidate(server, "one")
    await one.acquire()
    acquired = now()
    server.write_faults.extend([lambda _: web.Response(status=403)] * 100)
    with pytest.raises(LeaseLost, match="could not be renewed"):
        await one.hold()
    assert not one.leads
    assert now() - acquired <= RENEW_DEADLINE + RETRY_PERIOD < LEASE_SECONDS


@with_server
async def test_a_pause_of_the_whole_process_ends_the_leadership_before_the_next_write(
    server: FakeApiServer,
) -> None:
    one = candidate(server, "one")
    await one.acquire()
    one._valid_until -= 60  # as if a minute had passed without this process
    with pytest.raises(NotLeading):
        one.check()
    with pytest.raises(LeaseLost):
        await one.hold()


@with_server
async def test_a_lease_that_somebody_else_took_is_lost_at_once(server: FakeApiServer) -> None:
    one = candidate(server, "one")
    await one.acquire()
    stolen = server.objects[ADDRESS]
    stolen["spec"]["holderIdentity"] = "thief"
    server.put("leases", stolen)
    with pytest.raises(LeaseLost, match="'thief'"):
        await one.hold()
    assert not one.leads


@with_server
async def test_a_cache_is_current_when_it_was_read_after_the_lease_was_taken(server: FakeApiServer) -> None:
    """Only then can it not lack a write of the leader before."""
    election = candidate(server, "two")
    manager, alone = manager_of(server, election), manager_of(server, None)
    leases = manager.informer(LEASE)
    following = asyncio.ensure_future(leases.run())
    await leases.wait_synced()
    assert not manager.shows_all_writes(leases), "it does not lead"
    await election.acquire()
    assert not manager.shows_all_writes(leases), "it was read before"
    server.put("leases", {"metadata": {"name": "other", "namespace": "default"}})
    while leases.get(Key("default", "other")) is None or not manager.shows_all_writes(leases):
        await asyncio.sleep(0.1)
    assert not alone.shows_all_writes(leases), "without an election others may write"
    following.cancel()


@with_server
async def test_a_look_that_was_cancelled_is_repeated(server: FakeApiServer) -> None:
    election = candidate(server, "two")
    manager = manager_of(server, election)
    leases = manager.informer(LEASE)
    await election.acquire()
    before = asyncio.all_tasks()
    assert not manager.shows_all_writes(leases)
    (looking,) = asyncio.all_tasks() - before
    looking.cancel()
    await asyncio.wait([looking])
    following = asyncio.ensure_future(leases.run())
    while not manager.shows_all_writes(leases):
        await asyncio.sleep(0.01)
    following.cancel()


@pytest.mark.parametrize("held_before", [False, True])
def test_those_that_ask_at_once_never_lead_together(held_before: bool) -> None:
    async def scenario(server: FakeApiServer) -> None:
        if held_before:
            await candidate(server, "dead").acquire()
        team = [candidate(server, str(number)) for number in range(5)]
        asking = [asyncio.ensure_future(one.acquire()) for one in team]
        for _ in range(100):
            await asyncio.sleep(0.3)
            assert sum(one.leads for one in team) <= 1
        assert any(task.done() for task in asking)
        for task in asking:
            task.cancel()

    with_server(scenario)()


@with_server
async def test_a_version_of_the_lease_says_nothing_of_other_kinds(server: FakeApiServer) -> None:
    """They may lie in an etcd of their own, which counts for itself."""
    election = candidate(server, "two")
    manager = manager_of(server, election)
    others = manager.informer(POD_TEMPLATE)
    await election.acquire()
    others.store.put(PodTemplate(metadata=ObjectMeta(name="a", uid="a", resource_version="900")))
    server.version = 1_000  # Another replica has written since.
    for _ in range(20):
        assert not manager.shows_all_writes(others)
        await asyncio.sleep(0.02)
    others.store.put(PodTemplate(metadata=ObjectMeta(name="a", uid="a", resource_version="1000")))
    assert manager.shows_all_writes(others)
