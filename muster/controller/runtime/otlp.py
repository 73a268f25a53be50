"""Spans to an OpenTelemetry collector, by OTLP over HTTP.

Responsible for ids, names and attributes of spans. The SDK sends: in a thread of its own, in batches, from a
bounded queue; a collector that is slow or gone costs spans and log lines, never a reconcile. Endpoint,
service name and sampling are OpenTelemetry's own environment variables. Loaded only where traces are on.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any
from uuid import UUID

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import Sampler, SamplingResult

from muster.controller.kube.transport import Call
from muster.controller.runtime.spans import Facts

CLOSE_SECONDS = 3.0
"""For what is left in the queue at the end: a pod's last seconds, after everything else."""

_about: ContextVar[str] = ContextVar("uid of the object that a span is about", default="")


class _UidAsTrace(RandomIdGenerator):
    """Spans about one object are one trace, and are sampled all or none: both follow from its uid."""

    def generate_trace_id(self) -> int:
        try:
            return UUID(_about.get()).int or super().generate_trace_id()
        except ValueError:
            return super().generate_trace_id()


class _Evenly(Sampler):
    """Asks the configured sampler about all of a uid. By itself it looks at the lower half, whose first two
    bits are the same in every uid (RFC 9562, 4.1): of any share up to a half it would take none.
    """

    def __init__(self, configured: Sampler) -> None:
        self._configured = configured

    def should_sample(
        self, parent_context: Context | None, trace_id: int, *about: Any, **more: Any
    ) -> SamplingResult:
        return self._configured.should_sample(parent_context, trace_id ^ (trace_id >> 64), *about, **more)

    def get_description(self) -> str:
        return self._configured.get_description()


class _Open:
    """A span that is being made."""

    def __init__(self, span: trace.Span) -> None:
        self._span = span

    def set_attributes(self, facts: Facts) -> None:
        self._span.set_attributes(dict(facts))


class OtlpTraces:
    """Traces of this process. `exporter`: another way out than the configured endpoint, for tests."""

    def __init__(self, *, instance: str, exporter: SpanExporter | None = None) -> None:
        self._provider = TracerProvider(
            resource=Resource.create({"service.instance.id": instance}),
            id_generator=_UidAsTrace(),
            shutdown_on_exit=False,
        )
        self._provider.sampler = _Evenly(self._provider.sampler)
        self._provider.add_span_processor(BatchSpanProcessor(exporter or OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("muster")

    @contextmanager
    def span(self, name: str, facts: Facts, *, of: str = "") -> Iterator[_Open]:
        token = _about.set(of)
        try:
            with self._tracer.start_as_current_span(name, attributes=dict(facts)) as span:
                yield _Open(span)
        finally:
            _about.reset(token)

    def called(self, call: Call, code: int, seconds: float) -> None:
        """Within a span only: caches and leases are no news."""
        if not trace.get_current_span().is_recording():
            return
        ended = time.time_ns()
        span = self._tracer.start_span(
            call.verb,
            kind=trace.SpanKind.CLIENT,
            start_time=ended - int(seconds * 1e9),
            attributes={
                "http.request.method": call.method,
                "url.path": call.path,
                "http.response.status_code": code,
            },
        )
        if not 200 <= code < 400:
            span.set_status(trace.StatusCode.ERROR)
        span.end(ended)

    def retrying(self, call: Call, code: int) -> None: ...

    def close(self) -> None:
        """The SDK tries a dead collector for half a minute: longer than a pod has left. So it may be left
        behind; its threads end with the process.
        """
        ending = threading.Thread(target=self._provider.shutdown, daemon=True)
        ending.start()
        ending.join(CLOSE_SECONDS)
