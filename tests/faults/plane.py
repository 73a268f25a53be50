"""A plane of real programs without a node: etcd, the API server, Kueue, and the simulated cloud.

Everything but the manager under test talks to the API server directly; only the manager meets the faults. The
cloud's hour is a few seconds: what it does in minutes is not what is tried here.
"""

import json
import os
import sys
import threading
import urllib.error
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from muster.config import load
from muster.local.simulated_cloud import manifests
from muster.local.simulated_cloud import names as cloud
from muster.model import gangpolicy, names
from muster.model.stack import Stack
from muster.render import gang, kueue
from tests import envtest
from tests.envtest import ControlPlane, Programs
from tests.envtest.kueue import define
from tests.envtest.process import Process, running_process
from tests.faults.jobs import finish_evictions
from tests.integration.kueue_api.objects import apply
from tests.nodes import make_ready
from tests.unit.model.kueue_files import rendered

MERGE: Final = "application/merge-patch+json"
KUEUE: Final = f"/apis/{names.KUEUE_API_VERSION}"
PROVISIONING: Final = f"/apis/{names.PROVISIONING_API_VERSION}"
_ROOT: Final = Path(__file__).parents[2]
_STACK: Final = Path(__file__).with_name("stack.yaml")
_SCALE: Final = 20
_FAULTS: Final = f"/api/v1/namespaces/{cloud.NAMESPACE}/configmaps/{cloud.FAULTS_CONFIG}"
_POOL: Final = {
    "kind": "kwok",
    "cpu": "8",
    "memory": "32Gi",
    "gpus": 1,
    "maxNodes": 40,
    "stock": 40,
    "provisionDelay": "2s",
    "taints": ["nvidia.com/gpu=present:NoSchedule"],
    # Workloads here have no pods that could tolerate it.
    "queuedTaint": False,
    "classes": [names.GKE_QUEUED_CLASS],
}
# No pod ever takes a booking here, so it must outlive every test. Nodes go soon: the next test needs stock.
_POOLS: Final = {
    "times": {"booking": "10h", "scaleDown": "5s", "scaleDownConsumed": "5s"},
    "pools": [{"name": name, **_POOL} for name in ("l4", "h100")],
}


@dataclass(slots=True)
class Plane:
    """What stands while tests come and go."""

    server: ControlPlane
    programs: Programs
    stack: Stack
    kueue: Process
    cloud: Process

    def fault(self, name: str, **script: object) -> None:
        """One entry of the cloud's script of faults."""
        self.server.call("PATCH", _FAULTS, {"data": {name: json.dumps(script)}}, content_type=MERGE)

    def has_met(self, fault: str) -> bool:
        """Anything has met the fault, which has a count."""
        return bool(json.loads(self.server.call("GET", _FAULTS)["data"][fault]).get("hits"))

    def mend(self) -> None:
        """The cloud does what it is asked again."""
        self.server.call("PATCH", _FAULTS, {"data": None}, content_type=MERGE)

    def policy(self, **changes: object) -> None:
        """The stack's GangPolicy, with other fields in its spec for a while."""
        manifest = json.loads(json.dumps(gang.policy(self.stack)))
        manifest["spec"] |= changes
        path = f"/apis/{names.API_VERSION}/{names.GANG_POLICY_PLURAL}/{names.GANG_POLICY}"
        self.server.apply(manifest, path)

    def manager_kubeconfig(self, url: str, *, authority: Path | None = None) -> Path:
        """In JSON, for a manager that reaches the server at `url`."""
        path = self.server.folder / f"manager-{url.rpartition(':')[2]}.json"
        trust = {"certificate-authority": str(authority)} if authority else {}
        content = {
            "current-context": "faults",
            "contexts": [{"name": "faults", "context": {"cluster": "faults", "user": "faults"}}],
            "clusters": [{"name": "faults", "cluster": {"server": url, **trust}}],
            "users": [{"name": "faults", "user": {"token": self.server.token}}],
        }
        path.touch(mode=0o600)
        path.write_text(json.dumps(content))
        return path


@contextmanager
def plane(folder: Path, programs: Programs) -> Iterator[Plane]:
    """A fresh one with the queues of stack.yaml, until the block ends."""
    stack = load(_STACK)
    # The store is read by history.py: everything in it is to be JSON, and nothing of it forgotten after five
    # minutes, which is what a test may take on a slow machine.
    flags = ("--storage-media-type=application/json", "--etcd-compaction-interval=0")
    with envtest.control_plane(folder, programs, flags=flags) as server:
        define(server, programs)
        server.define([gangpolicy.crd()])
        _furnish(server)
        with (
            envtest.kueue(server, programs, config=kueue.manager_config(stack)) as scheduler,
            _cloud(server) as simulated,
            _caretaker(server),
        ):
            made = Plane(server, programs, stack, scheduler, simulated)
            for item in rendered(stack):
                apply(server, item)
            made.policy()
            yield made


def _furnish(server: ControlPlane) -> None:
    """The namespaces, and the cloud's pools."""
    for name in (names.SYSTEM_NAMESPACE, cloud.NAMESPACE):
        apply(server, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    for manifest in (manifests.pools(), manifests.faults()):
        if manifest["metadata"]["name"] == cloud.POOLS_CONFIG:
            manifest = {**manifest, "data": {cloud.POOLS_KEY: yaml.safe_dump(_POOLS)}}
        apply(server, manifest)


@contextmanager
def _cloud(server: ControlPlane) -> Iterator[Process]:
    argv = [sys.executable, "-m", "muster.local.simulated_cloud", f"--kubeconfig={server.kubeconfig()}"]
    argv += [f"--control={server.folder / 'nobody.sock'}", f"--clock-scale={_SCALE}"]
    environment = {**os.environ, "PYTHONPATH": str(_ROOT)}
    process = Process("cloud", argv, log=server.folder / "cloud.log", environment=environment)
    with running_process(process):
        yield process


@contextmanager
def _caretaker(server: ControlPlane) -> Iterator[None]:
    """Keeps nodes and ends evictions, in a thread; a call that is refused is tried again."""
    stopped = threading.Event()

    def keep() -> None:
        while not stopped.wait(0.2):
            for care in (make_ready, finish_evictions):
                with suppress(OSError):  # HTTPError is one
                    care(server)

    thread = threading.Thread(target=keep, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join(30)


def find(server: ControlPlane, path: str) -> dict[str, Any] | None:
    """The object, or None where there is none."""
    try:
        return dict(server.call("GET", path))
    except urllib.error.HTTPError as refusal:
        if refusal.code == 404:
            return None
        raise


def items(server: ControlPlane, path: str) -> list[dict[str, Any]]:
    return list(server.call("GET", path)["items"])


def tail(log: Path, size: int = 6000) -> str:
    return log.read_bytes()[-size:].decode(errors="replace") if log.exists() else ""
