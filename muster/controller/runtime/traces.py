"""What the process does, step by step, as spans for a trace collector.

A span is a reconcile or a review, and within it each attempt of each call to the API server. A gang's
reconciles are one trace, whose id is the uid of its Workload (without the dashes). Off unless an OTLP
endpoint is configured; nothing of OpenTelemetry is loaded then. Sending is otlp.py's.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Final

from muster.controller.kube.transport import Call
from muster.controller.runtime.spans import Facts, Span, Traces

ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
"""OpenTelemetry's own variables (opentelemetry.io, "OTLP Exporter Configuration")."""


class _NullSpan:
    def set_attributes(self, facts: Facts) -> None: ...


class NoTraces:
    """Traces are off."""

    _nothing: AbstractContextManager[Span] = nullcontext(_NullSpan())

    def span(self, name: str, facts: Facts, *, of: str = "") -> AbstractContextManager[Span]:
        return self._nothing

    def called(self, call: Call, code: int, seconds: float) -> None: ...

    def retrying(self, call: Call, code: int) -> None: ...

    def close(self) -> None: ...


NO_TRACES: Final = NoTraces()


def configured(environment: Mapping[str, str], *, instance: str) -> Traces:
    """Traces to the endpoint of the environment, or none."""
    if not any(environment.get(name) for name in ENDPOINTS):
        return NO_TRACES
    from muster.controller.runtime.otlp import OtlpTraces

    return OtlpTraces(instance=instance)
