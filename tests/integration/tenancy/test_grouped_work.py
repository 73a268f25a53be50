"""Kinds whose controllers a cluster brings along, before a real API server: created, grown, deleted."""

from __future__ import annotations

from typing import Any, Final

import pytest

from muster.model.work import BROUGHT, BY_KIND, WorkKind
from tests.integration.tenancy import works
from tests.integration.tenancy.cluster import Object, allowed
from tests.integration.tenancy.conftest import World
from tests.integration.tenancy.works import annotated

KINDS: Final = pytest.mark.parametrize("kind", BROUGHT, ids=lambda each: each.kind)
SUSPENDED: Final = pytest.mark.parametrize(
    "kind", [each for each in BROUGHT if not each.serves], ids=lambda each: each.kind
)
TEMPLATED: Final = pytest.mark.parametrize(
    "kind", [each for each in BROUGHT if not each.pods[0].is_of_runtime], ids=lambda each: each.kind
)


def work(kind: WorkKind, name: str, *, replicas: int = 2, suspend: bool = True, **pod: Any) -> Object:
    """Workers with a GPU each."""
    template = works.template(1, restart="" if kind.serves else "Never", **pod)
    path = kind.pods[0].template
    if kind.pods[0].is_of_runtime:
        amounts = {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"}
        trainer = {"numNodes": replicas, "resourcesPerNode": {"requests": amounts, "limits": amounts}}
        body: Object = {"runtimeRef": {"name": "torch"}, "trainer": trainer, "suspend": suspend}
    elif kind.serves:
        body = {"leaderWorkerTemplate": {"size": replicas, "workerTemplate": template}}
    elif path.field:
        body = {"replicatedJobs": [job(replicas, template)], "suspend": suspend}
    else:
        template["spec"]["containers"][0]["name"] = "pytorch"
        first, workers = ({"replicas": count, "template": template} for count in (1, replicas))
        policy = {"suspend": suspend, "cleanPodPolicy": "Running"}
        groups = dict(zip(path.keys, (first, workers), strict=True))
        body = {path.groups.removeprefix("spec."): groups, "runPolicy": policy}
    labels = {works.QUEUE: "default", works.PRIORITY: "dev"}
    return {
        "apiVersion": f"{kind.group}/{kind.version}",
        "kind": kind.kind,
        "metadata": {"name": name, "namespace": works.NAMESPACE, "labels": labels},
        "spec": body,
    }


def job(replicas: int, template: Object) -> Object:
    return {"name": "w", "replicas": replicas, "template": {"spec": {"template": template}}}


@KINDS
def test_members_submit_it(served: World, kind: WorkKind) -> None:
    allowed(served.member.create(work(kind, "fine")))


@TEMPLATED
def test_a_template_of_a_group_is_judged_as_a_pod(served: World, kind: WorkKind) -> None:
    answer = served.member.create(work(kind, "reaching", hostNetwork=True))
    assert not answer.is_allowed
    assert f"In {kind.pods[-1].template.groups or kind.pods[-1].template.text}" in answer.message


@KINDS
def test_no_more_pods_than_the_namespace_holds(served: World, kind: WorkKind) -> None:
    """A product of two factors that are small enough."""
    answer = served.member.create(work(kind, "many", replicas=1_000_000))
    assert "muster-sizes" in answer.refusals, answer.message


@SUSPENDED
def test_what_runs_is_not_made_larger_and_what_waits_is_not_started(served: World, kind: WorkKind) -> None:
    waits, runs = work(kind, "waits"), work(kind, "runs", suspend=False)
    for body in (waits, runs):
        assert served.admin.create(body, dry_run=False).is_allowed
    larger = {"spec": work(kind, "runs", replicas=9, suspend=False)["spec"]}
    assert "is running, and its queue counted its pods" in served.member.patch(runs, larger).message
    started = served.member.patch(waits, {"spec": work(kind, "waits", suspend=False)["spec"]})
    assert f"leave {kind.suspend} as it is" in started.message
    assert served.member.patch(waits, {"spec": work(kind, "waits", replicas=9)["spec"]}).is_allowed
    assert served.member.delete(runs).is_allowed


@SUSPENDED
def test_no_other_controller_is_named(served: World, kind: WorkKind) -> None:
    body = work(kind, "elsewhere")
    *way, last = kind.managers[0].text.split(".")
    at = body
    for key in way:
        at = at.setdefault(key, {})
    at[last] = "example.com/other"
    assert "managed by example.com/other" in served.member.create(body).message
    at[last] = kind.manager
    allowed(served.member.create(body))


def test_a_running_set_gets_more_groups_and_no_larger_pods(served: World) -> None:
    """Kueue counts each new group by itself, behind its gate."""
    kind = BY_KIND["LeaderWorkerSet"]
    body = served.admin.ensure(work(kind, "grows"))
    assert served.member.patch(body, {"spec": {"replicas": 3}}).is_allowed
    template = body["spec"]["leaderWorkerTemplate"]["workerTemplate"]
    template["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = "4"
    assert "its queue counted the resources" in served.member.patch(body, {"spec": body["spec"]}).message


def test_what_kueue_writes_into_the_pods_of_a_set_is_no_tenants(served: World) -> None:
    """Its webhook writes it before the policies see a set, so a set without it is none that was created."""
    kind = BY_KIND["LeaderWorkerSet"]
    notes = {
        "kueue.x-k8s.io/pod-suspending-parent": kind.framework,
        "kueue.x-k8s.io/pod-group-serving": "true",
    }
    body = work(kind, "written")
    template = body["spec"]["leaderWorkerTemplate"]["workerTemplate"]
    template["metadata"] = {"annotations": notes}
    allowed(served.member.create(body))
    for key in notes:
        template["metadata"] = {"annotations": {**notes, key: "other"}}
        assert f"remove {key} from" in served.member.create(body).message
    job = annotated(works.job(), *next(iter(notes.items())))
    assert "muster-reserved" in served.member.create(job).refusals


def test_a_pod_of_a_set_has_gpus_behind_the_gate_of_kueue_alone(served: World) -> None:
    """A webhook of Kueue's that is down would leave the gate out."""
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "serve", "uid": "1", "controller": True}
    pod: Object = {"apiVersion": "v1", "kind": "Pod", **works.template(1, restart="Always")}
    notes = {"kueue.x-k8s.io/pod-suspending-parent": "leaderworkerset.x-k8s.io/leaderworkerset"}
    pod["metadata"] = {"name": "serve-0", "namespace": works.NAMESPACE, "ownerReferences": [owner]}
    pod["metadata"]["annotations"] = notes
    statefulsets = served.controllers["replicasets"]
    assert "muster-pods" in statefulsets.create(pod).refusals
    pod["spec"]["schedulingGates"] = [{"name": "kueue.x-k8s.io/admission"}]
    allowed(statefulsets.create(pod))


@pytest.mark.parametrize(("operator", "kind"), [("pytorch", "PyTorchJob"), ("mpi", "MPIJob")])
def test_a_pod_of_kubeflows_work_has_gpus_by_its_operator_alone(
    served: World, operator: str, kind: str
) -> None:
    pod = works.pod(owner=works.owner(kind, f"kubeflow.org/{BY_KIND[kind].version}"))
    allowed(served.controllers[operator].create(pod))
    assert "muster-pods" in served.trusted.create(pod).refusals


def test_the_copy_of_a_runtime_is_its_controllers_alone(served: World) -> None:
    """Trainer makes the pods of what stands there, and Kueue counts those of the runtime."""
    kind = BY_KIND["TrainJob"]
    job = work(kind, "copied")
    allowed(served.admin.create(job, dry_run=False))
    owner = {"apiVersion": f"{kind.group}/{kind.version}", "kind": kind.kind, "name": "copied", "uid": "1"}
    copy: Object = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "copied-runtime-snapshot",
            "namespace": works.NAMESPACE,
            "ownerReferences": [{**owner, "controller": True}],
        },
        "data": {"runtime": "as Trainer wrote it"},
    }
    assert "muster-owners" in served.member.create(copy).refusals
    free = {**copy, "metadata": {"name": "free-runtime-snapshot", "namespace": works.NAMESPACE}}
    assert "muster-owners" in served.member.create(free).refusals
    trainer = served.controllers["trainer"]
    allowed(trainer.create(copy, dry_run=False))
    assert "muster-owners" in served.member.patch(copy, {"data": {"runtime": "of 100 nodes"}}).refusals
    assert "muster-owners" in served.member.delete(copy).refusals
    other = {**copy, "metadata": {"name": "settings", "namespace": works.NAMESPACE}}
    assert served.member.create(other).is_allowed


def test_what_its_queue_counted_of_a_running_train_job_stays(served: World) -> None:
    kind = BY_KIND["TrainJob"]
    body = work(kind, "counted", suspend=False)
    body["spec"].pop("trainer")
    assert served.admin.create(body, dry_run=False).is_allowed
    for change in (
        {"trainer": {"numNodes": 100}},
        {"runtimeRef": {"name": "larger"}},
        {"initializer": {"model": {"storageUri": "hf://a/b"}}},
    ):
        message = served.member.patch(body, {"spec": change}).message
        assert f"leave spec.{next(iter(change))} as it is" in message, message
    patches = [{"manager": "kueue.x-k8s.io/manager"}]
    assert "muster-growth" in served.member.patch(body, {"spec": {"runtimePatches": patches}}).refusals
