"""Who reaches whose pods: what the rendered NetworkPolicies promise, where the network enforces them."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final

import pytest

from muster.local.cluster import control
from muster.local.cluster.local_cluster import existing
from muster.local.demo.cluster import Object
from muster.local.demo.events import holds
from muster.model import names
from tests.e2e import light
from tests.e2e.local_cluster import Muster, run

_PROBE: Final = """
import json, socket, sys
from concurrent.futures import ThreadPoolExecutor
def reached(target):
    try:
        socket.create_connection((target[0], target[1]), timeout=5).close()
    except ConnectionRefusedError:
        return True
    except TimeoutError:
        return False
    return True
targets = json.loads(sys.argv[1])
with ThreadPoolExecutor(len(targets)) as pool:
    print(json.dumps(list(pool.map(reached, targets))))
"""
GCS, METRICS, DASHBOARD, CLIENT = 6379, 8080, 8265, 10001
RAY_PORTS: Final = (GCS, METRICS, DASHBOARD, CLIENT)
SCRAPERS: Final = "scrapers"
PROBES: Final = ("team-a", "team-b", SCRAPERS, names.RAY_NAMESPACE)
Target = tuple[str, int]


@pytest.fixture
def probes(muster: Muster) -> Iterator[dict[str, str]]:
    """Namespace -> a pod in it that sleeps; and team-a has a Ray cluster."""
    found = existing(muster.name)
    assert found is not None
    enforced = control.call(found[0], "status")["networkPolicies"]
    if not enforced["enforced"]:
        pytest.skip(f"this machine does not enforce NetworkPolicies: {enforced['why']}")
    image = muster.image("python")
    try:
        muster.cluster.apply(_namespace(SCRAPERS, {names.MONITORING_LABEL: "true"}))
        muster.cluster.apply(light.ray_cluster("guarded", namespace="team-a", image=image, workers={}))
        for namespace in PROBES:
            is_team = namespace.startswith("team-")
            muster.cluster.apply(_job(namespace, image=image) if is_team else _pod(namespace, image=image))
        muster.wait("the Ray head runs", lambda: _running(muster, "team-a", "guarded-head"))
        for namespace in PROBES:
            muster.wait(f"a pod of {namespace} runs", partial(_running, muster, namespace, "probe"))
        yield {namespace: _running(muster, namespace, "probe")["metadata"]["name"] for namespace in PROBES}
    finally:
        muster.cluster.delete("Pod", "probe", namespace=names.RAY_NAMESPACE)
        muster.cluster.delete("Namespace", SCRAPERS)


def test_each_port_is_reached_by_those_alone_whom_its_policy_names(
    muster: Muster, probes: dict[str, str]
) -> None:
    head = _running(muster, "team-a", "guarded-head")["status"]["podIP"]
    ray: list[Target] = [(host, port) for host in (head, _head_service(muster)) for port in RAY_PORTS]
    platform = _platform(muster)
    metrics = [target for name, target in platform.items() if "metrics" in name]
    with ThreadPoolExecutor() as pool:
        asked = {
            who: pool.submit(_reached, muster, who, probes[who], targets)
            for who, targets in {
                "team-a": ray,
                "team-b": [*ray, *platform.values()],
                SCRAPERS: [*ray, *metrics],
                names.RAY_NAMESPACE: ray,
            }.items()
        }
        reached = {who: answer.result() for who, answer in asked.items()}

    assert reached["team-a"] == set(ray), "a team reaches its own Ray cluster"
    assert reached["team-b"] == set(), "another team reaches neither the cluster nor the platform"
    assert reached[SCRAPERS] == {*_at(ray, METRICS), *metrics}
    assert reached[names.RAY_NAMESPACE] == _at(ray, DASHBOARD), "KubeRay submits and watches jobs there"


def _at(targets: list[Target], port: int) -> set[Target]:
    return {target for target in targets if target[1] == port}


def _platform(muster: Muster) -> dict[str, Target]:
    """Ports of the platform's pods by what they are; the webhooks by their Service too."""
    kueue = _running(muster, names.KUEUE_NAMESPACE, "kueue-controller-manager")["status"]["podIP"]
    kuberay = _running(muster, names.RAY_NAMESPACE, "kuberay-operator")["status"]["podIP"]
    manager = _running(muster, names.SYSTEM_NAMESPACE, "gang-admission-manager")["status"]["podIP"]
    webhooks = _running(muster, names.SYSTEM_NAMESPACE, "gang-admission-webhooks")["status"]["podIP"]
    return {
        "Kueue's webhooks": (kueue, 9443),
        "Kueue's webhooks by their Service": (f"kueue-webhook-service.{names.KUEUE_NAMESPACE}", 443),
        "Kueue's pending workloads": (kueue, 8082),
        "Kueue's metrics": (kueue, 8443),
        "KubeRay's metrics": (kuberay, METRICS),
        "the controller's metrics": (manager, METRICS),
        "our webhooks": (webhooks, 9443),
        "our webhooks by their Service": (f"gang-admission-webhooks.{names.SYSTEM_NAMESPACE}", 443),
        "our webhooks' metrics": (webhooks, METRICS),
    }


def _head_service(muster: Muster) -> str:
    """A name, so that a probe that reaches nothing has still reached the cluster's DNS."""
    muster.wait("the head has a Service", lambda: _services(muster))
    (service,) = _services(muster)
    return f"{service['metadata']['name']}.team-a"


def _services(muster: Muster) -> list[Object]:
    services = muster.cluster.all("Service", namespace="team-a")
    return [one for one in services if one["metadata"]["name"].startswith("guarded")]


def _reached(muster: Muster, namespace: str, pod: str, targets: list[Target]) -> set[Target]:
    command = ["kubectl", "-n", namespace, "exec", pod, "--", "python3", "-c", _PROBE, json.dumps(targets)]
    answers: list[bool] = json.loads(run(command, muster.environment, timeout=120).splitlines()[-1])
    return {target for target, is_open in zip(targets, answers, strict=True) if is_open}


def _running(muster: Muster, namespace: str, prefix: str) -> Object:
    """The ready pod whose name begins so; {} while there is none."""
    for pod in muster.cluster.all("Pod", namespace=namespace):
        if pod["metadata"]["name"].startswith(prefix) and holds(pod, "Ready"):
            return pod
    return {}


def _namespace(name: str, labels: dict[str, str]) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def _spec(image: str) -> dict[str, Any]:
    return {
        "terminationGracePeriodSeconds": 1,
        "restartPolicy": "Never",
        "nodeSelector": {"muster.dev/pool": "cpu"},
        "containers": [
            {
                "name": "probe",
                "image": image,
                "command": ["sleep", "3600"],
                "resources": {"requests": {"cpu": "20m", "memory": "32Mi"}},
            }
        ],
    }


def _pod(namespace: str, *, image: str) -> Object:
    meta = {"name": "probe", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": _spec(image)}


def _job(namespace: str, *, image: str) -> Object:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "probe",
            "namespace": namespace,
            "labels": {"kueue.x-k8s.io/queue-name": "default", "kueue.x-k8s.io/priority-class": "prod"},
        },
        "spec": {"suspend": True, "backoffLimit": 0, "template": {"spec": _spec(image)}},
    }
