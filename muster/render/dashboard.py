"""Muster's dashboard for Grafana.

Its sections are gangs, then capacity, then the controller itself. Every panel is a time series of one
expression over all pods of the controller.
"""

from dataclasses import dataclass
from typing import Any, Final

from muster.render.series import ours

_RATE: Final = "$__rate_interval"
_WIDTH, _HEIGHT, _PER_ROW = 8, 7, 3


@dataclass(frozen=True, slots=True)
class Panel:
    """`legend`: the labels that distinguish the lines. `unit`: Grafana's name of the unit."""

    title: str
    expr: str
    legend: tuple[str, ...]
    unit: str = "short"


def _quantile(metric: str, by: str, quantile: float = 0.95) -> str:
    return f"histogram_quantile({quantile}, sum by (le, {by}) (rate({ours(f'{metric}_bucket')}[{_RATE}])))"


def _rate(metric: str, by: str) -> str:
    return f"sum by ({by}) (rate({ours(metric)}[{_RATE}]))"


def _hourly(metric: str, by: str) -> str:
    return f"sum by ({by}) (increase({ours(metric)}[1h]))"


_OLDEST: Final = ours("muster_gang_oldest_timestamp_seconds", 'state="provisioning"')
_UNUSED: Final = ours("muster_gang_unused_quota_timestamp_seconds")
_REQUESTS: Final = "muster_provisioning_request"
_RECONCILES: Final = "controller_runtime_reconcile_total"
_REVIEWS: Final = "controller_runtime_webhook_latency_seconds"

PANELS: Final = (
    Panel("Gangs by state", f"sum by (state) ({ours('muster_gangs')})", ("state",)),
    Panel("Longest time of a gang with quota but no capacity", f"time() - (max({_OLDEST}) > 0)", (), "s"),
    Panel("Longest time of a running gang without a pod", f"time() - (max({_UNUSED}) > 0)", (), "s"),
    Panel("Time in each state, p95", _quantile("muster_gang_phase_seconds", "phase"), ("phase",), "s"),
    Panel("Releases an hour, by reason", _hourly("muster_gang_retries_total", "reason"), ("reason",)),
    Panel(
        "ProvisioningRequests an hour", _hourly(f"{_REQUESTS}s_total", "pool, outcome"), ("pool", "outcome")
    ),
    Panel(
        "ProvisioningRequest duration, p95",
        _quantile(f"{_REQUESTS}_seconds", "class, phase"),
        ("class", "phase"),
        "s",
    ),
    Panel("Leader", f"max by (pod) ({ours('leader_election_master_status')})", ("pod",)),
    Panel("Keys waiting for a worker", f"sum by (name) ({ours('workqueue_depth')})", ("name",)),
    Panel("Reconciles a second", _rate(_RECONCILES, "controller, result"), ("controller", "result")),
    Panel("API calls a second, by code", _rate("rest_client_requests_total", "code"), ("code",)),
    Panel("API latency, p95", _quantile("rest_client_request_duration_seconds", "verb"), ("verb",), "s"),
    Panel("Watch lag", f"max by (resource) ({ours('muster_watch_lag_seconds')})", ("resource",), "s"),
    Panel(
        "Webhook reviews a second, by verdict", _rate("muster_webhook_reviews_total", "verdict"), ("verdict",)
    ),
    Panel("Webhook latency, p99", _quantile(_REVIEWS, "webhook", 0.99), ("webhook",), "s"),
    Panel("Memory", f"max by (pod) ({ours('process_resident_memory_bytes')})", ("pod",), "bytes"),
)


def dashboard() -> dict[str, Any]:
    """Return the dashboard as Grafana's JSON model. The viewer selects the data source."""
    return {
        "uid": "muster",
        "title": "Muster",
        "schemaVersion": 39,
        "time": {"from": "now-6h", "to": "now"},
        "refresh": "1m",
        "templating": {"list": [{"name": "source", "type": "datasource", "query": "prometheus"}]},
        "panels": [_panel(number, panel) for number, panel in enumerate(PANELS)],
    }


def _panel(number: int, panel: Panel) -> dict[str, Any]:
    row, column = divmod(number, _PER_ROW)
    return {
        "id": number + 1,
        "title": panel.title,
        "type": "timeseries",
        "datasource": {"type": "prometheus", "uid": "${source}"},
        "gridPos": {"h": _HEIGHT, "w": _WIDTH, "x": column * _WIDTH, "y": row * _HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {
                "refId": "A",
                "expr": panel.expr,
                "legendFormat": " ".join(f"{{{{{label}}}}}" for label in panel.legend) or panel.title,
            }
        ],
    }
