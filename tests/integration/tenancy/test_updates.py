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
from tests.integration.tenancy.attacks.reserved import WORK
from tests.integration.tenancy.cluster import (
    JSON_PATCH,
    STRATEGIC,
    Answer,
    Caller,
    Object,
    allowed,
    place,
    refused,
)
from tests.integration.tenancy.conftest import World
from tests.integration.tenancy.works import NAMESPACE, annotated, changed, named, owner, pod

ELASTIC = "kueue.x-k8s.io/elastic-job"
ANEW = "For more, create a new "


def every_way(caller: Caller, body: Object, change: Object, *, subresource: str = "") -> list[Answer]:
    """The same change as a merge patch, as a JSON patch, applied by the server, and put."""
    leaves = [((subresource,), change[subresource])] if subresource else _leaves(change)
    operations = [{"op": "add", "path": "/" + "/".join(each), "value": value} for each, value in leaves]
    known = {"apiVersion": body["apiVersion"], "kind": body["kind"]}
    identity = {"name": body["metadata"]["name"], "namespace": NAMESPACE}
    applied: Object = known | change | {"metadata": {**change.get("metadata", {}), **identity}}
    live = caller.get(place(body)).body
    for each, value in _leaves(change):
        live = changed(live, *each, value=value)
    return [
        caller.patch(body, change, subresource=subresource),
        caller.patch(body, operations, JSON_PATCH, subresource=subresource),
        caller.apply(applied, subresource=subresource),
        caller.put(body, live, subresource=subresource),
    ]


def _leaves(change: Object, at: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], object]]:
    found: list[tuple[tuple[str, ...], object]] = []
    for key, value in change.items():
        inner = isinstance(value, dict) and key not in ("labels", "annotations")
        found += _leaves(value, (*at, key)) if inner else [((*at, key), value)]
    return found


# Numbers of what runs.


def running_job(name: str, **spec: object) -> Object:
    return named(works.job(suspend=False, parallelism=1, completions=100, **spec), name)


def test_a_job_that_waits_is_made_larger(world: World) -> None:
    body = world.member.ensure(named(works.job(suspend=True, parallelism=1, completions=9), "sized-waiting"))
    assert world.member.patch(body, {"spec": {"parallelism": 9}}).is_allowed


def test_a_running_job_is_not_made_larger_by_suspending_it(world: World) -> None:
    """Its template still holds the claims of the capacity that it has: it would wait for ever."""
    body = world.controllers["kueue"].ensure(running_job("sized-suspended"))
    for caller in world.tenants:
        refused(caller.patch(body, {"spec": {"parallelism": 50, "suspend": True}}), ANEW)


def test_a_running_job_is_made_smaller(world: World) -> None:
    body = world.controllers["kueue"].ensure(running_job("sized-smaller"))
    for change in ({"parallelism": 0}, {"activeDeadlineSeconds": 60}):
        allowed(world.member.patch(body, {"spec": change}))


def test_an_elastic_job_is_made_larger(world: World) -> None:
    """Its new pods wait behind Kueue's gate."""
    job = running_job("sized-elastic-job", template=gated(1, restart="Never"))
    body = world.controllers["kueue"].ensure(annotated(job, ELASTIC, "true"))
    allowed(world.member.patch(body, {"spec": {"parallelism": 50}}))


def test_a_running_job_does_not_become_elastic_to_grow(world: World) -> None:
    """Its pods have no gate: Kueue adds it when a job is created."""
    body = world.controllers["kueue"].ensure(running_job("sized-not-elastic"))
    change = {"metadata": {"annotations": {ELASTIC: "true"}}, "spec": {"parallelism": 50}}
    for caller in world.tenants:
        refused(caller.patch(body, change), ANEW)


def test_kueue_starts_a_job_with_fewer_or_more_pods(world: World) -> None:
    body = world.controllers["kueue"].ensure(running_job("sized-partial"))
    assert world.controllers["kueue"].patch(body, {"spec": {"parallelism": 50}}).is_allowed


def _cluster(**spec: Any) -> Object:
    return works.ray_cluster(suspend=False, **spec)


def _service(**spec: Any) -> Object:
    return works.ray_service(rayClusterConfig=works.cluster_spec(suspend=False, **spec))


BOTH = pytest.mark.parametrize("make", [_cluster, _service], ids=["RayCluster", "RayService"])


def _in(make: Callable[..., Object], spec: Object) -> Object:
    """The change of a cluster of that kind."""
    return {"spec": {"rayClusterConfig": spec} if make is _service else spec}


GROUP = works.cluster_spec()["workerGroupSpecs"][0]
WORKERS = f"counted the workers of group {GROUP['groupName']}"


def with_init(gpus: int) -> Object:
    """The template of GROUP with an init container of that many GPUs."""
    first = works.template(gpus)["spec"]["containers"][0] | {"name": "first"}
    return changed(GROUP["template"], "spec", "initContainers", value=[first])


GROWTHS: dict[str, tuple[Object, str]] = {
    "replicas": ({"replicas": 50, "minReplicas": 50, "maxReplicas": 50}, WORKERS),
    "hosts": ({"numOfHosts": 9}, WORKERS),
    "another group in place of the first": ({"groupName": "other"}, "counted the workers of group other"),
    "larger workers": ({"template": works.template(8)}, "counted the resources"),
    "workers with a larger init container": ({"template": with_init(8)}, "counted the resources"),
    "a larger head": (works.head(template=works.template(8)), "counted the resources"),
}


@pytest.mark.parametrize("name", GROWTHS)
@BOTH
def test_a_running_ray_cluster_is_not_made_larger(
    world: World, make: Callable[..., Object], name: str
) -> None:
    fields, words = GROWTHS[name]
    spec = {"headGroupSpec": fields} if "head" in name else {"workerGroupSpecs": [GROUP | fields]}
    body = world.controllers["kueue"].ensure(named(make(), "sized-growing"))
    for caller in world.tenants:
        refused(caller.patch(body, _in(make, spec)), f"{body['kind']} sized-growing is running", words, ANEW)


@BOTH
def test_a_running_ray_cluster_is_made_smaller(world: World, make: Callable[..., Object]) -> None:
    body = world.controllers["kueue"].ensure(named(make(), "sized-shrinking"))
    fewer = GROUP | {"replicas": 1, "minReplicas": 1}
    for spec in ({"workerGroupSpecs": [fewer]}, {"rayVersion": "2.55.0"}):
        allowed(world.member.patch(body, _in(make, spec)))


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
@BOTH
def test_an_elastic_cluster_changes_in_steps(world: World, make: Callable[..., Object], step: str) -> None:
    body = world.controllers["kueue"].ensure(_elastic(make, "sized-grows"))
    change = _in(make, STEPS[step])
    for caller in (world.member, world.person, world.controllers["kueue"], world.controllers["kuberay"]):
        allowed(caller.patch(body, change))


def test_an_elastic_cluster_loses_its_autoscaler(world: World) -> None:
    body = _elastic(_cluster, "sized-autoscaled", enableInTreeAutoscaling=True)
    world.controllers["kueue"].ensure(body)
    allowed(world.member.patch(body, {"spec": {"enableInTreeAutoscaling": False}}))


def test_an_elastic_cluster_is_not_resized_by_any_kind_of_request(world: World) -> None:
    """Gained: workers without quota, or larger ones at the quota of the first."""
    body = world.controllers["kueue"].ensure(_elastic(_cluster, "sized-in-every-way"))
    for words, group in (
        ("keep kueue.x-k8s.io/elastic-job in schedulingGates", GROUP | {"replicas": 50, "maxReplicas": 50}),
        ("do not change the resources in", ELASTIC_GROUP | {"template": gated(8)}),
    ):
        for caller in world.tenants:
            for answer in every_way(caller, body, {"spec": {"workerGroupSpecs": [group]}}):
                refused(answer, "RayCluster sized-in-every-way is elastic", words)


@BOTH
def test_workers_of_elastic_work_stay_in_their_pod_set(world: World, make: Callable[..., Object]) -> None:
    """Gained: a large pod starts in the place of a small one of another group, which the queue counted."""
    body = _elastic(make, "sized-in-sets")
    cluster = body["spec"]["rayClusterConfig"] if make is _service else body["spec"]
    cluster["workerGroupSpecs"] = _in_pod_sets("large", "small")
    world.controllers["kueue"].ensure(body)
    change = _in(make, {"workerGroupSpecs": _in_pod_sets("small", "small")})
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
    body = world.controllers["kueue"].ensure(_elastic(_cluster, "sized-restored"))
    placed = gated(1, nodeSelector={"muster.dev/pool": "l4"})
    for spec in ({"suspend": True}, {}):
        change = {"spec": {**spec, "workerGroupSpecs": [GROUP | {"template": placed}]}}
        allowed(world.controllers["kueue"].patch(body, change))


@BOTH
def test_elastic_work_of_before_that_has_no_gate_stays_changeable(
    world: World, make: Callable[..., Object]
) -> None:
    """It does not grow: its new pods would not wait."""
    body = world.controllers["kueue"].ensure(annotated(named(make(), "sized-ungated"), ELASTIC, "true"))
    fewer, more = (
        {"workerGroupSpecs": [GROUP | {"replicas": n, "minReplicas": 0, "maxReplicas": n}]} for n in (1, 5)
    )
    allowed(world.member.patch(body, _in(make, fewer)))
    refused(world.member.patch(body, _in(make, more)), WORKERS, ANEW)


def test_work_that_waits_and_is_not_elastic_is_resized(world: World) -> None:
    """Kueue compares its containers and counts it anew."""
    for body in (named(works.ray_cluster(), "sized-waits"), named(works.ray_job(), "sized-waits")):
        world.member.ensure(body)
        spec = {
            "workerGroupSpecs": [GROUP | {"template": works.template(4), "replicas": 9, "maxReplicas": 9}]
        }
        change = {"spec": {"rayClusterSpec": spec} if body["kind"] == "RayJob" else spec}
        allowed(world.member.patch(body, change))


CLAIM = "autoscaling.x-k8s.io/consume-provisioning-request"


def test_what_runs_takes_no_other_capacity_than_its_own(world: World) -> None:
    """Gained: the nodes that another gang has waited for, when KubeRay makes a pod again."""
    claims = changed(works.template(1), "metadata", value={"annotations": {CLAIM: "own"}})
    body = world.controllers["kueue"].ensure(named(_cluster(), "sized-claims"))
    started = {"spec": {"workerGroupSpecs": [GROUP | {"template": claims}]}}
    allowed(world.controllers["kueue"].patch(body, started, dry_run=False))
    others = changed(claims, "metadata", "annotations", CLAIM, value="another-s")
    for caller in world.tenants:
        change = {"spec": {"workerGroupSpecs": [GROUP | {"template": others}]}}
        refused(caller.patch(body, change), "claim provisioned capacity")
    allowed(world.member.patch(body, {"spec": {"rayVersion": "2.55.0"}}))


# Statuses.

ENDED = {
    "RayJob": {"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"},
    "RayCluster": {"state": "suspended"},
    "RayService": {"serviceStatus": "Running"},
    "Job": {"succeeded": 1, "conditions": []},
    "CronJob": {"lastScheduleTime": "2026-01-01T00:00:00Z"},
}


@pytest.mark.parametrize("kind", WORK)
def test_a_tenant_reports_no_end_of_its_work(world: World, kind: str) -> None:
    """Gained: its quota back, with all of its pods running."""
    body = world.member.ensure(named(WORK[kind], "sized-reported"))
    for answer in every_way(world.trusted, body, {"status": ENDED[kind]}, subresource="status"):
        refused(answer, "/status are not written by hand here", "change or delete the object itself")
    for caller in (world.member, world.person):
        assert caller.patch(body, {"status": ENDED[kind]}, subresource="status").code == 403
    controller = world.controllers["kuberay" if body["apiVersion"].startswith("ray") else "jobs"]
    allowed(controller.patch(body, {"status": ENDED[kind]}, subresource="status"))


# Pods.


@pytest.fixture(scope="module")
def worker(world: World) -> Object:
    body = pod(1, owner=owner("Job", "batch/v1", "train"), name="counted-0")
    body["metadata"] |= {
        "labels": {"batch.kubernetes.io/job-name": "train"},
        "finalizers": ["batch.kubernetes.io/job-tracking"],
    }
    body["spec"]["schedulingGates"] = [{"name": ELASTIC}]
    return world.controllers["jobs"].ensure(body)


@pytest.fixture(scope="module")
def bare(world: World) -> Object:
    """A pod that no controller made. Only a tenant with too many rights has one."""
    body = pod(0, name="sized-made-by-hand")
    body["spec"]["schedulingGates"] = [{"name": "muster.dev/gang"}, {"name": "example.com/mine"}]
    return world.trusted.ensure(body)


def test_a_pod_of_a_job_reports_no_end(world: World, worker: Object) -> None:
    """Gained: its quota back, while it runs on."""
    change = {"status": {"phase": "Succeeded"}}
    refused(
        world.trusted.patch(worker, change, subresource="status"), "pods/status are not written by hand here"
    )
    for caller in (world.member, world.person):
        assert caller.patch(worker, change, subresource="status").code == 403
    for caller in (kubelet(world), scheduler(world)):
        allowed(caller.patch(worker, {"status": {"reason": "x"}}, subresource="status"))


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
    target = world.trusted.ensure(pod(0, name="sized-unbound"))
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
        allowed(scheduler(world).send("POST", f"{path}?dryRun=All", body))


def test_a_debug_container_has_no_more_rights_than_the_pod(world: World, worker: Object) -> None:
    """Gained by the variable: every GPU of the node, under the eyes of no queue."""

    def added(caller: Caller, **fields: object) -> Answer:
        change = {"spec": {"ephemeralContainers": [{"name": "debug", "image": "x", **fields}]}}
        return caller.patch(worker, change, STRATEGIC, subresource="ephemeralcontainers")

    privileged = {"capabilities": {"add": ["SYS_ADMIN"]}}
    refused(added(world.trusted, securityContext=privileged), "violates PodSecurity")
    for caller in (world.member, world.person):
        refused(added(caller))
    gpus, none = ([{"name": "NVIDIA_VISIBLE_DEVICES", "value": value}] for value in ("all", "void"))
    words = "remove NVIDIA_VISIBLE_DEVICES from env of the containers"
    refused(added(world.trusted, env=gpus), words)
    allowed(added(world.trusted, env=none))


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
        allowed(world.trusted.patch(bare, {"metadata": {field: {"note": "x"}}}))


CONTROLLERS_CHANGE: dict[str, Object] = {
    "kueue": {"metadata": {"labels": {"a": "b"}}, "spec": {"schedulingGates": []}},
    "kuberay": {"metadata": {"labels": {"ray.io/cluster": "x"}}},
    "jobs": {"metadata": {"finalizers": None}},
    "collector": {"metadata": {"ownerReferences": None}},
    # Of the whole cluster, and in no namespace that the policies know.
    "autoscaler": {"metadata": {"annotations": {"cloud": "x"}}},
}


@pytest.mark.parametrize("who", CONTROLLERS_CHANGE)
def test_controllers_change_the_pods_of_work(world: World, worker: Object, who: str) -> None:
    allowed(world.controllers[who].patch(worker, CONTROLLERS_CHANGE[who]))


# What controllers made.


def test_controllers_go_on_with_what_they_made(world: World) -> None:
    """KubeRay and the collector of garbage, and a program of the whole cluster such as a backup."""
    cluster = world.controllers["kuberay"].ensure(made_by_kuberay(named(_cluster(), "owned-by-a-job")))
    secret = made_by_kuberay(works.existing("v1", "Secret", "owned-by-a-job", data={"auth_token": "eA=="}))
    world.controllers["kuberay"].ensure(secret)
    for who, body, change in (
        ("kuberay", cluster, {"spec": {"suspend": True}}),
        ("kueue", cluster, {"metadata": {"annotations": {"note": "x"}}}),
        ("collector", cluster, {"metadata": {"ownerReferences": None}}),
        ("kuberay", secret, {"data": {"auth_token": "eQ=="}}),
        ("autoscaler", cluster, {"metadata": {"annotations": {"note": "x"}}}),
    ):
        allowed(world.controllers[who].patch(body, change))
    for who, body in (("kuberay", secret), ("collector", cluster), ("autoscaler", cluster)):
        allowed(world.controllers[who].delete(body))


def test_a_tenant_changes_and_ends_the_jobs_of_its_cron_job(world: World) -> None:
    """They are queued by themselves. An owner that is no controller is the tenant's own."""
    run = owned(named(running_job("owned-nightly"), "owned-nightly"), owner("CronJob", "batch/v1", "nightly"))
    mine = owned(named(works.ray_job(), "owned-loosely"), owner("Job", "batch/v1") | {"controller": False})
    world.controllers["cronjobs"].ensure(run)
    world.member.ensure(mine)
    for caller in world.tenants:
        assert caller.patch(run, {"spec": {"backoffLimit": 1}}).is_allowed
        assert caller.delete(run).is_allowed
        assert caller.patch(mine, {"metadata": {"ownerReferences": None}}).is_allowed


# Sizes.

KIB = 1024


def _config_map(text: str, name: str = "large") -> Object:
    return works.existing("v1", "ConfigMap", name, data={"text": text})


LARGE: dict[str, Callable[[int], Object]] = {
    "ConfigMap of many keys": lambda kib: works.existing(
        "v1", "ConfigMap", "large", data={f"key-{number}": "x" * KIB for number in range(kib)}
    ),
    "ConfigMap of wide characters": lambda kib: _config_map("\U0001f600" * (kib * KIB // 4)),
    "annotated ConfigMap": lambda kib: annotated(_config_map("x"), "note", "x" * kib * KIB),
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
        allowed(caller.create(LARGE[what](40)))


def test_a_controller_of_the_whole_cluster_stores_what_is_large(world: World) -> None:
    """Such as a program that gives every namespace a bundle of certificates."""
    allowed(world.controllers["autoscaler"].create(LARGE["CronJob"](200)))


def test_what_was_larger_before_stays_changeable_and_does_not_grow(world: World) -> None:
    body = world.admin.ensure(_config_map("x" * 200 * KIB, "of-before"))
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
    world.admin.ensure(body)
    for caller in world.tenants:
        for metadata in (FREE, {field: dict.fromkeys(keys) for field, keys in NOTED.items()}):
            allowed(caller.patch(body, {"metadata": metadata}))
        for field, keys in NOTED.items():
            other = {field: dict.fromkeys(keys, "other")}
            refused(caller.patch(body, {"metadata": other}), "remove muster.dev/")


def test_nothing_of_ours_is_added_in_any_way(world: World) -> None:
    body = world.member.ensure(named(works.ray_job(), "sized-unnoted"))
    for caller in world.tenants:
        for field, keys in NOTED.items():
            known = {**body["metadata"].get(field, {}), **keys}
            for answer in every_way(caller, body, {"metadata": {field: known}}):
                refused(answer, "remove muster.dev/")


def test_controllers_note_what_they_need(world: World) -> None:
    body = world.member.ensure(named(works.ray_job(), "sized-controlled"))
    for who in ("kueue", "kuberay"):
        allowed(world.controllers[who].patch(body, {"metadata": NOTED}))
    pods = pod(1, owner=owner("Job", "batch/v1"), name="noted-0")
    pods["metadata"] |= NOTED
    allowed(world.controllers["jobs"].create(pods))
