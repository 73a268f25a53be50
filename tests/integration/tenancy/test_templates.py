"""No queue buys nodes for pods that cannot start, and no pod keeps its node after its work was deleted.

Each attack is tried in every pod template of every kind, on CREATE and as a change of what exists. A member,
a user in a mapped group, and a tenant with far too many rights take turns.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.integration.tenancy import works
from tests.integration.tenancy.attacks.templates import DAY, FINALIZER, HOST_PATH, TABLE, UNSAFE
from tests.integration.tenancy.cluster import Answer, Caller, Object, collection, place
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
# A template of a Job is fixed by the API server.
CHANGEABLE = tuple(name for name in PLACES if name != "Job")


def _caller(world: World, body: Object, turn: int) -> Caller:
    """Each tenant in turn. A member has no right on RayCronJobs."""
    return world.trusted if body["kind"] == "RayCronJob" else world.tenants[turn % len(world.tenants)]


def _refused(answer: Answer, *words: str) -> None:
    assert answer.code == 403, answer
    for word in words:
        assert word in answer.message, answer.message


def _refused_in(body: Object, answer: Answer, *words: str) -> None:
    """The API server validates the templates of its own kinds before any policy sees them."""
    if not (body["apiVersion"] == "batch/v1" and answer.code == 422):
        _refused(answer, *words)


@pytest.mark.parametrize("name", TABLE)
def test_no_template_is_accepted_whose_pods_cannot_start_or_end(world: World, name: str) -> None:
    attack, reason = TABLE[name]
    for turn, (make, path) in enumerate(PLACES.values()):
        body = make(attack.template)
        answer = _caller(world, body, turn).create(body)
        _refused_in(body, answer, reason, path, *attack.words)


@pytest.fixture(scope="module")
def harmless(world: World) -> dict[str, Object]:
    found = {}
    for index, where in enumerate(CHANGEABLE):
        make, _ = PLACES[where]
        body = named(make(template(1, restart="Never")), f"template-{index}")
        answer = world.trusted.create(body, dry_run=False)
        assert answer.is_allowed, answer.message
        found[where] = body
    return found


@pytest.mark.parametrize("where", CHANGEABLE)
def test_nor_is_one_changed_into_it(world: World, harmless: dict[str, Object], where: str) -> None:
    body = harmless[where]
    make, path = PLACES[where]
    full = world.admin.get(place(body)).body
    for turn, (attack, reason) in enumerate(TABLE.values()):
        caller = _caller(world, body, turn)
        change = {"spec": make(attack.template)["spec"]}
        if turn % 2:
            answer = caller.patch(body, change)
        else:
            answer = caller.send("PUT", f"{place(body)}?dryRun=All", {**full, **change})
        if "resourceClaims" in attack.path and "'muster-growth'" in answer.message:
            continue  # Those of work that exists are closed to changes too, and the API server names one.
        _refused_in(body, answer, reason, path, *attack.words)


def test_the_container_of_an_autoscaler_is_judged_too(world: World) -> None:
    """Gained: quota for a cluster whose head never starts."""
    options = {"securityContext": {"privileged": True}}
    body = works.ray_cluster(enableInTreeAutoscaling=True, autoscalerOptions=options)
    answer = world.member.create(works.annotated(body, "kueue.x-k8s.io/elastic-job", "true"))
    _refused(answer, UNSAFE, "In spec.autoscalerOptions: container autoscaler: remove securityContext")


MANAGED = {
    "Job": works.job(managedBy="example.com/mine"),
    "CronJob": changed(
        works.cron_job(), "spec", "jobTemplate", "spec", "managedBy", value="example.com/mine"
    ),
    "RayJob": works.ray_job(managedBy="kueue.x-k8s.io/multikueue"),
    "RayJob's cluster": works.ray_job(rayClusterSpec=cluster_spec(managedBy="kueue.x-k8s.io/multikueue")),
    "RayCluster": works.ray_cluster(managedBy="kueue.x-k8s.io/multikueue"),
    "RayService's cluster": works.ray_service(
        rayClusterConfig=cluster_spec(suspend=True, managedBy="kueue.x-k8s.io/multikueue")
    ),
}


@pytest.mark.parametrize("name", MANAGED)
def test_no_work_names_a_controller_that_does_not_run(world: World, name: str) -> None:
    """Gained: nodes and quota for work that nothing ever starts."""
    for caller in world.tenants:
        answer = caller.create(MANAGED[name])
        _refused(answer, "no controller in this cluster starts work", "remove managedBy")


WORK = {
    "Job": works.job(),
    "CronJob": works.cron_job(),
    "RayJob": works.ray_job(),
    "RayCluster": works.ray_cluster(),
    "RayService": works.ray_service(),
    "RayCronJob": works.ray_cron_job(),
}


@pytest.mark.parametrize("kind", WORK)
def test_a_finalizer_of_a_tenant_keeps_no_work(world: World, kind: str) -> None:
    """Gained: GPUs for good. The Workload ends, its quota is given to the next job, and the pods stay."""
    for finalizer in (FINALIZER, "orphan", "ray.io/rayjob-finalizer"):
        body = changed(WORK[kind], "metadata", "finalizers", value=[finalizer])
        for turn in range(3):
            answer = _caller(world, body, turn).create(body)
            _refused(answer, f"remove {finalizer} from metadata.finalizers")


@pytest.mark.parametrize("kind", WORK)
def test_nor_one_that_is_added_later_and_any_may_be_removed(world: World, kind: str) -> None:
    body = named(WORK[kind], "finalized")
    assert world.trusted.create(body, dry_run=False).is_allowed
    theirs = {"metadata": {"finalizers": ["ray.io/theirs"]}}
    controller = world.controllers["kuberay" if body["apiVersion"].startswith("ray.io") else "jobs"]
    answer = controller.send("PATCH", place(body), theirs, "application/merge-patch+json")
    assert answer.is_allowed, answer.message
    full = world.admin.get(place(body)).body
    both = {"metadata": {"finalizers": ["ray.io/theirs", FINALIZER]}}
    added = [{"op": "add", "path": "/metadata/finalizers/-", "value": FINALIZER}]
    for turn in range(3):
        caller = _caller(world, body, turn)
        for answer in (
            caller.patch(body, both),
            caller.send("PATCH", f"{place(body)}?dryRun=All", added, "application/json-patch+json"),
            caller.send(
                "PUT",
                f"{place(body)}?dryRun=All",
                full | {"metadata": {**full["metadata"], **both["metadata"]}},
            ),
        ):
            _refused(answer, f"remove {FINALIZER} from metadata.finalizers")
        answer = caller.patch(body, {"metadata": {"labels": {"any": "change"}}})
        assert answer.is_allowed, answer.message
        answer = caller.patch(body, {"metadata": {"finalizers": None}})
        assert answer.is_allowed, answer.message
    cleared = {"metadata": {"finalizers": None}}
    assert controller.send("PATCH", place(body), cleared, "application/merge-patch+json").is_allowed


def test_a_finalizer_of_a_template_does_not_reach_the_pods_of_what_exists(world: World) -> None:
    """The controllers of Jobs and of Ray copy it. Their own they still set."""
    jobs, kuberay = world.controllers["jobs"], world.controllers["kuberay"]
    tracked = ["batch.kubernetes.io/job-tracking"]
    of_a_job = changed(pod(1, owner=owner("Job", "batch/v1")), "metadata", "finalizers", value=tracked)
    answer = jobs.create(of_a_job)
    assert answer.is_allowed, answer.message
    kept = changed(of_a_job, "metadata", "finalizers", value=[*tracked, FINALIZER])
    _refused(jobs.create(kept), f"remove {FINALIZER} from metadata.finalizers of the pod template")
    of_ray = pod(1, owner=owner("RayCluster", "ray.io/v1"))
    for finalizer in (FINALIZER, *tracked):
        answer = kuberay.create(changed(of_ray, "metadata", "finalizers", value=[finalizer]))
        _refused(answer, f"remove {finalizer} from metadata.finalizers of the pod template")


def test_a_pod_gets_no_finalizer_from_a_tenant(world: World) -> None:
    """Gained: the node of a pod that its own autoscaler or a member may patch, for good."""
    made = named(pod(0), "patched")
    assert world.trusted.create(made, dry_run=False).is_allowed
    _refused(world.trusted.create(changed(pod(0), "metadata", "finalizers", value=[FINALIZER])), FINALIZER)
    answer = world.trusted.patch(made, {"metadata": {"finalizers": [FINALIZER]}})
    _refused(answer, f"remove {FINALIZER} from metadata.finalizers")


def test_a_pod_made_by_hand_is_placed_and_ended_by_the_cluster(world: World) -> None:
    for fields, word in (
        ({"nodeName": "gpu-0"}, "remove nodeName"),
        ({"schedulerName": "mine"}, "set schedulerName to default-scheduler"),
        ({"terminationGracePeriodSeconds": DAY}, "terminationGracePeriodSeconds to 120 or less"),
    ):
        _refused(world.trusted.create(pod(0, **fields)), word)
    every = changed(pod(0), "spec", "tolerations", value=[{"operator": "Exists"}])
    _refused(world.trusted.create(every), "name the key of each of tolerations")


LATE = "within 120 seconds"
# The API server reads no query of a request that has a body.
DELETING = {"apiVersion": "v1", "kind": "DeleteOptions", "dryRun": ["All"]}


def _bound(world: World, body: Object) -> None:
    """A pod without a node is deleted at once."""
    target = {"apiVersion": "v1", "kind": "Node", "name": "gpu-0"}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": body["metadata"], "target": target}
    answer = world.admin.send("POST", f"{place(body)}/binding", binding)
    assert answer.is_allowed, answer.message


def test_a_pod_is_not_deleted_for_longer_than_a_template_may_say(world: World) -> None:
    """Gained: a node for a day after the job was deleted, whatever its template says."""
    made = named(pod(0), "deleted")
    assert world.trusted.create(made, dry_run=False).is_allowed
    options = DELETING | {"gracePeriodSeconds": DAY}
    _bound(world, made)
    trusted = world.trusted
    for answer in (
        trusted.send("DELETE", place(made), options),
        trusted.send("DELETE", f"{place(made)}?dryRun=All&gracePeriodSeconds={DAY}"),
        trusted.send("DELETE", collection(made), options),
    ):
        _refused(answer, LATE, "--grace-period=120")
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "deleted", "namespace": "team-a"},
        "deleteOptions": {"gracePeriodSeconds": DAY},
    }
    _refused(trusted.send("POST", f"{place(made)}/eviction?dryRun=All", eviction), LATE)
    for seconds in (None, 0, 120):
        ended = options | {"gracePeriodSeconds": seconds}
        answer = trusted.send("DELETE", place(made), ended)
        assert answer.is_allowed, answer.message


@pytest.mark.parametrize("kind", ["Job", "RayJob", "RayCluster", "RayService"])
def test_no_work_leaves_its_pods_behind(world: World, kind: str) -> None:
    """Gained: pods with GPUs and without a queue. The garbage collector takes their owner from them."""
    body = named(WORK[kind], "left")
    assert world.member.create(body, dry_run=False).code in (201, 409)
    for caller in world.tenants:
        for how in ({"propagationPolicy": "Orphan"}, {"orphanDependents": True}):
            answer = caller.send("DELETE", place(body), DELETING | how)
            _refused(answer, "without --cascade=orphan")
        answer = caller.send("DELETE", f"{collection(body)}?dryRun=All&propagationPolicy=Orphan")
        _refused(answer, "without --cascade=orphan")
        answer = caller.send("DELETE", place(body), DELETING)
        if kind == "Job":
            _refused(answer, "through the API with propagationPolicy: Background")
        else:
            assert answer.is_allowed, answer.message
        for policy in ("Background", "Foreground"):
            answer = caller.send("DELETE", place(body), DELETING | {"propagationPolicy": policy})
            assert answer.is_allowed, answer.message


def test_what_exists_with_a_fault_stays_changeable_in_all_else(world: World) -> None:
    """It was made before the policy, or before the stack gave less time. The system is not judged."""
    bad = template(nodeName="gpu-0", terminationGracePeriodSeconds=DAY, volumes=HOST_PATH)
    bad["metadata"] = {"finalizers": [FINALIZER]}
    body = named(works.ray_cluster(headGroupSpec=head(template=bad)), "older")
    body["metadata"]["finalizers"] = [FINALIZER]
    made = world.controllers["kuberay"].send("POST", collection(body), body)
    assert made.is_allowed, made.message
    member = world.member
    other = changed(bad, "spec", "containers", value=[{"name": "main", "image": "newer"}])
    for change in (
        {"metadata": {"labels": {"any": "change"}}},
        {"spec": {"headGroupSpec": {"template": other}}},
        {"spec": {"headGroupSpec": {"template": template()}}},
    ):
        answer = member.patch(body, change)
        assert answer.is_allowed, answer.message
    worse = {"spec": {"headGroupSpec": {"template": {"spec": {"hostPID": True}}}}}
    answer = member.patch(body, worse)
    _refused(answer, "In spec.headGroupSpec.template: remove spec.hostPID")
    assert "hostPath" not in answer.message
    longer = {"spec": {"headGroupSpec": {"template": {"spec": {"terminationGracePeriodSeconds": DAY + 1}}}}}
    _refused(member.patch(body, longer), f"not {DAY + 1}")
    free = {"metadata": {"finalizers": None}}
    assert member.send("PATCH", place(body), free, "application/merge-patch+json").is_allowed
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
    answer = world.member.create(body, dry_run=False)
    assert answer.is_allowed, answer.message
    answer = world.member.patch(body, {"spec": {"headGroupSpec": {"template": template(1)}}})
    assert answer.is_allowed, answer.message
    spec["workerGroupSpecs"][16] = changed(group, "template", "spec", "hostPID", value=True)
    answer = world.member.patch(body, {"spec": {"workerGroupSpecs": spec["workerGroupSpecs"]}})
    _refused(answer, "remove spec.hostPID")


def test_what_a_suspended_job_may_change_in_its_template_is_judged(world: World) -> None:
    """Gained: nodes of other gangs. Of a Job that has not started, the API server fixes only the rest."""
    body = named(works.job(), "suspended")
    assert world.member.create(body, dry_run=False).is_allowed
    for fields, word in (
        ({"tolerations": [{"operator": "Exists"}]}, "name the key of each of tolerations"),
        ({"schedulingGates": [{"name": FINALIZER}]}, f"remove scheduling gate {FINALIZER}"),
    ):
        for caller in world.tenants:
            answer = caller.patch(body, {"spec": {"template": {"spec": fields}}})
            _refused(answer, "In spec.template: ", word)
    one = [{"key": "nvidia.com/gpu", "operator": "Exists"}]
    answer = world.member.patch(body, {"spec": {"template": {"spec": {"tolerations": one}}}})
    assert answer.is_allowed, answer.message
