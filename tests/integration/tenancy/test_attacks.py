"""Every way around the queues that we know of, tried as a tenant: denied, and told what to do instead.

Tried as a member's ServiceAccount, as a user in a mapped group, and as a tenant to whom somebody gave every
right in his namespace: what RBAC alone would stop, the policies stop too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.integration.tenancy import works
from tests.integration.tenancy.cluster import Answer, Caller, Object, await_allowed, await_denied
from tests.integration.tenancy.conftest import World
from tests.integration.tenancy.works import (
    NAMESPACE,
    annotated,
    changed,
    cluster_spec,
    in_a_cluster,
    labelled,
    named,
    owner,
    pod,
    template,
)

KUEUE = "kueue.x-k8s.io/v1beta2"
CONSUME = "autoscaling.x-k8s.io/consume-provisioning-request"


@dataclass(frozen=True)
class Attack:
    """`words` are what the answer has to hold: what is wrong, and what to do instead. `by_rbac`: a member is
    stopped before any policy looks.
    """

    attempt: Callable[[Caller], Answer]
    words: tuple[str, ...]
    by_rbac: bool = False


def creating(body: Object, *words: str, by_rbac: bool = False) -> Attack:
    return Attack(lambda caller: caller.create(body), words, by_rbac)


def _kueue_object(kind: str, name: str, spec: Object) -> Object:
    return {
        "apiVersion": KUEUE,
        "kind": kind,
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": spec,
    }


POD_SETS = [{"name": "main", "count": 1, "template": template(8, restart="Never")}]
WORKLOAD = _kueue_object("Workload", "mine", {"queueName": "default", "podSets": POD_SETS})
QUEUE = _kueue_object("LocalQueue", "theirs", {"clusterQueue": "team-b"})
REQUEST = {
    "apiVersion": "autoscaling.x-k8s.io/v1",
    "kind": "ProvisioningRequest",
    "metadata": {"name": "mine", "namespace": NAMESPACE},
    "spec": {
        "provisioningClassName": "queued-provisioning.gke.io",
        "podSets": [{"count": 1, "podTemplateRef": {"name": "t"}}],
    },
}
TEMPLATE = {
    "apiVersion": "v1",
    "kind": "PodTemplate",
    "metadata": {"name": "mine", "namespace": NAMESPACE},
    "template": template(1),
}
SPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
LIMITS = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "defaults", "namespace": NAMESPACE}}
QUOTA = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "objects", "namespace": NAMESPACE}}
NETWORK = {
    "apiVersion": "networking.k8s.io/v1",
    "kind": "NetworkPolicy",
    "metadata": {"name": "incoming", "namespace": NAMESPACE},
}
SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "dashboard", "namespace": NAMESPACE},
    "spec": {"type": "LoadBalancer", "ports": [{"port": 8265}]},
}
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": NAMESPACE},
    "spec": {
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, **template(1)},
    },
}
NEEDS = ("work needs a queue", "one of: default")
OF_ITS_JOBS = f"set spec.jobTemplate.metadata.labels[{works.QUEUE}] to"
OTHER = ("is not one of this namespace", "one of: default")
GPUS = ("GPUs are for work that a queue admitted", "submit a RayJob")
ENDLESS = ("InteractiveMode cannot be suspended", "use HTTPMode, or K8sJobMode")
RUNS_UP = ("minReplicas <= replicas <= maxReplicas",)


def _without_queue(body: Object) -> Object:
    return labelled(body, works.QUEUE, None)


def _grown(**bounds: int) -> Object:
    spec = cluster_spec()
    spec["workerGroupSpecs"][0] |= bounds
    return works.ray_cluster(**spec)


def _consuming() -> Object:
    spec = cluster_spec()
    spec["headGroupSpec"]["template"]["metadata"] = {"annotations": {CONSUME: "another-s"}}
    return works.ray_job(rayClusterSpec=spec)


def _devices() -> Object:
    body = pod(0, name="devices")
    body["spec"]["volumes"] = [{"name": "devices", "hostPath": {"path": "/dev"}}]
    return body


ATTACKS = {
    # omit the queue
    "RayJob without a queue": creating(_without_queue(works.ray_job()), *NEEDS),
    "RayCluster without a queue": creating(_without_queue(works.ray_cluster()), *NEEDS),
    "RayService without a queue": creating(_without_queue(works.ray_service()), *NEEDS),
    "Job without a queue": creating(_without_queue(works.job()), *NEEDS, "set metadata.labels"),
    "CronJob whose jobs have no queue": creating(
        changed(works.cron_job(), "spec", "jobTemplate", "metadata", value={}), *NEEDS, OF_ITS_JOBS
    ),
    "Job that pretends to be made by KubeRay": creating(
        changed(
            _without_queue(works.job()),
            "metadata",
            "ownerReferences",
            value=[owner("RayJob", "ray.io/v1", "train")],
        ),
        *NEEDS,
    ),
    "RayCluster that names a controller as its owner": creating(
        changed(works.ray_cluster(), "metadata", "ownerReferences", value=[owner("RayJob", "ray.io/v1")]),
        "not queued by itself",
        "remove metadata.ownerReferences",
    ),
    # bare pods and deployments with GPUs
    "bare pod with a GPU": creating(pod(1), *GPUS, by_rbac=True),
    "bare pod with a GPU in an init container": creating(
        changed(
            pod(0),
            "spec",
            "initContainers",
            value=[{"name": "i", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "1"}}}],
        ),
        *GPUS,
        by_rbac=True,
    ),
    "bare pod with a slice of a GPU": creating(
        changed(
            pod(0),
            "spec",
            "containers",
            value=[{"name": "i", "image": "i", "resources": {"limits": {"nvidia.com/mig-1g.5gb": "1"}}}],
        ),
        *GPUS,
        by_rbac=True,
    ),
    "bare pod that claims a device": creating(
        changed(pod(0), "spec", "resourceClaims", value=[{"name": "gpu", "resourceClaimName": "mine"}]),
        *GPUS,
        by_rbac=True,
    ),
    "bare pod that pretends to be a worker": creating(
        pod(1, owner=owner("RayCluster", "ray.io/v1")), *GPUS, by_rbac=True
    ),
    "pod with the devices of its node": creating(
        _devices(), 'violates PodSecurity "baseline', "hostPath", by_rbac=True
    ),
    # another team's queue
    "RayJob in another's queue": creating(labelled(works.ray_job(), works.QUEUE, "team-b"), *OTHER),
    "Job in another's queue": creating(labelled(works.job(), works.QUEUE, "team-b"), *OTHER),
    "CronJob whose jobs are in another's queue": creating(
        changed(works.cron_job(), "spec", "jobTemplate", "metadata", "labels", works.QUEUE, value="team-b"),
        *OTHER,
        OF_ITS_JOBS,
    ),
    "a LocalQueue of one's own to another's ClusterQueue": creating(
        QUEUE, "localqueues here are not written by hand", "use the queue of this namespace", by_rbac=True
    ),
    "one's own namespace in another team": Attack(
        lambda caller: caller.patch(SPACE, {"metadata": {"labels": {"muster.dev/team": "team-b"}}}),
        ("namespace of a team", "ask the platform team"),
        by_rbac=True,
    ),
    "another queue on one's own namespace": Attack(
        lambda caller: caller.patch(SPACE, {"metadata": {"annotations": {"muster.dev/queues": "all"}}}),
        ("namespace of a team", "ask the platform team"),
        by_rbac=True,
    ),
    "one's own namespace without its label": Attack(
        lambda caller: caller.patch(SPACE, {"metadata": {"labels": {"muster.dev/team": None}}}),
        ("namespace of a team", "ask the platform team"),
        by_rbac=True,
    ),
    "Pod Security switched off": Attack(
        lambda caller: caller.patch(
            SPACE, {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}}
        ),
        ("namespace of a team", "ask the platform team"),
        by_rbac=True,
    ),
    # spoofed priority
    "RayJob at another's priority": creating(
        labelled(works.ray_job(), works.PRIORITY, "prod"), "priority prod is not one", "one of: dev"
    ),
    "Job at a priority that is none": creating(
        labelled(works.job(), works.PRIORITY, "highest"), "priority highest is not one", "one of: dev"
    ),
    "pods at a class of the cluster's": creating(
        works.job(template=template(1, restart="Never", priorityClassName="system-cluster-critical")),
        "remove priorityClassName from the pod templates",
        f"set metadata.labels[{works.PRIORITY}]",
    ),
    "pods of a CronJob at a class of the cluster's": creating(
        changed(
            works.cron_job(),
            *("spec", "jobTemplate", "spec", "template"),
            value=template(1, restart="Never", priorityClassName="system-cluster-critical"),
        ),
        "remove priorityClassName from the pod templates",
        f"set spec.jobTemplate.metadata.labels[{works.PRIORITY}]",
    ),
    "workers at a class of the cluster's": creating(
        works.ray_job(
            rayClusterSpec=cluster_spec(
                headGroupSpec={
                    "rayStartParams": {},
                    "template": template(priorityClassName="system-node-critical"),
                }
            )
        ),
        "remove priorityClassName from the pod templates",
    ),
    "bare pod above everybody": creating(
        pod(0, priorityClassName="system-cluster-critical"), "remove spec.priorityClassName", by_rbac=True
    ),
    # admitting oneself
    "a prebuilt Workload": creating(
        labelled(works.ray_job(), "kueue.x-k8s.io/prebuilt-workload-name", "mine"), "remove the label"
    ),
    "a Workload of one's own": creating(
        WORKLOAD, "workloads here are not written by hand", "delete the job itself", by_rbac=True
    ),
    "a ProvisioningRequest of one's own": creating(
        REQUEST, "provisioningrequests here are not written", "submit the job", by_rbac=True
    ),
    "a PodTemplate of one's own": creating(TEMPLATE, "podtemplates here are not written", by_rbac=True),
    "another's capacity": creating(_consuming(), "take provisioned capacity", "remove those"),
    "provisioning parameters": creating(
        annotated(works.ray_job(), "provreq.kueue.x-k8s.io/ValidUntilSeconds", "1"),
        "ValidUntilSeconds",
        "Allowed: maxRunDurationSeconds",
    ),
    # growing past admission
    "a cluster that scales itself": creating(
        works.ray_cluster(enableInTreeAutoscaling=True), "remove enableInTreeAutoscaling", "elastic-job"
    ),
    "a job whose cluster scales itself": creating(
        works.ray_job(rayClusterSpec=cluster_spec(enableInTreeAutoscaling=True)), "elastic-job"
    ),
    "replicas that KubeRay raises": creating(_grown(replicas=0, minReplicas=64, maxReplicas=64), *RUNS_UP),
    "replicas above their bound": creating(_grown(replicas=9, maxReplicas=1, minReplicas=0), *RUNS_UP),
    # a cluster that no queue knows
    "RayJob that picks a cluster by any label": creating(
        works.ray_job(
            rayClusterSpec=None, shutdownAfterJobFinishes=None, clusterSelector={"app": "somebody-s"}
        ),
        "cluster of its own namespace",
        "ray.io/cluster",
    ),
    # never to be preempted
    "RayJob that cannot be suspended": creating(
        works.ray_job(submissionMode="InteractiveMode", entrypoint=None), *ENDLESS
    ),
    # hiding from others, and piling up
    "no default requests": Attack(lambda caller: caller.delete(LIMITS), ("platform team",), by_rbac=True),
    "no counts": Attack(lambda caller: caller.delete(QUOTA), ("platform team",), by_rbac=True),
    "an open network": Attack(
        lambda caller: caller.patch(NETWORK, {"spec": {"ingress": [{}]}}), ("platform team",), by_rbac=True
    ),
    "a dashboard on the internet": creating(SERVICE, "remove spec.type LoadBalancer", by_rbac=True),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_it_is_denied_and_says_what_to_do_instead(world: World, name: str) -> None:
    attack = ATTACKS[name]
    told = attack.attempt(world.trusted)
    assert told.code in (403, 422), told
    for word in attack.words:
        assert word in told.message, told.message
    for caller in (world.member, world.person):
        answer = attack.attempt(caller)
        assert answer.code == 403, f"{caller.name}: {answer}"
        if not attack.by_rbac:
            assert attack.words[0] in answer.message


UPDATES: dict[str, tuple[Object, tuple[str, ...]]] = {
    "the queue": ({"metadata": {"labels": {works.QUEUE: "team-b"}}}, OTHER),
    "no queue at all": ({"metadata": {"labels": {works.QUEUE: None}}}, NEEDS),
    "the priority": ({"metadata": {"labels": {works.PRIORITY: "prod"}}}, ("priority prod", "one of: dev")),
    "prebuilt": (
        {"metadata": {"labels": {"kueue.x-k8s.io/prebuilt-workload-name": "mine"}}},
        ("remove the label",),
    ),
    "parameters": (
        {"metadata": {"annotations": {"provreq.kueue.x-k8s.io/BookingExpired": "1"}}},
        ("BookingExpired",),
    ),
    "started by hand": ({"spec": {"suspend": False}}, ("when its queue admits it",)),
}


@pytest.mark.parametrize("name", UPDATES)
@pytest.mark.parametrize("kind", ["RayJob", "Job"])
def test_what_may_not_be_created_may_not_be_changed_into_either(world: World, kind: str, name: str) -> None:
    change, words = UPDATES[name]
    body = named({"RayJob": works.ray_job(), "Job": works.job()}[kind], "standing")
    assert world.member.create(body, dry_run=False).code in (201, 409)
    for caller in world.tenants:
        answer = caller.patch(body, change)
        assert answer.code == 403, f"{caller.name}: {answer}"
        for word in words:
            assert word in answer.message, answer.message


def test_a_ray_job_is_not_changed_into_one_that_cannot_be_suspended(world: World) -> None:
    body = named(works.ray_job(), "suspendable")
    elsewhere = named(in_a_cluster("InteractiveMode"), "elsewhere")
    for each in (body, elsewhere):
        assert world.member.create(each, dry_run=False).code in (201, 409)
    own = {"clusterSelector": None, "rayClusterSpec": cluster_spec(), "shutdownAfterJobFinishes": True}
    for caller in world.tenants:
        for each, change in ((body, {"submissionMode": "InteractiveMode"}), (elsewhere, own)):
            answer = caller.patch(each, {"spec": change})
            assert answer.code == 403, f"{caller.name}: {answer}"
            for word in ENDLESS:
                assert word in answer.message, answer.message


def test_an_older_version_of_the_kinds_does_not_switch_authentication_off(world: World) -> None:
    """Gained: any client that reaches the cluster runs code in it. The API server drops authOptions."""
    body = works.ray_cluster()
    body["metadata"]["name"] = "authenticated"
    assert world.member.create(body, dry_run=False).is_allowed
    older = body | {"apiVersion": "ray.io/v1alpha1"}
    answer = world.member.patch(older, {"metadata": {"labels": {"any": "change"}}})
    assert answer.code == 403, answer.message
    assert "write Ray objects as apiVersion ray.io/v1" in answer.message
    assert world.member.patch(body, {"metadata": {"labels": {"any": "change"}}}).is_allowed


def test_a_deployment_with_gpus_gets_no_pods(world: World) -> None:
    for caller in (world.member, world.person):
        assert caller.create(DEPLOYMENT).code == 403
    # Whoever may make Deployments gets one, and the cluster's own controller is refused its pods.
    assert world.trusted.create(DEPLOYMENT).is_allowed
    answer = world.controllers["replicasets"].create(pod(1, owner=owner("ReplicaSet", "apps/v1")))
    for word in GPUS:
        assert word in answer.message


def test_nobody_but_the_controllers_writes_the_status_of_a_workload(world: World) -> None:
    body = named(WORKLOAD, "status")
    assert world.controllers["kueue"].create(body, dry_run=False).code in (201, 409)
    admitted = {
        "status": {
            "conditions": [
                {
                    "type": "Admitted",
                    "status": "True",
                    "reason": "Mine",
                    "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }
            ]
        }
    }
    for caller in world.tenants:
        assert caller.patch(body, admitted, subresource="status").code == 403
        assert caller.patch(body, {"spec": {"active": False}}).code == 403
        assert caller.delete(body).code == 403
    told = world.trusted.patch(body, admitted, subresource="status")
    assert "not written by hand" in told.message
    answer = world.controllers["kueue"].patch(body, admitted, subresource="status")
    assert answer.is_allowed, answer.message


def test_a_member_of_one_team_does_nothing_in_another(world: World) -> None:
    for body in (works.ray_job(), works.job(), works.ray_cluster()):
        assert world.stranger.create(body).code == 403


def test_more_objects_than_a_namespace_may_hold_are_refused(world: World) -> None:
    status = {"status": {"used": {"count/rayjobs.ray.io": "500"}}}
    path = "/api/v1/namespaces/team-a/resourcequotas/objects/status"
    assert world.admin.send("PATCH", path, status, "application/merge-patch+json").is_allowed
    try:
        # The API server counts by what it has heard, a moment later.
        await_denied(world.member, works.ray_job())
        answer = world.member.create(works.ray_job())
        assert answer.code == 403
        assert "count/rayjobs.ray.io=500" in answer.message
    finally:
        status["status"]["used"]["count/rayjobs.ray.io"] = "0"
        world.admin.send("PATCH", path, status, "application/merge-patch+json")
        await_allowed(world.member, works.ray_job())
