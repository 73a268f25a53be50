"""What the end of a reconcile means for its key, and what a process does from its start to its end."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from prometheus_client import CollectorRegistry

from muster.controller.kube.errors import Conflict, NotFound, Status, TooManyRequests
from muster.controller.kube.resource import Key, ObjectMeta
from muster.controller.runtime.controller import Controller, RequeueAfter, Result
from muster.controller.runtime.events import EventRecorder
from muster.controller.runtime.health import Health
from muster.controller.runtime.informer import Informer
from muster.controller.runtime.lease import LeaderElection, LeaseLost
from muster.controller.runtime.manager import GRACE, Manager, UnexpectedEnd
from muster.controller.runtime.metrics import Metrics
from muster.controller.runtime.queue import WorkQueue
from tests.unit.controller_kube.fake_apiserver import FakeApiServer
from tests.unit.controller_kube.test_reflector import THING, Thing, thing
from tests.unit.controller_runtime.virtual import now, on_virtual_time

LEASE = Key("muster-system", "lease")


def controller(reconcile: Callable[[str], Awaitable[Result]], *, workers: int = 1) -> Controller[str]:
    return Controller("c", reconcile, metrics=Metrics(CollectorRegistry()), workers=workers)


def _thing(name: str, version: str) -> Thing:
    return Thing(metadata=ObjectMeta(name=name, uid=name, resource_version=version))


def process(server: FakeApiServer, *, elect: str = "", lame_duck: float = 0.0) -> Manager:
    metrics = Metrics(CollectorRegistry())
    client = server.client()
    election = LeaderElection(client, LEASE, identity=elect, metrics=metrics) if elect else None
    return Manager(
        client,
        metrics=metrics,
        health=Health(metrics, host="127.0.0.1"),
        events=EventRecorder(client, reporter="test", instance="x", metrics=metrics),
        election=election,
        lame_duck=lame_duck,
    )


def test_a_queue_that_was_made_before_is_used_although_it_is_empty() -> None:
    """A reconcile function that wakes other keys adds them to it."""

    async def reconcile(key: str) -> Result:
        return None

    metrics = Metrics(CollectorRegistry())
    made = WorkQueue[str]("c", metrics=metrics)
    assert Controller("c", reconcile, metrics=metrics, queue=made).queue is made


@on_virtual_time
async def test_what_a_reconcile_puts_into_a_cache_brings_back_other_keys_and_not_its_own() -> None:
    seen: list[str] = []
    async with _cached() as (things, metrics):

        async def reconcile(key: str) -> Result:
            seen.append(key)
            if len(seen) == 1:
                things.store.put(_thing("one", "5"))
            return None

        work = Controller("c", reconcile, metrics=metrics)
        work.watches(things, lambda obj: [obj.metadata.name, "beside"])
        running = asyncio.ensure_future(work.run())
        await asyncio.sleep(0.01)
        work.queue.add("one")
        await asyncio.sleep(0.01)
        assert seen == ["one", "beside"]
        things.store.put(_thing("one", "6"))
        await asyncio.sleep(0.01)
        assert seen == ["one", "beside", "one", "beside"]
        work.stop()
        await running


@contextlib.asynccontextmanager
async def _cached() -> AsyncIterator[tuple[Informer[Thing], Metrics]]:
    """An informer whose first list has come."""
    metrics = Metrics(CollectorRegistry())
    async with FakeApiServer().running() as server:
        things = Informer(server.client(), THING, metrics=metrics)
        things.relisted("test", 0)
        yield things, metrics


@contextlib.asynccontextmanager
async def _making(
    seen: list[str], *, then: Callable[[Informer[Thing]], None]
) -> AsyncIterator[Informer[Thing]]:
    """A controller that makes "one" in its first reconcile. `then` happens before the answer comes."""
    async with _cached() as (things, metrics):

        async def reconcile(key: str) -> Result:
            seen.append(key)
            if len(seen) == 1:
                with things.store.making(Key("", "one"), by=asyncio.current_task()):
                    then(things)
                    await asyncio.sleep(0.02)
            return None

        work = Controller("c", reconcile, metrics=metrics)
        work.watches(things, lambda obj: ["one"])
        running = asyncio.ensure_future(work.run())
        work.queue.add("one")
        await asyncio.sleep(0.01)
        yield things
        work.stop()
        await running


@on_virtual_time
async def test_an_object_that_a_watch_brings_before_its_create_is_answered_brings_its_maker_not_back() -> (
    None
):
    seen: list[str] = []
    async with _making(seen, then=lambda _: None) as things:
        things.store.put(_thing("one", "5"))
        await asyncio.sleep(0.02)
        assert seen == ["one"]
        things.store.put(_thing("two", "6"))
        await asyncio.sleep(0.01)
        assert seen == ["one", "one"]


@on_virtual_time
async def test_a_change_that_comes_before_a_create_is_answered_brings_its_maker_back() -> None:
    """The cloud accepts a request before we have the answer."""
    seen: list[str] = []
    async with _making(seen, then=lambda things: things.store.put(_thing("one", "5"))) as things:
        things.store.put(_thing("one", "6"))
        await asyncio.sleep(0.03)
        assert seen == ["one", "one"]


@on_virtual_time
async def test_a_key_that_always_fails_delays_nobody_else() -> None:
    tries: list[float] = []
    good: list[float] = []

    async def reconcile(key: str) -> Result:
        if key == "poison":
            tries.append(now())
            raise ValueError("cannot be read")
        good.append(now())
        return None

    work = controller(reconcile)
    running = asyncio.ensure_future(work.run())
    await asyncio.sleep(0)
    work.queue.add("poison")
    for number in range(50):
        await asyncio.sleep(1)
        work.queue.add(str(number))
        await asyncio.sleep(0.01)
        assert len(good) == number + 1
    assert 5 < len(tries) < 15
    work.stop()
    await running


@pytest.mark.parametrize(
    ("error", "least"),
    [
        (Conflict(Status(code=409)), 0.08),
        (TooManyRequests(Status(code=429), retry_after=30), 30),
        (RuntimeError("bug"), 0.08),
    ],
)
@on_virtual_time
async def test_a_failed_key_comes_back_after_its_backoff(error: Exception, least: float) -> None:
    seen: list[float] = []
    done = asyncio.Event()

    async def reconcile(key: str) -> Result:
        seen.append(now())
        if len(seen) == 1:
            raise error
        done.set()
        return None

    work = controller(reconcile)
    running = asyncio.ensure_future(work.run())
    work.queue.add("k")
    await done.wait()
    assert least <= seen[1] - seen[0] <= max(least, 0.12)
    assert work.queue.failures("k") == 0
    work.stop()
    await running


@on_virtual_time
async def test_reconciles_that_wait_for_nothing_let_others_have_their_turn() -> None:
    """A manager that starts over thousands of running gangs has a lease to renew meanwhile."""
    left, turns, workers = 1000, 0, 4

    async def reconcile(key: str) -> Result:
        nonlocal left
        left -= 1
        return None

    started = controller(reconcile, workers=workers)
    for number in range(left):
        started.queue.add(str(number))
    count, running = left, asyncio.ensure_future(started.run())
    while left:
        await asyncio.sleep(0)
        turns += 1
    assert turns * workers >= count
    started.stop()
    await running


@on_virtual_time
async def test_a_returned_delay_is_kept_and_a_hung_reconcile_is_cut_off() -> None:
    seen: list[float] = []

    async def reconcile(key: str) -> Result:
        seen.append(now())
        if key == "hung":
            await asyncio.sleep(100_000)
        return RequeueAfter(25)

    work = Controller("c", reconcile, metrics=Metrics(CollectorRegistry()), timeout=5)
    running = asyncio.ensure_future(work.run())
    work.queue.add("k")
    await asyncio.sleep(60)
    assert seen == [0, 25, 50]
    work.queue.add("hung")
    await asyncio.sleep(7)
    assert work.queue.failures("hung") >= 1
    work.stop()
    await running


@on_virtual_time
async def test_an_object_whose_keys_cannot_be_told_does_not_stop_the_cache() -> None:
    async with FakeApiServer().running() as server:
        server.put("things", thing("bad"))
        server.put("things", thing("good", size=1))
        manager, stop, seen = process(server), asyncio.Event(), []

        async def reconcile(key: Key) -> Result:
            seen.append(key.name)
            return None

        things = manager.informer(THING)
        manager.controller("c", reconcile).watches(
            things, lambda obj: [obj.key] if 1 // obj.spec.size else []
        )
        running = asyncio.ensure_future(manager.run(stop))
        await asyncio.sleep(5)
        assert seen == ["good"]
        stop.set()
        await running


@on_virtual_time
async def test_caches_run_on_every_replica_and_reconcilers_on_the_leader_only() -> None:
    async with FakeApiServer().running() as server:
        server.put("things", thing("x"))
        acted: list[str] = []
        stops, tasks, caches = [asyncio.Event(), asyncio.Event()], [], []
        for number, name in enumerate(["one", "two"]):
            manager = process(server, elect=name)

            async def reconcile(key: Key, name: str = name, manager: Manager = manager) -> Result:
                await manager.client.get(THING, key)
                acted.append(name)
                return None

            things = manager.informer(THING)
            manager.controller("c", reconcile).watches(things, lambda obj: [obj.key])
            tasks.append(asyncio.ensure_future(manager.run(stops[number])))
            caches.append(things)
            await asyncio.sleep(5)
        assert acted == ["one"]
        assert all(cache.get(Key("a", "x")) for cache in caches)
        stops[0].set()
        await tasks[0]
        await asyncio.sleep(3)
        assert acted == ["one", "two"], "the released lease is taken and everything is looked at again"
        stops[1].set()
        await tasks[1]


@on_virtual_time
async def test_losing_the_lease_ends_the_process_with_an_error() -> None:
    async with FakeApiServer().running() as server:
        manager = process(server, elect="one")

        async def reconcile(key: Key) -> Result:
            return None

        manager.controller("c", reconcile).watches(manager.informer(THING), lambda obj: [obj.key])
        running = asyncio.ensure_future(manager.run(asyncio.Event()))
        await asyncio.sleep(5)
        stolen = server.objects["leases", LEASE.namespace, LEASE.name]
        stolen["spec"]["holderIdentity"] = "thief"
        server.put("leases", stolen)
        with pytest.raises(ExceptionGroup) as caught:
            await asyncio.wait_for(running, 30)
        assert caught.group_contains(LeaseLost)


@on_virtual_time
async def test_a_service_that_ends_unasked_ends_the_process_with_an_error() -> None:
    async with FakeApiServer().running() as server:
        manager = process(server)

        async def short_lived() -> None:
            await asyncio.sleep(3)

        manager.service("short", short_lived)
        with pytest.raises(ExceptionGroup) as caught:
            await asyncio.wait_for(manager.run(asyncio.Event()), 30)
        assert caught.group_contains(UnexpectedEnd)


@pytest.mark.parametrize(("effort", "finished"), [(GRACE / 2, True), (GRACE * 3, False)])
@on_virtual_time
async def test_the_reconcile_under_way_may_finish_within_the_grace_period(
    effort: float, finished: bool
) -> None:
    async with FakeApiServer().running() as server:
        server.put("things", thing("x"))
        manager, stop, ends = process(server, elect="one"), asyncio.Event(), []

        async def reconcile(key: Key) -> Result:
            await asyncio.sleep(effort)
            ends.append(now())
            return None

        manager.controller("c", reconcile).watches(manager.informer(THING), lambda obj: [obj.key])
        running = asyncio.ensure_future(manager.run(stop))
        await asyncio.sleep(5)
        stopped = now()
        stop.set()
        await running
        assert bool(ends) is finished
        assert now() - stopped <= GRACE + 3
        assert server.objects["leases", LEASE.namespace, LEASE.name]["spec"]["holderIdentity"] == ""


@on_virtual_time
async def test_readiness_waits_for_the_caches_and_ends_with_the_stop() -> None:
    async with FakeApiServer().running() as server:
        manager, stop = process(server, lame_duck=5), asyncio.Event()
        manager.informer(THING)
        assert "cache things.test.dev" in manager.health.unready()
        running = asyncio.ensure_future(manager.run(stop))
        await asyncio.sleep(5)
        assert manager.health.unready() == {}
        assert not manager.is_stopping()
        stop.set()
        await asyncio.sleep(1)
        assert manager.health.unready() == {"process": "stopping"}
        assert manager.is_stopping()
        assert not running.done()
        await running


def test_a_cache_that_is_only_heard_delays_no_start_and_no_readiness() -> None:
    """As that of Events, which a cluster may refuse to show."""

    async def scenario() -> None:
        manager = process(FakeApiServer())
        heard = manager.informer(THING, is_needed=False)
        seen: list[Key] = []

        async def reconcile(key: Key) -> Result:
            seen.append(key)
            return None

        running = manager.controller("c", reconcile).hears(heard, lambda obj: [obj.key])
        task = asyncio.create_task(running.run())
        await asyncio.sleep(0)
        heard.store.put(_thing("late", "1"))
        while not seen:
            await asyncio.sleep(0.01)
        assert not heard.has_synced
        assert not manager.unsynced()
        assert manager.has_looked()
        running.stop()
        await task

    asyncio.run(asyncio.wait_for(scenario(), 10))


@on_virtual_time
async def test_a_kind_that_may_be_unserved_delays_no_start_where_it_is_and_is_else_read_first() -> None:
    """As the kinds of work that a stack serves, whose controllers the cluster brings along."""
    manager = process(FakeApiServer())
    optional, started = manager.informer(THING, is_needed=False), asyncio.Event()

    async def reconcile(_: Key) -> Result:
        started.set()
        return None

    running = manager.controller("c", reconcile)
    running.watches(optional, lambda obj: [obj.key], may_be_unserved=True)
    running.queue.add(Key("", "waits"))
    task = asyncio.create_task(running.run())
    optional.failed(TooManyRequests(Status(code=429)))
    await asyncio.sleep(1)
    assert not started.is_set()
    optional.failed(NotFound(Status(code=404)))
    await started.wait()
    running.stop()
    await task
