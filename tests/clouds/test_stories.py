"""Published walk-throughs on the real engine: each field is the published one or differs on purpose."""

import json
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from examples.stories.__main__ import BEFORE, RENDERED, STACK, stories
from tests.clouds.engine import Run, checkout, workspace
from tests.clouds.handed import NOBODY
from tests.clouds.stack_files import completed
from tests.clouds.standin.serve import Clouds
from tests.clouds.stories.comparison import Story, stale, story, unexplained

_BUNDLE: Final = "muster:k8s:Bundle"
# The provider's types, by what the stories call them, and the input that has the name.
_CLOUD: Final = {
    "gcp:container/cluster:Cluster": ("Cluster", "name"),
    "gcp:container/nodePool:NodePool": ("NodePool", "name"),
    "aws:eks/cluster:Cluster": ("Cluster", "name"),
    "aws:eks/nodeGroup:NodeGroup": ("NodePool", "nodeGroupName"),
    "kubernetes:helm.sh/v3:Release": ("Release", "name"),
}
_STORIES: Final = {folder.name: folder for folder in stories()}
_PUBLISHED: Final = ("hierarchical-queues", "inference-first", "prod-before-dev", "rayjob-gang")

Json = dict[str, Any]
Made = Callable[[Path], dict[str, Json]]


@pytest.fixture(scope="module")
def made(serving: Clouds, charts: Path, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """What the engine would make of a stack file, previewed once."""

    @cache
    def of(stack: Path) -> dict[str, Json]:
        NOBODY.to(serving)
        folder = tmp_path_factory.mktemp(stack.parent.name)
        project = checkout(folder / "project", completed(stack, folder / f"Pulumi.{stack.stem}.yaml", charts))
        engine = workspace(folder / "ws", project, stack.stem, dict(serving.environment))
        engine.environment |= NOBODY.environment(folder, engine.environment["PATH"])
        engine.environment["KUBECONFIG"] = str(_kubeconfig(stack, folder))
        return _objects(engine.preview())

    return of


@pytest.mark.parametrize("name", _PUBLISHED)
def test_each_field_is_the_published_one_or_differs_on_purpose(name: str, made: Made) -> None:
    published, folder = story(name), _STORIES[name]
    ours = made(folder / STACK) | _work(folder)
    for entry in published.entries:
        assert entry.ours in ours, f"nothing is made in place of {entry.ours}"
        assert not unexplained(entry, ours[entry.ours]), entry.ours
        assert not stale(entry, ours[entry.ours]), entry.ours
    _assert_added(published, folder)


@pytest.mark.parametrize("name", sorted(_STORIES))
def test_the_engine_makes_what_the_story_shows(name: str, made: Made) -> None:
    found = made(_STORIES[name] / STACK)
    for shown in yaml.safe_load_all((_STORIES[name] / RENDERED).read_text()):
        assert found[_place(shown)] == shown


def test_the_pull_request_changes_the_two_teams_alone(made: Made) -> None:
    folder = _STORIES["pull-request"]
    before, after = (made(folder / file) for file in (BEFORE, STACK))
    assert before.keys() == after.keys()
    changed = {place for place in before if before[place] != after[place]}
    # speech may use a further priority, and the controller reads the queues as one tree.
    queues = {"ClusterQueue/speech", "ClusterQueue/vision"}
    assert changed == queues | {"Namespace/speech", "QueueTree/default"}


def _assert_added(published: Story, folder: Path) -> None:
    """Of the scheduler's objects, those that a guide has no counterpart of."""
    shown = {_place(each) for each in yaml.safe_load_all((folder / RENDERED).read_text())}
    assert shown - {entry.ours for entry in published.entries} == published.added.keys()


def _objects(run: Run) -> dict[str, Json]:
    found: dict[str, Json] = {}
    for step in run.steps:
        if step.type == _BUNDLE:
            for text in step.inputs["manifests"].values():
                found |= {_place(each): each for each in _parsed(text)}
        elif step.type in _CLOUD:
            kind, name = _CLOUD[step.type]
            found[f"{kind}/{step.inputs[name]}"] = dict(step.inputs)
    return found


def _parsed(text: str) -> Iterable[Json]:
    """A Bundle's objects: ours under their names, or the YAML of others."""
    return json.loads(text).values() if text.startswith("{") else yaml.safe_load_all(text)


def _work(folder: Path) -> dict[str, Json]:
    files = [path for path in folder.glob("*.yaml") if path.name not in (STACK, RENDERED, BEFORE)]
    return {_place(each): each for path in files for each in yaml.safe_load_all(path.read_text())}


def _place(each: Json) -> str:
    metadata = each["metadata"]
    return "/".join(filter(None, (each["kind"], metadata.get("namespace"), metadata["name"])))


def _kubeconfig(stack: Path, folder: Path) -> Path:
    """For a stack on a cluster that exists: its context, of a server that does not answer."""
    cluster = yaml.safe_load(stack.read_text())["config"]["muster:cluster"]
    context = {"name": cluster.get("context", ""), "context": {"cluster": "absent", "user": "absent"}}
    file = folder / "kubeconfig"
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "absent", "cluster": {"server": f"https://{NOBODY.address}"}}],
        "users": [{"name": "absent", "user": NOBODY.credential}],
        "contexts": [context],
    }
    file.write_text(json.dumps(content))
    return file
