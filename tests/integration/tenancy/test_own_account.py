"""The controller's account in a Kueue stack does the controller's work and nothing else.

Each attack is what a stolen token of this account would be used for. With KAI: test_own_account_kai.py; in
our own namespace: test_own_keys.py.
"""

from __future__ import annotations

import copy
from typing import Any, Final

import pytest

from muster.controller.kueue.clusters import without_claims
from muster.model.names import (
    CLASS_ANNOTATION,
    CONSUME_ANNOTATION,
    ELASTIC_JOB,
    GKE_LEASE_LABEL,
    IDLE_ENDS_ANNOTATION,
    IDLE_SINCE_ANNOTATION,
    LEASE_ENDS_ANNOTATION,
    RETRY_AT_ANNOTATION,
    STOP_ANNOTATION,
    WORKLOAD_UID_LABEL,
)
from tests.integration.tenancy.cluster import JSON_PATCH, Object, allowed, refused
from tests.integration.tenancy.conftest import World
from tests.integration.tenancy.works import (
    DOMAIN,
    REQUEST,
    TEMPLATE,
    WORKLOAD,
    annotated,
    changed,
    condition,
    labelled,
    named,
    owner,
    pod,
    ray_cluster,
    template,
)

SPEC = ("template", "spec")
SINCE = "2026-01-01T00:00:00Z"


def check(name: str, state: str) -> Object:
    return {"name": name, "state": state, "message": "", "lastTransitionTime": SINCE}


@pytest.fixture
def workload(world: World) -> Object:
    """A Workload with quota that waits for two checks, of which one is ours."""
    kueue = world.controllers["kueue"]
    body = kueue.ensure(named(WORKLOAD, "checked"))
    checks = [check("gang", "Pending"), check("budget", "Pending")]
    status = {"conditions": [condition("QuotaReserved")], "admissionChecks": checks}
    allowed(kueue.patch(body, {"status": status}, subresource="status", dry_run=False))
    return body


def test_it_answers_for_its_own_check(world: World, workload: Object) -> None:
    status = {"admissionChecks": [check("gang", "Ready"), check("budget", "Pending")]}
    allowed(world.controllers["ours"].patch(workload, {"status": status}, subresource="status"))


def test_it_takes_a_workload_out_of_the_queue_and_puts_it_back(world: World, workload: Object) -> None:
    change = {"spec": {"active": False}, "metadata": {"annotations": {RETRY_AT_ANNOTATION: SINCE}}}
    allowed(world.controllers["ours"].patch(workload, change))


@pytest.mark.parametrize(
    ("status", "word"),
    [
        ({"admissionChecks": [check("gang", "Ready"), check("budget", "Ready")]}, "leave the others"),
        ({"admissionChecks": [check("gang", "Ready")]}, "leave the others"),
        ({"conditions": [condition("QuotaReserved"), condition("Admitted")]}, "nothing else of its status"),
        ({"conditions": None}, "nothing else of its status"),
        ({"admission": {"clusterQueue": "team-b", "podSetAssignments": [{"name": "main"}]}}, "nothing else"),
    ],
)
def test_it_touches_nothing_else_of_a_status(
    world: World, workload: Object, status: Object, word: str
) -> None:
    refused(world.controllers["ours"].patch(workload, {"status": status}, subresource="status"), word)


@pytest.fixture
def waiting(world: World) -> Object:
    """A Workload outside of the quota, which Kueue has taken our check off."""
    body = annotated(named(WORKLOAD, "waiting"), RETRY_AT_ANNOTATION, SINCE)
    return world.controllers["kueue"].ensure(body)


def test_it_changes_no_workload_into_another(world: World, waiting: Object) -> None:
    refused(
        world.controllers["ours"].patch(waiting, {"spec": {"queueName": "other"}}), "nothing else of its spec"
    )


@pytest.mark.parametrize(
    "metadata",
    [
        {"labels": {"kueue.x-k8s.io/job-uid": "another"}},
        {"annotations": {"kueue.x-k8s.io/workload-slice-name": "another"}},
        {"finalizers": ["example.com/kept"]},
        {"ownerReferences": [owner("Job", "batch/v1")]},
    ],
    ids=lambda metadata: next(iter(metadata)),
)
def test_it_writes_its_own_annotations_of_a_workload_alone(
    world: World, waiting: Object, metadata: Object
) -> None:
    refused(world.controllers["ours"].patch(waiting, {"metadata": metadata}), "nothing else of its metadata")


def test_it_stops_no_workload_that_its_check_is_not_on(world: World) -> None:
    body = world.controllers["kueue"].ensure(named(WORKLOAD, "of-another-queue"))
    ours, entry = world.controllers["ours"], {"status": {"admissionChecks": [check("gang", "Ready")]}}
    for answer in (
        ours.patch(body, {"spec": {"active": False}}),
        ours.patch(body, {"metadata": {"annotations": {RETRY_AT_ANNOTATION: SINCE}}}),
        ours.patch(body, entry, subresource="status"),
    ):
        refused(answer, "Workloads that have admission check gang")


NOTICE: Final = {IDLE_SINCE_ANNOTATION: SINCE, IDLE_ENDS_ANNOTATION: SINCE}
STOP: Final = {STOP_ANNOTATION: "idle", RETRY_AT_ANNOTATION: SINCE}


def _on_fixed_pool(world: World, name: str, *, queue: str = "team-b", notes: Object | None = None) -> Object:
    """A Workload that runs, without our check. Idle gangs of team-b's queue are stopped."""
    body = named(WORKLOAD, name)
    body["metadata"]["annotations"] = notes or {}
    kueue = world.controllers["kueue"]
    kueue.ensure(body)
    admission = {"clusterQueue": queue, "podSetAssignments": [{"name": "main"}]}
    conditions = [condition("QuotaReserved"), condition("Admitted")]
    status = {"status": {"conditions": conditions, "admission": admission}}
    allowed(kueue.patch(body, status, subresource="status", dry_run=False))
    return body


def test_it_stops_an_idle_gang_that_its_check_is_not_on_where_the_queue_says_so(world: World) -> None:
    ours, body = world.controllers["ours"], _on_fixed_pool(world, "fixed")
    other = _on_fixed_pool(world, "fixed-of-another-queue", queue="team-a")
    for change in (
        {"metadata": {"annotations": NOTICE}},
        {"spec": {"active": False}, "metadata": {"annotations": {**NOTICE, **STOP}}},
    ):
        allowed(ours.patch(body, change))
        assert ours.patch(other, change).code == 403


def test_it_takes_a_notice_back_also_where_the_queue_has_lost_the_rule(world: World) -> None:
    body = _on_fixed_pool(world, "fixed-without-rule", queue="team-a", notes=NOTICE)
    gone = {"metadata": {"annotations": dict.fromkeys(NOTICE)}}
    allowed(world.controllers["ours"].patch(body, gone))


@pytest.mark.parametrize(
    "change",
    [
        {"spec": {"active": False}},
        {"spec": {"active": False}, "metadata": {"annotations": {STOP_ANNOTATION: "true"}}},
        {"spec": {"active": False, "priority": 9}, "metadata": {"annotations": STOP}},
        {"spec": {"priority": 9}},
        {"metadata": {"annotations": STOP}},
        {"metadata": {"annotations": {RETRY_AT_ANNOTATION: SINCE}}},
        {"metadata": {"annotations": {LEASE_ENDS_ANNOTATION: SINCE}}},
        {"metadata": {"labels": {"kueue.x-k8s.io/job-uid": "another"}}},
        {"status": {"admissionChecks": [check("gang", "Ready")]}},
        {"status": {"conditions": None}},
    ],
    ids=str,
)
def test_it_does_nothing_else_to_one_also_after_its_notice(world: World, change: Object) -> None:
    body = _on_fixed_pool(world, "fixed-with-notice", notes=NOTICE)
    subresource = "status" if "status" in change else ""
    assert world.controllers["ours"].patch(body, change, subresource=subresource).code == 403


def test_it_stops_a_slice_of_elastic_work_that_its_check_is_not_on(world: World) -> None:
    body = world.controllers["kueue"].ensure(annotated(named(WORKLOAD, "slice"), ELASTIC_JOB, "true"))
    change = {"spec": {"active": False}, "metadata": {"annotations": {RETRY_AT_ANNOTATION: SINCE}}}
    allowed(world.controllers["ours"].patch(body, change))


@pytest.mark.parametrize(
    "update",
    [
        {"tolerations": [{"operator": "Exists"}]},
        {"labels": {"app": "trusted"}},
        {"annotations": {"k8s.v1.cni.cncf.io/networks": "storage"}},
    ],
    ids=lambda update: next(iter(update)),
)
def test_what_it_gives_to_pods_are_claims_and_node_selectors(
    world: World, workload: Object, update: Object
) -> None:
    ours = world.controllers["ours"]

    def ready(fields: Object) -> Object:
        entry = check("gang", "Ready") | {"podSetUpdates": [{"name": "main", **fields}]}
        return {"status": {"admissionChecks": [entry, check("budget", "Pending")]}}

    claim = {"annotations": {CONSUME_ANNOTATION: "muster-1"}, "nodeSelector": {GKE_LEASE_LABEL: "lease"}}
    allowed(ours.patch(workload, ready(claim), subresource="status"))
    refused(ours.patch(workload, ready(update), subresource="status"), "podSetUpdates of this account")


def test_it_makes_requests_and_templates_under_its_own_names_alone(world: World) -> None:
    ours = world.controllers["ours"]
    for body in (REQUEST, TEMPLATE, DOMAIN):
        assert "muster-" in ours.create(body).message
        allowed(ours.create(named(body, "muster-1234")))
    built_in = world.controllers["kueue"].ensure(named(REQUEST, "train-gang-1"))
    assert ours.delete(built_in).code == 403


def test_it_steers_a_workload_by_the_affinity_of_its_pod_sets_alone(world: World, waiting: Object) -> None:
    ours, before = world.controllers["ours"], waiting["spec"]["podSets"]
    away = {"matchExpressions": [{"key": "muster.dev/pool", "operator": "NotIn", "values": ["l4"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [away]}}
    steered = [changed(each, *SPEC, "affinity", value={"nodeAffinity": required}) for each in before]
    allowed(ours.patch(waiting, {"spec": {"podSets": steered}}))
    for path, value in (((*SPEC, "hostNetwork"), True), (("count",), 7), ((*SPEC, "containers"), [])):
        first = changed(steered[0], *path, value=value)
        refused(ours.patch(waiting, {"spec": {"podSets": [first, *steered[1:]]}}), "nothing else of its spec")


# Placeholders


def placeholder(name: str = "muster-1234-0-hold-0", **spec: Any) -> Object:
    """As the controller makes it (muster/controller/gangs/placeholders.py)."""
    mine = owner("Workload", "kueue.x-k8s.io/v1beta2") | {"controller": False}
    body = labelled(pod(owner=mine, name=name), WORKLOAD_UID_LABEL, "uid-owner")
    (container,) = body["spec"]["containers"]
    container["securityContext"] = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    quiet = {"automountServiceAccountToken": False, "securityContext": {"runAsNonRoot": True}}
    body["spec"] |= {**quiet, **spec}
    return body


def test_it_holds_nodes_with_pods_of_its_own_that_belong_to_a_workload(world: World) -> None:
    ours = world.controllers["ours"]
    allowed(ours.create(placeholder()))
    for body in (
        placeholder("mine"),
        labelled(placeholder(), WORKLOAD_UID_LABEL, None),
        changed(placeholder(), "metadata", "ownerReferences", value=None),
        changed(placeholder(), "metadata", "namespace", value="kube-system"),
    ):
        refused(ours.create(body))
    others = world.controllers["kueue"].ensure(pod(owner=owner("Job", "batch/v1"), name="train-0"))
    assert ours.delete(others).code == 403
    named_alike = world.controllers["jobs"].ensure(pod(owner=owner("Job", "batch/v1"), name="muster-train-0"))
    assert ours.delete(named_alike).code == 403
    for tenant in world.tenants:
        assert not tenant.create(placeholder()).is_allowed


_IMAGE: Final = {"name": "main", "image": "any"}


@pytest.mark.parametrize(
    "spec",
    [
        {"hostNetwork": True},
        {"hostPID": True},
        {"hostIPC": True},
        {"nodeName": "gpu-0"},
        {"automountServiceAccountToken": True},
        {"volumes": [{"name": "v", "secret": {"secretName": "wandb"}}]},
        {"initContainers": [_IMAGE | {"name": "other"}]},
        {"containers": [_IMAGE]},
        {"containers": [placeholder()["spec"]["containers"][0], _IMAGE | {"name": "other"}]},
        {"containers": [placeholder()["spec"]["containers"][0] | {"command": ["sh"]}]},
        {"containers": [placeholder()["spec"]["containers"][0] | {"env": [{"name": "A", "value": "b"}]}]},
        {"securityContext": {}},
    ],
    ids=str,
)
def test_its_placeholders_only_wait(world: World, spec: Object) -> None:
    answer = world.controllers["ours"].create(placeholder(**spec))
    assert answer.code == 403, answer
    assert any(words in answer.message for words in ("keep nodes for a Workload", "violates PodSecurity"))


_TRIED: Final = "muster-0a1b-try-0"


def test_it_shows_the_server_pods_of_teams_in_dry_runs(world: World) -> None:
    body = pod(owner=owner("Job", "batch/v1"), name=_TRIED, hostNetwork=False)
    allowed(world.controllers["ours"].create(body))


@pytest.mark.parametrize(
    ("body", "dry_run"),
    [
        (pod(owner=owner("Job", "batch/v1"), name=_TRIED), False),
        (pod(owner=owner("Job", "batch/v1"), name="muster-0a1b"), True),
        (changed(pod(name=_TRIED), "metadata", "namespace", value="kube-system"), True),
        (changed(pod(0, name=_TRIED), "metadata", "namespace", value="muster-system"), True),
    ],
    ids=["it would be kept", "another name", "of the system", "of ours"],
)
def test_it_keeps_no_such_pod(world: World, body: Object, dry_run: bool) -> None:
    answer = world.controllers["ours"].create(body, dry_run=dry_run)
    assert answer.code in (403, 422), answer
    assert "in a dry run alone" in answer.message


def test_of_others_pods_it_deletes_those_of_elastic_gangs_that_were_never_let_start(world: World) -> None:
    ours, worker = world.controllers["ours"], owner("RayCluster", "ray.io/v1")
    gates = [{"name": ELASTIC_JOB}]
    born = annotated(pod(0, owner=worker, schedulingGates=gates), CONSUME_ANNOTATION, "muster-old")
    kept = {
        "other-gate": changed(born, "spec", "schedulingGates", value=[{"name": "other/gate"}]),
        "no-claim": changed(born, "metadata", "annotations", value=None),
        "of-a-job": changed(born, "metadata", "ownerReferences", value=[owner("Job", "batch/v1")]),
    }
    for name, body in {"born-gated": born, **kept}.items():
        body = world.controllers["kueue"].ensure(named(body, name))
        answer = ours.delete(body)
        assert answer.is_allowed is (name == "born-gated"), answer.message
        if name != "born-gated":
            assert "never let start" in answer.message


@pytest.mark.parametrize(
    ("gpus", "namespace", "is_allowed"),
    [(1, "team-a", True), (0, "team-a", False), (1, "kube-system", False)],
)
def test_of_running_pods_it_deletes_those_of_teams_that_have_devices(
    world: World, gpus: int, namespace: str, is_allowed: bool
) -> None:
    body = named(pod(gpus, owner=owner("RayCluster", "ray.io/v1"), nodeName="gpu-0"), f"runs-{gpus}")
    body = changed(body, "metadata", "namespace", value=namespace)
    creator = world.controllers["kuberay"] if namespace == "team-a" else world.admin
    creator.ensure(body)
    answer = world.controllers["ours"].delete(body)
    assert answer.is_allowed is is_allowed, answer.message
    if not is_allowed:
        assert "and pods with devices on nodes, in namespaces of teams" in answer.message


# Ray clusters

_NOTED: Final = {
    CONSUME_ANNOTATION: "muster-old",
    CLASS_ANNOTATION: "queued-provisioning.gke.io",
    LEASE_ENDS_ANNOTATION: SINCE,
    "own": "1",
}


@pytest.fixture(scope="module")
def elastic(world: World) -> Object:
    """An elastic gang as Kueue has started it, with as many groups as Kueue takes: the claims of its first
    request are in its templates.
    """
    body = named(ray_cluster(), "claimed")
    (group,) = body["spec"]["workerGroupSpecs"]
    body["spec"]["workerGroupSpecs"] = [group | {"groupName": f"gpu-{number}"} for number in range(17)]
    world.member.ensure(body)
    spec = body["spec"]
    for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"]):
        pins = {"nodeSelector": {GKE_LEASE_LABEL: "old", "muster.dev/pool": "l4"}}
        own = template(1 if "groupName" in group else 0)
        metadata = {"labels": {"app": "ray"}, "annotations": dict(_NOTED)}
        group["template"] = {"metadata": metadata, "spec": own["spec"] | pins}
    started = {"spec": {key: spec[key] for key in ("headGroupSpec", "workerGroupSpecs")}}
    allowed(world.controllers["kueue"].patch(body, started, dry_run=False))
    return body


def test_it_takes_the_claims_off_a_ray_cluster(world: World, elastic: Object) -> None:
    spec = without_claims(elastic["spec"], [GKE_LEASE_LABEL])
    assert spec is not None
    answer = allowed(world.controllers["ours"].patch(elastic, {"spec": spec}))
    for group in answer.body["spec"]["workerGroupSpecs"]:
        assert group["template"]["metadata"]["annotations"] == {"own": "1"}
        assert group["template"]["spec"]["nodeSelector"] == {"muster.dev/pool": "l4"}


_MAIN: Final = {"name": "main", "image": "stolen"}
_CHANGES: Final = {
    "the image": (("template", "spec", "containers"), [_MAIN]),
    "a container of its own": (("template", "spec", "initContainers"), [_MAIN]),
    "another account": (("template", "spec", "serviceAccountName"), "admin"),
    "a label": (("template", "metadata", "labels", "app"), "other"),
    "an annotation": (("template", "metadata", "annotations", "new"), "1"),
    "an annotation that is no claim": (("template", "metadata", "annotations", "own"), None),
    "another claim": (("template", "metadata", "annotations", CONSUME_ANNOTATION), "muster-other"),
    "another lease": (("template", "spec", "nodeSelector", GKE_LEASE_LABEL), "other"),
    "another pool": (("template", "spec", "nodeSelector", "muster.dev/pool"), None),
    "the start of Ray": (("rayStartParams", "block"), "true"),
    "the size": (("replicas",), 9),
}


@pytest.mark.parametrize(
    ("which", "name"),
    [("workerGroupSpecs", name) for name in _CHANGES]
    + [("headGroupSpec", name) for name in _CHANGES if name != "the size"],
)
def test_it_changes_nothing_else_of_a_ray_cluster(
    world: World, elastic: Object, which: str, name: str
) -> None:
    path, value = _CHANGES[name]
    spec = copy.deepcopy(elastic["spec"])
    if which == "headGroupSpec":
        spec[which] = changed(spec[which], *path, value=value)
    else:
        spec[which][-1] = changed(spec[which][-1], *path, value=value)
    replaced = [{"op": "replace", "path": "/spec", "value": spec}]
    refused(world.controllers["ours"].patch(elastic, replaced, JSON_PATCH), "pod templates of a RayCluster")


def test_a_ray_cluster_is_not_its_own_in_any_other_way(world: World, elastic: Object) -> None:
    ours, spec = world.controllers["ours"], elastic["spec"]
    more = [*spec["workerGroupSpecs"], spec["workerGroupSpecs"][0] | {"groupName": "more"}]
    changes: tuple[Object, ...] = (
        {"spec": {"suspend": False}},
        {"spec": {"workerGroupSpecs": more}},
        {"spec": {"workerGroupSpecs": []}},
        {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "other"}}},
        {"metadata": {"annotations": {"any": "change"}}},
        {"metadata": {"finalizers": ["example.com/kept"]}},
        {"metadata": {"ownerReferences": [owner("Job", "batch/v1")]}},
    )
    for change in changes:
        refused(ours.patch(elastic, change), "from the pod templates of a RayCluster")
    mine = named(elastic, "mine")
    for answer in (
        ours.put(elastic, elastic),
        ours.apply(changed(elastic, "spec", "suspend", value=False)),
        ours.create(mine),
        ours.apply(mine),
        ours.delete(elastic),
        ours.patch(elastic, {"status": {"state": "ready"}}, subresource="status"),
    ):
        refused(answer)
