"""The supervisor restarts its processes, and answers every request."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from muster.local import LocalClusterError
from muster.local.cluster import control, network_policies
from muster.local.cluster.local_cluster import LocalCluster
from muster.local.cluster.supervisor import Settings
from muster.local.cluster.units import ReadinessGate, Unit
from tests.waiting import PATIENCE, eventually

# The part of it that needs no namespace and no root, as a process: it reaps every child of its own.
PROGRAM = """
import asyncio, pathlib, sys
from muster.local.cluster.local_cluster import LocalCluster
from muster.local.cluster.supervisor import Settings, Supervisor
where = pathlib.Path(sys.argv[1])
cluster = LocalCluster("t", 0, run=where, state=where)
asyncio.run(Supervisor(cluster, Settings.read(cluster), unenforced="no queue").run())
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    cluster = LocalCluster("t", 0, run=tmp_path, state=tmp_path)
    cluster.logs.mkdir()
    units = (
        Unit("steady", ("sleep", "1000")),
        Unit("crashing", ("sh", "-c", "echo again; exit 7")),
        Unit("waiting", ("sleep", "1000"), after=ReadinessGate(file=tmp_path / "gate")),
        Unit(network_policies.UNIT, ("sleep", "1000")),
    )
    Settings(units, nodes=(), kubelet="", pause_image="", stores={}).write(cluster)
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, str(tmp_path)])
    eventually("it answers", lambda: answers(cluster))
    yield cluster
    left = [unit["pid"] for unit in units_of(cluster).values() if unit["pid"]]
    process.kill()  # in a local cluster the kernel would take its children along
    process.wait(PATIENCE)
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def answers(cluster: LocalCluster) -> bool:
    """The socket's file is there a moment before anybody listens."""
    with contextlib.suppress(LocalClusterError):
        return bool(units_of(cluster))
    return False


def units_of(cluster: LocalCluster) -> dict[str, Any]:
    units: dict[str, Any] = control.call(cluster, "status")["units"]
    return units


def test_a_crashing_process_is_started_again_and_its_last_exit_is_told(cluster: LocalCluster) -> None:
    log = cluster.logs / "crashing.log"
    eventually("two starts more", lambda: units_of(cluster)["crashing"]["restarts"] >= 2)
    eventually("what it said", lambda: log.read_text().startswith("again\nagain\n"), told=log.read_text)
    assert units_of(cluster)["crashing"]["lastExit"] == 7


def test_a_killed_process_comes_back_and_its_neighbours_run_on(cluster: LocalCluster) -> None:
    eventually("it runs", lambda: units_of(cluster)["steady"]["pid"])
    first = units_of(cluster)["steady"]["pid"]
    control.call(cluster, "signal", unit="steady", signal=int(signal.SIGKILL))
    eventually("another one", lambda: units_of(cluster)["steady"]["pid"] not in (None, first))
    assert units_of(cluster)["steady"]["restarts"] == 1


def test_a_process_waits_for_its_gate(cluster: LocalCluster) -> None:
    eventually("its neighbour runs", lambda: units_of(cluster)["steady"]["pid"])
    assert units_of(cluster)["waiting"]["pid"] is None
    (cluster.run / "gate").touch()
    eventually("it runs", lambda: units_of(cluster)["waiting"]["pid"])


def test_where_policies_cannot_be_enforced_the_cluster_starts_and_says_why(cluster: LocalCluster) -> None:
    status = control.call(cluster, "status")
    assert network_policies.UNIT not in status["units"]
    assert status["networkPolicies"] == {"enforced": False, "why": "no queue"}
    assert "steady" in status["units"]


@pytest.mark.parametrize(
    ("operation", "arguments", "says"),
    [
        ("dance", {}, "knows no operation 'dance'; status, node-up, node-down, signal"),
        ("signal", {"unit": "absent", "signal": 9}, "unit absent: does not run; one of crashing, steady"),
        ("node-up", {"name": "n"}, "node n: is not described whole"),
    ],
)
def test_what_it_cannot_do_is_refused_with_what_it_can(
    cluster: LocalCluster, operation: str, arguments: dict[str, Any], says: str
) -> None:
    with pytest.raises(LocalClusterError, match=says):
        control.call(cluster, operation, **arguments)


def test_a_line_that_is_no_request_costs_nobody_anything(cluster: LocalCluster) -> None:
    refused = subprocess.run(
        [sys.executable, "-c", _SEND, str(cluster.control_socket)], capture_output=True, text=True, check=True
    )
    assert json.loads(refused.stdout)["ok"] is False
    assert control.call(cluster, "status")["ok"]


_SEND = """
import socket, sys
line = socket.socket(socket.AF_UNIX)
line.connect(sys.argv[1])
line.sendall(b"{not json\\n")
print(line.makefile().readline())
"""
