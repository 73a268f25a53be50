"""The stories of `muster local demo --scheduler kai` on nodes without machines, with its stack's queues."""

import io
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from muster.config import load
from muster.local.demo import follower, scenarios
from muster.local.demo.cluster import Cluster
from muster.local.demo.events import Screen
from muster.local.demo.follower import Follower
from muster.local.simulated_cloud import names as cloud
from muster.model.names import GANG_GATE
from muster.model.stack import Stack
from muster.paths import EXAMPLES, KAI_POOLS
from muster.render.gang import gang_policy
from tests.integration.real_kai.world import World

_ROOT = Path(__file__).resolve().parents[3]
_GANGS = ("raycluster.yaml", "rayservice.yaml")
_STORY_SECONDS = 240


@pytest.fixture(scope="module")
def stack() -> Stack:
    return load(_ROOT / "stacks" / "Pulumi.local-kai.yaml")


@pytest.fixture
def play(
    world: World, stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], list[str]]:
    """Plays a story, and returns its lines."""
    monkeypatch.setattr(follower, "EXAMPLES", _with_gates(tmp_path))
    for team in ("team-a", "team-b"):
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": team}}
        world.server.apply(space, f"/api/v1/namespaces/{team}")
    _offer(world)
    world.govern(gang_policy(stack))
    world.start_ours()

    def played(name: str) -> list[str]:
        story, out = scenarios.STORIES[name], io.StringIO()
        cluster = Cluster(str(world.server.kubeconfig()))
        following = Follower(
            cluster,
            Screen(as_json=False, out=out),
            namespace=story.namespace,
            others=story.others,
            timeout=_STORY_SECONDS,
        )
        try:
            story.play(following, scenarios.Images(ray="none", python=""), "")
        except follower.StoryError as error:
            pytest.fail(f"{error}\n{out.getvalue()}\n{world.explained()}")
        finally:
            following.clean_up()
        return out.getvalue().splitlines()

    return played


def _with_gates(folder: Path) -> Path:
    """The examples as our webhook leaves them."""
    shutil.copytree(EXAMPLES / "kai", folder / "kai")
    for name in _GANGS:
        file = folder / "kai" / name
        gang: dict[str, Any] = yaml.safe_load(file.read_text())
        cluster = gang["spec"].get("rayClusterConfig", gang["spec"])
        for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
            group["template"]["spec"]["schedulingGates"] = [{"name": GANG_GATE}]
        file.write_text(yaml.safe_dump(gang))
    return folder


def _offer(world: World) -> None:
    offered = KAI_POOLS.read_text().replace("kind: real", "kind: kwok")
    body: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": cloud.POOLS_CONFIG, "namespace": cloud.NAMESPACE},
        "data": {cloud.POOLS_KEY: offered},
    }
    path = f"/api/v1/namespaces/{cloud.NAMESPACE}/configmaps"
    world.server.apply(body, f"{path}/{cloud.POOLS_CONFIG}")
    faults = {**body, "metadata": {**body["metadata"], "name": cloud.FAULTS_CONFIG}, "data": {}}
    world.server.apply(faults, f"{path}/{cloud.FAULTS_CONFIG}")


def test_each_priority_preempts_the_one_below_and_none_preempts_build(
    play: Callable[[str], list[str]],
) -> None:
    lines = play("priorities")
    deleted = _line(lines, "delete raycluster build")
    gone = [number for number, line in enumerate(lines) if "is gone" in line]
    assert not [number for number in gone if " build " in lines[number] and number < deleted]
    for victim in ("train", "build-preemptible"):
        assert _line(lines, f"{victim} was evicted as a whole") < deleted
    assert sum("pod inference-" in line and " starts on node " in line for line in lines[deleted:]) == 2
    last = _line(lines, "delete raycluster build-preemptible")
    assert sum("pod train-" in line and " starts on node " in line for line in lines[last:]) == 2


def test_a_department_takes_back_its_gpus_from_a_whole_gang(play: Callable[[str], list[str]]) -> None:
    lines = play("reclaim")
    evicted, ended = _line(lines, "extra was evicted as a whole"), _line(lines, "delete raycluster extra")
    assert sum("pod extra-" in line and "is gone" in line for line in lines[:evicted]) == 3
    given = _line(lines, "delete raycluster owner")
    assert sum("pod extra-" in line and " starts on node " in line for line in lines[given:]) == 3
    assert not [line for line in lines[:ended] if "pod own-" in line and "is gone" in line]


def test_a_served_model_evicts_training_whole_and_training_returns(
    play: Callable[[str], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    # No container runs on these nodes, so no model answers: tests/integration/local does that part.
    monkeypatch.setattr(scenarios, "_serves", lambda *_: True)
    monkeypatch.setattr(scenarios, "_complete", lambda *_: True)
    lines = play("inference")
    evicted, ended = _line(lines, "train was evicted as a whole"), _line(lines, "delete rayservice model")
    assert sum("pod train-" in line and "is gone" in line for line in lines[:evicted]) == 3
    assert sum("pod model-" in line and " starts on node " in line for line in lines[:evicted]) == 2
    assert not [line for line in lines[evicted:ended] if "pod train-" in line and " starts on " in line]
    assert sum("pod train-" in line and " starts on node " in line for line in lines[ended:]) == 3


def _line(lines: list[str], text: str) -> int:
    return next(number for number, line in enumerate(lines) if text in line)
