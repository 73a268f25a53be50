"""What charts are told: only values that their versions have, and no control pod on a GPU node."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pulumi
import pytest
import yaml

from muster import config
from muster.artifacts.catalogue import catalogue
from muster.artifacts.oci.registry import digest_of
from muster.artifacts.resolved import FOLDER
from muster.components import gang_pods, kuberay
from muster.components.gang_pods import sizing_of
from muster.components.gpu_operator import release
from muster.components.schedulers import kueue
from muster.config.edit import template
from muster.model import gpu_operator, names
from muster.model.clusters import Provider
from muster.model.programs import Chart
from muster.model.stack import Scheduler, Stack
from muster.model.work import SERVED, Work
from tests.mocks.recorder import run
from tests.unit.model.chart_values import OF_SUBCHARTS, published, read, unknown_paths
from tests.unit.model.go_modules import KUEUE, source_of

_STACKS = sorted((Path(__file__).parents[2] / "stacks").glob("Pulumi.*.yaml"))
IMAGE = "registry.test/image@sha256:" + "ab" * 32
# Agents of GPU nodes: they have to run there.
_AGENTS = ("daemonsets", "node-feature-discovery.worker")


def _fresh(provider: Provider) -> Stack:
    return config.parse(yaml.safe_load(template("here", provider))["config"], source="x")


STACKS: dict[str, Stack] = {path.stem: config.load(path) for path in _STACKS} | {
    f"fresh-{provider}": _fresh(provider) for provider in Provider
}


def chart_values(stack: Stack) -> dict[str, Mapping[str, Any]]:
    """Chart -> what this stack tells it."""
    size = sizing_of(stack)
    operator = kuberay.Operator(
        image=IMAGE,
        scheduler=stack.scheduler,
        resources=size.kuberay.resources(),
        node_selector=size.node_selector(),
    )
    found: dict[str, Mapping[str, Any]] = {"kuberay": operator.chart_values()}
    if stack.scheduler is Scheduler.KUEUE:
        found["kueue"] = kueue.values(stack, image=IMAGE, sizing=size)
    wanted = gpu_operator.installation(stack)
    if wanted is not None:
        found["gpu-operator"] = gpu_operator.values(wanted, control_nodes=size.node_selector())
    return found


def pod_specs(stack: Stack) -> dict[str, Mapping[str, Any]]:
    """Our own pods."""
    size = sizing_of(stack)
    made = {
        "manager": gang_pods.manager(IMAGE, size, stack),
        "webhooks": gang_pods.webhooks(IMAGE, size, stack.observability),
    }
    return {name: deployment["template"]["spec"] for name, deployment in made.items()}


def said(values: Any, key: str, above: str = "") -> Iterator[tuple[str, Any]]:
    """Every value under `key`, with the path above it."""
    if isinstance(values, Mapping):
        for name, value in values.items():
            if name == key:
                yield above, value
            else:
                yield from said(value, key, f"{above}.{name}" if above else name)


def tolerates_gpus(toleration: Mapping[str, Any]) -> bool:
    """Whether a pod with it may stand on a GPU pool's node."""
    return toleration.get("key") in (None, names.GPU_TAINT_KEY, names.GKE_QUEUED_TAINT_KEY)


def charts_read() -> list[tuple[str, Path]]:
    found = [(name, published(entry.values)) for name, entry in catalogue().charts.items() if entry.values]
    return [(name, path) for name, path in found if path.is_file()]


@pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)
def test_every_value_exists_in_the_charts_version(stack: Stack) -> None:
    """Compares nothing where the published values are not beside the checkout."""
    told = chart_values(stack)
    for name, path in charts_read():
        unknown = set(unknown_paths(told.get(name, {}), read(path))) - OF_SUBCHARTS.get(name, frozenset())
        assert unknown == set(), name


@pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)
def test_every_value_exists_in_kueues_chart(stack: Stack) -> None:
    theirs = read(source_of(KUEUE, "charts/kueue/values.yaml"))
    assert list(unknown_paths(chart_values(stack).get("kueue", {}), theirs)) == []


def test_kueue_sees_what_was_filled_into_a_set_before_it_copies_it() -> None:
    stack = next(each for each in STACKS.values() if each.scheduler is Scheduler.KUEUE)
    served = chart_values(replace(stack, work=(*SERVED, Work.LWS)))["kueue"]
    assert served["mutatingWebhook"] == {"reinvocationPolicy": "IfNeeded"}
    assert list(unknown_paths(served, read(source_of(KUEUE, "charts/kueue/values.yaml")))) == []
    assert "mutatingWebhook" not in chart_values(stack)["kueue"]


def test_a_value_that_a_chart_does_not_have_is_found() -> None:
    theirs = {"a": {"b": 1}, "free": {}}
    assert list(unknown_paths({"a": {"b": 2}, "free": {"any": 1}}, theirs)) == []
    assert list(unknown_paths({"a": {"c": 2}, "d": 1}, theirs)) == ["a.c", "d"]
    assert list(unknown_paths({"resources": {"requests": {}}}, {"resources": {"limits": {}}})) == []


@pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)
def test_no_control_pod_tolerates_a_gpu_pool(stack: Stack) -> None:
    everything = {**chart_values(stack), **pod_specs(stack)}
    for name, values in everything.items():
        for path, tolerations in said(values, "tolerations"):
            if not path.startswith(_AGENTS):
                assert not any(tolerates_gpus(each) for each in tolerations), f"{name}: {path}"


def test_no_chart_tolerates_gpu_pools_by_itself() -> None:
    for name, path in charts_read():
        for place, tolerations in said(read(path), "tolerations"):
            if not place.startswith(_AGENTS):
                assert not any(tolerates_gpus(each) for each in tolerations or ()), f"{name}: {place}"


@pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)
def test_control_pods_stay_on_the_system_pool_where_there_is_one(stack: Stack) -> None:
    wanted = sizing_of(stack).node_selector()
    assert wanted or stack.cluster.provider is Provider.EXISTING
    for name, values in {**chart_values(stack), **pod_specs(stack)}.items():
        selectors = [selector for _, selector in said(values, "nodeSelector")]
        assert selectors, name
        for selector in selectors:
            assert wanted.items() <= selector.items(), name


def test_helm_is_handed_the_file_of_a_chart_whose_digest_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / "thing-1.2.3.tgz").write_bytes(b"a chart")
    home = "https://charts.test"
    chart = Chart(
        name="thing", reference="thing", version="1.2.3", repository=home, digest=digest_of(b"a chart")
    )
    options = pulumi.ResourceOptions()
    made = run(
        lambda: release("thing", chart, release_name="thing", namespace="here", values={}, opts=options)
    )
    (inputs,) = (each.inputs for each in made.of("kubernetes:helm.sh/v3:Release"))
    assert inputs["chart"] == f"{FOLDER}/thing-1.2.3.tgz"
    assert not inputs.keys() & {"repositoryOpts", "version"}
