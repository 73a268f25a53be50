"""A gang that gets a healthy node and a broken one starts on two healthy ones, with what it cost."""

import sys

from muster.local.demo.cluster import Object
from muster.local.demo.events import condition
from tests.e2e import gangs, light
from tests.e2e.local_cluster import Muster, run
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


def _nodes(muster: Muster, pool: str) -> list[str]:
    nodes = muster.gpu_nodes()
    return [
        each["metadata"]["name"] for each in nodes if each["metadata"]["labels"]["muster.dev/pool"] == pool
    ]


def _check(muster: Muster) -> str:
    found: Object = gangs.workload(muster.recorder, "broken").last
    return " ".join(each.get("message", "") for each in found["status"].get("admissionChecks") or ())
