"""Events never raise, count repetitions, and stay within their rates."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry

from muster.controller.runtime.events import OBJECT_BURST, WAITING, EventRecorder, Reference
from muster.controller.runtime.metrics import Metrics
from tests.unit.controller_kube.fake_apiserver import FakeApiServer
from tests.unit.controller_runtime.virtual import named_after, virtual

ABOUT = Reference("kueue.x-k8s.io/v1beta2", "Workload", "team-a", "rayjob-x", "uid-1")
POLICY = Reference("muster.dev/v1alpha1", "GangPolicy", "", "default", "uid-2")


def with_recorder(scenario: Callable[[FakeApiServer, EventRecorder], Awaitable[None]]) -> Callable[[], None]:
    async def run() -> None:
        async with FakeApiServer().running() as server:
            metrics = Metrics(CollectorRegistry())
            recorder = EventRecorder(server.client(), reporter="test", instance="x", metrics=metrics)
            writing = asyncio.ensure_future(recorder.run())
            await scenario(server, recorder)
            assert not writing.done(), "the recorder gave up"
            writing.cancel()

    return named_after(scenario, lambda: virtual(run()))


def say(recorder: EventRecorder, note: str, *, about: Reference = ABOUT) -> None:
    recorder.event(about, "Normal", reason="Requested", action="Provision", note=note)


@with_recorder
async def test_the_same_news_is_one_event_with_a_count(
    server: FakeApiServer, recorder: EventRecorder
) -> None:
    for _ in range(4):
        say(recorder, "asked for 2 nodes")
    say(recorder, "asked for 3 nodes")
    await asyncio.sleep(5)
    counts = sorted(event.get("series", {}).get("count", 1) for event in server.objects.values())
    assert counts == [1, 4]


@with_recorder
async def test_an_event_about_a_cluster_scoped_object_lives_in_the_default_namespace(
    server: FakeApiServer, recorder: EventRecorder
) -> None:
    say(recorder, "x", about=POLICY)
    await asyncio.sleep(5)
    ((_, namespace, _),) = server.objects
    assert namespace == "default"


@with_recorder
async def test_one_object_cannot_flood(server: FakeApiServer, recorder: EventRecorder) -> None:
    for number in range(200):
        say(recorder, str(number))
    await asyncio.sleep(60)
    assert len(server.objects) == OBJECT_BURST
    say(recorder, "another object is heard", about=POLICY)
    await asyncio.sleep(5)
    assert len(server.objects) == OBJECT_BURST + 1


@with_recorder
async def test_objects_that_fail_together_each_have_their_event_the_warnings_first(
    server: FakeApiServer, recorder: EventRecorder
) -> None:
    for number in range(200):
        about = Reference("v1", "Workload", "team-a", f"g{number}", f"uid-{number}")
        say(recorder, "asked", about=about)
        recorder.event(about, "Warning", reason="GangReleased", action="Gang", note="out of stock")
    await asyncio.sleep(12)
    kinds = [event["type"] for event in server.objects.values()]
    assert set(kinds[:199]) == {"Warning"}
    await asyncio.sleep(60)
    assert len(server.objects) == 400


@with_recorder
async def test_a_server_that_refuses_events_costs_only_events(
    server: FakeApiServer, recorder: EventRecorder
) -> None:
    server.write_faults.append(lambda _: web.Response(status=403, text="no"))
    say(recorder, "refused")
    say(recorder, "x" * 5000)
    await asyncio.sleep(30)
    (event,) = server.objects.values()
    assert len(event["note"]) == 1024
    for _ in range(WAITING * 3):
        say(recorder, "flood")
    assert sum(map(len, recorder._waiting.values())) <= WAITING


@pytest.mark.parametrize(("code", "times"), [(503, 2), (429, 5)])
def test_an_event_outlives_a_server_that_fails_for_a_moment(code: int, times: int) -> None:
    """Or has too much to do, as when many gangs fail together."""

    @with_recorder
    async def scenario(server: FakeApiServer, recorder: EventRecorder) -> None:
        failing = [lambda _: web.json_response({"code": code}, status=code) for _ in range(times)]
        server.write_faults.extend(failing)
        say(recorder, "why it waits")
        await asyncio.sleep(10)
        (event,) = server.objects.values()
        assert event["note"] == "why it waits"

    scenario()


@with_recorder
async def test_an_event_that_was_deleted_is_written_anew(
    server: FakeApiServer, recorder: EventRecorder
) -> None:
    say(recorder, "x")
    await asyncio.sleep(5)
    server.drop(next(iter(server.objects)))
    server.write_faults.append(lambda _: web.json_response({"code": 404, "reason": "NotFound"}, status=404))
    say(recorder, "x")
    await asyncio.sleep(5)
    assert len(server.objects) == 1
