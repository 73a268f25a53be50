"""What shows how Muster does: the objects of `muster:observability`, its alerts, and its dashboard for
Grafana.

Kinds: PodMonitor and PrometheusRule (prometheus-operator, api.md), PodMonitoring and Rules (Google Cloud
Managed Service for Prometheus, "managed collection" and "rule evaluation"), and the network policy for them.

An alert has an expression, for how long it has to be true, and a severity: `critical` is for paging,
`warning` for working hours, `info` for dashboards. `make reference` writes them into
docs/reference/metrics.md. A test compares the metrics with those of the controller.

The dashboard's sections are gangs, then capacity, then the controller itself. Every panel is a time series of
one expression over all pods of the controller.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from muster.model import names
from muster.model.gangpolicy import GangPolicy
from muster.model.observability import Observability, Scraping
from muster.model.stack import Stack
from muster.render.manifest import Manifest, manifest

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
        "Gangs by what their GPUs do",
        f"sum by (use) ({ours('muster_gang_gpu_use')})",
        ("use",),
        says="unknown: dcgm-exporter does not say, and no gang is idle. 0 without `idle` of a team.",
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


PAGE: Final = "docs/reference/metrics.md"
_SLACK_SECONDS: Final = 600
_WEEK_SECONDS: Final = 7 * 86_400
_UNUSED_SECONDS: Final = 1800
"""A gang has no pod for some minutes after its admission and between two tries of its job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """`expr` is PromQL; `lasting` is how long it has to be true; `action` is what an operator does."""

    name: str
    severity: Literal["critical", "warning", "info"]
    expr: str
    lasting: str
    summary: str
    action: str

    def rule(self, *, runbooks: str | None = None) -> Manifest:
        """`runbooks`: the address of a page that has a section for each alert, by its name in lower case."""
        section = f"#{self.name.lower()}"
        runbook = {"runbook_url": runbooks + section} if runbooks else {"runbook": PAGE + section}
        return {
            "alert": self.name,
            "expr": self.expr,
            "for": self.lasting,
            "labels": {"severity": self.severity},
            "annotations": {"summary": self.summary, "description": f"{self.action}.", **runbook},
        }


def alerts(policy: GangPolicy) -> tuple[Alert, ...]:
    """Return the alerts of an environment with this GangPolicy."""
    longest = int((policy.queue_timeout + policy.provision_timeout).total_seconds()) + _SLACK_SECONDS
    oldest = ours("muster_gang_oldest_timestamp_seconds", 'state="provisioning"')
    unused = ours("muster_gang_unused_quota_timestamp_seconds")
    deleted = ours("muster_gang_pods_without_quota_deleted_total")
    outlived = ours("muster_gang_pods_without_quota")
    errors = ours("controller_runtime_reconcile_total", 'result="error"')
    answers = ours("controller_runtime_webhook_requests_total", 'code=~"5.."')
    reviews = ours("muster_webhook_reviews_total", 'verdict="failed"')
    measured = ours("muster_gang_gpu_use", 'use="unknown"')
    seen = ours("muster_gang_gpu_use", 'use!="unknown"')
    active = ours("muster_admission_checks", 'active="true"')
    serving = ours("muster_certificate_expiration_timestamp_seconds", 'certificate="serving"')
    sold, unsold = (
        f"sum by (pool) (increase({ours('muster_provisioning_requests_total', outcome)}[1h])) > 0"
        for outcome in ('outcome="provisioned"', 'outcome=~"out_of_stock|cloud_quota_exhausted"')
    )
    return (
        Alert(
            name="MusterNobodyLeads",
            severity="critical",
            expr=f"(max({ours('leader_election_master_status')}) or vector(0)) < 1",
            lasting="2m",
            summary="No gang-admission manager leads: no gang starts, and none is released.",
            action="If pods are not running: `kubectl -n "
            "muster-system describe pods`. If they run and none leads, their logs have the reason"
            " why they cannot renew the lease",
        ),
        Alert(
            name="MusterWebhooksFail",
            severity="critical",
            # A pod that does not run reports no metric, so a missing certificate is alerted on separately.
            expr=f"sum(rate({answers}[5m])) > 0 or sum(rate({reviews}[5m])) > 0 or absent({serving})",
            lasting="5m",
            summary="Reviews fail, or there is no webhook pod: work gets no defaults and no check of sizes.",
            action="New work passes without defaults and "
            "without a check of its size, so that it is refused for a missing queue, or waits. "
            "Check that a webhook pod is ready. Work that would bypass its queue is still refused by "
            "policies that need no process",
        ),
        Alert(
            name="MusterWebhooksMissing",
            severity="critical",
            expr=f"min by (kind) ({ours('muster_webhook_configuration_present')}) < 1",
            # `pulumi up` may replace a configuration: delete it and create it again.
            lasting="1m",
            summary="The {{ $labels.kind }} of Muster is missing: objects pass without its webhooks.",
            action="The ValidatingWebhookConfiguration or the MutatingWebhookConfiguration "
            "`gang-admission` was deleted or emptied: Ray objects and Jobs get no defaults and no"
            " reviews. The policies that need no process still apply. Run `pulumi up --refresh`; "
            "the manager puts the certificate authority into it by itself",
        ),
        Alert(
            name="MusterCertificateEnds",
            severity="critical",
            expr=f"min({ours('muster_certificate_expiration_timestamp_seconds')}) - time() < {_WEEK_SECONDS}",
            lasting="1h",
            summary="A webhook certificate expires within seven days and has not been renewed.",
            action="The manager cannot write the Secret or the configurations. Read its log lines of "
            "`certificates`",
        ),
        Alert(
            name="MusterCheckIsInactive",
            severity="critical",
            # Not reported with KAI, nor before the first check exists.
            expr=f"max({active}) < 1",
            lasting="2m",
            summary="No AdmissionCheck of Muster is active, or none is left: no gang gets quota.",
            action="The AdmissionCheck was deleted, or is inactive: its ClusterQueues are inactive, and "
            "no gang gets quota. `kubectl get admissionchecks -o yaml` and `muster why` show the "
            "reason. After a deletion run `pulumi up`, which creates the check again",
        ),
        Alert(
            name="MusterQuotaHeldTooLong",
            severity="warning",
            expr=f"time() - ({oldest} > 0) > {longest}",
            lasting="5m",
            summary="A gang has held quota for longer than queueTimeout and provisionTimeout together.",
            action="The leader should have released this gang. Find it with `kubectl get workloads -A`, "
            "then read the leader's log lines with its uid",
        ),
        Alert(
            name="MusterQuotaUnused",
            severity="warning",
            expr=f"time() - ({unused} > 0) > {_UNUSED_SECONDS}",
            lasting="5m",
            summary="A Workload is admitted and holds quota, but none of its pods has a node.",
            action="A Workload is admitted, and for half an hour no pod that uses its capacity has been "
            "on a node. The leader's log line `quota without a pod` names it. Look at its job and"
            " RayCluster with `kubectl describe`: it may have failed without reaching an end, or "
            "been stopped outside Kueue. Deleting the job releases the quota",
        ),
        Alert(
            name="MusterPodsWithoutQuota",
            severity="warning",
            expr=f"sum(increase({deleted}[15m])) > 0 or max({outlived}) > 0",
            lasting="0m",
            summary="Pods in a team's namespace ran with devices and without quota.",
            action="The controller deletes such pods a minute after their grace period: an Event "
            "`PodWithoutQuota` is on their owner, and the leader's log lines `deleted a pod without quota` "
            "name it. Delete the owner, and find out how its pods outlived their quota: an object that "
            "KubeRay takes for invalid, another owner, Kueue or KubeRay that does not run. If "
            "`muster_gang_pods_without_quota` stays above 0, the log line `pods without quota stay` has "
            "the reason why they were not deleted",
        ),
        Alert(
            name="MusterWatchIsDeaf",
            severity="warning",
            expr=f"max by (resource) ({ours('muster_watch_lag_seconds')}) > 300",
            lasting="5m",
            summary="The API server sends no events about {{ $labels.resource }}: decisions may be late.",
            action="The controller decides from an old cache. All kinds: check the network to the API "
            "server. One kind: check that its CRD is still served",
        ),
        Alert(
            name="MusterReconcilesFail",
            severity="warning",
            expr=f"sum by (controller) (rate({errors}[5m])) > 0.1",
            lasting="15m",
            summary="Reconciles of controller {{ $labels.controller }} fail.",
            action="The log lines `reconcile failed` name the object and the error",
        ),
        Alert(
            name="MusterNodesBroken",
            severity="warning",
            expr=f"max by (state) ({ours('muster_gang_broken_nodes')}) > 0",
            lasting="30m",
            summary="Nodes are broken, and have not been repaired for half an hour ({{ $labels.state }}).",
            action="`muster doctor STACK --context CONTEXT` names those set aside, their signs and who "
            "repairs them. Beyond the bound (`beyond_bound`) other pods may still start there: repair those "
            "first, or raise `brokenNodes.most`",
        ),
        Alert(
            name="MusterIdleUnknown",
            severity="info",
            expr=f"sum({measured}) > 0 unless sum({seen}) > 0",
            lasting="1h",
            summary="What the GPUs of gangs do is not known: `idle` of the teams has no effect.",
            action="`kubectl -n gpu-operator get pods -l app=nvidia-dcgm-exporter`: one has to run on each "
            "GPU node and answer the manager on port 9400. The leader's log lines of `idle` have the error; "
            "a network policy of the cluster may be in between",
        ),
        Alert(
            name="MusterBudgetSpent",
            severity="info",
            expr=f"max by (team) ({ours('muster_budget_used_ratio')}) >= 1",
            lasting="10m",
            summary="Team {{ $labels.team }} has used its GPU-hours of the month: nothing more of it starts.",
            action="Wait for the next month (UTC), or raise its `muster:budgets`. What runs is not touched",
        ),
        Alert(
            name="MusterPoolIsOutOfStock",
            severity="info",
            expr=f"{unsold} unless {sold}",
            lasting="1h",
            summary="The cloud has provided no capacity of pool {{ $labels.pool }} for an hour.",
            action="Consider another zone, another pool or a reservation",
        ),
        Alert(
            name="MusterGangRefused",
            severity="info",
            expr=f"sum(increase({ours('muster_gang_refusals_total')}[15m])) > 0",
            lasting="0m",
            summary="A gang was refused; its Workload shows the reason.",
            action="The gang's Workload and an Event have the reason. The owner changes the job and "
            "activates it again",
        ),
    )


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
