"""What exists is not changed past what its queue counted, and controllers go on with all of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from muster.model.names import POD_SET_LABEL
from tests.integration.tenancy import works
from tests.integration.tenancy.accounts import kubelet, scheduler
from tests.integration.tenancy.attacks.owners import made_by_kuberay
from tests.integration.tenancy.attacks.owners import of as owned
from tests.integration.tenancy.cluster import Answer, Caller, Object, place
from tests.integration.tenancy.conftest import World
from tests.integration.tenancy.works import NAMESPACE, annotated, changed, named, owner, pod

ELASTIC = "kueue.x-k8s.io/elastic-job"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
ANEW = "For more, create a new "


def refused(answer: Answer, *words: str) -> None:
    assert answer.code == 403, answer
    for word in words:
        assert word in answer.message, answer.message


def existing(world: World, body: Object, maker: Caller | None = None) -> Object:
    answer = (maker or world.member).create(body, dry_run=False)
    assert answer.code in (201, 409), answer.message
    return body


def every_way(caller: Caller, body: Object, change: Object, *, subresource: str = "") -> list[Answer]:
    """The same change as a merge patch, as a JSON patch, applied by the server, and put."""
    path = place(body) + (f"/{subresource}" if subresource else "")
    patched = caller.patch(body, change, subresource=subresource)
    operations = [
        {"op": "add", "path": "/" + "/".join(each), "value": value}
        for each, value in ([((subresource,), change[subresource])] if subresource else _leaves(change))
    ]
    by_operations = caller.send("PATCH", f"{path}?dryRun=All", operations, JSON_PATCH)
    known = {"apiVersion": body["apiVersion"], "kind": body["kind"]}
    identity = {"name": body["metadata"]["name"], "namespace": NAMESPACE}
    applied: Object = known | change | {"metadata": {**change.get("metadata", {}), **identity}}
    server_side = caller.send(
        "PATCH", f"{path}?fieldManager=x&force=true&dryRun=All", applied, "application/apply-patch+yaml"
    )
    live = caller.get(place(body)).body
    for each, value in _leaves(change):
        live = changed(live, *each, value=value)
    put = caller.send("PUT", f"{path}?dryRun=All", live)
    return [patched, by_operations, server_side, put]


def _leaves(change: Object, at: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], object]]:
    found: list[tuple[tuple[str, ...], object]] = []
    for key, value in change.items():
        inner = isinstance(value, dict) and key not in ("labels", "annotations")
        found += _leaves(value, (*at, key)) if inner else [((*at, key), value)]
    return found


# Numbers of what runs.


def running_job(name: str, **spec: object) -> Object:
    return named(works.job(suspend=False, parallelism=1, completions=100, **spec), name)


def test_a_running_job_is_not_made_larger(world: World) -> None:
    """Gained: 49 pods without quota, until Kueue has stopped the job."""
    body = existing(world, running_job("sized-running"), world.controllers["kueue"])
    for caller in world.tenants:
        for answer in every_way(caller, body, {"spec": {"parallelism": 50}}):
            refused(answer, "Job sized-running is running", "its queue counted is 1", ANEW)


def test_a_job_that_waits_is_made_larger(world: World) -> None:
    body = existing(world, named(works.job(suspend=True, parallelism=1, completions=9), "sized-waiting"))
    assert world.member.patch(body, {"spec": {"parallelism": 9}}).is_allowed


def test_a_running_job_is_not_made_larger_by_suspending_it(world: World) -> None:
    """Its template still holds the claims of the capacity that it has: it would wait for ever."""
    body = existing(world, running_job("sized-suspended"), world.controllers["kueue"])
    for caller in world.tenants:
        refused(caller.patch(body, {"spec": {"parallelism": 50, "suspend": True}}), ANEW)


def test_a_running_job_is_made_smaller(world: World) -> None:
    body = existing(world, running_job("sized-smaller"), world.controllers["kueue"])
    for change in ({"parallelism": 0}, {"activeDeadlineSeconds": 60}):
        answer = world.member.patch(body, {"spec": change})
        assert answer.is_allowed, answer.message


def test_an_elastic_job_is_made_larger(world: World) -> None:
    """Its new pods wait behind Kueue's gate."""
    job = running_job("sized-elastic-job", template=gated(1, restart="Never"))
    body = existing(world, annotated(job, ELASTIC, "true"), world.controllers["kueue"])
    answer = world.member.patch(body, {"spec": {"parallelism": 50}})
    assert answer.is_allowed, answer.message


def test_a_running_job_does_not_become_elastic_to_grow(world: World) -> None:
    """Its pods have no gate: Kueue adds it when a job is created."""
    body = existing(world, running_job("sized-not-elastic"), world.controllers["kueue"])
    change = {"metadata": {"annotations": {ELASTIC: "true"}}, "spec": {"parallelism": 50}}
    for caller in world.tenants:
        refused(caller.patch(body, change), ANEW)


def test_a_running_job_has_no_more_completions_at_a_time(world: World) -> None:
    """Gained: 49 pods. Kueue counts the completions where they are fewer than the parallelism."""
    few = named(
        works.job(suspend=False, parallelism=50, completions=1, completionMode="Indexed"), "sized-completions"
    )
    body = existing(world, few, world.controllers["kueue"])
    for caller in world.tenants:
        for answer in every_way(caller, body, {"spec": {"completions": 50}}):
            refused(answer, "its queue counted is 1", "spec.completions", ANEW)


@pytest.mark.parametrize("body", [works.job(), works.ray_cluster()], ids=["Job", "RayCluster"])
def test_work_does_not_become_elastic_to_grow_later(world: World, body: Object) -> None:
    """Gained: any number of pods once it runs: what is elastic may grow, and its pods have no gate."""
    waiting = existing(world, named(body, "sized-elastic-later"))
    for caller in world.tenants:
        for answer in every_way(caller, waiting, {"metadata": {"annotations": {ELASTIC: "true"}}}):
            refused(answer, f"annotation {ELASTIC} takes effect only when", "is created", "create a new")


def test_kueue_starts_a_job_with_fewer_or_more_pods(world: World) -> None:
    body = existing(world, running_job("sized-partial"), world.controllers["kueue"])
    assert world.controllers["kueue"].patch(body, {"spec": {"parallelism": 50}}).is_allowed


def _cluster(**spec: Any) -> Object:
    return works.ray_cluster(suspend=False, **spec)


def _service(**spec: Any) -> Object:
    return works.ray_service(rayClusterConfig=works.cluster_spec(suspend=False, **spec))


GROUP = works.cluster_spec()["workerGroupSpecs"][0]
WORKERS = f"counted the workers of group {GROUP['groupName']}"


def with_init(gpus: int) -> Object:
    """The template of GROUP with an init container of that many GPUs."""
    first = works.template(gpus)["spec"]["containers"][0] | {"name": "first"}
    return changed(GROUP["template"], "spec", "initContainers", value=[first])


# What each would have gained.
GROWTHS: dict[str, tuple[Object, str, str]] = {
    "replicas": (
        {"workerGroupSpecs": [GROUP | {"replicas": 50, "minReplicas": 50, "maxReplicas": 50}]},
        WORKERS,
        "48 workers without quota",
    ),
    "hosts": ({"workerGroupSpecs": [GROUP | {"numOfHosts": 9}]}, WORKERS, "nine times the workers"),
    "another group in place of the first": (
        {"workerGroupSpecs": [GROUP | {"groupName": "other"}]},
        "counted the workers of group other",
        "two groups at a time",
    ),
    "larger workers": (
        {"workerGroupSpecs": [GROUP | {"template": works.template(8)}]},
        "counted the resources",
        "eight GPUs a worker, when KubeRay makes one again",
    ),
    "workers with a larger init container": (
        {"workerGroupSpecs": [GROUP | {"template": with_init(8)}]},
        "counted the resources",
        "eight GPUs a worker, when KubeRay makes one again",
    ),
    "a larger head": (
        {"headGroupSpec": works.head(template=works.template(8))},
        "counted the resources",
        "eight GPUs, when KubeRay makes the head again",
    ),
}


@pytest.mark.parametrize("name", GROWTHS)
@pytest.mark.parametrize("make", [_cluster, _service], ids=["RayCluster", "RayService"])
def test_a_running_ray_cluster_is_not_made_larger(
    world: World, make: Callable[..., Object], name: str
) -> None:
    spec, words, _ = GROWTHS[name]
    body = existing(world, named(make(), "sized-growing"), world.controllers["kueue"])
    change = {"spec": {"rayClusterConfig": spec} if make is _service else spec}
    for caller in world.tenants:
        refused(caller.patch(body, change), f"{body['kind']} sized-growing is running", words, ANEW)


@pytest.mark.parametrize("make", [_cluster, _service], ids=["RayCluster", "RayService"])
def test_a_running_ray_cluster_is_made_smaller(world: World, make: Callable[..., Object]) -> None:
    body = existing(world, named(make(), "sized-shrinking"), world.controllers["kueue"])
    fewer = GROUP | {"replicas": 1, "minReplicas": 1}
    for spec in ({"workerGroupSpecs": [fewer]}, {"rayVersion": "2.55.0"}):
        change = {"spec": {"rayClusterConfig": spec} if make is _service else spec}
        answer = world.member.patch(body, change)
        assert answer.is_allowed, answer.message


def gated(gpus: int, **spec: Any) -> Object:
    """A template as Kueue leaves it in elastic work."""
    return works.template(gpus, schedulingGates=[{"name": ELASTIC}], **spec)


ELASTIC_GROUP = GROUP | {"template": gated(1)}


def _elastic(make: Callable[..., Object], name: str, **spec: Any) -> Object:
    groups = {"headGroupSpec": works.head(template=gated(0)), "workerGroupSpecs": [ELASTIC_GROUP]}
    return annotated(named(make(**groups, **spec), name), ELASTIC, "true")


# What members, and Ray's autoscaler, change of elastic work.
STEPS: dict[str, Object] = {
    "grows": {"workerGroupSpecs": [ELASTIC_GROUP | {"replicas": 5, "maxReplicas": 5}]},
    "shrinks": {"workerGroupSpecs": [ELASTIC_GROUP | {"replicas": 1, "minReplicas": 0}]},
    "names those that end": {
        "workerGroupSpecs": [ELASTIC_GROUP | {"scaleStrategy": {"workersToDelete": ["gpu-0"]}}]
    },
    "has no workers": {"workerGroupSpecs": []},
    "has another version": {"rayVersion": "2.55.0"},
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("make", [_cluster, _service], ids=["RayCluster", "RayService"])
def test_an_elastic_cluster_changes_in_steps(world: World, make: Callable[..., Object], step: str) -> None:
    body = existing(world, _elastic(make, "sized-grows"), world.controllers["kueue"])
    change = {"spec": {"rayClusterConfig": STEPS[step]} if make is _service else STEPS[step]}
    for caller in (world.member, world.person, world.controllers["kueue"], world.controllers["kuberay"]):
        answer = caller.patch(body, change)
        assert answer.is_allowed, answer.message


def test_an_elastic_cluster_loses_its_autoscaler(world: World) -> None:
    body = _elastic(_cluster, "sized-autoscaled", enableInTreeAutoscaling=True)
    existing(world, body, world.controllers["kueue"])
    answer = world.member.patch(body, {"spec": {"enableInTreeAutoscaling": False}})
    assert answer.is_allowed, answer.message


def test_an_elastic_cluster_is_not_resized_by_any_kind_of_request(world: World) -> None:
    """Gained: workers without quota, or larger ones at the quota of the first."""
    body = existing(world, _elastic(_cluster, "sized-in-every-way"), world.controllers["kueue"])
    for words, group in (
        ("keep kueue.x-k8s.io/elastic-job in schedulingGates", GROUP | {"replicas": 50, "maxReplicas": 50}),
        ("do not change the resources in", ELASTIC_GROUP | {"template": gated(8)}),
    ):
        for caller in world.tenants:
            for answer in every_way(caller, body, {"spec": {"workerGroupSpecs": [group]}}):
                refused(answer, "RayCluster sized-in-every-way is elastic", words)


@pytest.mark.parametrize("make", [_cluster, _service], ids=["RayCluster", "RayService"])
def test_workers_of_elastic_work_stay_in_their_pod_set(world: World, make: Callable[..., Object]) -> None:
    """Gained: a large pod starts in the place of a small one of another group, which the queue counted."""
    body = _elastic(make, "sized-in-sets")
    cluster = body["spec"]["rayClusterConfig"] if make is _service else body["spec"]
    cluster["workerGroupSpecs"] = _in_pod_sets("large", "small")
    existing(world, body, world.controllers["kueue"])
    groups = {"workerGroupSpecs": _in_pod_sets("small", "small")}
    change = {"spec": {"rayClusterConfig": groups} if make is _service else groups}
    for caller in world.tenants:
        for answer in every_way(caller, body, change):
            refused(answer, POD_SET_LABEL, "workerGroupSpecs of large")
    assert world.controllers["kueue"].patch(body, change).is_allowed


def _in_pod_sets(large: str, small: str) -> list[Object]:
    """Two groups and the PodSets that the labels of their templates name."""
    found = []
    for name, gpus, pod_set in (("large", 8, large), ("small", 1, small)):
        template = gated(gpus)
        template["metadata"] = template.get("metadata", {}) | {"labels": {POD_SET_LABEL: pod_set}}
        found.append(GROUP | {"groupName": name, "template": template})
    return found


def test_kueue_restores_the_templates_of_elastic_work(world: World) -> None:
    """It adds a flavor's labels when it starts the work, and takes them off when it stops it."""
    body = existing(world, _elastic(_cluster, "sized-restored"), world.controllers["kueue"])
    placed = gated(1, nodeSelector={"muster.dev/pool": "l4"})
    for spec in ({"suspend": True}, {}):
        change = {"spec": {**spec, "workerGroupSpecs": [GROUP | {"template": placed}]}}
        answer = world.controllers["kueue"].patch(body, change)
        assert answer.is_allowed, answer.message


@pytest.mark.parametrize("make", [_cluster, _service], ids=["RayCluster", "RayService"])
def test_elastic_work_of_before_that_has_no_gate_stays_changeable(
    world: World, make: Callable[..., Object]
) -> None:
    """It does not grow: its new pods would not wait."""
    body = existing(
        world, annotated(named(make(), "sized-ungated"), ELASTIC, "true"), world.controllers["kueue"]
    )
    fewer, more = (
        {"workerGroupSpecs": [GROUP | {"replicas": n, "minReplicas": 0, "maxReplicas": n}]} for n in (1, 5)
    )
    wrap = (lambda spec: {"rayClusterConfig": spec}) if make is _service else (lambda spec: spec)
    assert world.member.patch(body, {"spec": wrap(fewer)}).is_allowed
    refused(world.member.patch(body, {"spec": wrap(more)}), WORKERS, ANEW)


def test_work_that_waits_and_is_not_elastic_is_resized(world: World) -> None:
    """Kueue compares its containers and counts it anew."""
    for body in (named(works.ray_cluster(), "sized-waits"), named(works.ray_job(), "sized-waits")):
        existing(world, body)
        spec = {
            "workerGroupSpecs": [GROUP | {"template": works.template(4), "replicas": 9, "maxReplicas": 9}]
        }
        change = {"spec": {"rayClusterSpec": spec} if body["kind"] == "RayJob" else spec}
        answer = world.member.patch(body, change)
        assert answer.is_allowed, answer.message


CLAIM = "autoscaling.x-k8s.io/consume-provisioning-request"


def test_what_runs_takes_no_other_capacity_than_its_own(world: World) -> None:
    """Gained: the nodes that another gang has waited for, when KubeRay makes a pod again."""
    claims = changed(works.template(1), "metadata", value={"annotations": {CLAIM: "own"}})
    body = existing(world, named(_cluster(), "sized-claims"), world.controllers["kueue"])
    started = {"spec": {"workerGroupSpecs": [GROUP | {"template": claims}]}}
    answer = world.controllers["kueue"].send("PATCH", place(body), started, MERGE)
    assert answer.is_allowed, answer.message
    others = changed(claims, "metadata", "annotations", CLAIM, value="another-s")
    for caller in world.tenants:
        change = {"spec": {"workerGroupSpecs": [GROUP | {"template": others}]}}
        refused(caller.patch(body, change), "claim provisioned capacity")
    answer = world.member.patch(body, {"spec": {"rayVersion": "2.55.0"}})
    assert answer.is_allowed, answer.message


# Statuses.

ENDED = {
    "RayJob": {"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"},
    "RayCluster": {"state": "suspended"},
    "RayService": {"serviceStatus": "Running"},
    "Job": {"succeeded": 1, "conditions": []},
    "CronJob": {"lastScheduleTime": "2026-01-01T00:00:00Z"},
}
WORK = {
    "RayJob": works.ray_job(),
    "RayCluster": works.ray_cluster(),
    "RayService": works.ray_service(),
    "Job": works.job(),
    "CronJob": works.cron_job(),
}


@pytest.mark.parametrize("kind", WORK)
def test_a_tenant_reports_no_end_of_its_work(world: World, kind: str) -> None:
    """Gained: its quota back, with all of its pods running."""
    body = existing(world, named(WORK[kind], "sized-reported"))
    for answer in every_way(world.trusted, body, {"status": ENDED[kind]}, subresource="status"):
        refused(answer, "/status are not written by hand here", "change or delete the object itself")
    for caller in (world.member, world.person):
        assert caller.patch(body, {"status": ENDED[kind]}, subresource="status").code == 403
    controller = world.controllers["kuberay" if body["apiVersion"].startswith("ray") else "jobs"]
    answer = controller.patch(body, {"status": ENDED[kind]}, subresource="status")
    assert answer.is_allowed, answer.message


# Pods.


@pytest.fixture(scope="module")
def worker(world: World) -> Object:
    body = pod(1, owner=owner("Job", "batch/v1", "train"), name="counted-0")
    body["metadata"] |= {
        "labels": {"batch.kubernetes.io/job-name": "train"},
        "finalizers": ["batch.kubernetes.io/job-tracking"],
    }
    body["spec"]["schedulingGates"] = [{"name": ELASTIC}]
    return existing(world, body, world.controllers["jobs"])


@pytest.fixture(scope="module")
def bare(world: World) -> Object:
    """A pod that no controller made. Only a tenant with too many rights has one."""
    body = pod(0, name="sized-made-by-hand")
    body["spec"]["schedulingGates"] = [{"name": "muster.dev/gang"}, {"name": "example.com/mine"}]
    return existing(world, body, world.trusted)


def test_a_pod_of_a_job_reports_no_end(world: World, worker: Object) -> None:
    """Gained: its quota back, while it runs on."""
    change = {"status": {"phase": "Succeeded"}}
    refused(
        world.trusted.patch(worker, change, subresource="status"), "pods/status are not written by hand here"
    )
    for caller in (world.member, world.person):
        assert caller.patch(worker, change, subresource="status").code == 403
    for caller in (kubelet(world), scheduler(world)):
        answer = caller.patch(worker, {"status": {"reason": "x"}}, subresource="status")
        assert answer.is_allowed, answer.message


def test_a_pod_of_a_job_keeps_the_mark_of_its_controller(world: World, worker: Object) -> None:
    """Gained: a job that runs again, because its controller has not counted the pod."""
    change = {"metadata": {"finalizers": None}}
    refused(
        world.trusted.patch(worker, change),
        "only its controllers change the pods of a job",
        "change Job train",
    )


def test_a_tenant_binds_no_pod(world: World) -> None:
    """Gained: a node of its choice, past the scheduler and every queue."""
    target = existing(world, pod(0, name="sized-unbound"), world.trusted)
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "sized-unbound", "namespace": NAMESPACE},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "gpu-0"},
    }
    for path in (f"{place(target)}/binding", f"/api/v1/namespaces/{NAMESPACE}/bindings"):
        refused(world.trusted.send("POST", f"{path}?dryRun=All", body), "are not written by hand here")
        for caller in (world.member, world.person):
            assert caller.send("POST", f"{path}?dryRun=All", body).code == 403
        answer = scheduler(world).send("POST", f"{path}?dryRun=All", body)
        assert answer.is_allowed, answer.message


def test_a_debug_container_has_no_more_rights_than_the_pod(world: World, worker: Object) -> None:
    debug = {"name": "debug", "image": "x", "securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}
    change = {"spec": {"ephemeralContainers": [debug]}}
    path = f"{place(worker)}/ephemeralcontainers?dryRun=All"
    refused(world.trusted.send("PATCH", path, change, STRATEGIC), "violates PodSecurity")
    for caller in (world.member, world.person):
        assert caller.send("PATCH", path, change, STRATEGIC).code == 403


def test_a_debug_container_gets_no_gpus_by_a_variable(world: World, worker: Object) -> None:
    """Gained: every GPU of the node, under the eyes of no queue."""
    path = f"{place(worker)}/ephemeralcontainers?dryRun=All"
    for variables, allowed in (
        ([{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}], False),
        ([{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}], True),
    ):
        debug = {"name": "debug", "image": "x", "env": variables}
        answer = world.trusted.send("PATCH", path, {"spec": {"ephemeralContainers": [debug]}}, STRATEGIC)
        if allowed:
            assert answer.is_allowed, answer.message
        else:
            refused(answer, "remove NVIDIA_VISIBLE_DEVICES from env of the containers")


def test_the_gates_of_a_pod_without_a_controller_stay_too(world: World, bare: Object) -> None:
    mine = {"spec": {"schedulingGates": [{"name": "muster.dev/gang"}]}}
    assert world.trusted.patch(bare, mine).is_allowed
    for caller in world.tenants:
        assert caller.patch(bare, {"spec": {"schedulingGates": []}}).code == 403
    refused(
        world.trusted.patch(bare, {"spec": {"schedulingGates": []}}), "waits behind muster.dev/gang", "leave"
    )


def test_a_pod_does_not_join_work(world: World, bare: Object) -> None:
    owners = {"ownerReferences": [owner("RayCluster", "ray.io/v1")]}
    refused(world.trusted.patch(bare, {"metadata": owners}), "keeps the controller that created it")
    for field in ("labels", "annotations"):
        answer = world.trusted.patch(bare, {"metadata": {field: {"note": "x"}}})
        assert answer.is_allowed, answer.message


CONTROLLERS_CHANGE: dict[str, tuple[str, Object]] = {
    "kueue": ("lets it start", {"metadata": {"labels": {"a": "b"}}, "spec": {"schedulingGates": []}}),
    "kuberay": ("notes the cluster", {"metadata": {"labels": {"ray.io/cluster": "x"}}}),
    "jobs": ("has counted it", {"metadata": {"finalizers": None}}),
    "collector": ("orphans it", {"metadata": {"ownerReferences": None}}),
    "ours": ("notes the lease", {"metadata": {"annotations": {"muster.dev/lease-ends": "x"}}}),
    # Of the whole cluster, and in no namespace that the policies know.
    "autoscaler": ("notes its node", {"metadata": {"annotations": {"cloud": "x"}}}),
}


@pytest.mark.parametrize("who", [each for each in CONTROLLERS_CHANGE if each != "ours"])
def test_controllers_change_the_pods_of_work(world: World, worker: Object, who: str) -> None:
    _, change = CONTROLLERS_CHANGE[who]
    answer = world.controllers[who].patch(worker, change)
    assert answer.is_allowed, answer.message


# What controllers made.


def test_controllers_go_on_with_what_they_made(world: World) -> None:
    """KubeRay and the collector of garbage, and a program of the whole cluster such as a backup."""
    cluster = existing(
        world, made_by_kuberay(named(_cluster(), "owned-by-a-job")), world.controllers["kuberay"]
    )
    secret = made_by_kuberay(works.existing("v1", "Secret", "owned-by-a-job", data={"auth_token": "eA=="}))
    existing(world, secret, world.controllers["kuberay"])
    for who, body, change in (
        ("kuberay", cluster, {"spec": {"suspend": True}}),
        ("kueue", cluster, {"metadata": {"annotations": {"note": "x"}}}),
        ("collector", cluster, {"metadata": {"ownerReferences": None}}),
        ("kuberay", secret, {"data": {"auth_token": "eQ=="}}),
        ("autoscaler", cluster, {"metadata": {"annotations": {"note": "x"}}}),
    ):
        answer = world.controllers[who].patch(body, change)
        assert answer.is_allowed, f"{who}: {answer.message}"
    for who, body in (("kuberay", secret), ("collector", cluster), ("autoscaler", cluster)):
        answer = world.controllers[who].delete(body)
        assert answer.is_allowed, f"{who}: {answer.message}"


def test_a_tenant_changes_and_ends_the_jobs_of_its_cron_job(world: World) -> None:
    """They are queued by themselves. An owner that is no controller is the tenant's own."""
    run = owned(named(running_job("owned-nightly"), "owned-nightly"), owner("CronJob", "batch/v1", "nightly"))
    mine = owned(named(works.ray_job(), "owned-loosely"), owner("Job", "batch/v1") | {"controller": False})
    existing(world, run, world.controllers["cronjobs"])
    existing(world, mine)
    for caller in world.tenants:
        assert caller.patch(run, {"spec": {"backoffLimit": 1}}).is_allowed
        assert caller.delete(run).is_allowed
        assert caller.patch(mine, {"metadata": {"ownerReferences": None}}).is_allowed


# Sizes.

KIB = 1024
MANY = 300


def _config_map(text: str, name: str = "large") -> Object:
    return works.existing("v1", "ConfigMap", name, data={"text": text})


LARGE: dict[str, Callable[[int], Object]] = {
    "ConfigMap": lambda kib: _config_map("x" * kib * KIB),
    "ConfigMap of many keys": lambda kib: works.existing(
        "v1", "ConfigMap", "large", data={f"key-{number}": "x" * KIB for number in range(kib)}
    ),
    "binary ConfigMap": lambda kib: works.existing(
        "v1", "ConfigMap", "large", binaryData={"text": "AAAA" * (kib * KIB // 4)}
    ),
    "ConfigMap of wide characters": lambda kib: _config_map("\U0001f600" * (kib * KIB // 4)),
    "annotated ConfigMap": lambda kib: annotated(_config_map("x"), "note", "x" * kib * KIB),
    "Secret": lambda kib: works.existing("v1", "Secret", "large", data={"text": "AAAA" * (kib * KIB // 4)}),
    "Secret as text": lambda kib: works.existing(
        "v1", "Secret", "large", stringData={"text": "x" * kib * KIB}
    ),
    "annotated RayJob": lambda kib: annotated(works.ray_job(), "note", "x" * kib * KIB),
    "RayJob": lambda kib: works.ray_job(entrypoint="x" * kib * KIB),
    "RayCluster": lambda kib: works.ray_cluster(
        headGroupSpec=works.head(
            template=changed(works.template(), "metadata", value={"annotations": {"note": "x" * kib * KIB}})
        )
    ),
    "RayService": lambda kib: works.ray_service(serveConfigV2="x" * kib * KIB),
    "Job": lambda kib: works.job(
        template=changed(
            works.template(1, restart="Never"),
            "metadata",
            value={"annotations": {"note": "x" * kib * KIB}},
        )
    ),
    "CronJob": lambda kib: annotated(works.cron_job(), "note", "x" * kib * KIB),
}


@pytest.mark.parametrize("what", LARGE)
def test_nothing_large_is_stored(world: World, what: str) -> None:
    """Gained: a gigabyte of etcd for each thousand objects, and of every controller's memory."""
    for caller in world.tenants:
        refused(caller.create(LARGE[what](200)), "KiB, and", "are allowed", "from a bucket or a volume")
        answer = caller.create(LARGE[what](40))
        assert answer.is_allowed, answer.message


def test_a_controller_of_the_whole_cluster_stores_what_is_large(world: World) -> None:
    """Such as a program that gives every namespace a bundle of certificates."""
    answer = world.controllers["autoscaler"].create(LARGE["CronJob"](200))
    assert answer.is_allowed, answer.message


def test_what_was_larger_before_stays_changeable_and_does_not_grow(world: World) -> None:
    body = existing(world, _config_map("x" * 200 * KIB, "of-before"), world.admin)
    for caller in world.tenants:
        assert caller.patch(body, {"data": {"text": "y" * 200 * KIB}}).is_allowed
        assert caller.patch(body, {"data": {"text": "y"}}).is_allowed
        refused(caller.patch(body, {"data": {"more": "y" * KIB}}), "are allowed")
        assert caller.delete(body).is_allowed


# Labels, annotations and names of ours.

NOTED = {"labels": {"muster.dev/workload-uid": "x"}, "annotations": {"muster.dev/lease-ends": "x"}}
FREE = {
    "labels": {"muster.dev/pool": "l4", "kueue.x-k8s.io/max-exec-time-seconds": "60"},
    "annotations": {"kueue.x-k8s.io/podset-preferred-topology": "rack", "note": "x"},
}


@pytest.mark.parametrize("kind", WORK)
def test_what_controllers_have_noted_stays_and_the_rest_may_be_changed(world: World, kind: str) -> None:
    body = named(WORK[kind], "sized-noted")
    body["metadata"] = {**body["metadata"], "annotations": NOTED["annotations"]}
    body["metadata"]["labels"] = {**body["metadata"].get("labels", {}), **NOTED["labels"]}
    existing(world, body, world.admin)
    for caller in world.tenants:
        for metadata in (FREE, {field: dict.fromkeys(keys) for field, keys in NOTED.items()}):
            answer = caller.patch(body, {"metadata": metadata})
            assert answer.is_allowed, answer.message
        for field, keys in NOTED.items():
            other = {field: dict.fromkeys(keys, "other")}
            refused(caller.patch(body, {"metadata": other}), "remove muster.dev/")


def test_nothing_of_ours_is_added_in_any_way(world: World) -> None:
    body = existing(world, named(works.ray_job(), "sized-unnoted"))
    for caller in world.tenants:
        for field, keys in NOTED.items():
            known = {**body["metadata"].get(field, {}), **keys}
            for answer in every_way(caller, body, {"metadata": {field: known}}):
                refused(answer, "remove muster.dev/")


def test_controllers_note_what_they_need(world: World) -> None:
    body = existing(world, named(works.ray_job(), "sized-controlled"))
    for who in ("kueue", "kuberay"):
        answer = world.controllers[who].patch(body, {"metadata": NOTED})
        assert answer.is_allowed, answer.message
    pods = pod(1, owner=owner("Job", "batch/v1"), name="noted-0")
    pods["metadata"] |= NOTED
    answer = world.controllers["jobs"].create(pods)
    assert answer.is_allowed, answer.message
