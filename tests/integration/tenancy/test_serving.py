"""StatefulSets and Deployments before a real API server, where a stack serves them and where it does not."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.tenancy import works
from tests.integration.tenancy.cluster import Object, allowed
from tests.integration.tenancy.conftest import World
from tests.integration.tenancy.works import annotated, changed, labelled, owner

KUEUE = "kueue.x-k8s.io/"
PARENT = f"{KUEUE}pod-suspending-parent"
STORAGE = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
CLAIM = {"metadata": {"name": "data"}, "spec": STORAGE}
GATE = {"name": f"{KUEUE}admission"}


def stateful(name: str, *, gpus: int = 1, replicas: int = 2, **spec: Any) -> Object:
    labels = {"app": name}
    template = works.template(gpus, restart="Always")
    template["metadata"] = {**template.get("metadata", {}), "labels": labels}
    body = {
        "replicas": replicas,
        "serviceName": name,
        "selector": {"matchLabels": labels},
        "podManagementPolicy": "Parallel",
        "template": template,
        **spec,
    }
    queue = {works.QUEUE: "default", works.PRIORITY: "dev"}
    metadata = {"name": name, "namespace": works.NAMESPACE, "labels": queue}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": body}


def deployment(name: str, *, gpus: int = 1, **spec: Any) -> Object:
    body = stateful(name, gpus=gpus)
    del body["spec"]["serviceName"], body["spec"]["podManagementPolicy"]
    return {**body, "kind": "Deployment", "spec": {**body["spec"], **spec}}


def noted(body: Object, field: str, key: str, value: str) -> Object:
    return changed(body, "spec", "template", "metadata", field, key, value=value)


def test_a_member_creates_them_with_gpus(served: World) -> None:
    for body in (stateful("fine"), deployment("fine")):
        assert served.member.create(body).is_allowed
        written = noted(body, "annotations", PARENT, body["kind"].lower())
        if body["kind"] == "Deployment":
            for key, value in {"managed": "true", "queue-name": "default", "priority-class": "dev"}.items():
                written = noted(written, "labels", KUEUE + key, value)
        allowed(served.member.create(written))


def test_the_workers_of_a_group_are_their_controllers_alone(served: World) -> None:
    """LeaderWorkerSet's makes a StatefulSet of them for the pod of their leader, and counts nothing twice."""
    body = labelled(stateful("serve-0"), works.QUEUE, None)
    body["metadata"]["ownerReferences"] = [owner("Pod", "v1")]
    allowed(served.controllers["lws"].create(body))
    assert "muster-work" in served.member.create(body).refusals


@pytest.mark.parametrize(
    ("body", "policy", "words"),
    [
        (labelled(stateful("a"), works.QUEUE, None), "muster-work", "work needs a queue"),
        (labelled(stateful("a"), works.QUEUE, "team-b"), "muster-work", "does not belong to this namespace"),
        (labelled(stateful("a"), works.PRIORITY, "prod"), "muster-work", "is not available"),
        (stateful("a", podManagementPolicy="OrderedReady"), "muster-work", "set spec.podManagementPolicy"),
        (
            stateful("a", volumeClaimTemplates=[CLAIM]),
            *("muster-work", "mount a claim of the team"),
        ),
        (stateful("a", replicas=1_000_000), "muster-sizes", "lower replicas"),
        (noted(stateful("a"), "labels", f"{KUEUE}pod-group-name", "b"), "muster-reserved", "pod-group-name"),
        (noted(stateful("a"), "labels", f"{KUEUE}managed", "true"), "muster-reserved", "managed"),
        (noted(stateful("a"), "annotations", f"{KUEUE}role-hash", "main"), "muster-reserved", "role-hash"),
        (noted(stateful("a"), "annotations", PARENT, "job"), "muster-reserved", "pod-suspending-parent"),
        (annotated(stateful("a"), f"{KUEUE}prebuilt-workload-name", "b"), "muster-work", "prebuilt-workload"),
        (
            changed(stateful("a"), "metadata", "ownerReferences", value=[owner("RayJob", "ray.io/v1")]),
            *("muster-owners", "is not queued on its own"),
        ),
        (
            changed(stateful("a"), "spec", "template", "spec", "hostNetwork", value=True),
            *("muster-templates", "hostNetwork"),
        ),
        (labelled(deployment("a"), works.QUEUE, None), "muster-work", "work needs a queue"),
        (noted(deployment("a"), "labels", works.PRIORITY, "prod"), "muster-work", "is not available"),
        (
            noted(deployment("a"), "labels", f"{KUEUE}pod-group-name", "b"),
            "muster-reserved",
            "pod-group-name",
        ),
        (
            noted(deployment("a"), "labels", f"{KUEUE}prebuilt-workload-name", "b"),
            *("muster-reserved", "prebuilt-workload-name"),
        ),
        (noted(deployment("a"), "annotations", PARENT, "statefulset"), "muster-reserved", "pod-suspending"),
        (noted(deployment("a"), "annotations", f"{KUEUE}role-hash", "main"), "muster-reserved", "role-hash"),
        (deployment("a", replicas=1_000_000), "muster-sizes", "lower replicas"),
    ],
)
def test_no_tenant_creates_one_that_passes_its_queue(
    served: World, body: Object, policy: str, words: str
) -> None:
    for tenant in served.tenants:
        answer = tenant.create(body)
        assert words in answer.refusals.get(policy, ""), (tenant.name, answer.message)


@pytest.fixture(scope="module")
def standing(served: World) -> Object:
    return served.member.ensure(stateful("standing"))


def test_it_keeps_the_pods_that_its_queue_counted(served: World, standing: Object) -> None:
    """Kueue's own webhook lets it go to none and come back with more."""
    larger = stateful("standing", gpus=4)["spec"]["template"]
    for tenant in served.tenants:
        for replicas in (0, 1, 9):
            refused = tenant.patch(standing, {"spec": {"replicas": replicas}}).refusals
            assert "leave spec.replicas as it is" in refused.get("muster-growth", "")
        refused = tenant.patch(standing, {"spec": {"template": larger}}).refusals
        assert "its queue counted the resources" in refused.get("muster-growth", "")
    assert served.member.patch(standing, {"metadata": {"annotations": {"note": "mine"}}}).is_allowed


def test_no_right_of_a_tenant_leads_past_its_object(served: World, standing: Object) -> None:
    scaled = served.trusted.patch(standing, {"spec": {"replicas": 9}}, subresource="scale")
    assert "create one of another size" in scaled.refusals.get("muster-protected", ""), scaled.message
    assert served.member.patch(standing, {"spec": {"replicas": 9}}, subresource="scale").code == 403
    done = served.trusted.patch(standing, {"status": {"replicas": 0}}, subresource="status")
    assert "muster-protected" in done.refusals
    path = f"/apis/apps/v1/namespaces/{works.NAMESPACE}/statefulsets/standing?dryRun=All"
    orphans = served.member.send("DELETE", path, {"propagationPolicy": "Orphan"})
    assert "muster-ending" in orphans.refusals, orphans.message
    assert served.member.delete(standing).is_allowed


def test_a_deployment_changes_and_its_pods_are_counted_one_by_one(served: World) -> None:
    body = served.member.ensure(deployment("changing"))
    for change in ({"replicas": 9}, {"template": deployment("changing", gpus=4)["spec"]["template"]}):
        allowed(served.member.patch(body, {"spec": change}))
    assert served.trusted.patch(body, {"spec": {"replicas": 9}}, subresource="scale").is_allowed
    path = f"/apis/apps/v1/namespaces/{works.NAMESPACE}/deployments/changing?dryRun=All"
    orphans = served.member.send("DELETE", path, {"propagationPolicy": "Orphan"})
    assert "muster-ending" in orphans.refusals, orphans.message


@pytest.mark.parametrize(
    ("field", "key", "value"),
    [
        ("annotations", PARENT, "deployment"),
        ("labels", f"{KUEUE}queue-name", "default"),
        ("labels", works.PRIORITY, "prod"),
        ("labels", f"{KUEUE}prebuilt-workload-name", "b"),
    ],
)
def test_no_tenant_writes_what_a_replica_set_has_of_its_deployment(
    served: World, field: str, key: str, value: str
) -> None:
    body = {**deployment("alone"), "kind": "ReplicaSet"}
    del body["metadata"]["labels"]
    answer = served.trusted.create(noted(body, field, key, value))
    assert key in answer.refusals.get("muster-reserved", ""), answer.message


@pytest.mark.parametrize("kind", ["StatefulSet", "ReplicaSet"])
def test_its_pods_have_gpus_behind_the_gate_of_kueue_which_no_tenant_lifts(served: World, kind: str) -> None:
    controllers = served.controllers["replicasets"]
    pod = works.pod(owner=owner(kind, "apps/v1", "standing"), name=f"{kind.lower()}-7")
    pod["metadata"]["annotations"] = {PARENT: "statefulset"}
    assert "muster-pods" in controllers.create(pod).refusals
    pod["spec"]["schedulingGates"] = [GATE]
    assert controllers.create(pod, dry_run=False).is_allowed
    lifted = served.trusted.patch(pod, {"spec": {"schedulingGates": None}})
    assert "muster-pod-changes" in lifted.refusals, lifted.message


def test_where_a_stack_serves_none_they_are_no_work_and_get_no_gpus(world: World) -> None:
    """Whoever may write them there has them without a queue, as before."""
    for body in (stateful("plain", gpus=0, podManagementPolicy="OrderedReady"), deployment("plain", gpus=0)):
        plain = labelled(body, works.QUEUE, None)
        allowed(world.trusted.create(plain))
        assert world.member.create(plain).code == 403
    for kind in ("StatefulSet", "ReplicaSet"):
        pod = works.pod(owner=owner(kind, "apps/v1", "plain"), name="plain-0")
        assert "muster-pods" in world.controllers["replicasets"].create(pod).refusals
