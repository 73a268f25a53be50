"""The whole program of an adopted cluster: what it puts there beside the queues that are there already."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from muster.adopt.adoption import adopt
from muster.artifacts import resolved
from muster.components.program import make
from muster.config import load
from muster.model import names
from muster.model.programs import Program
from tests.mocks.recorder import run
from tests.unit.adopt.kai_clusters import DEEP, PROGRAM, kai_cluster

_EXAMPLE: Final = Path(__file__).parents[2] / "examples" / "adopted" / "Pulumi.adopted.yaml"


@pytest.fixture
def _kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = {
        "contexts": [{"name": "prod", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": "https://k"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))


def _objects(inputs: Any) -> Iterator[dict[str, Any]]:
    for text in inputs["manifests"].values():
        yield from json.loads(text).values()


@pytest.mark.usefixtures("_kubeconfig")
def test_namespaces_get_queues_alone_and_no_program_is_installed() -> None:
    stack = load(_EXAMPLE)
    artifacts = resolved.resolve_artifacts(stack, name="adopted")
    items = yaml.safe_load((_EXAMPLE.parent / "cluster.yaml").read_text())["items"]
    programs = [each for each in items if each["kind"] == "Deployment"]
    found = run(lambda: make(stack, artifacts=artifacts, source=_EXAMPLE), existing=programs)
    bundles = {each.name: each for each in found.of("muster:k8s:Bundle") if each.name != "crds"}
    objects = [each for one in bundles.values() for each in _objects(one.inputs)]
    kinds = {(each["kind"], each["metadata"].get("namespace", "")) for each in objects}
    assert kinds == {
        ("ResourceFlavor", ""),
        ("WorkloadPriorityClass", ""),
        ("Cohort", ""),
        ("ClusterQueue", ""),
        *(("LocalQueue", each) for each in ("vision", "speech", "notebooks", "serving")),
        # The role that a team's members would have: nobody is bound to it.
        ("ClusterRole", ""),
        ("ValidatingAdmissionPolicy", ""),
        ("ValidatingAdmissionPolicyBinding", ""),
    }
    bindings = {
        each["metadata"]["name"]: each["spec"].get("matchResources", {}).get("namespaceSelector")
        for each in objects
        if each["kind"] == "ValidatingAdmissionPolicyBinding"
    }
    # Namespaces of Muster's teams alone: those of an adopted cluster have no such label.
    teams = {"matchExpressions": [{"key": names.TEAM_LABEL, "operator": "Exists"}]}
    assert bindings.pop("muster-ray") == teams
    # The others judge what Muster's own controller writes, and it is not there.
    assert all(name.startswith("muster-controller") for name in bindings)
    assert [each.type for each in found.resources if each.type.startswith("kubernetes:")] == []


@pytest.mark.usefixtures("_kubeconfig")
def test_a_cluster_with_kai_gets_its_queues_alone_and_no_program_is_installed(tmp_path: Path) -> None:
    file = tmp_path / "Pulumi.adopted.yaml"
    kuberay = {
        "metadata": {
            "name": "kuberay-operator",
            "namespace": "ray-system",
            "labels": {"app.kubernetes.io/name": "kuberay-operator", "app.kubernetes.io/version": "v1.6.2"},
        }
    }
    live = kai_cluster(DEEP)
    live = replace(live, programs={**live.programs, Program.KUBERAY: (kuberay,)})
    file.write_text(adopt(live, {"name": "prod", "context": "prod"}).text)
    stack = load(file)
    artifacts = resolved.resolve_artifacts(stack, name="adopted")
    existing = [{"apiVersion": "apps/v1", "kind": "Deployment", **each} for each in (PROGRAM, kuberay)]
    found = run(lambda: make(stack, artifacts=artifacts, source=file), existing=existing)
    bundles = {each.name: each for each in found.of("muster:k8s:Bundle") if each.name != "crds"}
    objects = [each for one in bundles.values() for each in _objects(one.inputs)]
    kinds = {each["kind"] for each in objects}
    assert kinds >= {"Queue", "SchedulingShard", "Topology", "PriorityClass"}
    assert kinds <= {
        *("Queue", "SchedulingShard", "Topology", "PriorityClass", "ClusterRole"),
        *("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"),
    }
    queues = {each["metadata"]["name"] for each in objects if each["kind"] == "Queue"}
    assert queues == {each["metadata"]["name"] for each in DEEP if each["kind"] == "Queue"}
    assert [each.type for each in found.resources if each.type.startswith("kubernetes:")] == []
