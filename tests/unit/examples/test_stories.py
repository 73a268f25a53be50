"""The stories hold: their stacks are stacks, golden files say what is rendered, the work fits both."""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from examples.stories.__main__ import RENDERED, STACK, rendered, stories
from model.kai.priorities import effective
from model.kuberay import OLDEST_WITH_KAI
from model.queues import Team
from model.render import queues
from model.stack import Scheduler, Stack
from stackconfig import load
from tests.unit.model.go_modules import source_of
from tests.unit.model.openapi_check import mistakes

_STORIES: Final = stories()
_KUBERAY: Final = "github.com/ray-project/kuberay/ray-operator@v1.6.0"
_QUEUE_LABEL: Final = {
    Scheduler.KAI: "kai.scheduler/queue",
    Scheduler.KUEUE: "kueue.x-k8s.io/queue-name",
}
_PRIORITY_LABEL: Final = {
    Scheduler.KAI: "priorityClassName",
    Scheduler.KUEUE: "kueue.x-k8s.io/priority-class",
}
_CLUSTER: Final = {"RayCluster": (), "RayJob": ("rayClusterSpec",), "RayService": ("rayClusterConfig",)}


def _work() -> Iterator[Any]:
    for story in _STORIES:
        for path in sorted(story.glob("*.yaml")):
            if path.name not in (STACK, RENDERED):
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
        known = {priority.name for priority in effective(stack.priorities)}
    else:
        allowed = [team.local_queue]
        known = {priority.name for priority in stack.priorities}
    assert labels[_QUEUE_LABEL[stack.scheduler]] in allowed
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
        # KubeRay refuses its default with KAI; see model/kuberay.py for since when it knows KAI at all.
        assert item["spec"]["submissionMode"] in ("HTTPMode", "SidecarMode"), OLDEST_WITH_KAI
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


@cache
def _ray_schema(kind: str) -> dict[str, Any]:
    path = source_of(_KUBERAY, f"config/crd/bases/ray.io_{kind.lower()}s.yaml")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    definition = yaml.load(path.read_text(), loader)  # noqa: S506 - both are safe loaders
    versions = {each["name"]: each for each in definition["spec"]["versions"]}
    schema: dict[str, Any] = versions["v1"]["schema"]["openAPIV3Schema"]
    return schema
