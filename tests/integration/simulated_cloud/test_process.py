"""The whole autoscaler as a process with its own rights, a real API server and a supervisor of the test's."""

import asyncio
import contextlib
import json
import os
import secrets
import signal
import sys
import urllib.error
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from muster.cli import main
from muster.local.karpenter import CLOUD, Autoscaler, stock_key
from muster.local.simulated_cloud import manifests, names
from muster.local.simulated_cloud.manifests import Manifest
from tests.waiting import eventually

_REPOSITORY = Path(__file__).resolve().parents[3]
_SCALE = 30
_GROUP = "/apis/autoscaling.x-k8s.io/v1/namespaces"
_KINDS = {
    "Namespace": "/api/v1/namespaces",
    "ServiceAccount": f"/api/v1/namespaces/{names.NAMESPACE}/serviceaccounts",
    "ConfigMap": f"/api/v1/namespaces/{names.NAMESPACE}/configmaps",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "Role": f"/apis/rbac.authorization.k8s.io/v1/namespaces/{names.NAMESPACE}/roles",
    "RoleBinding": f"/apis/rbac.authorization.k8s.io/v1/namespaces/{names.NAMESPACE}/rolebindings",
}
# Nodes go while the test waits; its pods are bare, and tolerate no taint of GKE.
_POOLS = """
times: {scaleDown: 5s, scaleDownConsumed: 5s}
pools:
- {name: l4, cpu: "1", memory: 2Gi, gpus: 1, maxNodes: 2, stock: 1, provisionDelay: 3s, pricePerHour: 3600,
   taints: ["nvidia.com/gpu=present:NoSchedule"], queuedTaint: false,
   classes: [queued-provisioning.gke.io, best-effort-atomic-scale-up.autoscaling.x-k8s.io]}
- {name: fake, kind: kwok, cpu: "8", memory: 32Gi, gpus: 8, maxNodes: 40, stock: 30, provisionDelay: 3s,
   queuedTaint: false,
   classes: [queued-provisioning.gke.io, best-effort-atomic-scale-up.autoscaling.x-k8s.io]}
"""


@dataclass
class Supervisor:
    """The control socket's other end: notes what it is asked, and may refuse."""

    socket: Path
    machines: dict[str, dict[str, Any]] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)
    refuses: bool = False
    starts: asyncio.Event = field(default_factory=asyncio.Event)
    """No machine runs before it is set."""

    def __post_init__(self) -> None:
        self.starts.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while line := await reader.readline():
                question = json.loads(line)
                self.asked.append((question["op"], question.get("name", "")))
                if question["op"] == "node-up":
                    await self.starts.wait()
                writer.write(json.dumps(self.answer(question)).encode() + b"\n")
                await writer.drain()
        writer.close()

    def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        name = question.get("name", "")
        match question["op"]:
            case "node-up" if self.refuses:
                return {"ok": False, "error": "no disk"}
            case "node-up":
                self.machines[name] = question
            case "node-down":
                self.machines.pop(name, None)
            case "status":
                return {
                    "ok": True,
                    "nodes": {key: {"pool": one["pool"]} for key, one in self.machines.items()},
                }
        return {"ok": True}


@dataclass
class Plane:
    """The autoscaler under test, its supervisor, and short words for what the tests do."""

    api: Any
    supervisor: Supervisor
    namespace: str
    kubeconfig: Path
    log: Path
    process: asyncio.subprocess.Process | None = None
    server_was_killed: bool = False

    async def start(self) -> None:
        with self.log.open("ab") as output:
            self.process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "muster.local.simulated_cloud", "--kubeconfig", str(self.kubeconfig)),
                *("--control", str(self.supervisor.socket), "--clock-scale", str(_SCALE)),
                cwd=_REPOSITORY,
                stdout=output,
                stderr=output,
            )

    async def end(self, how: int = signal.SIGTERM) -> int:
        assert self.process is not None
        self.process.send_signal(how)
        return await self.process.wait()

    def call(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Any:
        return self.api.call(method, path, body, content_type=content_type)

    def ask(self, name: str, *, count: int = 1, pool: str = "l4", template: bool = True, **spec: Any) -> None:
        """Creates a PodTemplate and a request for `count` pods of one GPU in the pool."""
        shape = {
            "nodeSelector": {names.POOL_LABEL: pool},
            "tolerations": [{"key": names.GPU, "operator": "Exists"}],
            "containers": [
                {
                    "name": "main",
                    "image": "none",
                    "resources": {"limits": {names.GPU: 1 if pool == "l4" else 8}},
                }
            ],
        }
        if template:
            body = {"metadata": {"name": name}, "template": {"spec": shape}}
            self.call("POST", f"/api/v1/namespaces/{self.namespace}/podtemplates", body)
        request = {
            "apiVersion": "autoscaling.x-k8s.io/v1",
            "kind": "ProvisioningRequest",
            "metadata": {"name": name},
            "spec": {
                "provisioningClassName": names.QUEUED,
                "podSets": [{"podTemplateRef": {"name": name}, "count": count}],
                **spec,
            },
        }
        self.call("POST", f"{_GROUP}/{self.namespace}/provisioningrequests", request)

    def withdraw(self, name: str) -> None:
        self.call("DELETE", f"{_GROUP}/{self.namespace}/provisioningrequests/{name}")

    def status(self, name: str) -> dict[str, Any]:
        path = f"{_GROUP}/{self.namespace}/provisioningrequests/{name}"
        return dict((self.call("GET", path)).get("status") or {})

    def condition(self, name: str, kind: str) -> tuple[str, str] | None:
        for one in (self.status(name)).get("conditions") or ():
            if one["type"] == kind:
                return one["status"], one["reason"]
        return None

    def nodes(self) -> list[dict[str, Any]]:
        return list(self.call("GET", "/api/v1/nodes")["items"])

    async def becomes(self, name: str, kind: str, reason: str) -> None:
        await self.eventually(
            f"{name} {kind}={reason}", lambda: self.condition(name, kind) == ("True", reason)
        )

    async def eventually(self, what: str, reached: Callable[[], Any]) -> None:
        """Looks from a thread: the supervisor answers in this loop meanwhile."""
        await asyncio.to_thread(eventually, what, reached, told=lambda: self.log.read_text()[-4000:])

    async def no_nodes(self) -> None:
        await self.eventually("no node is left", lambda: not self.nodes())


@pytest.fixture(scope="module")
def prepared(api_server: Any) -> Iterator[Any]:
    """The autoscaler's own manifests, with the pools of these tests."""
    for manifest in manifests.manifests():
        api_server.apply(
            _with_test_pools(manifest), f"{_KINDS[manifest['kind']]}/{manifest['metadata']['name']}"
        )
    yield api_server
    for name in (names.POOLS_CONFIG, names.FAULTS_CONFIG, names.STATUS_CONFIG):
        with contextlib.suppress(urllib.error.HTTPError):
            api_server.call("DELETE", f"{_KINDS['ConfigMap']}/{name}")


def _with_test_pools(manifest: Manifest) -> Manifest:
    if manifest["metadata"]["name"] != names.POOLS_CONFIG:
        return manifest
    return {**manifest, "data": {names.POOLS_KEY: yaml.safe_dump(yaml.safe_load(_POOLS))}}


@pytest.fixture
def behind_karpenter(prepared: Any) -> Iterator[None]:
    """The same cloud, of which Karpenter buys the nodes."""
    pools = f"{_KINDS['ConfigMap']}/{names.POOLS_CONFIG}"
    stock = f"{_KINDS['ConfigMap']}/{CLOUD}"
    merge = "application/merge-patch+json"
    prepared.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": CLOUD}}, stock)
    by_karpenter = {"data": {names.AUTOSCALER_KEY: str(Autoscaler.KARPENTER)}}
    prepared.call("PATCH", pools, by_karpenter, content_type=merge)
    yield
    by_itself = {"data": {names.AUTOSCALER_KEY: str(Autoscaler.SIMULATED)}}
    prepared.call("PATCH", pools, by_itself, content_type=merge)
    prepared.call("DELETE", stock)


@pytest.fixture
async def plane(prepared: Any, tmp_path: Path) -> AsyncIterator[Plane]:
    namespace = f"team-{secrets.token_hex(3)}"
    prepared.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
        f"/api/v1/namespaces/{namespace}",
    )
    kubeconfig = prepared.service_account_kubeconfig(names.NAMESPACE, names.SERVICE_ACCOUNT)
    supervisor = Supervisor(tmp_path / "control.sock")
    server = await asyncio.start_unix_server(supervisor.serve, supervisor.socket)
    one = Plane(prepared, supervisor, namespace, kubeconfig, tmp_path / "autoscaler.log")
    await one.start()
    try:
        yield one
        assert "Traceback" not in one.log.read_text()
        # A server that has just started refuses everybody until it has read its roles.
        refused = " 403 Forbidden" in one.log.read_text() and not one.server_was_killed
        assert not refused, "the manifests give every right that is used"
    finally:
        if one.process is not None and one.process.returncode is None:
            # A test may end before the process has got as far as its signal handlers.
            assert await one.end() in (0, -signal.SIGTERM)
        server.close()
        _clean(one)


def _clean(plane: Plane) -> None:
    plane.call("DELETE", f"{_GROUP}/{plane.namespace}/provisioningrequests")
    plane.call("DELETE", f"/api/v1/namespaces/{plane.namespace}/pods?gracePeriodSeconds=0")
    plane.call("DELETE", "/api/v1/nodes")
    patch = {"data": None}
    path = f"{_KINDS['ConfigMap']}/{names.FAULTS_CONFIG}"
    plane.call("PATCH", path, patch, "application/merge-patch+json")


def _kubelet_registers(plane: Plane, name: str) -> None:
    """What a kubelet does to the Node object that it finds."""
    amounts = {"cpu": "1", "memory": "2Gi", "pods": "110"}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
    body = {
        "status": {"conditions": [ready], "capacity": amounts, "allocatable": amounts, "nodeInfo": _NODE_INFO}
    }
    plane.call("PATCH", f"/api/v1/nodes/{name}/status", body, "application/merge-patch+json")


_NODE_INFO = {
    **dict.fromkeys(
        ("machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "kubeProxyVersion"), ""
    ),
    "containerRuntimeVersion": "",
    "kubeletVersion": "v1.34.4",
    "operatingSystem": "linux",
    "architecture": "amd64",
}


async def test_a_queued_gang_gets_its_real_node_and_gives_it_back(plane: Plane) -> None:
    plane.ask("gang")
    await plane.becomes("gang", "Provisioned", "Provisioned")
    status = plane.status("gang")
    lease = status["provisioningClassDetails"][names.RESIZE_REQUEST]
    [node] = plane.nodes()
    assert node["metadata"]["labels"][names.LEASE_LABEL] == lease
    assert plane.supervisor.machines["l4-0"]["labels"][names.LEASE_LABEL] == lease
    assert plane.supervisor.machines["l4-0"]["taints"] == ["nvidia.com/gpu=present:NoSchedule"]
    assert plane.supervisor.machines["l4-0"]["gpus"] == 1

    _kubelet_registers(plane, "l4-0")
    await plane.eventually(
        "the node advertises its GPU",
        lambda: plane.nodes()[0]["status"]["capacity"].get(names.GPU) == "1",
    )
    plane.withdraw("gang")
    await plane.no_nodes()
    assert not plane.supervisor.machines

    def billed() -> bool:
        path = f"{_KINDS['ConfigMap']}/{names.STATUS_CONFIG}"
        line = json.loads(plane.call("GET", path)["data"]["l4"])
        charged = line["nodeSeconds"] > 1 and abs(line["cost"] - line["nodeSeconds"]) < 0.1
        return bool(line["nodes"] == 0 and charged)  # at 3600 an hour

    await plane.eventually("the bill shows the lease", billed)


async def test_a_node_with_a_pod_stays_until_the_pod_is_gone(plane: Plane) -> None:
    plane.ask("gang", pool="fake")
    await plane.becomes("gang", "Provisioned", "Provisioned")
    [node] = plane.nodes()
    pod = {
        "metadata": {"name": "worker", "annotations": {names.CONSUME_ANNOTATIONS[0]: "gang"}},
        "spec": {"nodeName": node["metadata"]["name"], "containers": [{"name": "main", "image": "none"}]},
    }
    plane.call("POST", f"/api/v1/namespaces/{plane.namespace}/pods", pod)

    await plane.eventually(
        "the node is known to be consumed",
        lambda: names.CONSUMED in plane.nodes()[0]["metadata"]["annotations"],
    )
    plane.withdraw("gang")
    plane.ask("later", pool="fake")
    await plane.becomes("later", "Provisioned", "Provisioned")
    assert node["metadata"]["name"] in {one["metadata"]["name"] for one in plane.nodes()}
    plane.call("DELETE", f"/api/v1/namespaces/{plane.namespace}/pods/worker?gracePeriodSeconds=0")

    await plane.eventually(
        "the emptied node is gone",
        lambda: node["metadata"]["name"] not in {one["metadata"]["name"] for one in plane.nodes()},
    )


async def test_killed_at_any_moment_it_goes_on_and_buys_nothing_twice(plane: Plane) -> None:
    await plane.end(signal.SIGKILL)
    plane.ask("wide", count=24, pool="fake")

    def progress() -> tuple[str, int]:
        return json.dumps(plane.status("wide")), len(plane.nodes())

    def is_beyond(last: tuple[str, int]) -> bool:
        return progress() != last

    seen = progress()
    kills = 0
    while plane.condition("wide", "Provisioned") != ("True", "Provisioned") and kills < 10:
        await plane.start()
        await plane.eventually("the next step is taken", partial(is_beyond, seen))
        await plane.end(signal.SIGKILL)
        kills += 1
        seen = progress()
    await plane.start()
    await plane.becomes("wide", "Provisioned", "Provisioned")
    ordinals = [int(node["metadata"]["annotations"][names.ORDINAL]) for node in plane.nodes()]
    assert sorted(ordinals) == list(range(24))
    assert kills >= 2, "it was killed before it was done"


async def test_it_outlives_the_api_server(plane: Plane) -> None:
    plane.ask("first")
    await plane.becomes("first", "Accepted", "SuccessfullyQueued")
    plane.server_was_killed = True
    await asyncio.to_thread(plane.api.kill)
    await asyncio.to_thread(plane.api.start)
    await plane.becomes("first", "Provisioned", "Provisioned")
    plane.withdraw("first")
    await plane.no_nodes()


async def test_hostile_and_broken_objects_cost_nobody_else_anything(plane: Plane) -> None:
    plane.ask("absurd", count=2**31 - 1, pool="fake")
    plane.ask("untemplated", template=False)
    plane.ask("two", podSets=[{"podTemplateRef": {"name": "two"}, "count": 1}] * 2)
    plane.ask("foreign", provisioningClassName="somebody.else")
    broken = {"metadata": {"name": "broken", "annotations": {names.VM: "haunted"}}}
    plane.call("POST", "/api/v1/nodes", broken)
    plane.ask("good")
    await plane.becomes("good", "Provisioned", "Provisioned")
    await plane.becomes("untemplated", "Failed", "FailedToCreatePods")
    await plane.becomes("two", "Failed", "ProvisioningRequestDenied")
    await plane.becomes("absurd", "Failed", "NodepoolSizeReached")
    assert not plane.status("foreign")


async def test_a_machine_that_does_not_start_fails_the_request_and_leaves_nothing(plane: Plane) -> None:
    plane.supervisor.refuses = True
    plane.ask("gang")
    await plane.becomes("gang", "Failed", "InternalError")
    await plane.no_nodes()


async def test_a_node_object_that_somebody_deletes_takes_its_machine_along(plane: Plane) -> None:
    plane.ask("gang")
    await plane.becomes("gang", "Provisioned", "Provisioned")
    plane.call("DELETE", "/api/v1/nodes/l4-0")

    await plane.eventually("the machine is stopped", lambda: "l4-0" not in plane.supervisor.machines)
    assert plane.nodes() == []


async def test_a_machine_left_over_from_before_is_swept_away(plane: Plane) -> None:
    await plane.end(signal.SIGKILL)
    plane.supervisor.machines = {"l4-0": {"pool": "l4"}, "system-0": {"pool": "system"}}
    await plane.start()

    await plane.eventually("the stray machine is stopped", lambda: "l4-0" not in plane.supervisor.machines)
    assert "system-0" in plane.supervisor.machines


async def test_the_command_line_breaks_and_mends_the_cloud(
    plane: Plane, capsys: pytest.CaptureFixture[str]
) -> None:
    async def command(*argv: str) -> int:
        return await asyncio.to_thread(main, ["local", *argv, "--kubeconfig", str(plane.api.admin)])

    assert await command("fault", "l4", "stock-out", "--count", "1") == 0
    plane.ask("first")
    await plane.becomes("first", "Failed", "ResourcePoolExhausted")
    plane.ask("second")
    await plane.becomes("second", "Provisioned", "Provisioned")
    assert await command("capacity", "l4", "2") == 0
    plane.ask("third")
    await plane.becomes("third", "Provisioned", "Provisioned")
    assert await command("fault", "l4", "revoke", "--count", "2") == 0
    await plane.becomes("second", "CapacityRevoked", "CapacityRevoked")
    await plane.becomes("third", "CapacityRevoked", "CapacityRevoked")
    await plane.no_nodes()
    assert await command("faults", "clear") == 0
    assert await command("faults", "list") == 0
    assert "stock-out" not in capsys.readouterr().out.splitlines()[-1]
    assert await command("fault", "nowhere", "delay") == 2
    assert "Fix: name one of l4, fake" in capsys.readouterr().err


async def test_a_pools_file_with_a_mistake_changes_nothing(plane: Plane) -> None:
    path = f"{_KINDS['ConfigMap']}/{names.POOLS_CONFIG}"
    good = plane.call("GET", path)["data"]
    try:
        plane.call("PATCH", path, {"data": {names.POOLS_KEY: "pools: 7"}}, "application/merge-patch+json")

        await plane.eventually(
            "it says that it cannot read them", lambda: "the pools stay as they were" in plane.log.read_text()
        )
        plane.ask("gang")
        await plane.becomes("gang", "Provisioned", "Provisioned")
    finally:
        plane.call("PATCH", path, {"data": good}, "application/merge-patch+json")


def test_the_kubeconfig_of_the_tests_is_nobody_elses(prepared: Any) -> None:
    assert os.environ.get("KUBECONFIG", "") not in {str(prepared.admin)}
    assert prepared.url.startswith("https://127.0.0.1:")


@pytest.mark.usefixtures("behind_karpenter")
async def test_behind_karpenter_a_node_has_a_machine_for_as_long_as_its_object_is_there(plane: Plane) -> None:
    machines = plane.supervisor.machines
    plane.call("POST", "/api/v1/nodes", _bought_by_karpenter("l4-x"))
    await plane.eventually("the machine is started", lambda: "l4-x" in machines)
    _kubelet_registers(plane, "l4-x")
    await plane.eventually(
        "its GPU is advertised",
        lambda: plane.nodes()[0]["status"]["capacity"].get(names.GPU) == "1",
    )
    plane.call("DELETE", "/api/v1/nodes/l4-x")
    await plane.eventually("the machine is stopped", lambda: "l4-x" not in machines)


@pytest.mark.usefixtures("behind_karpenter")
async def test_behind_karpenter_a_machine_that_still_starts_is_stopped_with_its_node(plane: Plane) -> None:
    plane.supervisor.starts.clear()
    plane.call("POST", "/api/v1/nodes", _bought_by_karpenter("l4-x"))
    asked = plane.supervisor.asked

    def is_stopped() -> bool:
        return ("node-down", "l4-x") in asked and not plane.supervisor.machines

    await plane.eventually("the machine is being started", lambda: ("node-up", "l4-x") in asked)
    plane.call("DELETE", "/api/v1/nodes/l4-x")
    plane.supervisor.starts.set()
    await plane.eventually("the machine is stopped once it runs", is_stopped)


@pytest.mark.usefixtures("behind_karpenter")
async def test_behind_karpenter_the_same_commands_change_its_stock(
    plane: Plane, capsys: pytest.CaptureFixture[str]
) -> None:
    async def command(*argv: str) -> int:
        return await asyncio.to_thread(main, ["local", *argv, "--kubeconfig", str(plane.api.admin)])

    async def stock_is(count: str) -> None:
        def reached() -> bool:
            found = plane.call("GET", f"{_KINDS['ConfigMap']}/{CLOUD}")
            return bool((found.get("data") or {}).get(stock_key("l4", "local")) == count)

        await plane.eventually(f"{count} in stock", reached)

    await stock_is("1")
    assert await command("capacity", "l4", "3") == 0
    await stock_is("3")
    assert await command("fault", "l4", "stock-out") == 0
    await stock_is("0")
    assert await command("faults", "clear") == 0
    await stock_is("3")
    assert await command("fault", "l4", "delay") == 2
    assert "bought by Karpenter" in capsys.readouterr().err


def _bought_by_karpenter(name: str) -> dict[str, Any]:
    labels = {names.POOL_LABEL: "l4", "karpenter.sh/nodepool": "l4"}
    return {"metadata": {"name": name, "labels": labels, "annotations": {names.VM: "requested"}}}
