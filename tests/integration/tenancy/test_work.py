"""What a tenant does every day goes through, and what the controllers make of it does too."""

from __future__ import annotations

import pytest

from tests.integration.tenancy import works
from tests.integration.tenancy.cluster import MERGE, Object, allowed, await_allowed, await_denied
from tests.integration.tenancy.conftest import World
from tests.integration.tenancy.works import REQUEST, annotated, labelled, named, owner, pod, template

APART = {
    "topologyKey": "kubernetes.io/hostname",
    "labelSelector": {"matchLabels": {"app": "train"}},
    "namespaces": ["team-a"],
}
# As published samples mount a bucket, and as the stack's volumes are.
MOUNTED = [
    {"name": "bucket", "csi": {"driver": "gcsfuse.csi.storage.gke.io"}},
    {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
    {"name": "scratch", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
    {"name": "code", "configMap": {"name": "code"}},
]
ORDINARY = {
    "RayJob": works.ray_job(),
    "RayJob with a submitter pod": works.ray_job(submissionMode="K8sJobMode"),
    "RayJob with a lease time": annotated(
        works.ray_job(), "provreq.kueue.x-k8s.io/maxRunDurationSeconds", "7200"
    ),
    "RayJob that keeps its cluster for two minutes": works.ray_job(ttlSecondsAfterFinished=120),
    "Job with volumes, apart from the team's other pods": works.job(
        template=template(
            1,
            restart="Never",
            volumes=MOUNTED,
            affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [APART]}},
        )
    ),
    "RayCluster": works.ray_cluster(),
    "RayCluster that grows in steps": annotated(
        works.ray_cluster(enableInTreeAutoscaling=True), "kueue.x-k8s.io/elastic-job", "true"
    ),
    "RayService": works.ray_service(),
    "Job": works.job(),
    "Job without a priority": labelled(works.job(), works.PRIORITY, None),
    "CronJob": works.cron_job(),
}


@pytest.mark.parametrize("body", ORDINARY.values(), ids=ORDINARY)
def test_a_member_submits_ordinary_work(world: World, body: Object) -> None:
    for caller in world.tenants:
        allowed(caller.create(body))


def test_a_member_reads_what_its_work_waits_for(world: World) -> None:
    for resource in ("localqueues", "workloads"):
        assert world.member.get(f"/apis/kueue.x-k8s.io/v1beta2/namespaces/team-a/{resource}").is_allowed
    assert world.person.get("/api/v1/namespaces/team-a/pods").is_allowed


@pytest.mark.parametrize(
    "path",
    [
        "/apis/kueue.x-k8s.io/v1beta2/namespaces/team-b/workloads",
        "/apis/ray.io/v1/namespaces/team-b/rayjobs",
        "/api/v1/namespaces/team-b/secrets",
        "/apis/kueue.x-k8s.io/v1beta2/clusterqueues",
        "/api/v1/nodes",
        "/api/v1/namespaces/muster-system/secrets",
    ],
)
def test_a_member_sees_nothing_of_others(world: World, path: str) -> None:
    for caller in world.tenants:
        assert caller.get(path).code == 403


def test_the_controllers_make_pods_of_admitted_work(world: World) -> None:
    head = pod(0, owner=owner("RayCluster", "ray.io/v1"))
    worker = pod(8, owner=owner("RayCluster", "ray.io/v1"))
    assert world.controllers["kuberay"].create(head).is_allowed
    assert world.controllers["kuberay"].create(worker).is_allowed
    allowed(world.controllers["jobs"].create(pod(1, owner=owner("Job", "batch/v1"))))


def test_no_pod_requests_less_than_its_queue_can_count(world: World) -> None:
    """Also where no template was judged, with the policies off."""
    least = {"cpu": "10m", "memory": "10Mi", "nvidia.com/gpu": "0"}
    for requests, is_allowed in (
        (least, True),
        (least | {"cpu": "9m"}, False),
        (least | {"memory": "0"}, False),
    ):
        body = pod(0, owner=owner("Job", "batch/v1"))
        body["spec"]["containers"][0]["resources"] = {"requests": requests, "limits": {"nvidia.com/gpu": "0"}}
        answer = world.controllers["jobs"].create(body)
        assert answer.is_allowed is is_allowed, answer.message
        assert is_allowed or "minimum " in answer.message


def test_amounts_are_read_as_their_author_writes_them(world: World) -> None:
    """As numbers, without unit, in part, and left out."""
    for resources in ({"cpu": 1, "memory": 2**30, "nvidia.com/gpu": 0}, {"cpu": "0.5", "memory": "1e9"}, {}):
        found = template()
        found["spec"]["containers"][0]["resources"] = {"requests": resources, "limits": resources}
        allowed(world.member.create(works.ray_cluster(headGroupSpec=works.head(template=found))))


def test_what_kuberay_makes_for_a_reviewed_object_needs_no_queue_of_its_own(world: World) -> None:
    made = named(works.ray_cluster(suspend=False), "train-x1")
    made["metadata"] |= {"labels": {}, "ownerReferences": [owner("RayJob", "ray.io/v1", "train")]}
    submitter = named(works.job(suspend=False), "train-submit")
    submitter["metadata"] |= {"labels": {}, "ownerReferences": [owner("RayJob", "ray.io/v1", "train")]}
    for body in (made, submitter):
        allowed(world.controllers["kuberay"].create(body))


def test_a_cron_job_s_jobs_are_queued_like_any_other(world: World) -> None:
    run = works.job()
    run["metadata"]["ownerReferences"] = [owner("CronJob", "batch/v1", "nightly")]
    assert world.controllers["cronjobs"].create(run).is_allowed
    answer = world.controllers["cronjobs"].create(labelled(run, works.QUEUE, None))
    assert "needs a queue" in answer.message


def test_kueue_starts_and_stops_what_it_admits(world: World) -> None:
    body = world.member.ensure(named(works.ray_job(), "admitted"))
    kueue = world.controllers["kueue"]
    assert kueue.patch(body, {"spec": {"suspend": False}}).is_allowed
    # What Kueue writes into the templates when it starts a gang is no tenant's to write.
    consume = {"annotations": {"autoscaling.x-k8s.io/consume-provisioning-request": "muster-1"}}
    spec = works.cluster_spec()
    spec["headGroupSpec"]["template"]["metadata"] = consume
    allowed(kueue.patch(body, {"spec": {"suspend": False, "rayClusterSpec": spec}}))


def test_what_was_allowed_once_stays_changeable(world: World) -> None:
    """A stack that takes a priority away must not make running work undeletable or unfinishable."""
    body = world.member.ensure(labelled(named(works.ray_job(), "older"), works.PRIORITY, "dev"))
    prod = {"metadata": {"annotations": {"muster.dev/priorities": "prod"}}}
    space = "/api/v1/namespaces/team-a"
    allowed(world.admin.send("PATCH", space, prod, MERGE))
    try:
        await_denied(world.member, body | {"metadata": body["metadata"] | {"name": "newer"}})
        change = {"metadata": {"annotations": {"note": "x"}}, "spec": {"activeDeadlineSeconds": 60}}
        allowed(world.member.patch(body, change))
        assert world.member.delete(body).is_allowed
    finally:
        back = {"metadata": {"annotations": {"muster.dev/priorities": "dev"}}}
        world.admin.send("PATCH", space, back, MERGE)
        await_allowed(world.member, works.ray_job())


_SELECTING = works.in_a_cluster("HTTPMode")["spec"] | {"rayClusterSpec": None}
_SCALES = {"enableInTreeAutoscaling": True}


@pytest.mark.parametrize(
    ("work", "spec"),
    [
        (works.ray_job(), {"submissionMode": "InteractiveMode"}),
        (works.ray_job(), _SELECTING),
        (works.ray_job(), {"rayClusterSpec": _SCALES}),
        (works.ray_job(), {"ttlSecondsAfterFinished": 3600}),
        (works.ray_service(), {"rayClusterConfig": _SCALES}),
    ],
    ids=["interactive", "selecting", "scaling", "kept", "scaling service"],
)
def test_what_a_policy_refuses_since_stays_changeable_in_all_else(
    request: pytest.FixtureRequest, world: World, work: Object, spec: Object
) -> None:
    body = world.member.ensure(named(work, request.node.callspec.id.replace(" ", "-")))
    # Nobody looks at what the system writes.
    allowed(world.controllers["kueue"].patch(body, {"spec": spec}, dry_run=False))
    allowed(world.member.patch(body, {"metadata": {"annotations": {"any": "change"}}}))
    if "ttlSecondsAfterFinished" in spec:
        longer = world.member.patch(body, {"spec": {"ttlSecondsAfterFinished": 7200}})
        assert "to 120 or less" in longer.message


def test_other_namespaces_are_left_alone(world: World) -> None:
    system = pod(1)
    system["metadata"]["namespace"] = "kube-system"
    assert world.admin.create(system).is_allowed
    plain = labelled(works.job(), works.QUEUE, None)
    plain["metadata"]["namespace"] = "default"
    assert world.admin.create(plain).is_allowed


def test_a_controller_that_answers_requests_everywhere_answers_a_tenant_s(world: World) -> None:
    request = world.controllers["ours"].ensure(named(REQUEST, "muster-answered"))
    status = {"status": {"conditions": [works.condition("Accepted")]}}
    allowed(world.controllers["autoscaler"].patch(request, status, subresource="status"))
    for caller in world.tenants:
        assert caller.patch(request, status, subresource="status").code == 403
