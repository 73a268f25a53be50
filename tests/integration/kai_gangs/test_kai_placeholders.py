"""KAI gangs of a pool whose autoscaler answers no ProvisioningRequest: the real scheduler for placeholders, a
cloud that makes a node for each pod that waits, while it has some, and scripted KAI.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from muster.components import gang_authority
from muster.config import load
from muster.model import names
from muster.model.gangpolicy import crd
from muster.model.stack import Scheduler
from muster.render import gang, kai
from tests import built, envtest
from tests.envtest import ControlPlane
from tests.envtest.process import PROVISIONING_CRD
from tests.integration.accounts import RIGHTS, account_kubeconfig, attack, limits, registered
from tests.integration.kai_gangs.objects import RAY_CLUSTERS, ray_cluster
from tests.integration.kueue_api.objects import apply
from tests.integration.ours import Ours
from tests.integration.pod_autoscaler import (
    NODES,
    PLACEHOLDERS,
    Autoscaler,
    is_closed,
    make_node,
    scheduler,
    taint_of,
)
from tests.integration.rights import STRICT_OWNERS, audited, enough_rights
from tests.kai.definitions import ours
from tests.kai.standin import StandIn
from tests.waiting import eventually

Json = dict[str, Any]

_STACK: Final = load(Path(__file__).with_name("placeholders.yaml"))
_TEAM: Final = "team-a"
_PODS: Final = f"/api/v1/namespaces/{_TEAM}/pods"
_CLUSTERS: Final = f"/apis/ray.io/v1/namespaces/{_TEAM}/rayclusters"
_TEMPLATES: Final = f"/api/v1/namespaces/{_TEAM}/podtemplates"
_POLICY: Final = f"/apis/muster.dev/v1alpha1/gangpolicies/{names.GANG_POLICY}"
_SLICES: Final = "/apis/resource.k8s.io/v1/resourceslices"
_DEVICE_TAINTS: Final = "--feature-gates=DRADeviceTaints=true"
_RIVALS: Final = "rivals"
_RIVAL_PODS: Final = f"/api/v1/namespaces/{_RIVALS}/pods"
_MERGE: Final = "application/merge-patch+json"


@dataclass(slots=True, kw_only=True)
class Cloud(Autoscaler):
    """With the gangs that it makes nodes for."""

    programs: Ours

    def start_manager(self) -> None:
        config = account_kubeconfig(self.plane, gang_authority.MANAGER)
        self.programs.start_manager(config, "--read-events", "--set-aside-broken-nodes")

    def submit(self, name: str, *, workers: int) -> None:
        self.plane.call("POST", _CLUSTERS, ray_cluster(name, _TEAM, workers=workers))

    def items(self, path: str) -> list[Json]:
        return list(self.plane.call("GET", path)["items"])

    def bound(self, path: str) -> list[Json]:
        return [each for each in self.items(path) if each["spec"].get("nodeName")]

    def bound_of(self, cluster: str) -> list[Json]:
        return [each for each in self.bound(_PODS) if each["metadata"]["labels"]["ray.io/cluster"] == cluster]

    def gated(self) -> list[Json]:
        return [each for each in self.items(_PODS) if each["spec"].get("schedulingGates")]

    def said(self) -> str:
        notes = [each["metadata"].get("annotations", {}) for each in self.items(_PODS)]
        return " / ".join(
            each[f"{names.GROUP}/gang-status"] for each in notes if f"{names.GROUP}/gang-status" in each
        )

    def tainted(self) -> list[str]:
        return [taint for node in self.nodes() if (taint := taint_of(node))]

    def eventually(self, what: str, reached: Callable[[], object]) -> None:
        """While it goes on making nodes."""
        eventually(what, reached, told=lambda: f"said: {self.said()}\n{self.programs.logs()}", step=self.step)


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    programs = built.programs(("etcd", "kube-apiserver", "kube-scheduler"), (PROVISIONING_CRD,))
    folder = tmp_path_factory.mktemp("kai-placeholders")
    flags = (STRICT_OWNERS, _DEVICE_TAINTS, *audited(folder, Scheduler.KAI))
    kinds = [*programs.kinds(PROVISIONING_CRD), *ours().values(), crd(), RAY_CLUSTERS]
    with envtest.control_plane(folder, programs, kinds=kinds, flags=flags) as made:
        for item in registered(_STACK):
            if item["kind"] in {*RIGHTS, "PriorityClass"}:
                apply(made, item)
        for item in (*limits(_STACK), *kai.queues(_STACK), gang.policy(_STACK, placeholder_image="pause")):
            apply(made, json.loads(json.dumps(item)))
        team = {"name": _TEAM, "labels": {names.TEAM_LABEL: _TEAM}}
        for meta in (team, {"name": _RIVALS}):
            apply(made, {"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
        with scheduler(made, programs), StandIn(made, _TEAM).running():
            yield made


@contextmanager
def _cloud(plane: ControlPlane, folder: Path) -> Iterator[Cloud]:
    one = Cloud(plane, programs=Ours(folder))
    one.start_manager()
    try:
        yield one
    finally:
        plane.call("DELETE", _CLUSTERS)
        one.eventually("the gangs are gone", lambda: not one.items(_PODS) and not one.items(_TEMPLATES))
        one.eventually("so are placeholders", lambda: not one.items(PLACEHOLDERS))
        one.programs.kill_all()
    plane.call("DELETE", f"{_RIVAL_PODS}?gracePeriodSeconds=0")
    plane.call("DELETE", NODES)


@pytest.fixture
def cloud(plane: ControlPlane, tmp_path: Path) -> Iterator[Cloud]:
    with enough_rights(plane.folder), _cloud(plane, tmp_path) as one:
        yield one


@pytest.fixture
def attacked(plane: ControlPlane, tmp_path: Path) -> Iterator[Cloud]:
    """Where the account asks for what it has no right to."""
    with _cloud(plane, tmp_path) as one:
        yield one


def test_a_gang_passes_its_gate_when_placeholders_have_all_of_its_nodes(cloud: Cloud) -> None:
    """Rivals of the same shape wait while its nodes come and are handed over."""
    cloud.stock["l4"] = 2
    cloud.submit("a", workers=2)
    cloud.eventually("placeholders are made", lambda: len(cloud.items(PLACEHOLDERS)) == 3)
    held = cloud.items(PLACEHOLDERS)
    assert {each["spec"]["priorityClassName"] for each in held} == {names.PLACEHOLDER_PRIORITY_CLASS}
    cloud.eventually("two have nodes", lambda: len(cloud.bound(PLACEHOLDERS)) == 2)
    cloud.eventually("it says so", lambda: "2 of 3 l4 nodes" in cloud.said())
    assert len(cloud.gated()) == 3
    assert not cloud.tainted()
    for number in range(3):
        cloud.plane.call("POST", _RIVAL_PODS, _rival(number))
    cloud.stock["l4"] = 4
    cloud.eventually("it runs whole", lambda: len(cloud.bound(_PODS)) == 3)
    cloud.eventually("the taints are gone", lambda: not cloud.tainted())
    assert not cloud.items(PLACEHOLDERS)
    on = {each["spec"]["nodeName"] for each in cloud.bound(_PODS)}
    assert len(on) == 3
    assert not on & {each["spec"]["nodeName"] for each in cloud.bound(_RIVAL_PODS)}
    for pod in cloud.items(_PODS):
        notes = pod["metadata"]["annotations"]
        assert names.UNDISTURBED.items() <= notes.items()
        (own,) = (each for each in pod["spec"]["tolerations"] if each["key"] == names.HELD_TAINT_KEY)
        assert own["value"] == notes[names.PLACED_ANNOTATION]


def test_with_stock_for_a_part_of_it_no_gate_goes_and_everything_is_given_back(cloud: Cloud) -> None:
    before = cloud.plane.call("GET", _POLICY)["spec"]
    short = {"provisionTimeout": "10s", "retry": {"base": "10m", "max": "10m"}}
    cloud.stock["l4"] = 2
    cloud.submit("a", workers=3)
    cloud.eventually("two have nodes", lambda: len(cloud.bound(PLACEHOLDERS)) == 2)
    # Only now: a machine that is busy for a second would give up on fewer.
    cloud.plane.call("PATCH", _POLICY, {"spec": short}, content_type=_MERGE)
    try:
        cloud.eventually("it gives up for now", lambda: "released everything" in cloud.said())
        assert "no node came in 1s: 2 of 4 l4 nodes" in cloud.said()
        cloud.eventually("the placeholders are gone", lambda: not cloud.items(PLACEHOLDERS))
        cloud.eventually("what asked for them is, too", lambda: not cloud.items(_TEMPLATES))
        assert len(cloud.gated()) == 4
        assert not cloud.tainted()
    finally:
        old = {name: before.get(name) for name in short}
        cloud.plane.call("PATCH", _POLICY, {"spec": old}, content_type=_MERGE)


def test_the_next_leader_goes_on_and_sweeps(cloud: Cloud) -> None:
    """Killed while it waits; and, with a taint set, its cluster is deleted while no manager leads."""
    cloud.submit("a", workers=1)
    cloud.eventually("placeholders are made", lambda: len(cloud.items(PLACEHOLDERS)) == 2)
    cloud.programs.kill("manager")
    cloud.stock["l4"] = 2
    cloud.eventually("both have nodes", lambda: len(cloud.bound(PLACEHOLDERS)) == 2)
    cloud.start_manager()
    cloud.eventually("it runs whole", lambda: len(cloud.bound(_PODS)) == 2)
    cloud.eventually("the taints are gone", lambda: not cloud.tainted())
    cloud.submit("b", workers=2)
    cloud.stock["l4"] = 1
    cloud.eventually("one has a node", lambda: len(cloud.bound(PLACEHOLDERS)) == 1)
    cloud.programs.kill("manager")
    (node,) = (each for each in cloud.nodes() if _has_placeholder(cloud, each))
    taint = {"key": names.HELD_TAINT_KEY, "value": "muster-gone", "effect": "NoSchedule"}
    patch = {"spec": {"taints": [*node["spec"]["taints"], taint]}}
    cloud.plane.call("PATCH", f"/api/v1/nodes/{node['metadata']['name']}", patch, content_type=_MERGE)
    cloud.plane.call("DELETE", f"{_CLUSTERS}/b")
    cloud.start_manager()
    cloud.eventually("the placeholders are swept", lambda: not cloud.items(PLACEHOLDERS))
    cloud.eventually("the taint is swept", lambda: not cloud.tainted())


def test_of_two_gangs_with_capacity_for_one_one_runs_whole_and_then_the_other(cloud: Cloud) -> None:
    for name in ("a", "b"):
        cloud.submit(name, workers=2)
    cloud.eventually("both ask", lambda: len(cloud.items(PLACEHOLDERS)) == 6)
    cloud.stock["l4"] = 3
    cloud.eventually("one runs whole", lambda: len(cloud.bound(_PODS)) == 3)
    (first,) = {each["metadata"]["labels"]["ray.io/cluster"] for each in cloud.bound(_PODS)}
    cloud.plane.call("DELETE", f"{_CLUSTERS}/{first}")
    other = {"a": "b", "b": "a"}[first]
    cloud.eventually("the other runs whole", lambda: len(cloud.bound_of(other)) == 3)
    assert len(cloud.nodes()) == 3


def test_a_gang_that_runs_on_a_broken_node_queues_again_as_a_whole(cloud: Cloud) -> None:
    """As a DRA driver says; with the rights and within the policies of a stack with `running: requeue`."""
    cloud.stock["l4"] = 4
    cloud.submit("a", workers=2)
    cloud.eventually("it runs whole", lambda: len(cloud.bound(_PODS)) == 3)
    first = {each["metadata"]["uid"] for each in cloud.bound(_PODS)}
    broken = cloud.bound(_PODS)[0]["spec"]["nodeName"]
    cloud.plane.call("POST", _SLICES, _tainted_device(broken))
    cloud.eventually("it is set aside", lambda: [*map(is_closed, cloud.nodes())].count(True) == 1)

    def again() -> bool:
        for pod in cloud.items(_PODS):  # No kubelet is here that would end a pod.
            if "deletionTimestamp" in pod["metadata"]:
                cloud.plane.call("DELETE", f"{_PODS}/{pod['metadata']['name']}?gracePeriodSeconds=0")
        pods = cloud.bound(_PODS)
        return len(pods) == 3 and not first & {each["metadata"]["uid"] for each in pods}

    cloud.eventually("all of it runs again", again)
    assert broken not in {each["spec"]["nodeName"] for each in cloud.bound(_PODS)}
    cloud.plane.call("DELETE", _SLICES)
    cloud.eventually("no node is set aside", lambda: not any(map(is_closed, cloud.nodes())))


def _tainted_device(node: str) -> Json:
    taint = {"key": "gpu.nvidia.com/xid", "value": "79", "effect": "NoSchedule"}
    spec = {
        "driver": "gpu.nvidia.com",
        "nodeName": node,
        "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "gpu-0", "taints": [taint]}],
    }
    body = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice"}
    return {**body, "metadata": {"name": f"{node}-gpu.nvidia.com"}, "spec": spec}


def _has_placeholder(cloud: Cloud, node: Json) -> bool:
    return node["metadata"]["name"] in {each["spec"]["nodeName"] for each in cloud.bound(PLACEHOLDERS)}


def _rival(number: int) -> Json:
    template = ray_cluster("any", _TEAM, workers=0)["spec"]["headGroupSpec"]["template"]
    tolerated = {"key": names.GPU_TAINT_KEY, "operator": "Exists", "effect": "NoSchedule"}
    spec = {**template["spec"], "tolerations": [tolerated]}
    del spec["schedulingGates"]
    meta = {"name": f"rival-{number}", "namespace": _RIVALS}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


# What a stolen token of the account can do


def test_the_account_gives_a_gated_pod_the_toleration_of_its_own_placeholders_alone(attacked: Cloud) -> None:
    attacked.submit("a", workers=0)
    attacked.eventually("it waits behind the gate", lambda: len(attacked.gated()) == 1)
    (pod,) = attacked.gated()
    path = f"{_PODS}/{pod['metadata']['name']}"
    own: Json = {
        "key": names.HELD_TAINT_KEY,
        "operator": "Equal",
        "value": "muster-1",
        "effect": "NoSchedule",
    }
    placed = {"annotations": {names.PLACED_ANNOTATION: "muster-1", **names.UNDISTURBED}}

    def lifted(*added: Json, metadata: Json = placed, gates: tuple[Json, ...] = ()) -> int:
        tolerations = [*pod["spec"]["tolerations"], *added]
        spec: Json = {"schedulingGates": list(gates), "tolerations": tolerations}
        return attack(attacked.plane, "PATCH", path, {"metadata": metadata, "spec": spec}, _MERGE)

    assert lifted(own) == 200
    assert lifted(own, gates=({"name": names.GANG_GATE},)) == 403, "while it waits"
    assert lifted(own, metadata={}) == 403, "that no set was promised to"
    for other in (
        {**own, "value": "muster-2"},
        {**own, "effect": "NoExecute"},
        {"key": names.HELD_TAINT_KEY, "operator": "Exists", "effect": "NoSchedule"},
        {"key": names.HELD_TAINT_KEY, "operator": "Exists"},
        {"operator": "Exists"},
        {**own, "key": "node.kubernetes.io/unschedulable"},
    ):
        assert lifted(other) == 403, other
    for metadata in ({"labels": {"ray.io/cluster": "b"}}, {"annotations": {"example.com/any": "1"}}):
        assert lifted(metadata=metadata) == 403, metadata


def test_the_account_deletes_its_placeholders_and_no_pod_that_runs(attacked: Cloud) -> None:
    attacked.stock["l4"] = 1
    attacked.submit("a", workers=1)
    attacked.eventually("one has a node", lambda: len(attacked.bound(PLACEHOLDERS)) == 1)
    attacked.plane.call("POST", _RIVAL_PODS, _rival(0))
    (placeholder,) = attacked.bound(PLACEHOLDERS)
    name = placeholder["metadata"]["name"]
    assert attack(attacked.plane, "DELETE", f"{PLACEHOLDERS}/{name}", {}) == 200
    assert attack(attacked.plane, "DELETE", f"{_RIVAL_PODS}/rival-0", {}) == 403
    body = {
        **placeholder,
        "metadata": {"name": "muster-9-0-hold-0", "labels": placeholder["metadata"]["labels"]},
    }
    del body["status"], body["spec"]["nodeName"]
    assert attack(attacked.plane, "POST", PLACEHOLDERS, body) == 200
    for path in (_PODS, _RIVAL_PODS, "/api/v1/namespaces/kube-system/pods"):
        assert attack(attacked.plane, "POST", path, body) == 403, path
    body["spec"]["hostNetwork"] = True
    assert attack(attacked.plane, "POST", PLACEHOLDERS, body) == 403


def test_the_account_writes_one_taint_of_nodes(attacked: Cloud) -> None:
    make_node(attacked.plane, "l4-attacked", "l4")
    path = "/api/v1/nodes/l4-attacked"
    before = attacked.plane.call("GET", path)["spec"]["taints"]
    own = {"key": names.HELD_TAINT_KEY, "value": "muster-1", "effect": "NoSchedule"}
    assert attack(attacked.plane, "PATCH", path, {"spec": {"taints": [*before, own]}}, _MERGE) == 200
    for patch in (
        {"spec": {"taints": [own]}},
        {"spec": {"unschedulable": True}},
        {"metadata": {"labels": {"a": "b"}}},
    ):
        assert attack(attacked.plane, "PATCH", path, patch, _MERGE) == 403, patch
