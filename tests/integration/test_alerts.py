"""Prometheus' own program evaluates every alert over series, and reads every panel and the metrics page."""

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from prometheus_client import generate_latest

from muster.controller.gangs.metrics import GangMetrics
from muster.controller.runtime.metrics import Metrics
from muster.model.gangpolicy import GangPolicy
from muster.model.names import SYSTEM_NAMESPACE
from muster.render.observability import PANELS, Alert, alerts
from muster.usage.budgets import BudgetMetrics
from tests.promtool import promtool

ALERTS: Final = {alert.name: alert for alert in alerts(GangPolicy())}
_LONGEST: Final = int((GangPolicy().queue_timeout + GangPolicy().provision_timeout).total_seconds() // 60)


@dataclass(frozen=True, kw_only=True)
class Case:
    """`series`: metric with its own labels -> promtool's notation of one value a minute. Minutes of the
    series: at `quiet` the alert does not fire, at `fires` it does, with these labels and this summary.
    """

    alert: str
    series: Mapping[str, str]
    quiet: int
    fires: int
    summary: str
    labels: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.alert}-{self.fires}m"


CASES: Final = (
    Case(
        alert="MusterNobodyLeads",
        series={'leader_election_master_status{pod="a"}': "1x10 0x10"},
        quiet=12,
        fires=13,
        summary="No gang-admission manager leads: no gang starts, and none is released.",
    ),
    Case(  # no pod reports
        alert="MusterNobodyLeads",
        series={"other": "0x10"},
        quiet=1,
        fires=2,
        summary="No gang-admission manager leads: no gang starts, and none is released.",
    ),
    Case(
        alert="MusterNodesBroken",
        series={'muster_gang_broken_nodes{state="beyond_bound"}': "0x10 1x40"},
        quiet=40,
        fires=42,
        summary="Nodes are broken, and have not been repaired for half an hour (beyond_bound).",
        labels={"state": "beyond_bound"},
    ),
    Case(
        alert="MusterIdleUnknown",
        series={
            'muster_gang_gpu_use{use="unknown"}': "2x120",
            'muster_gang_gpu_use{use="idle"}': "0x120",
            'muster_gang_gpu_use{use="busy"}': "1x10 0x110",
        },
        quiet=60,
        fires=75,
        summary="What the GPUs of gangs do is not known: `idle` of the teams has no effect.",
    ),
    Case(
        alert="MusterBudgetSpent",
        series={'muster_budget_used_ratio{team="vision"}': "0.99x10 1.02x40"},
        quiet=20,
        fires=22,
        summary="Team vision has used its GPU-hours of the month: nothing more of it starts.",
        labels={"team": "vision"},
    ),
    Case(
        alert="MusterWebhooksFail",
        series={
            'controller_runtime_webhook_requests_total{code="500"}': "0x10 1+5x20",
            'muster_certificate_expiration_timestamp_seconds{certificate="serving"}': "9000000x40",
        },
        quiet=10,
        fires=20,
        summary="Reviews fail, or there is no webhook pod: work gets no defaults and no check of sizes.",
    ),
    Case(  # no webhook pod reports its certificate
        alert="MusterWebhooksFail",
        series={
            'muster_certificate_expiration_timestamp_seconds{certificate="serving"}': "9000000x10 stale _x20"
        },
        quiet=10,
        fires=17,
        labels={"namespace": SYSTEM_NAMESPACE, "certificate": "serving"},
        summary="Reviews fail, or there is no webhook pod: work gets no defaults and no check of sizes.",
    ),
    Case(
        alert="MusterWebhooksMissing",
        series={'muster_webhook_configuration_present{kind="ValidatingWebhookConfiguration"}': "1x10 0x10"},
        quiet=11,
        fires=12,
        labels={"kind": "ValidatingWebhookConfiguration"},
        summary="The ValidatingWebhookConfiguration of Muster is missing: objects pass without its webhooks.",
    ),
    Case(  # 8 days before its end, and 60 minutes after the seventh day has begun
        alert="MusterCertificateEnds",
        series={
            'muster_certificate_expiration_timestamp_seconds{certificate="serving"}': f"{8 * 86_400}x1600"
        },
        quiet=24 * 60 + 59,
        fires=24 * 60 + 61,
        summary="A webhook certificate expires within seven days and has not been renewed.",
    ),
    Case(
        alert="MusterCheckIsInactive",
        series={'muster_admission_checks{active="true"}': "1x10 0x10"},
        quiet=12,
        fires=13,
        summary="No AdmissionCheck of Muster is active, or none is left: no gang gets quota.",
    ),
    Case(  # since minute 1
        alert="MusterQuotaHeldTooLong",
        series={'muster_gang_oldest_timestamp_seconds{state="provisioning"}': f"60x{_LONGEST + 40}"},
        quiet=_LONGEST + 1 + 10,
        fires=_LONGEST + 1 + 10 + 6,
        labels={"namespace": SYSTEM_NAMESPACE, "state": "provisioning"},
        summary="A gang has held quota for longer than queueTimeout and provisionTimeout together.",
    ),
    Case(
        alert="MusterQuotaUnused",
        series={"muster_gang_unused_quota_timestamp_seconds": "60x60"},
        quiet=31,
        fires=37,
        labels={"namespace": SYSTEM_NAMESPACE},
        summary="A Workload is admitted and holds quota, but none of its pods has a node.",
    ),
    Case(
        alert="MusterWatchIsDeaf",
        series={'muster_watch_lag_seconds{resource="nodes"}': "0x10 400x10"},
        quiet=15,
        fires=16,
        labels={"resource": "nodes"},
        summary="The API server sends no events about nodes: decisions may be late.",
    ),
    Case(
        alert="MusterReconcilesFail",
        series={'controller_runtime_reconcile_total{controller="gangs",result="error"}': "0x5 60+60x30"},
        quiet=15,
        fires=25,
        labels={"controller": "gangs"},
        summary="Reconciles of controller gangs fail.",
    ),
    Case(
        alert="MusterPoolIsOutOfStock",
        series={'muster_provisioning_requests_total{pool="h100",outcome="out_of_stock"}': "0+1x180"},
        quiet=59,
        fires=70,
        labels={"pool": "h100"},
        summary="The cloud has provided no capacity of pool h100 for an hour.",
    ),
    *(
        Case(
            alert="MusterPodsWithoutQuota",
            series={"muster_gang_pods_without_quota_deleted_total": "0x40", metric: "0x10 1x10"},
            quiet=10,
            fires=11,
            summary="Pods in a team's namespace ran with devices and without quota.",
        )
        for metric in ("muster_gang_pods_without_quota_deleted_total", "muster_gang_pods_without_quota")
    ),
    Case(
        alert="MusterGangRefused",
        series={"muster_gang_refusals_total": "0x10 1x10"},
        quiet=10,
        fires=11,
        summary="A gang was refused; its Workload shows the reason.",
    ),
)


def _checked(folder: Path, *arguments: str, stdin: str = "") -> str:
    """What promtool prints; a failure of the test where it finds a fault."""
    command = (str(promtool()), *arguments)
    result = subprocess.run(
        command, cwd=folder, input=stdin, capture_output=True, text=True, timeout=600, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout + result.stderr


def _rules(folder: Path, rules: list[dict[str, Any]]) -> Path:
    path = folder / "rules.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "muster", "interval": "30s", "rules": rules}]}))
    return path


def _in_namespace(series: str) -> str:
    metric, _, labels = series.partition("{")
    return f'{metric}{{namespace="{SYSTEM_NAMESPACE}",{labels or "}"}'


def _expected(case: Case, alert: Alert) -> dict[str, Any]:
    rule = alert.rule()
    return {
        "exp_labels": {**rule["labels"], **case.labels},
        "exp_annotations": {**rule["annotations"], "summary": case.summary},
    }


@pytest.mark.parametrize("case", CASES, ids=str)
def test_an_alert_fires_when_it_should_and_not_before(case: Case, tmp_path: Path) -> None:
    alert = ALERTS[case.alert]
    _rules(tmp_path, [alert.rule()])
    test = {
        "interval": "1m",
        "input_series": [
            {"series": _in_namespace(series), "values": values} for series, values in case.series.items()
        ],
        "alert_rule_test": [
            {"eval_time": f"{case.quiet}m", "alertname": alert.name},
            {"eval_time": f"{case.fires}m", "alertname": alert.name, "exp_alerts": [_expected(case, alert)]},
        ],
    }
    (tmp_path / "test.yaml").write_text(
        yaml.safe_dump({"rule_files": ["rules.yaml"], "evaluation_interval": "30s", "tests": [test]})
    )
    _checked(tmp_path, "test", "rules", "test.yaml")


def test_every_alert_has_a_case() -> None:
    assert {case.alert for case in CASES} == ALERTS.keys()


def test_prometheus_reads_every_panel_of_the_dashboard(tmp_path: Path) -> None:
    recorded = [
        {"record": f"panel:{number}", "expr": panel.expr.replace("$__rate_interval", "5m")}
        for number, panel in enumerate(PANELS)
    ]
    found = _checked(tmp_path, "check", "rules", _rules(tmp_path, recorded).name)
    assert f"{len(PANELS)} rules found" in found


def test_prometheus_finds_no_fault_in_the_names_of_our_metrics(tmp_path: Path) -> None:
    metrics = Metrics()
    GangMetrics(metrics.registry)
    BudgetMetrics(metrics.registry)
    _checked(tmp_path, "check", "metrics", stdin=generate_latest(metrics.registry).decode())
