"""What `muster:observability` needs of the rest of the stack."""

import re
from collections.abc import Iterator
from typing import Final

from muster.model.observability import Scraping
from muster.model.providers import Provider
from muster.model.stack import GangMode, Stack
from muster.model.violations import Violation

_PATH: Final = "muster:observability"
_ADDRESS: Final = re.compile(r"https?://[A-Za-z0-9.\-\[\]:]+(/[^?#\s]*)?")


def observability_rules(stack: Stack) -> Iterator[Violation]:
    wanted = stack.observability
    if wanted.metrics is Scraping.GOOGLE and stack.cluster.provider is not Provider.GKE:
        yield Violation(
            f"{_PATH}.metrics",
            "is google, whose kinds only GKE has.",
            "write prometheus-operator, annotations or off.",
        )
    if wanted.alerts and not wanted.metrics.has_rules:
        yield Violation(
            f"{_PATH}.alerts",
            f"needs the Prometheus operator to evaluate alerts, but metrics is {wanted.metrics}.",
            "write `metrics: prometheus-operator` (or google on GKE), or leave alerts out.",
        )
    if wanted.runbooks is not None and not _ADDRESS.fullmatch(wanted.runbooks):
        yield Violation(
            f"{_PATH}.runbooks",
            f"is {wanted.runbooks!r}, which is no address of a page: an alert adds its own `#name`.",
            "write one such as https://docs.example.com/muster/reference/metrics.html.",
        )
    if stack.gang_admission.mode is not GangMode.MUSTER:
        yield from _unwatched(stack)
    if wanted.traces is not None and not _ADDRESS.fullmatch(wanted.traces):
        yield Violation(
            f"{_PATH}.traces",
            f"is {wanted.traces!r}, which is no OTLP endpoint over HTTP.",
            "write one such as http://collector.monitoring:4318.",
        )


def _unwatched(stack: Stack) -> Iterator[Violation]:
    """Metrics may be set explicitly to their default."""
    wanted, mode = stack.observability, stack.gang_admission.mode
    said = {"alerts": wanted.alerts, "dashboard": wanted.dashboard, "traces": wanted.traces is not None}
    for name, is_said in said.items():
        if is_said:
            message = f"is about Muster's controller, which `muster:gangAdmission: {mode}` leaves out."
            yield Violation(f"{_PATH}.{name}", message, "leave it out, or write another gangAdmission.")
