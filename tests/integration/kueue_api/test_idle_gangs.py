"""With the real Kueue: a gang whose GPUs do nothing is stopped, and one that works is not, whatever a tenant
says. dcgm-exporter is a stand-in, an HTTP server of this test that says of a GPU what the test wants.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, Final

import pytest
import yaml

from muster.config import parse
from muster.live.why.format import format_status
from muster.live.why.job_status import parse_status
from muster.model import names
from muster.model.programs import EXPORTER_PORT, GPU_OPERATOR_NAMESPACE
from tests.integration.kueue_api.cloud import force
from tests.integration.kueue_api.conftest import world_of
from tests.integration.kueue_api.objects import apply
from tests.integration.kueue_api.world import (
    JOBS,
    PODS,
    STACK,
    TEAM,
    WORKLOADS,
    World,
    is_let_in,
    is_outside,
    pod,
)
from tests.integration.pod_autoscaler import make_node
from tests.waiting import eventually

Object = dict[str, Any]

RULE: Final = {"after": "6s", "notice": "8s", "action": "suspend", "keep": "4h"}
# Addresses of this host's own loopback network.
EXPORTER, TENANT = "127.9.0.1", "127.9.0.2"
EXPORTERS: Final = f"/api/v1/namespaces/{GPU_OPERATOR_NAMESPACE}/pods"
_LABELS: Final = {"app": "nvidia-dcgm-exporter"}
DAEMON_SET: Final = {
    "apiVersion": "apps/v1",
    "kind": "DaemonSet",
    "metadata": {"name": "nvidia-dcgm-exporter", "namespace": GPU_OPERATOR_NAMESPACE},
    "spec": {
        "selector": {"matchLabels": _LABELS},
        "template": {
            "metadata": {"labels": _LABELS},
            "spec": {"containers": [{"name": "exporter", "image": "none"}]},
        },
    },
}


@dataclass(eq=False)
class StandIn:
    """Says in dcgm-exporter's words how busy the GPU of pod `gang-0` is, of 0 to 100. `pages`: how many it
    was asked for.
    """

    busy: int = 0
    pages: int = 0
    server: ThreadingHTTPServer = field(init=False)

    def page(self) -> bytes:
        self.pages += 1
        labels = f'gpu="0",UUID="GPU-1",Hostname="node",container="work",namespace="{TEAM}",pod="gang-0"'
        energy = int(time.monotonic() * 1000)
        lines = (
            f"DCGM_FI_DEV_GPU_UTIL{{{labels}}} {self.busy}",
            f"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{{{labels}}} {energy}",
        )
        return "\n".join((*lines, "")).encode()

    @contextmanager
    def at(self, address: str) -> Iterator["StandIn"]:
        stand_in = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                page = stand_in.page()
                self.send_response(200)
                self.send_header("Content-Length", str(len(page)))
                self.end_headers()
                self.wfile.write(page)

            def log_message(self, *_: object) -> None:
                pass

        with ThreadingHTTPServer((address, EXPORTER_PORT), Handler) as server:
            Thread(target=server.serve_forever, daemon=True).start()
            try:
                yield self
            finally:
                server.shutdown()


@pytest.fixture(scope="module")
def _plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    config = yaml.safe_load(STACK.read_text(encoding="utf-8"))["config"]
    config["muster:pools"]["fixed"] = {
        "accelerator": "nvidia-l4",
        "machine": "local-l4",
        "minNodes": 1,
        "maxNodes": 1,
    }
    team = config["muster:departments"]["research"]["teams"]["team-b"]
    team["quota"]["fixed"], team["idle"] = 1, {"action": "suspend"}
    stack = parse(config, source=str(STACK))
    with world_of(stack, tmp_path_factory.mktemp("idle"), rights=stack) as made:
        made.begin()
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": GPU_OPERATOR_NAMESPACE}}
        apply(made.plane, namespace)
        apply(made.plane, DAEMON_SET)
        yield made


@pytest.fixture
def world(_plane: World) -> Iterator[World]:
    """With a gang of one pod that runs. No kubelet is here, and no job controller: the test is both."""
    with _plane.policy(idle={"team-b": RULE}):
        yield _plane
    for path in (EXPORTERS, PODS):
        force(_plane.plane, path)
    _plane.wait_until_empty(EXPORTERS)
    _plane.clear()


def _run(world: World) -> str:
    """Returns the node of its pod."""
    world.run("gang")
    (request,) = world.requests("gang")
    node: str = next(
        each["metadata"]["name"]
        for each in world.items("/api/v1/nodes")
        if (each["metadata"].get("labels") or {}).get(names.GKE_LEASE_LABEL) == request["metadata"]["name"]
    )
    consumes = {names.CONSUME_ANNOTATION: request["metadata"]["name"]}
    _make_pod(world, TEAM, "gang-0", node, spec=pod("l4"), annotations=consumes)
    return node


def _make_pod(
    world: World, namespace: str, name: str, node: str, *, spec: Object, address: str = "", **meta: Any
) -> None:
    item = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, **meta},
        "spec": {**spec, "nodeName": node},
    }
    apply(world.plane, item)
    status: Object = {"phase": "Running"}
    if address:
        status |= {"podIP": address, "podIPs": [{"ip": address}]}
    path = f"/api/v1/namespaces/{namespace}/pods/{name}/status"
    world.patch(path, {"status": status})


def _make_exporter(world: World, node: str, *, namespace: str = GPU_OPERATOR_NAMESPACE, address: str) -> None:
    made = world.plane.call("GET", f"/apis/apps/v1/namespaces/{GPU_OPERATOR_NAMESPACE}/daemonsets")["items"][
        0
    ]
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "controller": True}
    owner |= {"name": made["metadata"]["name"], "uid": made["metadata"]["uid"]}
    meta: Object = {"labels": _LABELS}
    if namespace == GPU_OPERATOR_NAMESPACE:
        meta["ownerReferences"] = [owner]
    spec = {"containers": [{"name": "exporter", "image": "none"}]}
    _make_pod(world, namespace, f"exporter-{node}", node, spec=spec, address=address, **meta)


def _is_noticed(world: World) -> bool:
    return names.IDLE_SINCE_ANNOTATION in world.notes("gang")


def _looks(exporter: StandIn, count: int) -> None:
    """So many more looks."""
    until = exporter.pages + count
    eventually("the manager has looked", lambda: exporter.pages >= until)


def test_a_gang_that_stays_idle_after_its_notice_gives_its_quota_back(world: World) -> None:
    soon = world.policy(idle={"team-b": RULE | {"after": "2s"}})
    with soon, StandIn().at(EXPORTER), world.manager():
        _make_exporter(world, _run(world), address=EXPORTER)
        eventually("it has the notice", lambda: _is_noticed(world))
        shown = format_status(parse_status(world.workload("gang") or {}), now=datetime.now(UTC))
        assert "no GPU of it has done anything since" in shown
        assert "it is stopped at" in shown
        eventually("an Event says so on its job", lambda: "GangIdle" in world.reasons("gang"))
        eventually("it holds no quota", lambda: not world.holds("gang", "QuotaReserved"))
        assert is_outside(world.workload("gang"))
        assert world.notes("gang")[names.STOP_ANNOTATION] == "idle"
        job = world.plane.call("GET", f"{JOBS}/gang")
        assert job["spec"]["suspend"] is True


def test_a_gang_on_a_pool_without_our_check_is_stopped_and_comes_back(world: World) -> None:
    with world.shared_node("always", "fixed"), StandIn().at(EXPORTER), world.manager():
        world.submit("gang", "fixed")
        world.wait_until_runs("gang")
        assert not world.entry("gang")
        kueues = {names.POD_WORKLOAD_ANNOTATION: (world.workload("gang") or {})["metadata"]["name"]}

        def given() -> dict[str, str]:
            template: Object = world.plane.call("GET", f"{JOBS}/gang")["spec"]["template"]
            return template["metadata"].get("annotations") or {}

        eventually("Kueue names it on its pods", lambda: kueues.items() <= given().items())
        _make_pod(world, TEAM, "gang-0", "always", spec=pod("fixed"), annotations=kueues)
        _make_exporter(world, "always", address=EXPORTER)
        eventually("it holds no quota", lambda: not world.holds("gang", "QuotaReserved"))
        assert is_outside(world.workload("gang"))
        assert world.notes("gang")[names.STOP_ANNOTATION] == "idle"
        assert world.plane.call("GET", f"{JOBS}/gang")["spec"]["suspend"] is True
        force(world.plane, EXPORTERS)
        path = f"{WORKLOADS}/{(world.workload('gang') or {})['metadata']['name']}"
        gone = {"metadata": {"annotations": {names.STOP_ANNOTATION: None}}}
        world.patch(path, gone)
        eventually("it is let in", lambda: is_let_in(world.workload("gang")))
        world.wait_until_runs("gang")


def test_work_within_the_notice_cancels_it_and_the_word_of_the_owner_puts_it_off(world: World) -> None:
    with StandIn().at(EXPORTER) as exporter, world.manager():
        _make_exporter(world, _run(world), address=EXPORTER)
        eventually("it has the notice", lambda: _is_noticed(world))
        exporter.busy = 60
        eventually("the notice is taken back", lambda: not _is_noticed(world))
        eventually("an Event says so", lambda: "GangNotIdle" in world.reasons("gang"))
        kept = {"metadata": {"annotations": {names.KEEP_UNTIL_ANNOTATION: "2999-01-01T00:00:00Z"}}}
        world.patch(f"{JOBS}/gang", kept)
        exporter.busy = 0
        first = eventually(
            "it has the notice again", lambda: world.notes("gang").get(names.IDLE_ENDS_ANNOTATION)
        )
        eventually(
            "it ends hours later", lambda: world.notes("gang").get(names.IDLE_ENDS_ANNOTATION, first) > first
        )
        _looks(exporter, 14)  # Two for each, and twice the notice.
        assert names.STOP_ANNOTATION not in world.notes("gang")
        assert world.holds("gang", "Admitted")


def test_what_a_tenant_serves_as_an_exporter_is_not_even_asked_for(world: World) -> None:
    """The exporter of the node says that the GPU works. A pod of the team has the exporter's label and serves
    its port, and an exporter of another node names the gang's pod.
    """
    with StandIn(busy=80).at(EXPORTER) as honest, StandIn().at(TENANT) as forged, world.manager():
        node = _run(world)
        make_node(world.plane, "other", "l4")
        _make_exporter(world, node, namespace=TEAM, address=TENANT)
        _make_exporter(world, node, address=EXPORTER)
        _make_exporter(world, "other", address=TENANT)
        _looks(honest, 20)
        assert not _is_noticed(world)
        assert forged.pages == 0
        world.delete("/api/v1/nodes/other")
