"""A gang that gets a healthy node and a broken one starts on two healthy ones, with what it cost."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from muster.local.demo.cluster import Object
from muster.local.demo.events import condition
from muster.local.simulated_cloud.names import NAMESPACE, STATUS_CONFIG
from tests.e2e import gangs, light
from tests.e2e.local_cluster import ROOT, Muster, run
from tests.e2e.recorder import version

WORKERS = {"l4": 1, "h100": 1}


def test_a_gang_gets_another_node_for_a_broken_one(muster: Muster) -> None:
    record = muster.recorder
    muster.fault("slow", pool="h100", kind="delay", by="60s")
    image = muster.image("ray")
    muster.cluster.apply(light.ray_cluster("broken", namespace="team-a", image=image, workers=WORKERS))
    muster.wait("a node of l4 stands", lambda: _nodes(muster, "l4"))
    (broken,) = _nodes(muster, "l4")
    command = [sys.executable, "-m", "muster", "local", "fault", "node", broken, "--xid=79"]
    run([*command, f"--name={muster.name}"], muster.environment, timeout=60)

    said = f"node {broken} is set aside (condition-SysLogsXIDError-True"
    muster.wait("the check names node and sign", lambda: said in _check(muster))
    muster.wait("all of it runs", lambda: gangs.is_ready(record, "broken"))

    pods = gangs.pods(record, "broken")
    assert len(pods) == 3
    # The local cluster gives the next node of a pool the name of the one that left.
    first, second = (life for life in record.lives("Node") if life.name == broken)
    assert first.gone is not None
    assert second.gone is None
    assert all(version(pod.versions[0]) > first.gone for pod in pods)
    asked = sorted(gangs.pool(record, each) for each in gangs.requests(record, "broken"))
    assert asked == ["h100", "l4", "l4"]
    admitted = gangs.workload(record, "broken").since(lambda found: condition(found, "Evicted") is not None)
    assert admitted is None, "it keeps its quota"


def test_the_bill_of_the_story_is_the_clouds_own_to_the_minute(muster: Muster, tmp_path: Path) -> None:
    """The simulated cloud bills its machines; the recording knows the nodes and jobs of the cluster alone."""
    file, before = tmp_path / "day.jsonl.gz", _billed(muster)
    command = [sys.executable, "-m", "muster", "record", f"--out={file}"]
    with subprocess.Popen(command, cwd=ROOT, env=muster.environment) as recorder:
        muster.story("broken")
        muster.wait("the nodes are gone", lambda: not muster.gpu_nodes())
        recorder.send_signal(signal.SIGINT)
    command = [sys.executable, "-m", "muster", "usage", "local", f"--recording={file}", "--by=pool", "--json"]
    bill = json.loads(run(command, muster.environment, timeout=60))
    minutes = {line["name"]: 60 * line["gpuHours"] for line in bill["lines"]}
    bought = {pool: (seconds - before[pool]) / 60 for pool, seconds in _billed(muster).items()}
    assert {pool: minutes.get(pool, 0.0) for pool in bought} == pytest.approx(bought, abs=1)
    causes = bill["total"]["causes"]
    assert min(causes[each] for each in ("guaranteed", "lent", "gated", "broken")) > 0
    assert sum(causes.values()) == pytest.approx(bill["total"]["gpuHours"])


def _billed(muster: Muster) -> dict[str, float]:
    """Node-seconds of pools whose nodes have one GPU."""
    data = (muster.cluster.get("ConfigMap", STATUS_CONFIG, namespace=NAMESPACE) or {}).get("data") or {}
    return {pool: json.loads(data[pool])["nodeSeconds"] if pool in data else 0.0 for pool in WORKERS}


def _nodes(muster: Muster, pool: str) -> list[str]:
    nodes = muster.gpu_nodes()
    return [
        each["metadata"]["name"] for each in nodes if each["metadata"]["labels"]["muster.dev/pool"] == pool
    ]


def _check(muster: Muster) -> str:
    found: Object = gangs.workload(muster.recorder, "broken").last
    return " ".join(each.get("message", "") for each in found["status"].get("admissionChecks") or ())
