"""Muster's dashboard for Grafana.

Its sections are gangs, then capacity, then the controller itself. Every panel is a time series of one
expression over all pods of the controller.
"""

from dataclasses import dataclass, field
from typing import Any, Final

from muster.model import names

# A metric of Muster in PromQL, restricted to the series of the controller's own pods.

_OURS: Final = f'namespace="{names.SYSTEM_NAMESPACE}"'


def ours(metric: str, *matchers: str) -> str:
    """`metric{namespace="muster-system",state="running"}` of `state="running"`."""
    return f"{metric}{{{','.join((_OURS, *matchers))}}}"


_SOURCE: Final = "datasource"
_SELECTED: Final = {"name": _SOURCE, "label": "Data source", "type": "datasource", "query": "prometheus"}
_RATE: Final = "$__rate_interval"
_WIDTH, _HEIGHT, _PER_ROW = 8, 7, 3


@dataclass(frozen=True, slots=True)
class Panel:
    """`legend`: the labels that distinguish the lines. `unit`: Grafana's name of the unit. `says`: what a
    reader sees in it.
    """

    title: str
    expr: str
    legend: tuple[str, ...]
    unit: str = "short"
    says: str = field(kw_only=True)


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
    Panel(
        "Gangs by state",
        f"sum by (state) ({ours('muster_gangs')})",
        ("state",),
        says="queued: waits for quota. provisioning: has quota and waits for nodes. ready: waits for Kueue. "
        "backing_off: has released everything and tries again later.",
    ),
    Panel(
        "Longest time of a gang with quota but no capacity",
        f"time() - (max({_OLDEST}) > 0)",
        (),
        "s",
        says="Ends at queueTimeout and provisionTimeout together. Empty while no gang waits for nodes.",
    ),
    Panel(
        "Longest time of a running gang without a pod",
        f"time() - (max({_UNUSED}) > 0)",
        (),
        "s",
        says="Above half an hour a job holds quota that it does not use. Empty while every gang has a pod.",
    ),
    Panel(
        "Time in each state, p95",
        _quantile("muster_gang_phase_seconds", "phase"),
        ("phase",),
        "s",
        says="Of gangs that have left the state.",
    ),
    Panel(
        "Releases an hour, by reason",
        _hourly("muster_gang_retries_total", "reason"),
        ("reason",),
        says="Attempts that ended without a start. The gang gives back quota and nodes and tries again.",
    ),
    Panel(
        "ProvisioningRequests an hour",
        _hourly(f"{_REQUESTS}s_total", "pool, outcome"),
        ("pool", "outcome"),
        says="asked without accepted: no autoscaler answers. out_of_stock, cloud_quota_exhausted: the cloud "
        "has no such nodes for us.",
    ),
    Panel(
        "ProvisioningRequest duration, p95",
        _quantile(f"{_REQUESTS}_seconds", "class, phase"),
        ("class", "phase"),
        "s",
        says="accept: until the autoscaler answers. provision: from its answer until the nodes are promised.",
    ),
    Panel(
        "Budgets of the month, by team",
        f"max by (team) ({ours('muster_budget_used_ratio')})",
        ("team",),
        "percentunit",
        says="At 100 % nothing more of the team starts until the next month. Empty without `muster:budgets`.",
    ),
    Panel(
        "Leader",
        f"max by (pod) ({ours('leader_election_master_status')})",
        ("pod",),
        says="One pod is at 1. With none, no gang starts or is released.",
    ),
    Panel(
        "Keys waiting for a worker",
        f"sum by (name) ({ours('workqueue_depth')})",
        ("name",),
        says="Work that is due. If it grows, look at the API latency, then at the CPU limit.",
    ),
    Panel(
        "Reconciles a second",
        _rate(_RECONCILES, "controller, result"),
        ("controller", "result"),
        says="error: the log lines `reconcile failed` have the object. conflict: read again, not an error.",
    ),
    Panel(
        "API calls a second, by code",
        _rate("rest_client_requests_total", "code"),
        ("code",),
        says="0: no answer. 403: a right is missing. 429, 5xx: the API server is overloaded.",
    ),
    Panel(
        "API latency, p95",
        _quantile("rest_client_request_duration_seconds", "verb"),
        ("verb",),
        "s",
        says="Of one attempt of a call. Watches are left out.",
    ),
    Panel(
        "Watch lag",
        f"max by (resource) ({ours('muster_watch_lag_seconds')})",
        ("resource",),
        "s",
        says="Since the API server last sent anything about a kind. About a minute is normal.",
    ),
    Panel(
        "Webhook reviews a second, by verdict",
        _rate("muster_webhook_reviews_total", "verdict"),
        ("verdict",),
        says="failed: the webhooks' log has the reason.",
    ),
    Panel(
        "Webhook latency, p99",
        _quantile(_REVIEWS, "webhook", 0.99),
        ("webhook",),
        "s",
        says="Who creates the object waits for it.",
    ),
    Panel(
        "Memory",
        f"max by (pod) ({ours('process_resident_memory_bytes')})",
        ("pod",),
        "bytes",
        says="Resident memory of each pod.",
    ),
)


def dashboard() -> dict[str, Any]:
    """Return the dashboard as Grafana's JSON model. The viewer selects the data source."""
    return {
        "uid": "muster",
        "title": "Muster",
        "schemaVersion": 39,
        "time": {"from": "now-6h", "to": "now"},
        "refresh": "1m",
        # Its source is the stack: Grafana could not store a change.
        "editable": False,
        "templating": {"list": [_SELECTED]},
        "panels": [_panel(number, panel) for number, panel in enumerate(PANELS)],
    }


def _panel(number: int, panel: Panel) -> dict[str, Any]:
    row, column = divmod(number, _PER_ROW)
    return {
        "id": number + 1,
        "title": panel.title,
        "description": panel.says,
        "type": "timeseries",
        "datasource": {"type": "prometheus", "uid": f"${{{_SOURCE}}}"},
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
