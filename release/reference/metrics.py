"""The page of metrics and alerts, from the controller's registries and from the rendered rules."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.registry import Collector

from muster.controller.gangs.metrics import GangMetrics
from muster.controller.runtime.metrics import Metrics
from muster.model.gangpolicy import GangPolicy
from muster.render.observability import Alert, alerts
from muster.usage.budgets import BudgetMetrics
from release.reference.markdown import WRITTEN, code, item

_HEAD: Final = f"""\
# Metrics and alerts

<!-- run by: tests/integration/test_alerts.py -->

{WRITTEN}

[Metrics, logs and traces](../metrics.md) explains how to switch them on and where to look first.

## Alerts

`muster:observability: {{alerts: true}}` makes them. An expression with a time is that of a stack with the
default timeouts. An alert carries its meaning (annotation `summary`), what to do (`description`), and its
section here: as an address in `runbook_url` where `muster:observability.runbooks` names this page, otherwise
as a path in `runbook`.
"""
# By the first prefix that a metric has.
_SECTIONS: Final = {
    "Gangs": ("muster_gang", "muster_provisioning_", "muster_admission_checks"),
    "Webhooks": ("controller_runtime_webhook_", "muster_webhook_", "muster_certificate_"),
    "Work": ("controller_runtime_", "workqueue_", "muster_workqueue_"),
    "The API server and the caches": ("rest_client_", "muster_watch_", "muster_cache_", "muster_events"),
    "Budgets": ("muster_budget_",),
    "The leader": ("leader_election_", "muster_lease_"),
}
_FOOT: Final = """\
Each process also has the `process_*` and `python_*` metrics of Prometheus' Python client: memory, CPU, open
files.
"""


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric as Prometheus shows it."""

    name: str
    kind: str
    labels: tuple[str, ...]
    meaning: str


def page() -> str:
    """The whole page."""
    listed = alerts(GangPolicy())
    parts = [_HEAD]
    for each in listed:
        parts += _alert(each)
    parts.append("## Metrics\n")
    found = registered()
    for section in _SECTIONS:
        lines = (
            item(code(each.name), (each.kind, ", ".join(map(code, each.labels))), each.meaning)
            for each in found
            if _section(each) == section
        )
        parts += [f"### {section}\n", "\n".join(lines), ""]
    return "\n".join([*parts, _FOOT])


def registered() -> list[Metric]:
    """Every metric of the controller, and of budgets."""
    registry = _Listing()
    Metrics(registry)
    GangMetrics(registry)
    BudgetMetrics(registry)
    return [_metric(each) for each in registry.listed]


class _Listing(CollectorRegistry):
    """A registry that lists its metrics: the label names of one without a sample are known to it alone."""

    def __init__(self) -> None:
        super().__init__()
        self.listed: list[MetricWrapperBase] = []

    def register(self, collector: Collector) -> None:
        super().register(collector)
        if isinstance(collector, MetricWrapperBase):
            self.listed.append(collector)


def _metric(found: MetricWrapperBase) -> Metric:
    (family,) = found.describe()
    name = family.name + ("_total" if family.type == "counter" else "")
    return Metric(name, family.type, tuple(found._labelnames), family.documentation)


def _section(metric: Metric) -> str:
    return next(section for section, prefixes in _SECTIONS.items() if metric.name.startswith(prefixes))


def _summary(alert: Alert) -> str:
    """A label that Prometheus fills in is shown by its name, in capitals."""
    return re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda label: label[1].upper(), alert.summary)


def _alert(alert: Alert) -> Iterator[str]:
    yield f"### {alert.name}\n"
    yield f"{_summary(alert)} Severity {alert.severity}, after {alert.lasting}.\n"
    yield f"**What to do.** {alert.action}.\n"
    yield f"```promql\n{alert.expr}\n```\n"
