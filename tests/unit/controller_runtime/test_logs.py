"""Every line about a gang says whose it is."""

import asyncio

import structlog
from prometheus_client import CollectorRegistry
from structlog.testing import LogCapture

from muster.controller.kube.resource import Key
from muster.controller.runtime.controller import Controller
from muster.controller.runtime.informer import Informer
from muster.controller.runtime.metrics import Metrics
from tests.unit.controller_kube.fake_apiserver import FakeApiServer
from tests.unit.controller_kube.test_reflector import THING, Thing, thing
from tests.unit.controller_runtime.virtual import settle, virtual


def test_whatever_is_logged_during_a_reconcile_carries_the_uid_of_its_object() -> None:
    lines = LogCapture()
    structlog.configure(processors=[structlog.contextvars.merge_contextvars, lines])

    async def scenario() -> None:
        async with FakeApiServer().running() as server, server.client() as client:
            server.put("things", thing("x"))
            metrics = Metrics(CollectorRegistry())
            informer: Informer[Thing] = Informer(client, THING, metrics=metrics)

            async def reconcile(key: Key) -> None:
                structlog.get_logger("far away").info("did something")
                raise RuntimeError

            controller = Controller("c", reconcile, metrics=metrics, about=informer)
            listed = await client.list(THING)
            informer.store.replace(
                list(listed.items), unreadable={}, version=listed.resource_version, new_history=False
            )
            for key in (Key("a", "x"), Key("a", "gone")):
                controller.queue.add(key)
            work = asyncio.create_task(controller._work())
            await settle()
            work.cancel()

    try:
        virtual(scenario())
    finally:
        structlog.reset_defaults()
    told = {(line["event"], line["key"]): line["uid"] for line in lines.entries}
    assert told == {
        ("did something", "a/x"): "uid-1",
        ("reconcile failed", "a/x"): "uid-1",
        ("did something", "a/gone"): "",
        ("reconcile failed", "a/gone"): "",
    }
