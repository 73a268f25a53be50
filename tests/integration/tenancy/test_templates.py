"""No queue buys nodes for pods that cannot start, and no pod keeps its node after its work was deleted.

Each attack is tried in every pod template of every kind. A member, a user in a mapped group, and a tenant
with far too many rights take turns.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.integration.tenancy import works
from tests.integration.tenancy.attacks import reserved
from tests.integration.tenancy.attacks.templates import DAY, FINALIZER, HOST_PATH, TABLE, UNSAFE
from tests.integration.tenancy.cluster import (
    Answer,
    Caller,
    Object,
    allowed,
    collection,
    place,
    refused,
)
from tests.integration.tenancy.conftest import World
from tests.integration.tenancy.works import changed, cluster_spec, head, named, owner, pod, template


def _workers(body: Object) -> Object:
    spec = cluster_spec()
    spec["workerGroupSpecs"][0]["template"] = body
    return spec


def _submitting(body: Object) -> Object:
    return works.ray_job(submissionMode="K8sJobMode", submitterPodTemplate=body)


def _cron(body: Object) -> Object:
    return changed(works.cron_job(), "spec", "jobTemplate", "spec", "template", value=body)


def _ray_cron(body: Object) -> Object:
    job = works.ray_job(rayClusterSpec=_workers(body))["spec"]
    return works.ray_cron_job(jobTemplate=job)


PLACES: dict[str, tuple[Callable[[Object], Object], str]] = {
    "Job": (lambda body: works.job(template=body), "In spec.template: "),
    "CronJob": (_cron, "In spec.jobTemplate.spec.template: "),
    "RayJob's head": (
        lambda body: works.ray_job(rayClusterSpec=cluster_spec(headGroupSpec=head(template=body))),
        "In spec.rayClusterSpec.headGroupSpec.template: ",
    ),
    "RayJob's workers": (
        lambda body: works.ray_job(rayClusterSpec=_workers(body)),
        "In spec.rayClusterSpec.workerGroupSpecs of gpu: ",
    ),
    "RayJob's submitter": (_submitting, "In spec.submitterPodTemplate: "),
    "RayCluster's head": (
        lambda body: works.ray_cluster(headGroupSpec=head(template=body)),
        "In spec.headGroupSpec.template: ",
    ),
    "RayCluster's workers": (
        lambda body: works.ray_cluster(**_workers(body)),
        "In spec.workerGroupSpecs of gpu: ",
    ),
    "RayService's workers": (
        lambda body: works.ray_service(rayClusterConfig=_workers(body) | {"suspend": True}),
        "In spec.rayClusterConfig.workerGroupSpecs of gpu: ",
    ),
    "RayCronJob's workers": (_ray_cron, "In spec.jobTemplate.rayClusterSpec.workerGroupSpecs of gpu: "),
}


def _caller(world: World, body: Object, turn: int) -> Caller:
    """Each tenant in turn. A member has no right on RayCronJobs."""
    return world.trusted if body["kind"] == "RayCronJob" else world.tenants[turn % len(world.tenants)]


def _refused_in(body: Object, answer: Answer, *words: str) -> None:
    """The API server validates the templates of its own kinds before any policy sees them."""
    if not (body["apiVersion"] == "batch/v1" and answer.code == 422):
        refused(answer, *words)


@pytest.mark.parametrize("name", TABLE)
def test_no_template_is_accepted_whose_pods_cannot_start_or_end(world: World, name: str) -> None:
    attack, reason = TABLE[name]
    for turn, (make, path) in enumerate(PLACES.values()):
        body = make(attack.template)
        answer = _caller(world, body, turn).create(body)
        _refused_in(body, answer, reason, path, *attack.words)


@pytest.mark.parametrize("where", ["CronJob", "RayCronJob's workers"])
def test_nor_is_one_changed_into_it(world: World, where: str) -> None:
    """test_attacks.py changes the templates of the other kinds."""
    make, path = PLACES[where]
    body = world.trusted.ensure(named(make(template(1, restart="Never")), "template"))
    for turn, (attack, reason) in enumerate(TABLE.values()):
        answer = _caller(world, body, turn).patch(body, {"spec": make(attack.template)["spec"]})
        if "resourceClaims" in attack.path and "'muster-growth'" in answer.message:
            continue  # Those of work that exists are closed to changes too, and the API server names one.
        _refused_in(body, answer, reason, path, *attack.words)


def test_the_container_of_an_autoscaler_is_judged_too(world: World) -> None:
    """Gained: quota for a cluster whose head never starts."""
    options = {"securityContext": {"privileged": True}}
    body = works.ray_cluster(enableInTreeAutoscaling=True, autoscalerOptions=options)
    refused(
        world.member.create(works.annotated(body, "kueue.x-k8s.io/elastic-job", "true")),
        UNSAFE,
        "In spec.autoscalerOptions: container autoscaler: remove securityContext",
    )


WORK = {**reserved.WORK, "RayCronJob": works.ray_cron_job()}


@pytest.mark.parametrize(
    ("kind", "finalizer"),
    [("RayCronJob", FINALIZER), ("RayJob", "orphan"), ("RayJob", "ray.io/rayjob-finalizer")],
)
def test_a_finalizer_of_a_tenant_keeps_no_work(world: World, kind: str, finalizer: str) -> None:
    """Gained: GPUs for good. The Workload ends, its quota is given to the next job, and the pods stay."""
    body = changed(WORK[kind], "metadata", "finalizers", value=[finalizer])
    refused(world.trusted.create(body), f"remove {finalizer} from metadata.finalizers")


@pytest.mark.parametrize("kind", WORK)
def test_nor_one_that_is_added_later_and_any_may_be_removed(world: World, kind: str) -> None:
    body = world.trusted.ensure(named(WORK[kind], "finalized"))
    theirs = {"metadata": {"finalizers": ["ray.io/theirs"]}}
    controller = world.controllers["kuberay" if body["apiVersion"].startswith("ray.io") else "jobs"]
    allowed(controller.patch(body, theirs, dry_run=False))
    both = {"metadata": {"finalizers": ["ray.io/theirs", FINALIZER]}}
    none: Object = {"metadata": {"finalizers": None}}
    for turn in range(3):
        caller = _caller(world, body, turn)
        refused(caller.patch(body, both), f"remove {FINALIZER} from metadata.finalizers")
        allowed(caller.patch(body, {"metadata": {"labels": {"any": "change"}}}))
        allowed(caller.patch(body, none))
    allowed(controller.patch(body, none, dry_run=False))


def test_a_finalizer_of_a_template_does_not_reach_the_pods_of_what_exists(world: World) -> None:
    """The controllers of Jobs and of Ray copy it. Their own they still set."""
    jobs, kuberay = world.controllers["jobs"], world.controllers["kuberay"]
    tracked = ["batch.kubernetes.io/job-tracking"]
    of_a_job = changed(pod(1, owner=owner("Job", "batch/v1")), "metadata", "finalizers", value=tracked)
    allowed(jobs.create(of_a_job))
    kept = changed(of_a_job, "metadata", "finalizers", value=[*tracked, FINALIZER])
    refused(jobs.create(kept), f"remove {FINALIZER} from metadata.finalizers of the pod template")
    of_ray = pod(1, owner=owner("RayCluster", "ray.io/v1"))
    for finalizer in (FINALIZER, *tracked):
        refused(
            kuberay.create(changed(of_ray, "metadata", "finalizers", value=[finalizer])),
            f"remove {finalizer} from metadata.finalizers of the pod template",
        )


def test_a_pod_gets_no_finalizer_from_a_tenant(world: World) -> None:
    """Gained: the node of a pod that its own autoscaler or a member may patch, for good."""
    made = world.trusted.ensure(named(pod(0), "patched"))
    refused(world.trusted.create(changed(pod(0), "metadata", "finalizers", value=[FINALIZER])), FINALIZER)
    refused(
        world.trusted.patch(made, {"metadata": {"finalizers": [FINALIZER]}}),
        f"remove {FINALIZER} from metadata.finalizers",
    )


def test_a_pod_made_by_hand_is_placed_and_ended_by_the_cluster(world: World) -> None:
    for fields, word in (
        ({"nodeName": "gpu-0"}, "remove nodeName"),
        ({"schedulerName": "mine"}, "set schedulerName to default-scheduler"),
        ({"terminationGracePeriodSeconds": DAY}, "terminationGracePeriodSeconds to 120 or less"),
    ):
        refused(world.trusted.create(pod(0, **fields)), word)
    every = changed(pod(0), "spec", "tolerations", value=[{"operator": "Exists"}])
    refused(world.trusted.create(every), "name the key of each of tolerations")


LATE = "within 120 seconds"
# The API server reads no query of a request that has a body.
DELETING = {"apiVersion": "v1", "kind": "DeleteOptions", "dryRun": ["All"]}


def _bound(world: World, body: Object) -> None:
    """A pod without a node is deleted at once."""
    target = {"apiVersion": "v1", "kind": "Node", "name": "gpu-0"}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": body["metadata"], "target": target}
    allowed(world.admin.send("POST", f"{place(body)}/binding", binding))


def test_a_pod_is_not_deleted_for_longer_than_a_template_may_say(world: World) -> None:
    """Gained: a node for a day after the job was deleted, whatever its template says."""
    made = world.trusted.ensure(named(pod(0), "deleted"))
    options = DELETING | {"gracePeriodSeconds": DAY}
    _bound(world, made)
    trusted = world.trusted
    for answer in (
        trusted.send("DELETE", place(made), options),
        trusted.send("DELETE", f"{place(made)}?dryRun=All&gracePeriodSeconds={DAY}"),
        trusted.send("DELETE", collection(made), options),
    ):
        refused(answer, LATE, "--grace-period=120")
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "deleted", "namespace": "team-a"},
        "deleteOptions": {"gracePeriodSeconds": DAY},
    }
    refused(trusted.send("POST", f"{place(made)}/eviction?dryRun=All", eviction), LATE)
    for seconds in (None, 0, 120):
        ended = options | {"gracePeriodSeconds": seconds}
        allowed(trusted.send("DELETE", place(made), ended))


@pytest.mark.parametrize("kind", ["Job", "RayJob", "RayCluster", "RayService"])
def test_no_work_leaves_its_pods_behind(world: World, kind: str) -> None:
    """Gained: pods with GPUs and without a queue. The garbage collector takes their owner from them."""
    body = world.member.ensure(named(WORK[kind], "left"))
    for caller in world.tenants:
        for how in ({"propagationPolicy": "Orphan"}, {"orphanDependents": True}):
            refused(caller.send("DELETE", place(body), DELETING | how), "without --cascade=orphan")
        refused(
            caller.send("DELETE", f"{collection(body)}?dryRun=All&propagationPolicy=Orphan"),
            "without --cascade=orphan",
        )
        answer = caller.send("DELETE", place(body), DELETING)
        if kind == "Job":
            refused(answer, "through the API with propagationPolicy: Background")
        else:
            allowed(answer)
        for policy in ("Background", "Foreground"):
            allowed(caller.send("DELETE", place(body), DELETING | {"propagationPolicy": policy}))


def test_what_exists_with_a_fault_stays_changeable_in_all_else(world: World) -> None:
    """It was made before the policy, or before the stack gave less time. The system is not judged."""
    bad = template(nodeName="gpu-0", terminationGracePeriodSeconds=DAY, volumes=HOST_PATH)
    bad["metadata"] = {"finalizers": [FINALIZER]}
    body = named(works.ray_cluster(headGroupSpec=head(template=bad)), "older")
    body["metadata"]["finalizers"] = [FINALIZER]
    allowed(world.controllers["kuberay"].send("POST", collection(body), body))
    member = world.member
    other = changed(bad, "spec", "containers", value=[{"name": "main", "image": "newer"}])
    for change in (
        {"metadata": {"labels": {"any": "change"}}},
        {"spec": {"headGroupSpec": {"template": other}}},
        {"spec": {"headGroupSpec": {"template": template()}}},
    ):
        allowed(member.patch(body, change))
    worse = {"spec": {"headGroupSpec": {"template": {"spec": {"hostPID": True}}}}}
    answer = member.patch(body, worse)
    refused(answer, "In spec.headGroupSpec.template: remove spec.hostPID")
    assert "hostPath" not in answer.message
    longer = {"spec": {"headGroupSpec": {"template": {"spec": {"terminationGracePeriodSeconds": DAY + 1}}}}}
    refused(member.patch(body, longer), f"not {DAY + 1}")
    free = {"metadata": {"finalizers": None}}
    assert member.patch(body, free, dry_run=False).is_allowed
    assert member.send("DELETE", place(body)).is_allowed


def test_a_large_cluster_is_judged_within_the_budget_of_the_api_server(world: World) -> None:
    """More groups and containers than anybody runs: a policy that costs too much refuses everything."""
    spec = cluster_spec(suspend=True)
    (group,) = spec["workerGroupSpecs"]
    names = [f"c{number}" for number in range(36)]
    containers = [{**group["template"]["spec"]["containers"][0], "name": name} for name in names]
    group["template"]["spec"]["containers"] = containers
    spec["workerGroupSpecs"] = [group | {"groupName": f"g{number}"} for number in range(17)]
    body = named(works.ray_cluster(**spec), "large")
    allowed(world.member.create(body, dry_run=False))
    allowed(world.member.patch(body, {"spec": {"headGroupSpec": {"template": template(1)}}}))
    spec["workerGroupSpecs"][16] = changed(group, "template", "spec", "hostPID", value=True)
    refused(
        world.member.patch(body, {"spec": {"workerGroupSpecs": spec["workerGroupSpecs"]}}),
        "remove spec.hostPID",
    )


def test_what_a_suspended_job_may_change_in_its_template_is_judged(world: World) -> None:
    """Gained: nodes of other gangs. Of a Job that has not started, the API server fixes only the rest."""
    body = world.member.ensure(named(works.job(), "suspended"))
    for fields, word in (
        ({"tolerations": [{"operator": "Exists"}]}, "name the key of each of tolerations"),
        ({"schedulingGates": [{"name": FINALIZER}]}, f"remove scheduling gate {FINALIZER}"),
    ):
        for caller in world.tenants:
            refused(caller.patch(body, {"spec": {"template": {"spec": fields}}}), "In spec.template: ", word)
    one = [{"key": "nvidia.com/gpu", "operator": "Exists"}]
    allowed(world.member.patch(body, {"spec": {"template": {"spec": {"tolerations": one}}}}))
