"""What a stack asks for to watch Muster is made, and names metrics that there are."""

import json
import re
from datetime import timedelta

import pytest

from muster.model.clusters import Provider
from muster.model.gangpolicy import GangPolicy
from muster.model.observability import Observability, Scraping
from muster.model.stack import Stack
from muster.render.observability import PANELS, alerts, annotations, dashboard, objects, reach
from release.reference.metrics import registered
from tests.unit.model.model_stacks import new_mistakes, new_stack

SELECTOR = {"app.kubernetes.io/name": "gang-admission"}
ALERTS = alerts(GangPolicy())
EXPRESSIONS = {alert.name: alert.expr for alert in ALERTS} | {panel.title: panel.expr for panel in PANELS}


def stack(provider: Provider = Provider.GKE, **said: object) -> Stack:
    return new_stack(provider, observability=said)


def refused(provider: Provider = Provider.GKE, **said: object) -> list[str]:
    return [*new_mistakes(provider, observability=said)]


def test_by_default_metrics_are_announced_and_no_object_is_made() -> None:
    silent = stack()
    assert objects(silent, selector=SELECTOR, port="health") == {}
    assert annotations(silent.observability, 8080)["prometheus.io/scrape"] == "true"
    assert annotations(Observability(metrics=Scraping.OFF), 8080) == {}


@pytest.mark.parametrize(
    ("metrics", "kinds"),
    [
        ("prometheus-operator", {"PodMonitor", "PrometheusRule", "ConfigMap"}),
        ("google", {"PodMonitoring", "Rules", "ConfigMap"}),
    ],
)
def test_each_way_of_scraping_has_its_own_kinds_under_the_users_labels(metrics: str, kinds: set[str]) -> None:
    wanted = stack(metrics=metrics, alerts=True, dashboard=True, labels={"release": "mine"})
    made = [each for found in objects(wanted, selector=SELECTOR, port="health").values() for each in found]
    assert {each["kind"] for each in made} == kinds
    for each in made:
        assert each["metadata"]["namespace"] == "muster-system"
        assert each["metadata"]["labels"]["release"] == "mine"
    (monitor,) = [each for each in made if each["kind"].startswith("PodMonitor")]
    assert monitor["spec"]["selector"] == {"matchLabels": SELECTOR}
    (endpoint,) = monitor["spec"].get("podMetricsEndpoints") or monitor["spec"]["endpoints"]
    assert (endpoint["port"], endpoint["path"]) == ("health", "/metrics")
    (rules,) = [each for each in made if each["kind"] in ("PrometheusRule", "Rules")]
    assert [group["interval"] for group in rules["spec"]["groups"]] == ["30s"], "Google's asks for one"


def test_only_who_scrapes_reaches_metrics_and_reviews_come_from_anywhere() -> None:
    def incoming(metrics: str) -> list[dict[str, object]]:
        policy = reach(
            stack(metrics=metrics),
            "gang-admission",
            namespace="muster-system",
            selector=SELECTOR,
            metrics="health",
            open_to_all=["webhooks"],
        )
        found: list[dict[str, object]] = policy["spec"]["ingress"]
        return found

    reviews, metrics = incoming("annotations")
    assert reviews == {"ports": [{"protocol": "TCP", "port": "webhooks"}]}
    assert metrics["from"] == [{"namespaceSelector": {"matchLabels": {"muster.dev/monitoring": "true"}}}]
    assert "gmp-system" in json.dumps(incoming("google")[1])


def test_what_cannot_work_is_refused_with_its_path() -> None:
    path = "muster:observability"
    assert refused(Provider.EKS, metrics="google") == [f"{path}.metrics"]
    assert refused(alerts=True) == [f"{path}.alerts"]
    assert refused(traces="collector:4318") == [f"{path}.traces"]
    assert refused(runbooks="docs/metrics.md#alerts") == [f"{path}.runbooks"]
    assert refused(sample=2, sampling=1) == [f"{path}.sample", f"{path}.sampling"]


@pytest.mark.parametrize("mode", ["builtin", "off"])
def test_a_stack_without_the_controller_cannot_ask_for_alerts_about_it(mode: str) -> None:
    said = {"metrics": "prometheus-operator", "alerts": True, "dashboard": True, "traces": "http://c:4318"}
    assert [*new_mistakes(Provider.EXISTING, gangAdmission=mode, observability=said)] == [
        f"muster:observability.{key}" for key in ("alerts", "dashboard", "traces")
    ]
    new_stack(Provider.EXISTING, gangAdmission=mode, observability={"metrics": "prometheus-operator"})


def test_an_alert_links_to_the_address_that_the_stack_names() -> None:
    page = "https://docs.example.com/metrics.html"
    wanted = stack(metrics="prometheus-operator", alerts=True, runbooks=page)
    made = [each for found in objects(wanted, selector=SELECTOR, port="health").values() for each in found]
    (rules,) = [each for each in made if each["kind"] == "PrometheusRule"]
    listed = rules["spec"]["groups"][0]["rules"]
    assert [each["annotations"]["runbook_url"] for each in listed] == [
        f"{page}#{each['alert'].lower()}" for each in listed
    ]


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_every_expression_is_about_metrics_and_labels_that_there_are(name: str) -> None:
    expression = EXPRESSIONS[name]
    for opening, closing in ("()", "{}", "[]"):
        assert expression.count(opening) == expression.count(closing)
    labels = {each.name: set(each.labels) for each in registered()} | {"process_resident_memory_bytes": set()}
    metrics = [re.sub("_bucket$", "", metric) for metric in re.findall(r"([a-z_]+)\{", expression)]
    assert metrics
    assert set(metrics) <= labels.keys()
    for grouped in re.findall(r"by \(([a-z_, ]+)\)", expression):
        assert set(grouped.split(", ")) <= labels[metrics[0]] | {"le", "pod"}


def test_quota_may_be_held_for_as_long_as_the_policy_allows() -> None:
    hours = GangPolicy(queue_timeout=timedelta(hours=2), provision_timeout=timedelta(hours=1))
    (held,) = [alert for alert in alerts(hours) if alert.name == "MusterQuotaHeldTooLong"]
    assert held.expr.endswith(f"> {3 * 3600 + 600}")


def test_panels_do_not_lie_over_one_another() -> None:
    places = [tuple(panel["gridPos"].values()) for panel in dashboard()["panels"]]
    assert len(set(places)) == len(PANELS)
    assert json.loads(json.dumps(dashboard())) == dashboard()
