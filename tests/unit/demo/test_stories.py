"""The stories hold: their stacks are stacks, golden files say what is rendered, the work fits both."""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from examples.stories.__main__ import BEFORE, RENDERED, STACK, rendered, stories
from muster.config import load
from muster.model.queues import Team
from muster.model.stack import Scheduler, Stack
from muster.preview.compare.diff import compare
from muster.render import queues
from muster.render.kueue.queues import local_queues
from tests.unit.model.go_modules import source_of
from tests.unit.model.openapi_check import mistakes

_STORIES: Final = stories()
_KUBERAY: Final = "github.com/ray-project/kuberay/ray-operator@v1.6.2"
_QUEUE_LABEL: Final = {Scheduler.KAI: "kai.scheduler/queue", Scheduler.KUEUE: "kueue.x-k8s.io/queue-name"}
_PRIORITY_LABEL: Final = {
    Scheduler.KAI: "priorityClassName",
    Scheduler.KUEUE: "kueue.x-k8s.io/priority-class",
}
_CLUSTER: Final = {"RayCluster": (), "RayJob": ("rayClusterSpec",), "RayService": ("rayClusterConfig",)}


def _work() -> Iterator[Any]:
    for story in _STORIES:
        for path in sorted(story.glob("*.yaml")):
            if path.name not in (STACK, RENDERED, BEFORE):
                for item in yaml.safe_load_all(path.read_text()):
                    yield pytest.param(story, item, id=f"{story.name}/{path.stem}")


@cache
def _stack(story: Path) -> Stack:
    return load(story / STACK)


def _owner(stack: Stack, item: dict[str, Any]) -> Team:
    return next(team for _, team in stack.teams() if team.namespace == item["metadata"]["namespace"])


def _cluster(item: dict[str, Any]) -> dict[str, Any]:
    spec = item["spec"]
    for key in _CLUSTER[item["kind"]]:
        spec = spec[key]
    return dict(spec)


@pytest.mark.parametrize("story", _STORIES, ids=lambda story: story.name)
def test_what_is_rendered_is_what_the_story_shows(story: Path) -> None:
    """`python -m examples.stories` writes the files anew."""
    golden = list(yaml.safe_load_all((story / RENDERED).read_text()))
    assert golden == json.loads(json.dumps(rendered(story)))


@pytest.mark.parametrize(("story", "item"), list(_work()))
def test_work_names_a_queue_and_a_priority_of_its_team(story: Path, item: dict[str, Any]) -> None:
    stack, labels = _stack(story), item["metadata"]["labels"]
    team = _owner(stack, item)
    if stack.scheduler is Scheduler.KAI:
        named = queues.names_by_team(stack)[team.name]
        allowed = [named] if isinstance(named, str) else list(named.values())
        known = {priority.name for priority in stack.all_priorities}
    else:
        allowed = [name for _, name in local_queues(team, team)]
        known = {priority.name for priority in stack.priorities}
    assert labels[_QUEUE_LABEL[stack.scheduler]] in allowed
    if stack.priorities:
        assert labels[_PRIORITY_LABEL[stack.scheduler]] in (team.priorities or known)


@pytest.mark.parametrize(("story", "item"), list(_work()))
def test_ray_takes_the_work_and_the_scheduler_its_way_of_submitting(
    story: Path, item: dict[str, Any]
) -> None:
    if item["kind"] not in _CLUSTER:
        return
    assert mistakes(item, _ray_schema(item["kind"])) == []
    assert _cluster(item)["authOptions"] == {"mode": "token"}
    if item["kind"] == "RayJob":
        # KubeRay refuses its default, K8sJobMode, with KAI.
        assert item["spec"]["submissionMode"] in ("HTTPMode", "SidecarMode")
        assert item["spec"]["shutdownAfterJobFinishes"] is True


def test_a_head_with_a_gpu_and_four_halves_are_five_pods_and_three_gpus() -> None:
    folder = next(story for story in _STORIES if story.name == "hierarchical-queues")
    spec = yaml.safe_load((folder / "raycluster-gang.yaml").read_text())["spec"]
    groups = [spec["headGroupSpec"], *(group for group in spec["workerGroupSpecs"])]
    pods = [group for group in groups for _ in range(group.get("replicas", 1))]
    whole = [pod["template"]["spec"]["containers"][0]["resources"]["requests"] for pod in pods]
    parts = [
        pod["template"].get("metadata", {}).get("annotations", {}).get("gpu-fraction", 0) for pod in pods
    ]
    assert len(pods) == 5
    assert sum(int(each.get("nvidia.com/gpu", 0)) for each in whole) + sum(map(float, parts)) == 3


def test_the_guides_own_names_and_figures_are_what_kueue_is_told() -> None:
    objects = {(each["kind"], each["metadata"]["name"]): each for each in rendered(_story("rayjob-gang"))}
    queue = objects["ClusterQueue", "cluster-queue"]["spec"]
    (group,) = queue["resourceGroups"]
    assert group["coveredResources"] == ["cpu", "memory", "nvidia.com/gpu"]
    assert "cohortName" not in queue
    assert queue["admissionChecksStrategy"] == {
        "admissionChecks": [{"name": "rayjob-gpu", "onFlavors": ["default-flavor"]}]
    }
    assert ("ResourceFlavor", "default-flavor") in objects
    check = objects["AdmissionCheck", "rayjob-gpu"]["spec"]
    assert check["controllerName"] == "kueue.x-k8s.io/provisioning-request"
    assert check["parameters"]["name"] == "rayjob-gpu-config"
    config = objects["ProvisioningRequestConfig", "rayjob-gpu-config"]["spec"]
    assert config["provisioningClassName"] == "queued-provisioning.gke.io"
    assert config["managedResources"] == ["nvidia.com/gpu"]
    local = objects["LocalQueue", "user-queue"]
    assert (local["metadata"]["namespace"], local["spec"]["clusterQueue"]) == ("default", "cluster-queue")


def test_production_goes_first_and_ends_what_is_lower() -> None:
    objects = {(each["kind"], each["metadata"]["name"]): each for each in rendered(_story("prod-before-dev"))}
    values = {name: objects["WorkloadPriorityClass", f"{name}-priority"]["value"] for name in ("prod", "dev")}
    assert values == {"prod": 1000, "dev": 100}
    assert (
        objects["ClusterQueue", "cluster-queue"]["spec"]["preemption"]["withinClusterQueue"]
        == "LowerPriority"
    )


def test_a_pull_request_of_two_lines_says_who_gains_and_who_loses() -> None:
    story = _story("pull-request")
    before, after = ((story / name).read_text().splitlines() for name in (BEFORE, STACK))
    assert len([line for line in after if line not in before and not line.lstrip().startswith("#")]) == 2
    changes = compare(load(story / BEFORE), load(story / STACK))
    said = {change.name: (change.before.own.gpus, change.after.own.gpus) for change in changes.quotas}  # type: ignore[union-attr]  # both sides are there
    assert (said["speech"], said["vision"]) == ((4, 6), (6, 4))
    assert changes.preemption


def _story(name: str) -> Path:
    return next(story for story in _STORIES if story.name == name)


@cache
def _ray_schema(kind: str) -> dict[str, Any]:
    path = source_of(_KUBERAY, f"config/crd/bases/ray.io_{kind.lower()}s.yaml")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    definition = yaml.load(path.read_text(), loader)  # noqa: S506 - both are safe loaders
    versions = {each["name"]: each for each in definition["spec"]["versions"]}
    schema: dict[str, Any] = versions["v1"]["schema"]["openAPIV3Schema"]
    return schema
