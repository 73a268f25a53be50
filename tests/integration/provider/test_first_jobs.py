"""The first job of a new team on a new cluster: a client that waits for the Bundle can submit."""

import asyncio
import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from muster.config import load
from muster.kubernetes.kubeconfig import load_access
from muster.model.stack import Stack
from muster.provider.api import Cluster, Deadline
from muster.provider.resource import Written, write
from muster.render import queues, queuetree, ray, tenancy
from tests import built, envtest
from tests.envtest import ControlPlane
from tests.envtest.kueue import define
from tests.envtest.process import CRDS, PROVISIONING_CRD, Process
from tests.integration.tenancy import crds
from tests.waiting import eventually

_LOCAL: Final = Path(__file__).parents[3] / "stacks" / "Pulumi.local.yaml"
_QUOTAS: Final = "/api/v1/namespaces/default/resourcequotas"
_JOBS: Final = "/apis/ray.io/v1/namespaces/team-a/rayjobs"
_TEAM: Final = "team-a"


@dataclass(slots=True)
class _World:
    plane: ControlPlane
    manager: Process
    stack: Stack
    define: Callable[[], None]
    """Makes the kinds of Kueue and KubeRay known."""

    def write(self, manifests: dict[str, list[dict[str, Any]]], status: Any = lambda _: None) -> Written:
        """Applies a Bundle as the provider does, with the dry run of the team where it is in it."""
        return asyncio.run(self._write(manifests, status))

    async def _write(self, manifests: dict[str, list[dict[str, Any]]], status: Any) -> Written:
        job = queuetree.dry_runs(self.stack)[_TEAM]
        access = load_access(str(self.plane.kubeconfig()), None)
        async with Cluster(access) as cluster:
            return await write(
                cluster,
                {key: json.dumps(objects) for key, objects in manifests.items()},
                dry_runs={_TEAM: json.dumps(job)} if _TEAM in manifests else {},
                before={},
                state={},
                deadline=Deadline(300),
                log_status=status,
            )

    def is_counted(self, name: str) -> bool:
        found = self.plane.call("GET", f"{_QUOTAS}/{name}")
        return bool((found.get("status") or {}).get("used"))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[_World]:
    """A controller manager that counts quotas, on a server without the kinds."""
    needed = ("etcd", "kube-apiserver", "kube-controller-manager")
    programs = built.programs(needed, (CRDS, PROVISIONING_CRD))
    kuberay = built.kuberay()
    with (
        envtest.control_plane(tmp_path, programs) as plane,
        envtest.controllers(plane, programs, ("resourcequota-controller",)) as manager,
    ):

        def kinds() -> None:
            define(plane, programs)
            plane.define(crds.kuberay(kuberay))

        made = _World(plane, manager, load(_LOCAL), kinds)
        spec = {"hard": {"count/configmaps": "9"}}
        quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "probe"}, "spec": spec}
        plane.call("POST", _QUOTAS, quota)
        eventually("the controller manager counts", lambda: made.is_counted("probe"))
        yield made


def _send(process: Process, number: signal.Signals) -> None:
    assert process.pid is not None
    os.kill(process.pid, number)


def test_a_bundle_waits_for_a_slow_controller_manager_and_then_the_first_job_is_accepted(
    world: _World,
) -> None:
    _send(world.manager, signal.SIGSTOP)
    world.define()
    policies = [each for pair in tenancy.policies(world.stack) for each in pair]
    policies += ray.admission(world.stack.ray)
    assert world.write({"policies": policies}).failures == ()
    lines: list[str] = []
    waits = threading.Event()

    def status(line: str) -> None:
        lines.append(line)
        if line.startswith("waiting for kube-controller-manager to count"):
            waits.set()

    written: list[Written] = []
    team = {_TEAM: queues.by_department(world.stack)["research"][_TEAM]}
    up = threading.Thread(target=lambda: written.append(world.write(team, status)), daemon=True)
    up.start()
    assert waits.wait(120), lines
    assert up.is_alive()

    _send(world.manager, signal.SIGCONT)
    up.join(280)
    assert not up.is_alive(), lines[-1]
    assert (written[0].failures, written[0].warnings) == ((), ())
    assert "count/rayjobs.ray.io" in next(line for line in lines if line.startswith("waiting for"))

    job = queuetree.dry_runs(world.stack)[_TEAM]
    assert world.plane.call("POST", _JOBS, job)["metadata"]["uid"]


def test_a_quota_that_was_counted_before_its_kinds_were_known_is_counted_again(world: _World) -> None:
    """By itself the controller manager does that every five minutes, and a Bundle gives up before."""
    team = queues.by_department(world.stack)["research"][_TEAM]
    early = [each for each in team if each["kind"] in ("Namespace", "ResourceQuota")]
    # Nothing is waited for that the cluster does not serve.
    assert world.write({"early": early}).failures == ()
    world.define()
    written = world.write({_TEAM: team})
    assert (written.failures, written.warnings) == ((), ())
    (quota,) = [each for each in team if each["kind"] == "ResourceQuota"]
    path = f"/api/v1/namespaces/{_TEAM}/resourcequotas/{quota['metadata']['name']}"
    assert world.plane.call("GET", path)["spec"]["hard"].keys() == quota["spec"]["hard"].keys()
