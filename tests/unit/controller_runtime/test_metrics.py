"""No label is unbounded, and the metrics count what they say."""

import asyncio

from prometheus_client import CollectorRegistry

from muster.controller.kube.resource import Key
from muster.controller.runtime.metrics import Metrics
from muster.controller.runtime.queue import WorkQueue
from release.reference.metrics import registered
from tests.unit.controller_kube.fake_apiserver import FakeApiServer
from tests.unit.controller_kube.test_reflector import THING, thing
from tests.unit.controller_kube.test_transport import _failing
from tests.unit.controller_runtime.virtual import now, on_virtual_time, virtual

FORBIDDEN = {"namespace", "workload", "uid", "key", "job", "user", "cluster", "pod"}
"""What users make, in any number."""


def test_no_label_takes_its_values_from_what_users_make() -> None:
    for metric in registered():
        assert not FORBIDDEN & set(metric.labels), metric.name


def test_attempts_of_a_call_are_counted_by_what_they_ended_with() -> None:
    metrics = Metrics(CollectorRegistry())

    async def scenario() -> None:
        async with FakeApiServer().running() as server, server.client(observer=metrics) as client:
            server.put("things", thing("x"))
            server.write_faults.append(lambda _: _failing(503))
            await client.apply(THING, Key("a", "x"), thing("x", size=1))

    virtual(scenario())
    value = metrics.registry.get_sample_value
    for code in ("503", "200"):
        labels = {"method": "PATCH", "verb": "apply", "code": code}
        assert value("rest_client_requests_total", labels) == 1
    assert value("rest_client_request_retries_total", {"verb": "apply", "code": "503"}) == 1
    assert value("rest_client_request_duration_seconds_count", {"verb": "apply"}) == 2


@on_virtual_time
async def test_a_key_that_is_worked_on_is_timed_until_it_is_done() -> None:
    metrics = Metrics(CollectorRegistry())

    queue: WorkQueue[str] = WorkQueue("q", metrics=metrics)
    queue.add("slow")
    key = await queue.take()
    began = now()
    await asyncio.sleep(30)
    value = metrics.registry.get_sample_value
    assert value("workqueue_unfinished_work_seconds", {"name": "q"}) == now() - began
    assert value("workqueue_longest_running_processor_seconds", {"name": "q"}) == 30
    queue.done(key)
    assert value("workqueue_unfinished_work_seconds", {"name": "q"}) == 0
    assert value("workqueue_work_duration_seconds_sum", {"name": "q"}) == 30
