"""A RayCluster that Ray's own autoscaler grows and shrinks: each growth is a gang, and one that fails leaves
what runs alone.
"""

from pathlib import Path
from typing import Any, Final

from muster.local.demo.cluster import Object
from muster.local.demo.events import condition, holds, owners
from tests.e2e import gangs
from tests.e2e.driver import driver
from tests.e2e.local_cluster import Muster
from tests.e2e.recorder import Life, version

NAME: Final = "elastic"
TEAM: Final = "team-a"
POOL: Final = "l4"
_PROGRAM: Final = Path(__file__).parent / "programs" / "growing.py"
_ELASTIC: Final = "kueue.x-k8s.io/elastic-job"
# Ray gives up on a node that starts slowly, or answers slowly; a busy machine does both.
_ENVIRONMENT: Final = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_agent_register_timeout_ms": "300000",
    "RAY_health_check_timeout_ms": "60000",
    "RAY_health_check_failure_threshold": "20",
}
# KubeRay's own probe kills a Ray that a busy machine starts slowly.
_PATIENT: Final = {"exec": {"command": ["true"]}, "periodSeconds": 30, "timeoutSeconds": 30}


def test_an_autoscaled_cluster_grows_as_gangs_and_a_failed_growth_touches_nothing(muster: Muster) -> None:
    muster.capacity(l4=2)
    muster.cluster.apply(_cluster(muster.image("ray")))
    muster.wait("its head runs", lambda: gangs.is_ready(muster.recorder, NAME))
    (head,) = _alive(muster)
    assert not _requests(muster), "a cluster without workers asks for nothing"

    with driver(muster, _PROGRAM, pod=head.name, container="ray-head", namespace=TEAM) as program:
        program.tell("2")
        muster.wait("Ray has two workers", lambda: program.has_said("has 2"))
        _assert_grown_as_one_gang(muster)
        assert head in _alive(muster)

        program.tell("1")
        muster.wait("an idle worker is gone", lambda: len(_alive(muster)) == 2)
        muster.wait("its quota is given back", lambda: _reserved(muster) == 1)
        running = _alive(muster)
        assert head in running

        muster.fault("none", pool=POOL, kind="stock-out")
        program.tell("2")
        muster.wait("the growth is told to wait", lambda: "cannot grow yet" in _answer(muster))
        assert "out of stock" in _answer(muster)
        # Only the node of the idle worker goes, and with it nothing that runs.
        muster.wait("its node is gone", lambda: len(muster.gpu_nodes()) == 1)
        assert [life for life in running if life not in _alive(muster)] == []
        assert all(holds(life.last, "Ready") for life in running)

        muster.heal()
        muster.capacity(l4=2)
        muster.wait("it has grown after all", lambda: program.has_said("has 2"))
        assert [life for life in running if life not in _alive(muster)] == []
        _assert_never_stopped(muster)

    muster.cluster.delete("RayCluster", NAME, namespace=TEAM)
    muster.wait("its requests are gone", lambda: all(one.gone for one in _requests(muster)))
    muster.wait("its quota is free", lambda: _reserved(muster) == 0)


def _assert_grown_as_one_gang(muster: Muster) -> None:
    """In one step: a slice of its own, one request for all of it, no worker on a node before all stood."""
    first, second = _slices(muster)
    assert (condition(first.last, "Finished") or {}).get("reason") == "WorkloadSliceReplaced"
    assert _count(second.last) == 2
    (request,) = _requests(muster)
    assert [one["count"] for one in request.last["spec"]["podSets"]] == [2]
    provisioned = gangs.provisioned(request)
    nodes = [life for life in muster.recorder.lives("Node") if life.gone is None]
    ready = [life.since(lambda found: holds(found, "Ready")) for life in nodes]
    assert provisioned is not None
    assert len(ready) == 2
    for worker in _workers(muster):
        assert worker.versions[0]["spec"]["schedulingGates"], "it is born behind Kueue's gate"
        bound = worker.since(lambda found: bool(found["spec"].get("nodeName")))
        assert bound is not None
        assert all(when is not None and when < bound for when in (provisioned, *ready))


def _assert_never_stopped(muster: Muster) -> None:
    (cluster,) = [life for life in muster.recorder.lives("RayCluster") if life.name == NAME]
    started = cluster.since(lambda found: found["spec"].get("suspend") is False)
    assert started is not None
    assert not [one for one in cluster.versions if version(one) > started and one["spec"].get("suspend")]
    assert not any(life.since(lambda found: holds(found, "Evicted")) for life in _slices(muster))


def _alive(muster: Muster) -> list[Life]:
    lives = gangs.pods(muster.recorder, NAME)
    return [life for life in lives if life.gone is None and "deletionTimestamp" not in life.last["metadata"]]


def _workers(muster: Muster) -> list[Life]:
    return [
        life for life in _alive(muster) if life.last["metadata"]["labels"]["ray.io/node-type"] == "worker"
    ]


def _slices(muster: Muster) -> list[Life]:
    """Every Workload of the cluster, the oldest first."""
    clusters = {life.uid for life in muster.recorder.lives("RayCluster") if life.name == NAME}
    return [life for life in muster.recorder.lives("Workload") if owners(life.last) & clusters]


def _requests(muster: Muster) -> list[Life]:
    """Of every slice."""
    uids = {life.uid for life in _slices(muster)}
    lives = muster.recorder.lives("ProvisioningRequest")
    return [life for life in lives if life.last["metadata"]["labels"].get("muster.dev/workload-uid") in uids]


def _answer(muster: Muster) -> str:
    """What our check says of the newest slice."""
    checks = (_slices(muster)[-1].last.get("status") or {}).get("admissionChecks") or ()
    return next((str(one.get("message")) for one in checks if one["name"] == "gang"), "")


def _count(workload: Object) -> int:
    counts: dict[str, int] = {one["name"]: one["count"] for one in workload["spec"]["podSets"]}
    return counts[POOL]


def _reserved(muster: Muster) -> int:
    """GPUs of the pool that the team's queue counts."""
    queue = muster.cluster.get("ClusterQueue", TEAM) or {}
    usage = {one["name"]: one["resources"] for one in queue["status"]["flavorsReservation"]}
    return sum(int(one["total"]) for one in usage[POOL] if one["name"] == "nvidia.com/gpu")


def _cluster(image: str) -> Object:
    labels = {"kueue.x-k8s.io/queue-name": "default", "kueue.x-k8s.io/priority-class": "prod"}
    small = {"cpu": "100m", "memory": "256Mi"}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": NAME, "namespace": TEAM, "labels": labels, "annotations": {_ELASTIC: "true"}},
        "spec": {
            "rayVersion": "2.54.1",
            "authOptions": {"mode": "token"},
            "enableInTreeAutoscaling": True,
            "autoscalerOptions": {
                # Then a head that dies is a new pod, its autoscaler with it. In a pod that restarts it, Ray's
                # autoscaler goes on asking for the cluster that was.
                "version": "v2",
                "idleTimeoutSeconds": 2,
                "resources": {"requests": small, "limits": {"memory": "512Mi"}},
                "env": [{"name": "AUTOSCALER_UPDATE_INTERVAL_S", "value": "1"}],
            },
            "headGroupSpec": {
                "rayStartParams": {
                    "num-cpus": "0",
                    "object-store-memory": "80000000",
                    # Nobody looks at it, and nothing of Ray takes longer to start.
                    "include-dashboard": "false",
                },
                "template": _template("ray-head", image, memory="700Mi", most="1500Mi"),
            },
            "workerGroupSpecs": [
                {
                    "groupName": POOL,
                    "replicas": 0,
                    "minReplicas": 0,
                    "maxReplicas": 2,
                    "rayStartParams": {"object-store-memory": "80000000"},
                    "template": _template("ray-worker", image, memory="600Mi", most="1200Mi", gpus=1),
                }
            ],
        },
    }


def _template(container: str, image: str, *, memory: str, most: str, gpus: int = 0) -> dict[str, Any]:
    gpu = {"nvidia.com/gpu": gpus} if gpus else {}
    pinned = {
        "nodeSelector": {"muster.dev/pool": POOL},
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
    }
    return {
        "spec": {
            "terminationGracePeriodSeconds": 2,
            **(pinned if gpus else {}),
            "containers": [
                {
                    "name": container,
                    "image": image,
                    "env": [{"name": name, "value": value} for name, value in _ENVIRONMENT.items()],
                    "livenessProbe": _PATIENT,
                    "resources": {
                        "requests": {"cpu": "200m", "memory": memory, **gpu},
                        "limits": {"memory": most, **gpu},
                    },
                }
            ],
        }
    }
