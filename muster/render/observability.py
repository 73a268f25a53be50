"""The objects that expose the controller's metrics, and the network policy for them.

Responsible for the objects of `muster:observability` except alerts (alerts.py) and panels (dashboard.py).
Kinds: PodMonitor and PrometheusRule (prometheus-operator, api.md), PodMonitoring and Rules (Google Cloud
Managed Service for Prometheus, "managed collection" and "rule evaluation").
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from muster.model import names
from muster.model.observability import Observability, Scraping
from muster.model.stack import Stack
from muster.render.alerts import alerts
from muster.render.dashboard import dashboard
from muster.render.manifest import Manifest, manifest

PATH: Final = "/metrics"
# Of the recorder's pod, which has metrics where a stack has budgets.
LABELS_OF_RECORDER: Final = {"app.kubernetes.io/name": names.RECORDER}
METRICS_PORT_NAME: Final = "metrics"
_INTERVAL: Final = "30s"
_NAME: Final = "muster"
_GROUPS: Final = {
    Scraping.OPERATOR: "monitoring.coreos.com/v1",
    Scraping.GOOGLE: "monitoring.googleapis.com/v1",
}
# Where Google's collectors run.
_GOOGLE_NAMESPACE: Final = "gmp-system"


def annotations(wanted: Observability, port: int) -> Mapping[str, str]:
    """On each of our pods."""
    if wanted.metrics is not Scraping.ANNOTATIONS:
        return {}
    return {"prometheus.io/scrape": "true", "prometheus.io/port": str(port), "prometheus.io/path": PATH}


def objects(stack: Stack, *, selector: Mapping[str, str], port: str) -> dict[str, list[Manifest]]:
    """The stack's further objects, each with a key. `selector` finds pods, `port` is a name."""
    wanted = stack.observability
    scraped = [(_NAME, selector, port)]
    if stack.budgets.teams:
        scraped.append((names.RECORDER, LABELS_OF_RECORDER, METRICS_PORT_NAME))
    found = {
        "monitors": [_monitor(wanted, *each) for each in scraped] if wanted.metrics.has_rules else [],
        "alerts": [_rules(stack)] if wanted.alerts else [],
        "dashboard": [_panels(wanted)] if wanted.dashboard else [],
    }
    return {key: manifests for key, manifests in found.items() if manifests}


def reach(
    stack: Stack,
    name: str,
    *,
    namespace: str,
    metrics: str | int,
    selector: Mapping[str, str] | None = None,
    open_to_all: Sequence[str | int] = (),
) -> Manifest:
    """What comes in to the pods of a platform program: metrics from the namespaces that hold what scrapes
    them, and to the ports `open_to_all` requests from wherever the API server is, which has no address of its
    own on a managed control plane. (Teams are kept from these by what may leave their namespaces. Probes come
    from the pod's own node, which a NetworkPolicy never keeps out.)

    `selector`: labels of the pods; every pod of the namespace when it is empty.
    """
    callers: list[dict[str, Any]] = [_namespaces({names.MONITORING_LABEL: "true"})]
    if stack.observability.metrics is Scraping.GOOGLE:
        callers.append(_namespaces({"kubernetes.io/metadata.name": _GOOGLE_NAMESPACE}))
    return manifest(
        "networking.k8s.io/v1",
        "NetworkPolicy",
        name,
        namespace=namespace,
        spec={
            "podSelector": {"matchLabels": dict(selector)} if selector else {},
            "policyTypes": ["Ingress"],
            "ingress": [
                *({"ports": [{"protocol": "TCP", "port": port}]} for port in open_to_all),
                {"from": callers, "ports": [{"protocol": "TCP", "port": metrics}]},
            ],
        },
    )


def _namespaces(labels: Mapping[str, str]) -> dict[str, Any]:
    return {"namespaceSelector": {"matchLabels": dict(labels)}}


def _monitor(wanted: Observability, name: str, selector: Mapping[str, str], port: str) -> Manifest:
    endpoint = {"port": port, "path": PATH, "interval": _INTERVAL}
    is_google = wanted.metrics is Scraping.GOOGLE
    kind, endpoints = ("PodMonitoring", "endpoints") if is_google else ("PodMonitor", "podMetricsEndpoints")
    spec = {"selector": {"matchLabels": dict(selector)}, endpoints: [endpoint]}
    return _object(wanted, kind, name, spec=spec)


def _rules(stack: Stack) -> Manifest:
    wanted = stack.observability
    listed = alerts(stack.gang_admission.policy)
    rules = [alert.rule(runbooks=wanted.runbooks) for alert in listed]
    kind = "Rules" if wanted.metrics is Scraping.GOOGLE else "PrometheusRule"
    # Google's kind has no default for the interval.
    group = {"name": _NAME, "interval": _INTERVAL, "rules": rules}
    return _object(wanted, kind, _NAME, spec={"groups": [group]})


def _object(wanted: Observability, kind: str, name: str, **body: object) -> Manifest:
    return manifest(
        _GROUPS[wanted.metrics], kind, name, namespace=names.SYSTEM_NAMESPACE, labels=wanted.labels, **body
    )


def _panels(wanted: Observability) -> Manifest:
    """Grafana's sidecar loads every ConfigMap of this label as a dashboard (Grafana's own Helm chart)."""
    return manifest(
        "v1",
        "ConfigMap",
        f"{_NAME}-dashboard",
        namespace=names.SYSTEM_NAMESPACE,
        labels={"grafana_dashboard": "1", **wanted.labels},
        data={"muster.json": json.dumps(dashboard(), sort_keys=True)},
    )
