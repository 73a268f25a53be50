"""A cluster that ran Kueue before Muster: its objects, as kubectl makes them, and what becomes of them."""

import asyncio
import re
import urllib.error
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from muster.adopt.cluster import LiveCluster, fetch_cluster
from muster.components.bundle import text
from muster.kubernetes.client import connect
from muster.kubernetes.kubeconfig import load_access
from muster.model.stack import Stack
from muster.provider.api import Cluster as ProviderCluster
from muster.provider.api import Deadline
from muster.provider.resource import Written, write
from muster.render import queues
from tests.clouds.engine import ROOT
from tests.envtest import ControlPlane, path_of
from tests.waiting import eventually

Object = dict[str, Any]

KUEUE: Final = "/apis/kueue.x-k8s.io/v1beta2"
_OURS: Final = "kueue.x-k8s.io"
_PLURALS: Final = (
    *("workloads", "localqueues", "clusterqueues", "cohorts", "admissionchecks"),
    *("provisioningrequestconfigs", "resourceflavors", "topologies", "workloadpriorityclasses"),
)
JOBS: Final = "/apis/batch/v1/namespaces/default/jobs"


@dataclass(slots=True)
class World:
    plane: ControlPlane
    made: list[Object] = field(default_factory=list)

    def create(self, objects: Iterable[Object]) -> None:
        """As kubectl does: the fields are kubectl's from then on."""
        for body in objects:
            at = path_of(body)
            if body["kind"] == "Namespace" and self.find(at) is not None:
                continue
            self.plane.call("POST", f"{at.rpartition('/')[0]}?fieldManager=kubectl-create", body)
            self.made.append(body)

    def live(self) -> dict[str, Object]:
        """Every object that was made, by its path, in the version of today."""
        found = {}
        for body in self.made:
            if body["apiVersion"].startswith(_OURS):
                path = path_of({**body, "apiVersion": f"{_OURS}/v1beta2"})
                found[path] = self.plane.call("GET", path)
        return found

    def read(self) -> LiveCluster:
        """What `muster adopt` reads."""
        return fetch_cluster(connect(self.plane.kubeconfig()))

    def take_over(self, stack: Stack) -> Written:
        """The queues of the stack, applied by the provider as the first `pulumi up` does."""
        ours = [each for each in queues.objects(stack) if each["apiVersion"].startswith(_OURS)]
        return apply(self.plane, ours)

    def clear(self) -> None:
        """What queues use goes after them: Kueue holds it until then. Namespaces stay, because nothing here
        empties them.
        """
        for node in self.plane.call("GET", "/api/v1/nodes")["items"]:
            self.delete(f"/api/v1/nodes/{node['metadata']['name']}")
        for job in self.plane.call("GET", JOBS)["items"]:
            self.delete(path_of({"apiVersion": "batch/v1", "kind": "Job", **job}))
        for plural in _PLURALS:
            for each in self.plane.call("GET", f"{KUEUE}/{plural}")["items"]:
                meta = each["metadata"]
                space = f"/namespaces/{meta['namespace']}" if "namespace" in meta else ""
                self.delete(f"{KUEUE}{space}/{plural}/{meta['name']}")
        self.made.clear()

    def delete(self, path: str) -> None:
        try:
            self.plane.call("DELETE", path, {"propagationPolicy": "Background"})
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise
        eventually(f"{path} is gone", lambda: self.find(path) is None)

    def find(self, path: str) -> Object | None:
        try:
            found: Object = self.plane.call("GET", path)
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise
            return None
        return found


def submit(world: World) -> str:
    """A Job that Kueue admits: its Workload's path."""
    container = {"name": "work", "image": "none", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "runs",
            "namespace": "default",
            "labels": {
                "kueue.x-k8s.io/queue-name": "user-queue",
                "kueue.x-k8s.io/priority-class": "prod-priority",
            },
        },
        "spec": {
            "suspend": True,
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
        },
    }
    world.plane.call("POST", JOBS, job)
    workloads = f"{KUEUE}/namespaces/default/workloads"
    found = eventually("Kueue has made a Workload", lambda: world.plane.call("GET", workloads)["items"])
    path = f"{workloads}/{found[0]['metadata']['name']}"
    eventually(
        "it is started, of which Kueue writes last", lambda: _is_started(world.plane.call("GET", path))
    )
    return path


def _is_started(workload: dict[str, Any]) -> bool:
    """Admitted, and Kueue has resumed its Job. Its pods are never ready: no kubelet runs here."""
    conditions = workload.get("status", {}).get("conditions") or []
    states = {each["type"]: each["status"] for each in conditions}
    return {"Admitted": "True", "PodsReady": "False"}.items() <= states.items()


def apply(plane: ControlPlane, objects: list[Object]) -> Written:
    """The objects, applied by the provider as the first `pulumi up` does."""

    async def applied() -> Written:
        access = load_access(plane.kubeconfig().read_text(), "bare")
        async with ProviderCluster(access) as cluster:
            return await write(
                cluster,
                {"queues": text(objects)},
                before={},
                state={},
                deadline=Deadline(60),
                log_status=lambda _: None,
            )

    return asyncio.run(applied())


def adopter(plane: ControlPlane) -> Path:
    """A kubeconfig with the rights that docs/adopt.md lists, and no others."""
    page = (ROOT / "docs" / "adopt.md").read_text()
    (role,) = [each for each in _blocks(page) if each.get("kind") == "ClusterRole"]
    assert {verb for rule in role["rules"] for verb in rule["verbs"]} == {"list"}
    name = role["metadata"]["name"]
    account = {"kind": "ServiceAccount", "name": "adopter", "namespace": "default"}
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [account],
    }
    body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "adopter"}}
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    plane.call("POST", accounts, body)
    for each in (role, binding):
        plane.call("POST", path_of(each).rpartition("/")[0], each)
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = plane.call("POST", f"{accounts}/adopter/token", request)["status"]["token"]
    return plane.kubeconfig(token, name="adopter")


def _blocks(page: str) -> list[Object]:
    found = re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    return [each for block in found for each in yaml.safe_load_all(block) if isinstance(each, dict)]
