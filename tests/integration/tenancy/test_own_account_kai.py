"""The controller's account in a KAI stack changes pods behind our gate and deletes pods that never ran.

Images of pods may be changed: without these policies a stolen token of this account would run its code in any
pod of the cluster.
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from muster.model import names
from tests.integration.tenancy import works
from tests.integration.tenancy.attacks.kai import queued
from tests.integration.tenancy.cluster import MERGE, STRATEGIC, Object, allowed, place, refused
from tests.integration.tenancy.conftest import World
from tests.integration.tenancy.works import changed, named, owner, pod

GATE: Final = {"name": names.GANG_GATE}
OTHER: Final = {"name": "example.com/other"}
_IMAGE: Final = {"spec": {"containers": [{"name": "main", "image": "stolen"}]}}
_BEHIND: Final = f"wait behind {names.GANG_GATE}"


def _worker(**spec: Any) -> Object:
    return pod(owner=owner("RayCluster", "ray.io/v1"), schedulerName=names.KAI_SCHEDULER, **spec)


@pytest.fixture(scope="module")
def gated(kai: World) -> Object:
    return kai.admin.ensure(named(_worker(schedulingGates=[GATE, OTHER]), "gated"))


def _lift(body: Object) -> Object:
    """As the controller writes it (muster/controller/kai/executor.py)."""
    taint = {"key": names.GKE_QUEUED_TAINT_KEY, "operator": "Exists", "effect": "NoSchedule"}
    annotations = {names.CONSUME_ANNOTATION: "muster-1", f"{names.GROUP}/attempt": "1"}
    return {
        "metadata": {"annotations": annotations},
        "spec": {
            "schedulingGates": [OTHER],
            "nodeSelector": {names.GKE_LEASE_LABEL: "lease"},
            "tolerations": [*body["spec"]["tolerations"], taint],
        },
    }


def test_it_lifts_its_gate_and_says_what_it_waits_for(kai: World, gated: Object) -> None:
    for change in (_lift(gated), {"metadata": {"annotations": {f"{names.GROUP}/gang-status": "waits"}}}):
        allowed(kai.controllers["ours"].patch(gated, change))


def test_it_bounds_a_gated_pod_to_nodes_and_changes_nothing_else_of_its_affinity(
    kai: World, gated: Object
) -> None:
    """As for a gang that KAI makes room for; only demands on nodes, and these only narrower."""
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["gpu-0", "gpu-1"]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [here]}]}
    bounded = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    lifted = _lift(gated)
    allowed(kai.controllers["ours"].patch(gated, lifted | {"spec": {**lifted["spec"], "affinity": bounded}}))
    apart = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}}
    moved = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}
    assert kai.controllers["ours"].patch(gated, {"spec": {"affinity": moved}}).code == 422


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_IMAGE, _BEHIND),
        ({"spec": {"activeDeadlineSeconds": 1}}, _BEHIND),
        ({"spec": {"schedulingGates": [GATE]}}, _BEHIND),
        ({"spec": {"schedulingGates": []}}, _BEHIND),
        ({"metadata": {"labels": {"ray.io/cluster": "other"}}}, "nothing else of its metadata"),
        ({"metadata": {"annotations": {"example.com/note": "true"}}}, "nothing else of its metadata"),
        ({"metadata": {"finalizers": ["example.com/kept"]}}, "nothing else of its metadata"),
        ({"metadata": {"ownerReferences": [owner("Job", "batch/v1")]}}, "nothing else of its metadata"),
    ],
    ids=str,
)
def test_it_changes_nothing_else_of_a_gated_pod(
    kai: World, gated: Object, change: Object, words: str
) -> None:
    kind = STRATEGIC if change is _IMAGE else MERGE
    refused(kai.controllers["ours"].patch(gated, change, kind), words)


@pytest.mark.parametrize(
    "toleration",
    [
        {"operator": "Exists"},
        {"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"},
        {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"},
    ],
    ids=str,
)
def test_it_adds_tolerations_of_the_taints_of_pools_alone(
    kai: World, gated: Object, toleration: Object
) -> None:
    live = kai.admin.get(place(gated)).body["spec"]["tolerations"]
    refused(kai.controllers["ours"].patch(gated, {"spec": {"tolerations": [*live, toleration]}}), _BEHIND)


@pytest.mark.parametrize("namespace", ["team-a", "kube-system", "kueue-system", names.SYSTEM_NAMESPACE])
def test_it_changes_no_pod_without_our_gate_and_none_outside_of_teams(kai: World, namespace: str) -> None:
    """Gained: code of its own in any pod that runs, those of the cluster itself among them."""
    ours = kai.controllers["ours"]
    gates: dict[str, Any] = {} if namespace == "team-a" else {"schedulingGates": [GATE]}
    for pods in (pod(0, name="running"), pod(0, name="waits", **gates)):
        body = kai.admin.ensure(changed(pods, "metadata", "namespace", value=namespace))
        for answer in (
            ours.patch(body, _IMAGE, STRATEGIC),
            ours.apply(body | _IMAGE),
            ours.patch(body, {"metadata": {"annotations": {f"{names.GROUP}/gang-status": "mine"}}}),
        ):
            refused(answer, _BEHIND)


@pytest.mark.parametrize(
    ("kind", "version"),
    [
        ("RayCluster", "ray.io/v1"),
        ("Job", "batch/v1"),
        ("StatefulSet", "apps/v1"),
        ("ReplicaSet", "apps/v1"),
    ],
)
def test_it_deletes_pods_of_gangs_whose_gate_it_removed_and_that_no_node_has(
    kai: World, kind: str, version: str
) -> None:
    ours = kai.controllers["ours"]
    lifted = pod(owner=owner(kind, version), schedulerName=names.KAI_SCHEDULER, schedulingGates=[OTHER])
    lifted = changed(lifted, "metadata", "annotations", value={f"{names.GROUP}/attempt": "1"})
    unbound = kai.admin.ensure(named(lifted, f"unbound-{kind.lower()}"))
    allowed(ours.delete(unbound))
    ungated = changed(lifted, "spec", "schedulingGates", value=None)
    system = changed(pod(0), "metadata", "namespace", value="kube-system")
    for name, body in {
        "bound": changed(ungated, "spec", "nodeName", value="gpu-0"),
        "of-no-attempt": changed(lifted, "metadata", "annotations", value={}),
        "of-nothing": pod(0),
        "of-the-system": system,
        "of-a-gang-elsewhere": changed(lifted, "metadata", "namespace", value="kube-system"),
    }.items():
        kept = kai.admin.ensure(named(body, f"{name}-{kind.lower()}"))
        refused(ours.delete(kept), "pods of gangs that no node has")
        everything = place(kept).rpartition("/")[0] + "?dryRun=All"
        assert ours.send("DELETE", everything).code == 403


@pytest.mark.parametrize(
    ("method", "part", "body"),
    [
        ("PATCH", "status", {"status": {"phase": "Succeeded"}}),
        ("PATCH", "resize", {"spec": {"containers": []}}),
        ("PATCH", "ephemeralcontainers", {"spec": {"ephemeralContainers": []}}),
        ("POST", "binding", {"target": {"kind": "Node", "name": "gpu-0"}}),
        ("POST", "eviction", {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "gated"}}),
        ("GET", "log", None),
        ("POST", "exec?command=sh&stdin=true", None),
        ("PUT", "", {}),
    ],
    ids=str,
)
def test_it_has_no_right_to_any_other_part_of_a_pod(
    kai: World, gated: Object, method: str, part: str, body: Object | None
) -> None:
    kind = MERGE if method == "PATCH" else "application/json"
    refused(kai.controllers["ours"].send(method, f"{place(gated)}/{part}".rstrip("/"), body, kind))


def test_of_work_it_writes_its_own_annotations_alone(kai: World) -> None:
    """Who may patch a Job may suspend it, or run it in more pods."""
    job = kai.admin.ensure(named(queued(works.job(template=works.template(1, restart="Never"))), "noted"))
    allowed(kai.controllers["ours"].patch(job, {"metadata": {"annotations": {f"{names.GROUP}/tries": "1"}}}))
    for change in ({"spec": {"parallelism": 9}}, {"metadata": {"labels": {"a": "b"}}}):
        refused(
            kai.controllers["ours"].patch(job, change), f"annotations of a Job that begin with {names.GROUP}/"
        )


def test_it_makes_no_pod(kai: World) -> None:
    assert kai.controllers["ours"].create(pod(0, name="muster-1")).code == 403
