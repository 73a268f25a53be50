"""The gang story with the queues and pools of the clouds' own stacks, on the local cluster."""

import copy
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.local.demo.cluster import Object
from muster.local.demo.events import holds
from muster.model import names
from tests.clouds.engine import ROOT
from tests.e2e import gangs, light
from tests.e2e.handed import on_local_cluster
from tests.e2e.local_cluster import Muster
from tests.e2e.recorder import version

pytestmark = pytest.mark.last(2)
TEAM = "vision"
PROGRAM = "gang-train"


@pytest.fixture
def emptied(shared: Muster) -> Iterator[Muster]:
    """The local cluster without stack `local`."""
    if not shared.is_own:
        pytest.skip(
            "the local cluster is a standing one: its stack stays (unset MUSTER_E2E_PLANE to test others)"
        )
    shared.pulumi("destroy", "--yes", "--stack", "local", "--skip-preview")
    shared.recorder.mark()
    before = shared.cluster_wide()
    yield shared
    assert shared.left_behind(before) == frozenset()


def test_on_gke_a_ray_job_over_two_queued_pools_starts_whole_and_ends_succeeded(
    emptied: Muster, tmp_path: Path
) -> None:
    record = emptied.recorder
    with on_local_cluster(emptied, ROOT / "stacks" / "Pulumi.gke-prod.yaml", tmp_path):
        job = _job(emptied)
        emptied.cluster.apply(_program())
        emptied.cluster.apply(job)
        emptied.wait("the gang is over", lambda: _is_over(emptied, "gang"), seconds=900)

        assert gangs.job(record, "RayJob", "gang").last["status"]["jobStatus"] == "SUCCEEDED"
        gangs.assert_capacity_came_first(record, "gang", pools=["h100", "l4"])
        requests = {gangs.pool(record, one): one.last["spec"] for one in gangs.requests(record, "gang")}
        assert {each["provisioningClassName"] for each in requests.values()} == {names.GKE_QUEUED_CLASS}
        # The stack's own word for how long an H100 gang may run.
        assert requests["h100"]["parameters"]["maxRunDurationSeconds"] == "172800"
        for node in _nodes(emptied, "l4", "h100"):
            keys = {taint["key"] for taint in node["spec"]["taints"]}
            assert {names.GPU_TAINT_KEY, names.GKE_QUEUED_TAINT_KEY} <= keys
        emptied.wait("its nodes are given back", lambda: not emptied.gpu_nodes())


@pytest.mark.skipif("MUSTER_WHOLE" not in os.environ, reason="minutes more: set MUSTER_WHOLE=1")
def test_on_eks_a_gang_of_two_shapes_waits_for_nodes_that_come_after_the_promise(
    emptied: Muster, tmp_path: Path
) -> None:
    record = emptied.recorder
    with on_local_cluster(emptied, ROOT / "stacks" / "Pulumi.eks-prod.yaml", tmp_path):
        image = emptied.image("python")
        gang = _of_two_shapes(image)
        emptied.cluster.apply(light.sleeper(TEAM))
        emptied.cluster.apply(gang)
        emptied.wait("the gang runs", lambda: gangs.is_ready(record, "gang"), seconds=900)

        requests = gangs.requests(record, "gang")
        gangs.assert_capacity_came_first(record, "gang", pools=["l4"] * len(requests))
        assert {one.last["spec"]["provisioningClassName"] for one in requests} == {
            names.BEST_EFFORT_ATOMIC_CLASS
        }
        first = [gangs.provisioned(one) for one in requests]
        ready = [version(node) for node in _nodes(emptied, "l4")]
        assert len(ready) == 2
        assert min(since for since in first if since) < min(ready), "no node came after the promise"
        emptied.cluster.delete("RayCluster", "gang", namespace=TEAM)
        emptied.wait("its nodes are given back", lambda: not emptied.gpu_nodes())


def _job(muster: Muster) -> Object:
    """The example's RayJob for this stack's team; a worker takes an H100 machine's eight GPUs."""
    (job,) = light.example("gang/rayjob.yaml", image=muster.image("ray"))
    job["metadata"]["namespace"] = TEAM
    h100 = next(
        group for group in job["spec"]["rayClusterSpec"]["workerGroupSpecs"] if group["groupName"] == "h100"
    )
    h100["template"] = copy.deepcopy(h100["template"])
    resources = h100["template"]["spec"]["containers"][0]["resources"]
    for part in resources.values():
        part[names.GPU_RESOURCE] = 8
    return job


def _program() -> Object:
    text = (ROOT / "examples" / "gang" / "train.py").read_text()
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": PROGRAM, "namespace": TEAM},
        "data": {"train.py": text},
    }


def _of_two_shapes(image: str) -> Object:
    gang = light.ray_cluster("gang", namespace=TEAM, image=image, workers={"l4": 1})
    (small,) = gang["spec"]["workerGroupSpecs"]
    large = copy.deepcopy(small) | {"groupName": "large"}
    large["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "100m"
    gang["spec"]["workerGroupSpecs"] = [small, large]
    return gang


def _is_over(muster: Muster, name: str) -> bool:
    status = gangs.status(muster.recorder, "RayJob", name)
    return status.get("jobDeploymentStatus") in ("Complete", "Failed")


def _nodes(muster: Muster, *pools: str) -> list[Object]:
    """The first version in which each node was ready, of those that came for the gang."""
    found = [life.first(lambda one: holds(one, "Ready")) for life in muster.recorder.lives("Node")]
    return [node for node in found if node and node["metadata"]["labels"].get(names.POOL_LABEL) in pools]
