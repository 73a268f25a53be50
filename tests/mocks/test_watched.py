"""Our pods stand in twos, apart, within reach of few, and are watched as the stack says."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from muster.components.gang_authority import MANAGER, WEBHOOKS
from muster.components.gang_pods import manager, sizing_of, webhooks
from muster.config import load
from muster.model.observability import Observability, Scraping
from muster.model.stack import ArtifactSource, Stack
from tests.mocks import shipped
from tests.mocks.recorder import Program
from tests.mocks.test_platform import BUNDLE, DEPLOYMENT, LOCAL, _kubeconfig, artifacts

__all__ = ["_kubeconfig", "artifacts"]
STACKS = sorted(LOCAL.parent.glob("Pulumi.*.yaml"))
IMAGE = "registry.test/image@sha256:" + "ab" * 32
BUDGET = "kubernetes:policy/v1:PodDisruptionBudget"
NETWORK_POLICY = "kubernetes:networking.k8s.io/v1:NetworkPolicy"


def programs(stack: Stack) -> Iterator[tuple[str, dict[str, Any]]]:
    yield MANAGER, manager(IMAGE, sizing_of(stack), stack)
    yield WEBHOOKS, webhooks(IMAGE, sizing_of(stack), stack.observability)


@pytest.mark.parametrize("path", STACKS, ids=lambda path: path.stem)
def test_two_of_each_stand_apart_wherever_there_is_room(path: Path) -> None:
    stack = load(path)
    for name, spec in programs(stack):
        if stack.artifacts is ArtifactSource.UPSTREAM:
            assert spec["replicas"] == 2, name
        pod = spec["template"]["spec"]
        (wish,) = pod["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
        assert wish["podAffinityTerm"]["topologyKey"] == "kubernetes.io/hostname"
        (spread,) = pod["topologySpreadConstraints"]
        assert spread["topologyKey"] == "topology.kubernetes.io/zone"
        for selector in (wish["podAffinityTerm"]["labelSelector"], spread["labelSelector"]):
            assert selector["matchLabels"] == spec["template"]["metadata"]["labels"]


@pytest.fixture(scope="module")
def watched(artifacts: Any, _kubeconfig: None) -> Program:
    stack = replace(
        load(LOCAL),
        observability=Observability(
            metrics=Scraping.OPERATOR, alerts=True, traces="http://collector:4318", sample=0.25
        ),
    )
    return shipped.platform(stack, artifacts)


@pytest.fixture(scope="module")
def plain(artifacts: Any, _kubeconfig: None) -> Program:
    return shipped.platform(load(LOCAL), artifacts)


def environment(program: Program, name: str) -> dict[str, str]:
    spec = program.one(DEPLOYMENT, f"{name}-deployment").inputs["spec"]["template"]["spec"]
    return {each["name"]: each.get("value", "") for each in spec["containers"][0]["env"]}


def test_one_of_each_may_be_taken_at_a_time(plain: Program) -> None:
    selectors = []
    for budget in plain.of(BUDGET):
        assert budget.inputs["spec"]["maxUnavailable"] == 1
        # Two that are not ready (a kind is missing) serve nobody: they must not keep a node from a drain.
        assert budget.inputs["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"
        selectors.append(budget.inputs["spec"]["selector"]["matchLabels"])
    labels = [each.inputs["spec"]["template"]["metadata"]["labels"] for each in plain.of(DEPLOYMENT)]
    assert sorted(map(str, selectors)) == sorted(map(str, labels))


def test_a_network_policy_covers_the_pods_of_both(plain: Program) -> None:
    policy = _policy_of(plain, "muster-system")
    covered = policy.inputs["spec"]["podSelector"]["matchLabels"]
    named = {rule["ports"][0]["port"] for rule in policy.inputs["spec"]["ingress"]}
    for deployment in plain.of(DEPLOYMENT):
        template = deployment.inputs["spec"]["template"]
        assert covered.items() <= template["metadata"]["labels"].items()
        assert {port["name"] for port in template["spec"]["containers"][0]["ports"]} <= named


@pytest.mark.parametrize(
    ("namespace", "metrics", "open_to_all"),
    [("kueue-system", 8443, {8082, 9443}), ("ray-system", 8080, set[int]())],
)
def test_only_scrapers_reach_the_metrics_of_kueue_and_kuberay(
    plain: Program, namespace: str, metrics: int, open_to_all: set[int]
) -> None:
    spec = _policy_of(plain, namespace).inputs["spec"]
    assert spec["podSelector"] == {}
    anyone = {int(rule["ports"][0]["port"]) for rule in spec["ingress"] if "from" not in rule}
    assert anyone == open_to_all
    (scraped,) = [rule for rule in spec["ingress"] if "from" in rule]
    assert [int(port["port"]) for port in scraped["ports"]] == [metrics]
    assert scraped["from"] == [{"namespaceSelector": {"matchLabels": {"muster.dev/monitoring": "true"}}}]


def _policy_of(program: Program, namespace: str) -> Any:
    (found,) = [
        each for each in program.of(NETWORK_POLICY) if each.inputs["metadata"].get("namespace") == namespace
    ]
    return found


def test_without_a_word_pods_are_annotated_and_nothing_is_traced(plain: Program) -> None:
    for deployment in plain.of(DEPLOYMENT):
        template = deployment.inputs["spec"]["template"]
        noted = template["metadata"]["annotations"]
        ports = {each["name"]: each["containerPort"] for each in template["spec"]["containers"][0]["ports"]}
        assert noted["prometheus.io/port"] == str(int(ports["health"]))
    assert not [name for name in environment(plain, MANAGER) if name.startswith("OTEL")]
    assert not [each for each in plain.of(BUNDLE) if each.name == "observability"]


def test_monitors_and_alerts_are_made_where_asked_for_after_their_namespace(watched: Program) -> None:
    bundle = watched.one(BUNDLE, "observability")
    kinds = {
        label.partition("/")[0] for text in bundle.inputs["manifests"].values() for label in json.loads(text)
    }
    assert kinds == {"PodMonitor", "PrometheusRule"}
    namespace = watched.one("kubernetes:core/v1:Namespace", "muster-system-namespace")
    assert watched.comes_after(bundle, namespace)
    for deployment in watched.of(DEPLOYMENT):
        assert "annotations" not in deployment.inputs["spec"]["template"]["metadata"]


def test_both_programs_are_told_where_traces_go(watched: Program) -> None:
    for name in (MANAGER, WEBHOOKS):
        told = environment(watched, name)
        assert told["OTEL_EXPORTER_OTLP_ENDPOINT"] == "http://collector:4318"
        assert (told["OTEL_SERVICE_NAME"], told["OTEL_TRACES_SAMPLER_ARG"]) == (name, "0.25")
