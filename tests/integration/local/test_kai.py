"""`muster local demo --scheduler kai`: the real KAI, real kubelets and real Ray, from nothing to a gang."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from copy import deepcopy
from functools import partial
from pathlib import Path

import pytest

from muster.local import kai
from muster.local.cluster.local_cluster import existing
from muster.model.names import POOL_LABEL
from tests import built
from tests.integration.local.test_lifecycle import CHECKOUT, kubectl, muster_local, status
from tests.integration.real_kai.programs import SWITCH
from tests.integration.tenancy.samples import samples
from tests.waiting import eventually

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="a local cluster needs root"),
    pytest.mark.skipif(not os.environ.get(SWITCH), reason=f"KAI is run on demand: {SWITCH}=1"),
]

NAME = "kai"
_STORY_SECONDS = 900


@pytest.fixture(scope="module")
def demo() -> Iterator[list[str]]:
    """What the command prints. The local cluster stays up until the last test of this file."""
    built.programs(tuple(kai.PROGRAMS), (kai.CRDS, kai.ROLES))
    try:
        yield lines_of("demo", "--scheduler", "kai")
    finally:
        muster_local(NAME, "down")


def test_all_five_pods_of_a_gang_start_when_the_last_node_is_there(demo: list[str]) -> None:
    half = line_with(demo, "the cloud has 2 of 4 nodes")
    ready = [number for number, line in enumerate(demo) if "is ready" in line and "node l4" in line]
    started = [number for number, line in enumerate(demo) if " starts on node " in line]
    assert len(ready) == 4
    assert min(ready) > half, "a node was bought while the cloud had half of them"
    assert len(started) == 5
    assert min(started) > max(ready), "a pod started before the last node was ready"
    assert line_with(demo, "RayCluster ready") > max(started)
    assert sum("is released" in line for line in demo) == 4


def test_the_commands_of_a_local_cluster_know_kai(demo: list[str]) -> None:
    found = status(NAME)
    assert found["state"] == "healthy", found["faults"]
    assert found["units"].keys() >= {kai.SHARD_RUNNER, kai.ADMISSION, *kai.controller_flags()}
    assert "shard default starts with" in muster_local(NAME, "logs", kai.SHARD_RUNNER).stdout
    assert muster_local(NAME, "logs", f"{kai.SCHEDULER}@default").stdout
    other = muster_local(NAME, "up")
    assert other.returncode == 3
    assert "is up with scheduler kai" in other.stderr


def test_each_priority_takes_the_gpu_of_the_one_below_and_none_that_of_build(demo: list[str]) -> None:
    told = lines_of("story", "priorities")
    begun = [
        line_with(told, f"RayCluster {name}: 1 worker")
        for name in ("train", "build-preemptible", "build", "inference")
    ]
    for victim, start in zip(("train", "build-preemptible"), begun[1:], strict=False):
        assert line_with(told, f"{victim} was evicted as a whole") > start
    deleted = line_with(told, "delete raycluster build")
    build = [number for number, line in enumerate(told) if "pod build-" in line and "is gone" in line]
    build = [number for number in build if "build-preemptible" not in told[number]]
    assert not [number for number in build if number < deleted], "build was evicted"
    assert sum("pod inference-" in line and " starts on node " in line for line in told[deleted:]) == 2
    last = line_with(told, "delete raycluster build-preemptible")
    assert sum("pod train-" in line and " starts on node " in line for line in told[last:]) == 2


def test_a_department_takes_back_its_gpus_from_a_whole_gang(demo: list[str]) -> None:
    told = lines_of("story", "reclaim")
    evicted = line_with(told, "extra was evicted as a whole")
    ended = line_with(told, "delete raycluster extra")
    assert line_with(told, "RayCluster owner: 2 workers") < evicted
    assert not [line for line in told[:ended] if "pod own-" in line and "is gone" in line], "own was evicted"
    given = line_with(told, "delete raycluster owner")
    assert sum("pod extra-" in line and " starts on node " in line for line in told[given:]) == 3
    assert sum("pod extra-" in line and "is gone" in line for line in told[:evicted]) == 3


def test_two_workers_share_a_gpu_and_a_third_waits_for_a_half(demo: list[str]) -> None:
    told = lines_of("story", "sharing")
    shared, deleted = line_with(told, "share one GPU: simulated-"), line_with(told, "delete raycluster pair")
    workers = [line for line in told[:shared] if "pod pair-halves" in line and " starts on node l4-" in line]
    assert len(workers) == 2
    assert len({line.rpartition(" ")[2] for line in workers}) == 1
    third = [number for number, line in enumerate(told) if "pod third-" in line and " starts on " in line]
    assert len(third) == 2
    assert min(third) > deleted, "the third half started beside two others"


def test_a_served_model_takes_its_gpu_from_training_and_gives_it_back(demo: list[str]) -> None:
    told = lines_of("story", "inference")
    assert line_with(told, "inference can take the GPUs of train") < line_with(
        told, "RayCluster train: 2 workers"
    )
    evicted = line_with(told, "train was evicted as a whole")
    answered = line_with(told, "| HTTP 200: ")
    assert sum("pod train-" in line and "is gone" in line for line in told[:evicted]) == 3
    assert sum("pod model-" in line and " starts on node " in line for line in told[:answered]) == 2
    assert evicted < answered
    deleted = line_with(told, "delete rayservice model")
    assert sum("pod train-" in line and " starts on node " in line for line in told[deleted:]) == 3
    assert not [line for line in told[evicted:deleted] if "pod train-" in line and " starts on node " in line]


def test_a_published_sample_runs_with_another_image_and_a_pool_for_its_head(
    demo: list[str], tmp_path: Path
) -> None:
    """KubeRay's with halves of a GPU, which Ray's guide to KAI applies; its queues are the stack's. A head
    without a pool may go to the system node, which has no image of Ray in a local cluster.
    """
    file = "ray-cluster.kai-gpu-sharing.yaml"
    bodies = [each.body for each in samples("kuberay") if each.file == file]
    if not bodies:
        pytest.skip("KubeRay's samples come with its Go module")
    (body,) = (deepcopy(each) for each in bodies if each["kind"] == "RayCluster")
    body["spec"]["headGroupSpec"]["template"]["spec"]["nodeSelector"] = {POOL_LABEL: "cpu"}
    found = existing(NAME)
    assert found is not None
    cluster = found[0]
    image = json.loads(cluster.artifacts.read_text(encoding="utf-8"))["images"]["ray"]
    manifest, name = tmp_path / "sample.json", f"raycluster/{body['metadata']['name']}"
    manifest.write_text(re.sub(r"rayproject/ray:[\d.]+", image, json.dumps(body)), encoding="utf-8")
    in_team = partial(kubectl, cluster, "--namespace=team-a")
    in_team("apply", f"--filename={manifest}")
    try:
        eventually(
            f"{name} is ready",
            lambda: in_team("get", name, "-o", "jsonpath={.status.state}") == "ready",
            told=lambda: in_team("get", "pods", "-o", "yaml"),
        )
    finally:
        in_team("delete", name)


def lines_of(verb: str, *words: str) -> list[str]:
    command = [sys.executable, "-m", "muster", "local", verb, *words, "--name", NAME]
    done = subprocess.run(
        command, cwd=CHECKOUT, capture_output=True, text=True, timeout=_STORY_SECONDS, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def line_with(lines: list[str], text: str) -> int:
    return next(number for number, line in enumerate(lines) if text in line)
