"""Traces tell a gang's story under its own uid, and cost nothing where nobody wants them."""

import gzip
import random
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, HTTPServer
from uuid import UUID

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry

from muster.controller.kube.resource import Key
from muster.controller.kube.transport import Call
from muster.controller.runtime import otlp
from muster.controller.runtime.controller import Controller
from muster.controller.runtime.metrics import Metrics
from muster.controller.runtime.otlp import OtlpTraces
from muster.controller.runtime.traces import NO_TRACES, configured

UID = "5f0e7a0c-31d5-4f0b-9c64-0d3a2f7f4b11"
CALL = Call(verb="apply", method="PATCH", path="/apis/x", query={})


class Collector(BaseHTTPRequestHandler):
    """An OTLP receiver that keeps what it is sent."""

    received: list[ExportTraceServiceRequest]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        self.received.append(ExportTraceServiceRequest.FromString(body))
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None: ...


@pytest.fixture
def collector() -> Iterator[tuple[str, list[ExportTraceServiceRequest]]]:
    received: list[ExportTraceServiceRequest] = []
    server = HTTPServer(("127.0.0.1", 0), type("Handler", (Collector,), {"received": received}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", received
    server.shutdown()
    server.server_close()


def test_the_reconciles_of_a_gang_are_one_trace_whose_id_is_its_uid() -> None:
    exporter = InMemorySpanExporter()
    traces = OtlpTraces(instance="m-0", exporter=exporter)
    for number in range(2):
        with traces.span("reconcile", {"controller": "gangs", "key": "a/x"}, of=UID) as span:
            traces.called(CALL, 200 if number else 409, 0.25)
            span.set_attributes({"result": "success"})
    traces.called(CALL, 200, 0.1)  # Outside of any: a cache, a lease.
    traces.close()
    spans = exporter.get_finished_spans()
    assert {f"{span.context.trace_id:032x}" for span in spans} == {UID.replace("-", "")}
    assert sorted(span.name for span in spans) == ["apply", "apply", "reconcile", "reconcile"]
    failed, _, *_ = [span for span in spans if span.name == "apply"]
    assert not failed.status.is_ok
    assert failed.start_time is not None
    assert failed.end_time is not None
    assert failed.end_time - failed.start_time == pytest.approx(0.25e9)
    (parent,) = {span.context.span_id for span in spans if span.name == "reconcile"} & {
        span.parent.span_id for span in spans if span.parent and span is failed
    }
    assert parent


async def test_what_a_controller_does_arrives_at_the_collector(
    collector: tuple[str, list[ExportTraceServiceRequest]], monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint, received = collector
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
    monkeypatch.setenv("OTEL_SERVICE_NAME", "gang-admission-manager")
    traces = configured({"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}, instance="m-0")

    async def reconcile(key: Key) -> None:
        raise RuntimeError("no")

    controller = Controller("gangs", reconcile, metrics=Metrics(CollectorRegistry()), traces=traces)
    await controller._once(Key("team-a", "x"))
    controller.stop()
    traces.close()
    (batch,) = [each for message in received for each in message.resource_spans]
    about = {each.key: each.value.string_value for each in batch.resource.attributes}
    assert about["service.name"] == "gang-admission-manager"
    assert about["service.instance.id"] == "m-0"
    (span,) = batch.scope_spans[0].spans
    told = {each.key: each.value.string_value for each in span.attributes}
    assert told == {"controller": "gangs", "key": "team-a/x", "result": "error"}


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_sampling_takes_a_share_of_the_gangs_each_whole_or_not_at_all(
    share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", str(share))
    exporter = InMemorySpanExporter()
    traces = OtlpTraces(instance="m-0", exporter=exporter)
    drawn = random.Random(0)
    uids = [str(UUID(int=drawn.getrandbits(128), version=4)) for _ in range(500)]
    for _ in range(3):
        for uid in uids:
            with traces.span("reconcile", {}, of=uid):
                pass
    traces.close()
    counts: dict[int, int] = {}
    for span in exporter.get_finished_spans():
        counts[span.context.trace_id] = counts.get(span.context.trace_id, 0) + 1
    assert len(counts) / len(uids) == pytest.approx(share, abs=0.05)
    assert set(counts.values()) == {3}


class Stuck(SpanExporter):
    """A collector that never answers, until it is let go."""

    def __init__(self) -> None:
        self.called, self.freed, self.is_shut = threading.Event(), threading.Event(), False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.called.set()
        self.freed.wait()
        return SpanExportResult.FAILURE

    def shutdown(self) -> None:
        self.is_shut = True


def test_a_collector_that_never_answers_costs_spans_and_does_not_hold_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(otlp, "CLOSE_SECONDS", 0.1)
    exporter = Stuck()
    traces = OtlpTraces(instance="m-0", exporter=exporter)
    for _ in range(5000):  # More than its queue holds.
        with traces.span("reconcile", {}, of=UID):
            pass
    traces.close()
    exporter.called.wait()
    assert not exporter.is_shut, "the end has waited for the collector"
    assert [thread for thread in threading.enumerate() if not thread.daemon] == [threading.main_thread()]
    exporter.freed.set()


def test_without_an_endpoint_nothing_of_it_is_loaded() -> None:
    assert configured({}, instance="m-0") is NO_TRACES
    program = (
        "import sys, muster.controller.__main__; print([m for m in sys.modules if 'opentelemetry' in m])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
