"""A KAI stack as the engine is told it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from muster.artifacts.catalogue import catalogue
from muster.artifacts.resolved import Artifacts
from muster.components.gang_pods import sizing_of
from muster.config import load
from muster.model.clusters import ExistingCluster
from muster.model.programs import Chart, ImageSource
from muster.model.stack import Stack
from muster.render.kai import chart_values
from tests.kai.definitions import data
from tests.mocks import shipped
from tests.mocks.recorder import Program

BUNDLE: Final = "muster:k8s:Bundle"
RELEASE: Final = "kubernetes:helm.sh/v3:Release"
_ROOT: Final = Path(__file__).parents[2]
# What a chart's values leave to whoever sets them.
_FREE: Final = ("global.nodeSelector",)


@pytest.fixture(scope="module")
def stack() -> Stack:
    """kai-prod in a cluster that is there."""
    cluster = ExistingCluster(name="kai-prod", context="muster")
    return replace(load(_ROOT / "stacks" / "Pulumi.kai-prod.yaml"), cluster=cluster)


@pytest.fixture(scope="module")
def program(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Program:
    folder = tmp_path_factory.mktemp("kai")
    (folder / "crd.yaml").write_text("kind: CustomResourceDefinition\n")
    names = ("kueue", "kuberay", "gang-admission")
    artifacts = Artifacts(
        source="test",
        charts={name: Chart(name=name, reference=f"oci://test/{name}") for name in ("kai", "kuberay")},
        kustomize={},
        crds={"provisioningrequests": folder / "crd.yaml"},
        images={name: f"registry.test/{name}@sha256:{'ab' * 32}" for name in names},
        programs={},
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KUBECONFIG", str(shipped.kubeconfig(folder)))
        return shipped.platform(stack, artifacts)


def _objects(program: Program, name: str) -> dict[str, Any]:
    manifests = program.one(BUNDLE, name).inputs["manifests"]
    return {key: each for text in manifests.values() for key, each in json.loads(text).items()}


def test_kai_stands_in_kueues_place(program: Program) -> None:
    assert [each.name for each in program.resources if "Kueue" in each.type] == []
    assert program.one(RELEASE, "kai").inputs["namespace"] == "kai-scheduler"
    assert program.one(RELEASE, "kuberay").inputs["values"]["batchScheduler"] == {"name": "kai-scheduler"}


def test_shards_come_after_the_chart_and_queues_after_the_shards(program: Program) -> None:
    release, shards = program.one(RELEASE, "kai"), program.one(BUNDLE, "kai-shards")
    departments, team = program.one(BUNDLE, "queues-departments"), program.one(BUNDLE, "serving")
    for later, earlier in ((shards, release), (departments, shards), (team, departments)):
        assert program.comes_after(later, earlier)
    assert program.comes_after(departments, program.one(BUNDLE, "priorities-train"))
    assert _objects(program, "kai-shards").keys() == {"SchedulingShard/default"}
    assert {"Namespace/serving", "Queue/serving"} <= _objects(program, "serving").keys()


def test_the_tree_is_there_to_any_depth(program: Program) -> None:
    queues = _objects(program, "queues-departments")
    assert {name: each["spec"].get("parentQueue") for name, each in queues.items()} == {
        "Queue/platform": None,
        "Queue/research": "platform",
        "Queue/product": "platform",
    }


def test_every_class_is_a_resource_of_its_own_since_its_value_cannot_change(program: Program) -> None:
    names = {each.name for each in program.of(BUNDLE) if each.name.startswith("priorities-")}
    assert names == {f"priorities-{each}" for each in ("train", "build-preemptible", "build", "inference")}


def _paths(values: Any, prefix: str = "") -> dict[str, Any]:
    if not isinstance(values, dict) or prefix in _FREE:
        return {prefix: values}
    found: dict[str, Any] = {}
    for key, value in values.items():
        found |= _paths(value, f"{prefix}.{key}" if prefix else key)
    return found


def test_every_value_is_one_of_the_charts_and_of_its_type(stack: Stack) -> None:
    folder = data("chart-values")
    if folder is None:
        return
    chart = yaml.safe_load((folder / catalogue().charts["kai"].values).read_text())
    values = chart_values(stack, node_selector={"muster.dev/pool": "system"}, replicas=2)
    for path, value in _paths(values).items():
        known = chart
        for key in path.split("."):
            assert key in known, path
            known = known[key]
        assert type(value) is type(known), path


def test_nothing_of_the_chart_needs_a_hook_or_makes_what_the_tree_makes(stack: Stack) -> None:
    values = chart_values(stack, node_selector={}, replicas=1)
    assert values["kaiConfig"] == {"render": True}
    off = ("kaiConfigDeployer", "topologyMigration", "postCleanup", "defaultShard", "defaultPriorityClasses")
    assert all(values[key] == {"enabled": False} for key in off)
    assert values["defaultQueue"] == {"createDefaultQueue": False}


def test_values_follow_the_stack(stack: Stack) -> None:
    values = chart_values(stack, node_selector=sizing_of(stack).node_selector(), replicas=2)["global"]
    assert values["gpuSharing"] is values["clusterAutoscaling"] is True
    assert values["nodePoolLabelKey"] == ""
    assert values["leaderElection"] is True
    local = load(_ROOT / "stacks" / "Pulumi.local.yaml")
    mirrored = replace(local, images=ImageSource(mirror="mirror.test/all"))
    values = chart_values(mirrored, node_selector={}, replicas=1)["global"]
    assert values["nodePoolLabelKey"] == "muster.dev/pool"
    assert values["registry"] == "mirror.test/all/kai-scheduler/kai-scheduler"
    assert values["leaderElection"] is values["gpuSharing"] is False
