"""Work that keeps its pods after its quota, where no policy for tenants is in force: the manager ends it.

The real Kueue, KubeRay and manager, with the manager's own account. Nobody runs pods here: one counts as
running once it is bound to a node. Each attack was seen to keep GPUs for good on a local cluster.
"""

import copy
import urllib.error
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final

from muster.components import gang_authority
from muster.model import names
from tests import envtest
from tests.integration.accounts import attack
from tests.integration.kueue_api.objects import apply
from tests.integration.kueue_api.works import PATHS, plain, with_gpu, work
from tests.integration.kueue_api.world import CLUSTERS, JOBS, MERGE, PODS, TEAM, WORKLOADS, Object, World
from tests.waiting import eventually

_INVALID: Final = {"headGroupSpec": {"rayStartParams": {"labels": "a=b"}}}
"""KubeRay takes a cluster with this for invalid, and does nothing any more."""
_REDIS: Final = {"redisAddress": "redis:6379"}
_SERVICES: Final = f"/api/v1/namespaces/{TEAM}/services"
_SECOND: Final = f"{_SERVICES}/second"


def test_pods_that_outlive_their_quota_go_and_those_with_quota_stay(world: World) -> None:
    with _running(world):
        ended = {
            "finalizer": _keeps_a_finalizer(world),
            "invalid": _is_invalid(world),
            "held": _is_held(world),
            "given": _is_given_away(world),
            "detached": _is_detached(world),
            "unended": _cannot_end(world),
            "untolerant": _is_tolerant_no_more(world),
            "served": _asks_for_a_service(world),
            "doubled": _has_two_heads(world),
        }
        honest = {name: _pods(world, name) for name in ("job-2", "cluster-2", "rayjob-2")}
        for name, had in ended.items():
            assert had, name
            assert had <= _all(world), f"{name}: nobody else ends them"
        outlived = frozenset().union(*ended.values())
        eventually("none of them is left", lambda: not outlived & _all(world))
        assert all(had and had <= _all(world) for had in honest.values())
        told = {each["regarding"]["name"] for each in _events(world)}
        assert {"finalizer", "invalid", "given", "untolerant", "served", "doubled"} <= told


def test_the_account_deletes_no_other_pods(world: World) -> None:
    for name, spec in (("plain", plain()), ("waits", with_gpu("l4")), ("runs", with_gpu("l4"))):
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": TEAM}}
        node = {"nodeName": "cpu-0"} if name != "waits" else {}
        apply(world.plane, body | {"spec": spec | node | {"terminationGracePeriodSeconds": 0}})
        code = attack(world.plane, "DELETE", f"{PODS}/{name}", {}, account=gang_authority.MANAGER)
        assert code == (200 if name == "runs" else 403), name
        world.delete(f"{PODS}/{name}")


@contextmanager
def _running(world: World) -> Iterator[None]:
    """All work is admitted and on nodes."""
    jobs = envtest.controllers(world.plane, world.programs, ("job-controller",))
    with world.kuberay(), jobs, world.manager("--delete-without-quota=0"):
        made = [
            *(
                _made("RayCluster", name, gcsFaultToleranceOptions=_REDIS)
                for name in ("finalizer", "untolerant")
            ),
            *(_made("RayCluster", name) for name in ("invalid", "cluster-2", "served", "doubled")),
            *(_made("RayJob", name) for name in ("held", "detached", "unended", "rayjob-2")),
            *(_made("Job", name) for name in ("given", "job-2")),
        ]
        for item in made:
            apply(world.plane, item)
        for item in made:
            name = item["metadata"]["name"]
            world.provision(eventually(f"{name} has asked", partial(world.asked, name))[0])
        for item in made:
            name = item["metadata"]["name"]
            eventually(f"{name} runs", partial(_bind, world, name))
        try:
            yield
        finally:
            # Also the cluster without an owner, and what KubeRay keeps by a finalizer.
            for path in (PATHS["RayJob"], CLUSTERS, JOBS):
                for item in world.items(path):
                    world.delete(f"{path}/{item['metadata']['name']}")
                    _patch(world, f"{path}/{item['metadata']['name']}", {"metadata": {"finalizers": None}})
                world.wait_until_empty(path)
            world.delete(_SECOND)


def _made(kind: str, name: str, **spec: object) -> Object:
    """One pod with a GPU, which ends at once when it is deleted."""
    gpu = with_gpu("l4") | {"terminationGracePeriodSeconds": 0}
    item = copy.deepcopy(work(kind, gpu))
    item["metadata"]["name"] = name
    item["spec"] |= spec
    if kind == "RayJob":
        item["spec"]["rayClusterSpec"] |= {"rayVersion": "2.54.0", "authOptions": {"mode": "token"}}
    if kind == "RayCluster":
        # Kueue counts what ends the cluster of a fault-tolerant head beyond small limits.
        head = item["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]
        head["resources"].pop("limits")
        head["ports"] = [{"name": "dashboard", "containerPort": 8265}]
    return item


def _keeps_a_finalizer(world: World) -> frozenset[str]:
    """Deleted, and invalid before: KubeRay never takes its finalizer off, and Kueue has the quota back."""
    had = _pods(world, "finalizer")
    _patch(world, f"{CLUSTERS}/finalizer", {"metadata": {"annotations": {"ray.io/ft-enabled": "false"}}})
    world.delete(f"{CLUSTERS}/finalizer")
    return had


def _is_invalid(world: World) -> frozenset[str]:
    """Evicted: Kueue suspends it, and KubeRay does not look."""
    _patch(world, f"{CLUSTERS}/invalid", {"spec": _INVALID})
    _evict(world, "invalid")
    return _pods(world, "invalid")


def _is_held(world: World) -> frozenset[str]:
    """A RayJob that is invalid is on hold, without quota; the cluster that it had is invalid too."""
    _patch(world, f"{CLUSTERS}/{_cluster_of(world, 'held')}", {"spec": _INVALID})
    _patch(world, f"{PATHS['RayJob']}/held", {"spec": {"backoffLimit": -1}})
    return _pods(world, "held")


def _is_given_away(world: World) -> frozenset[str]:
    """A Job that is called the child of a cluster with quota is stopped by nobody."""
    parent = world.plane.call("GET", f"{CLUSTERS}/cluster-2")
    owner = {key: parent[key] for key in ("apiVersion", "kind")} | {"controller": True}
    owner |= {key: parent["metadata"][key] for key in ("name", "uid")}
    _patch(world, f"{JOBS}/given", {"metadata": {"ownerReferences": [owner]}})
    _evict(world, "given")
    return _pods(world, "given")


def _is_detached(world: World) -> frozenset[str]:
    """The cluster of a RayJob has an owner no more, and is invalid. Kueue queues it by itself, beside the
    RayJob's own quota, and it gets none.
    """
    cluster = _cluster_of(world, "detached")
    change: Object = {"metadata": {"ownerReferences": None}, "spec": _INVALID}
    _patch(world, f"{CLUSTERS}/{cluster}", change)
    eventually("Kueue queues it by itself", partial(world.workload, cluster))
    _evict(world, cluster)
    return _pods(world, "detached")


def _cannot_end(world: World) -> frozenset[str]:
    """A RayJob is deleted whose token is gone: KubeRay cannot ask its cluster, and keeps its finalizer."""
    had, secret = _pods(world, "unended"), _cluster_of(world, "unended")
    _patch(world, f"/api/v1/namespaces/{TEAM}/secrets/{secret}", {"data": {"auth_token": None}})
    world.delete(f"{PATHS['RayJob']}/unended")
    return had


def _is_tolerant_no_more(world: World) -> frozenset[str]:
    """Deleted without its fault tolerance: KubeRay does not look at the finalizer that it put there."""
    had = _pods(world, "untolerant")
    _patch(world, f"{CLUSTERS}/untolerant", {"spec": {"gcsFaultToleranceOptions": None}})
    world.delete(f"{CLUSTERS}/untolerant")
    return had


def _asks_for_a_service(world: World) -> frozenset[str]:
    """Evicted, but KubeRay fails before it comes to the pods: its head has no port for Serve."""
    serves: Object = {"annotations": {"ray.io/enable-serve-service": "true"}}
    _patch(world, f"{CLUSTERS}/served", {"metadata": serves})
    _evict(world, "served")
    return _pods(world, "served")


def _has_two_heads(world: World) -> frozenset[str]:
    """Evicted, but KubeRay fails before it comes to the pods: it finds two Services of its head."""
    head = world.plane.call("GET", f"{_SERVICES}/doubled-head-svc")
    second: Object = {"apiVersion": "v1", "kind": "Service", "spec": {"ports": [{"port": 80}]}}
    second["metadata"] = {"name": "second", "namespace": TEAM, "labels": head["metadata"]["labels"]}
    apply(world.plane, second)
    _evict(world, "doubled")
    return _pods(world, "doubled")


def _evict(world: World, name: str) -> None:
    """As a preemption does, and an administrator by the runbook."""
    workload = (world.workload(name) or {})["metadata"]["name"]
    _patch(world, f"{WORKLOADS}/{workload}", {"spec": {"active": False}})


def _cluster_of(world: World, name: str) -> str:
    return str(world.plane.call("GET", f"{PATHS['RayJob']}/{name}")["status"]["rayClusterName"])


def _patch(world: World, path: str, body: Object) -> None:
    try:
        world.plane.call("PATCH", path, body, content_type=MERGE)
    except urllib.error.HTTPError as error:
        if error.code != 404:
            raise


def _all(world: World) -> frozenset[str]:
    """Pods that are bound, by uid."""
    return frozenset(
        each["metadata"]["uid"]
        for each in world.items(PODS)
        if each["spec"].get("nodeName") and "deletionTimestamp" not in each["metadata"]
    )


def _pods(world: World, name: str) -> frozenset[str]:
    return frozenset(
        each["metadata"]["uid"] for each in _with_gpu(world, name) if each["spec"].get("nodeName")
    )


def _with_gpu(world: World, name: str) -> list[Object]:
    return [
        each
        for each in world.items(PODS)
        if each["metadata"]["name"].startswith(f"{name}-")
        and any(
            names.GPU_RESOURCE in one["resources"].get("limits", {}) for one in each["spec"]["containers"]
        )
    ]


def _bind(world: World, name: str) -> bool:
    for each in _with_gpu(world, name):
        if not each["spec"].get("nodeName"):
            target = {"apiVersion": "v1", "kind": "Node", "name": "cpu-0"}
            body: Object = {"apiVersion": "v1", "kind": "Binding", "target": target}
            body["metadata"] = {"name": each["metadata"]["name"]}
            world.plane.call("POST", f"{PODS}/{each['metadata']['name']}/binding", body)
    return bool(_pods(world, name))


def _events(world: World) -> list[Object]:
    found = world.items(f"/apis/events.k8s.io/v1/namespaces/{TEAM}/events")
    return [each for each in found if each["reason"] == "PodWithoutQuota"]
