"""A stack goes over to Kueue's own check and back while work waits: nothing is stranded or left over.

The real Kueue and our real manager as processes of this host; the cloud is this test, which answers requests
by writing their status. The order of writes is the Pulumi program's: checks, queues, and last the controller.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from localplane import bare
from localplane.bare import ControlPlane, path_of
from localplane.bare.kueue import define
from localplane.bare.process import Process, free_port
from model import gangpolicy, names
from model.render import gang, kueue
from model.stack import GangAdmission, GangMode, Stack
from stackconfig import load
from tests.integration.kueue_api.objects import apply, wait_for
from tests.unit.model.kueue_files import rendered

_ROOT: Final = Path(__file__).parents[3]
_TEAM: Final = "team-b"
_KUEUE: Final = f"/apis/{names.KUEUE_API_VERSION}"
_WORKLOADS: Final = f"{_KUEUE}/namespaces/{_TEAM}/workloads"
_REQUESTS: Final = f"/apis/{names.PROVISIONING_API_VERSION}/namespaces/{_TEAM}/provisioningrequests"
_MERGE: Final = "application/merge-patch+json"


@dataclass(slots=True)
class World:
    """A plane with Kueue on it, and our manager while it is there."""

    plane: ControlPlane
    ours: Stack
    theirs: Stack

    @contextmanager
    def manager(self) -> Iterator[None]:
        """Our manager, until the block ends."""
        health = free_port()
        argv = [sys.executable, "-m", "controller", "manager", f"--kubeconfig={self._kubeconfig()}"]
        argv += [f"--health-port={health}", "--no-leader-elect"]
        process = Process("manager", argv, log=self.plane.folder / "manager.log")
        process.start()
        try:
            wait_for("our check is active", lambda: self.is_active(names.ADMISSION_CHECK))
            yield
        finally:
            process.kill()

    def is_active(self, check: str) -> bool:
        found = self.plane.call("GET", f"{_KUEUE}/admissionchecks/{check}")
        conditions = (found.get("status") or {}).get("conditions") or []
        return any(each["type"] == "Active" and each["status"] == "True" for each in conditions)

    def go_over(self, old: Stack, new: Stack) -> None:
        """As the program does: what is new, then what is gone, then the queues."""
        objects = rendered(new)
        for item in objects:
            if item["kind"] not in ("ClusterQueue", "LocalQueue"):
                apply(self.plane, item)
        kept = {path_of(item) for item in objects}
        for item in reversed(kueue.admission_check(old)):
            if path_of(item) not in kept:
                self.plane.call("DELETE", path_of(item))
        for item in objects:
            if item["kind"] in ("ClusterQueue", "LocalQueue"):
                apply(self.plane, item)

    def submit(self, name: str, pool: str) -> None:
        gpu = {"nvidia.com/gpu": "1"}
        container = {
            "name": "work",
            "image": "none",
            "resources": {"requests": {"cpu": "100m", **gpu}, "limits": gpu},
        }
        pod = {
            "restartPolicy": "Never",
            "nodeSelector": {names.POOL_LABEL: pool},
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
            "containers": [container],
        }
        labels = {names.QUEUE_LABEL: "default", names.PRIORITY_LABEL: "prod"}
        meta = {"name": name, "namespace": _TEAM, "labels": labels}
        job = {"suspend": True, "template": {"spec": pod}}
        apply(self.plane, {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": job})

    def workload(self, name: str) -> dict[str, Any] | None:
        items = self.plane.call("GET", _WORKLOADS)["items"]
        return next((each for each in items if each["metadata"]["name"].startswith(f"job-{name}-")), None)

    def uid(self, name: str) -> str:
        return str((self.workload(name) or {"metadata": {"uid": ""}})["metadata"]["uid"])

    def requests(self, name: str) -> list[dict[str, Any]]:
        """Requests of ours for this Workload, or of Kueue's."""
        uid, found = self.uid(name), self.plane.call("GET", _REQUESTS)["items"]
        return [each for each in found if _is_ours(each, uid) or _is_theirs(each, uid)]

    def answer(self, request: dict[str, Any], kind: str) -> None:
        """The cloud's answer: Failed or Provisioned."""
        now = request["metadata"]["creationTimestamp"]
        said = {
            "type": kind,
            "status": "True",
            "reason": "Test",
            "message": "said by a test",
            "lastTransitionTime": now,
        }
        path = f"{_REQUESTS}/{request['metadata']['name']}/status"
        self.plane.call("PATCH", path, {"status": {"conditions": [said]}}, content_type=_MERGE)

    def _kubeconfig(self) -> Path:
        bundle = base64.b64encode(self.plane.certificate.read_bytes()).decode()
        cluster = {"server": self.plane.url, "certificate-authority-data": bundle}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "bare",
            "contexts": [{"name": "bare", "context": {"cluster": "bare", "user": "bare"}}],
            "clusters": [{"name": "bare", "cluster": cluster}],
            "users": [{"name": "bare", "user": {"token": self.plane.token}}],
        }
        path = self.plane.folder / "manager.kubeconfig"
        path.touch(mode=0o600)
        path.write_text(json.dumps(content))
        return path


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    programs = bare.found()
    if programs is None:
        pytest.skip(
            "no etcd, kube-apiserver and kueue: build them with `make build`, or set MUSTER_ARTIFACTS"
        )
    ours = load(_ROOT / "stacks" / "Pulumi.local.yaml")
    theirs = replace(ours, gang_admission=GangAdmission(mode=GangMode.BUILTIN))
    with bare.control_plane(tmp_path, programs) as plane:
        define(plane, programs)
        plane.define([gangpolicy.crd()])
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": names.SYSTEM_NAMESPACE}}
        apply(plane, namespace)
        with bare.kueue(plane, programs, config=kueue.manager_config(ours)):
            yield World(plane, ours, theirs)


def test_work_that_waits_goes_over_to_kueues_own_check_and_back(world: World) -> None:
    _apply_policy(world)
    for item in rendered(world.ours):
        apply(world.plane, item)
    theirs = [item["metadata"]["name"] for item in kueue.admission_check(world.theirs) if _is_check(item)]

    with world.manager():
        world.submit("outside", "l4")
        world.submit("asking", "h100")
        for name in ("outside", "asking"):
            wait_for(f"{name} has asked", partial(world.requests, name))
        world.answer(world.requests("outside")[0], "Failed")
        wait_for("outside waits outside the quota", lambda: _is_outside(world.workload("outside")))
        world.go_over(world.ours, world.theirs)
        wait_for("outside is let back in", lambda: _is_let_in(world.workload("outside")))
        wait_for("what asking had asked for is released", lambda: not _ours(world, "asking"))

    # Ours is gone, and Kueue asks anew.
    for name in ("outside", "asking"):
        wait_for(f"Kueue has asked for {name}", partial(_theirs, world, name))
        assert not _ours(world, name)
        assert {each["name"] for each in _entries(world, name)} <= set(theirs)
    (request,) = world.requests("outside")
    world.answer(request, "Provisioned")
    wait_for("outside is admitted", lambda: _is_admitted(world, "outside"))

    # And back, while `asking` waits under Kueue's check and `outside` runs under it.
    _apply_policy(world)
    world.go_over(world.theirs, world.ours)
    with world.manager():
        wait_for("ours has asked for asking", lambda: _ours(world, "asking"))
        wait_for("Kueue's request is gone", lambda: not _theirs(world, "asking"))
        assert {each["name"] for each in _entries(world, "asking")} == {names.ADMISSION_CHECK}
        # What ran under Kueue's check runs on, and nothing is bought for it a second time.
        wait_for("outside is ready for ours too", lambda: _entries(world, "outside")[0]["state"] == "Ready")
        assert _is_admitted(world, "outside")
        assert not _ours(world, "outside")


def _apply_policy(world: World) -> None:
    apply_at = f"/apis/{names.API_VERSION}/{names.GANG_POLICY_PLURAL}/{names.GANG_POLICY}"
    world.plane.apply(json.loads(json.dumps(gang.policy(world.ours))), apply_at)


def _is_check(item: dict[str, Any]) -> bool:
    return bool(item["kind"] == "AdmissionCheck")


def _is_ours(request: dict[str, Any], uid: str) -> bool:
    return (request["metadata"].get("labels") or {}).get(names.WORKLOAD_UID_LABEL) == uid


def _is_theirs(request: dict[str, Any], uid: str) -> bool:
    return uid in {owner["uid"] for owner in request["metadata"].get("ownerReferences") or ()}


def _ours(world: World, name: str) -> list[dict[str, Any]]:
    return [each for each in world.requests(name) if _is_ours(each, world.uid(name))]


def _theirs(world: World, name: str) -> list[dict[str, Any]]:
    return [each for each in world.requests(name) if _is_theirs(each, world.uid(name))]


def _entries(world: World, name: str) -> list[dict[str, Any]]:
    return list(((world.workload(name) or {}).get("status") or {}).get("admissionChecks") or ())


def _is_outside(workload: dict[str, Any] | None) -> bool:
    noted = (workload or {}).get("metadata", {}).get("annotations") or {}
    return names.RETRY_AT_ANNOTATION in noted and (workload or {})["spec"].get("active") is False


def _is_let_in(workload: dict[str, Any] | None) -> bool:
    noted = (workload or {}).get("metadata", {}).get("annotations") or {}
    return names.RETRY_AT_ANNOTATION not in noted and (workload or {})["spec"].get("active") is not False


def _is_admitted(world: World, name: str) -> bool:
    conditions = ((world.workload(name) or {}).get("status") or {}).get("conditions") or []
    return any(each["type"] == "Admitted" and each["status"] == "True" for each in conditions)
