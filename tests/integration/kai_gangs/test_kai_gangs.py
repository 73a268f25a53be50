"""KAI gangs on a real API server: the manager with its own rights, the simulated autoscaler, scripted KAI."""

from __future__ import annotations

import contextlib
import secrets
import urllib.error
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from muster.components import gang_authority
from muster.config import load
from muster.local.simulated_cloud import manifests, names
from muster.model.gangpolicy import DetailSelector, FlavorPolicy, GangPolicy, KaiPolicy, crd, to_manifest
from muster.model.names import (
    CLASS_ANNOTATION,
    CONSUME_ANNOTATION,
    GKE_LEASE_DETAIL,
    GKE_LEASE_LABEL,
    GKE_QUEUED_CLASS,
    SYSTEM_NAMESPACE,
    TEAM_LABEL,
)
from muster.model.stack import Scheduler
from tests.envtest import path_of
from tests.integration.accounts import RIGHTS, limits, registered
from tests.integration.kai_gangs.objects import RAY_CLUSTERS, job, ray_cluster, worker_group
from tests.integration.ours import Ours
from tests.integration.rights import enough_rights
from tests.kai.definitions import ours
from tests.kai.standin import QUEUES, StandIn
from tests.mocks.test_platform import LOCAL
from tests.waiting import eventually

if TYPE_CHECKING:
    from tests.integration.conftest import ApiServer

_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_AUTOSCALER = "/apis/autoscaling.x-k8s.io/v1"
# Nodes go soon, so that the next test has stock.
_POOLS = {
    "times": {"scaleDown": "5s", "scaleDownConsumed": "5s"},
    "pools": [
        {
            "name": "l4",
            "kind": "kwok",
            "cpu": "8",
            "memory": "32Gi",
            "gpus": 1,
            "maxNodes": 8,
            "stock": 8,
            "provisionDelay": "2s",
            "taints": ["nvidia.com/gpu=present:NoSchedule"],
            "classes": [GKE_QUEUED_CLASS],
        }
    ],
}
POLICY = GangPolicy(
    flavors=(
        FlavorPolicy(
            name="l4",
            provisioning_class_name=GKE_QUEUED_CLASS,
            node_selector_from_details=(DetailSelector(key=GKE_LEASE_LABEL, detail=GKE_LEASE_DETAIL),),
            max_nodes=8,
            gpus_per_node=1,
            gpu_memory=24_576,
        ),
    ),
    kai=KaiPolicy(),
)
_STACK = replace(load(LOCAL), scheduler=Scheduler.KAI)
_KINDS = {
    "Namespace": "/api/v1/namespaces",
    "ServiceAccount": f"/api/v1/namespaces/{names.NAMESPACE}/serviceaccounts",
    "ConfigMap": f"/api/v1/namespaces/{names.NAMESPACE}/configmaps",
    "ClusterRole": f"{_RBAC}/clusterroles",
    "ClusterRoleBinding": f"{_RBAC}/clusterrolebindings",
    "Role": f"{_RBAC}/namespaces/{names.NAMESPACE}/roles",
    "RoleBinding": f"{_RBAC}/namespaces/{names.NAMESPACE}/rolebindings",
}


@dataclass
class Stack:
    """A KAI stack in small: its API server, its team's namespace and its programs."""

    server: ApiServer
    namespace: str
    kai: StandIn
    programs: Ours

    # Programs

    def start_manager(self) -> None:
        self.programs.start_manager(
            self.server.service_account_kubeconfig(SYSTEM_NAMESPACE, gang_authority.MANAGER),
            *(f"--gate={each.kind}" for each in _STACK.gated_work),
        )

    def start_autoscaler(self) -> None:
        self.programs.start_autoscaler(
            self.server.service_account_kubeconfig(names.NAMESPACE, names.SERVICE_ACCOUNT)
        )

    # Objects

    def submit(self, name: str, *, workers: int, fraction: str = "", queue: str = "team-a") -> None:
        """All of its workers are KAI's minimum."""
        self.server.call("POST", self._clusters, ray_cluster(name, queue, workers=workers, fraction=fraction))

    def submit_job(self, name: str, *, pods: int, queue: str = "team-a") -> None:
        self.server.call("POST", self._jobs, job(name, queue, pods=pods))

    def grow(self, name: str, workers: int, *, least: int) -> None:
        body = {"spec": {"workerGroupSpecs": [worker_group(workers, least=least)]}}
        path, kind = f"{self._clusters}/{name}", "application/merge-patch+json"
        self.server.call("PATCH", path, body, content_type=kind)

    def end(self, name: str) -> None:
        self.server.call("DELETE", f"{self._clusters}/{name}")

    @property
    def _jobs(self) -> str:
        return f"/apis/batch/v1/namespaces/{self.namespace}/jobs"

    @property
    def _clusters(self) -> str:
        return f"/apis/ray.io/v1/namespaces/{self.namespace}/rayclusters"

    def pods(self, name: str) -> list[dict[str, Any]]:
        return [pod for pod in self.kai.pods() if name in pod["metadata"]["labels"].values()]

    def bound(self, name: str) -> int:
        return sum("nodeName" in pod["spec"] for pod in self.pods(name))

    def requests(self) -> list[dict[str, Any]]:
        path = f"{_AUTOSCALER}/namespaces/{self.namespace}/provisioningrequests"
        return list(self.server.call("GET", path)["items"])

    def nodes(self) -> int:
        return len(self.server.call("GET", "/api/v1/nodes")["items"])

    def told(self, name: str = "") -> str:
        """What the pods of a cluster say, or of all."""
        pods = self.pods(name) if name else self.kai.pods()
        notes = [pod["metadata"].get("annotations", {}) for pod in pods]
        return " / ".join(
            each["muster.dev/gang-status"] for each in notes if "muster.dev/gang-status" in each
        )

    def events(self) -> set[tuple[str, str]]:
        path = f"/apis/events.k8s.io/v1/namespaces/{self.namespace}/events"
        items = self.server.call("GET", path)["items"]
        return {(item["regarding"]["name"], item["reason"]) for item in items}

    def eventually(self, what: str, reached: Callable[[], object]) -> None:
        eventually(what, reached, told=lambda: f"told: {self.told()}\n{self.programs.logs()}")


@pytest.fixture(scope="module")
def prepared(api_server: ApiServer) -> Iterator[ApiServer]:
    """The kinds, the rights and the policy of a KAI stack."""
    api_server.define([*ours().values(), crd(), RAY_CLUSTERS])
    for manifest in manifests.manifests():
        if manifest["metadata"]["name"] == names.POOLS_CONFIG:
            manifest = {**manifest, "data": {names.POOLS_KEY: yaml.safe_dump(_POOLS)}}
        api_server.apply(manifest, f"{_KINDS[manifest['kind']]}/{manifest['metadata']['name']}")
    _authorize_manager(api_server)
    policies = "/apis/muster.dev/v1alpha1/gangpolicies"
    api_server.apply(to_manifest(POLICY), f"{policies}/default")
    yield api_server
    api_server.call("DELETE", f"{policies}/default")
    for limit in limits(_STACK):
        api_server.call("DELETE", path_of(limit))
    for name in (names.POOLS_CONFIG, names.STATUS_CONFIG):
        with contextlib.suppress(urllib.error.HTTPError):
            api_server.call("DELETE", f"{_KINDS['ConfigMap']}/{name}")


def _authorize_manager(server: ApiServer) -> None:
    """As the program does: the manager may do what its RBAC rules say and nothing else."""
    for item in registered(_STACK):
        if item["kind"] in RIGHTS:
            server.apply(item, path_of(item))
    for limit in limits(_STACK):
        server.apply(limit, path_of(limit))


def _named(api_version: str, kind: str, name: str) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}}


@pytest.fixture
def stack(prepared: ApiServer, tmp_path: Path) -> Iterator[Stack]:
    namespace = f"team-{secrets.token_hex(3)}"
    team = _named("v1", "Namespace", namespace)
    team["metadata"]["labels"] = {TEAM_LABEL: "team-a"}
    prepared.apply(team, f"/api/v1/namespaces/{namespace}")
    for name, parent, quota in (("research", "", 8), ("team-a", "research", 3)):
        unbound = {"quota": -1, "limit": -1}
        gpu = {"quota": quota, "limit": quota}
        resources = {"gpu": gpu, "cpu": unbound, "memory": unbound}
        spec = {"resources": resources} | ({"parentQueue": parent} if parent else {})
        body = {**_named("scheduling.run.ai/v2", "Queue", name), "spec": spec}
        prepared.apply(body, f"{QUEUES}/{name}")
    standin = StandIn(prepared, namespace)
    one = Stack(prepared, namespace, standin, Ours(tmp_path))
    with standin.running():
        one.start_autoscaler()
        try:
            with enough_rights(prepared.folder):
                one.start_manager()
                yield one
        finally:
            one.programs.kill_all()
    _clean(prepared, namespace)


def _clean(server: ApiServer, namespace: str) -> None:
    for path in (
        f"/apis/ray.io/v1/namespaces/{namespace}/rayclusters",
        f"/apis/batch/v1/namespaces/{namespace}/jobs?propagationPolicy=Background",
        f"/api/v1/namespaces/{namespace}/pods?gracePeriodSeconds=0",
        f"{_AUTOSCALER}/namespaces/{namespace}/provisioningrequests",
        "/api/v1/nodes",
        QUEUES,
    ):
        server.call("DELETE", path)


def test_shared_gpus_are_asked_for_whole_and_what_the_quota_blocks_is_not_asked_for(stack: Stack) -> None:
    stack.submit("a", workers=4, fraction="0.5")
    stack.eventually("the whole gang runs", lambda: stack.bound("a") == 5)
    assert stack.nodes() == 3, "one GPU for the head and two for four halves"
    requests = {item["metadata"]["name"] for item in stack.requests()}
    for pod in stack.pods("a"):
        notes = pod["metadata"]["annotations"]
        assert notes[CONSUME_ANNOTATION] in requests
        assert notes[CLASS_ANNOTATION] == GKE_QUEUED_CLASS
        assert GKE_LEASE_LABEL in pod["spec"]["nodeSelector"]
    stack.eventually("its Ray cluster has an Event", lambda: ("a", "GangReady") in stack.events())

    stack.submit("b", workers=0)
    stack.eventually(
        "the status of the second says why it waits", lambda: "no room for 1 GPU (" in stack.told("b")
    )
    assert {item["metadata"]["name"] for item in stack.requests()} == requests, "it asks for no node"

    stack.end("a")
    stack.eventually("it runs when the queue has room", lambda: stack.bound("b") == 1)
    stack.eventually("what the first had is given back", lambda: stack.nodes() == 1)


def test_a_manager_that_is_killed_is_followed_by_one_that_finishes_and_growth_waits_for_room(
    stack: Stack,
) -> None:
    stack.submit("a", workers=1)
    stack.eventually("capacity is asked for", lambda: len(stack.requests()) >= 1)
    stack.programs.kill("manager")
    stack.start_manager()
    stack.eventually("the next one finishes", lambda: stack.bound("a") == 2)
    assert len(stack.requests()) == 2

    stack.grow("a", 3, least=1)
    stack.eventually("one more passes, as the quota allows", lambda: stack.bound("a") == 3)
    stack.eventually("the other waits", lambda: "no room for 1 GPU (" in stack.told("a"))
    assert stack.nodes() == 3


def test_a_job_that_lacks_a_node_holds_none_and_starts_whole_after_two_managers(stack: Stack) -> None:
    stack.submit("a", workers=0)
    stack.eventually("it has one of the three GPUs", lambda: stack.bound("a") == 1)
    stack.submit_job("b", pods=3)
    stack.eventually(
        "the status of the Job says why it waits", lambda: "no room for 3 GPUs (" in stack.told("b")
    )
    assert len(stack.requests()) == 1, "it asks for no node"
    stack.end("a")
    stack.eventually("capacity is asked for", lambda: len(stack.requests()) == 1 and stack.nodes() > 0)
    stack.programs.kill("manager")
    stack.start_manager()
    stack.eventually("the next one finishes", lambda: stack.bound("b") == 3)
    stack.eventually("the Job has an Event", lambda: ("b", "GangReady") in stack.events())
