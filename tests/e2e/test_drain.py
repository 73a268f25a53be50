"""A node that is drained: running work stays until it ends, and the drain waits for it or gives up."""

import subprocess
from functools import partial
from typing import Any, Final

import pytest

from muster.local.demo.cluster import Object
from tests.e2e.local_cluster import Muster

JOB: Final = "long"
TEAM: Final = "team-c"


def _job(image: str) -> Object:
    container = {
        "name": "work",
        "image": image,
        "command": ["sleep", "3600"],
        "resources": {"requests": {"cpu": "20m", "memory": "32Mi"}},
    }
    pod: dict[str, Any] = {
        "terminationGracePeriodSeconds": 1,
        "restartPolicy": "Never",
        "nodeSelector": {"muster.dev/pool": "cpu"},
        "containers": [container],
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": JOB,
            "namespace": TEAM,
            "labels": {"kueue.x-k8s.io/queue-name": "default", "kueue.x-k8s.io/priority-class": "prod"},
        },
        "spec": {"suspend": True, "backoffLimit": 0, "template": {"spec": pod}},
    }


@pytest.fixture
def node(muster: Muster) -> Any:
    """The node on which a job of the team runs. It takes pods again afterwards."""
    found = ""
    try:
        muster.cluster.apply(_job(muster.image("python")))
        muster.wait("the job runs", partial(_running, muster))
        (pod,) = _running(muster)
        found = str(pod["spec"]["nodeName"])
        yield found
    finally:
        muster.cluster.delete("Job", JOB, namespace=TEAM)
        if found:
            _kubectl(muster, "uncordon", found)


def test_a_drain_waits_for_work_that_runs_and_ends_with_it(muster: Muster, node: str) -> None:
    drain = ["drain", node, f"--pod-selector=job-name={JOB}", "--ignore-daemonsets"]
    refused = _kubectl(muster, *drain, "--timeout=10s")
    assert refused.returncode != 0
    assert "violate the pod's disruption budget" in refused.stderr
    (pod,) = _running(muster)
    assert "deletionTimestamp" not in pod["metadata"]
    waiting = subprocess.Popen(
        ["kubectl", *drain, "--timeout=300s"], env=muster.environment, stderr=subprocess.DEVNULL
    )
    # Its end: what deletes pods, as Kueue does for a preemption, is stopped by no budget.
    muster.cluster.delete("Job", JOB, namespace=TEAM)
    assert waiting.wait(timeout=300) == 0
    assert _running(muster) == []


def _running(muster: Muster) -> list[Object]:
    return [
        pod
        for pod in muster.cluster.all("Pod", namespace=TEAM)
        if pod["metadata"]["name"].startswith(JOB) and pod.get("status", {}).get("phase") == "Running"
    ]


def _kubectl(muster: Muster, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["kubectl", *arguments],
        env=muster.environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
