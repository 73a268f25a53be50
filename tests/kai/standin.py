"""A scripted stand-in for what acts around a gang in a KAI stack. Test code: it is none of these programs.

- KubeRay and the job controller: make the pods that a RayCluster's or a Job's spec wants, from its templates,
  gates included.
- KAI: binds the pods of one of them to nodes that fit them once the minimum of every group has no gate,
  all that are free or none, and only within the limits of the leaf queue and of all above it; then writes
  the GPUs of their status.allocated. As KAI 0.12.0 was seen to do (tests/integration/real_kai), which counts
  one minimum for the whole cluster; by group it is 0.17. It evicts nothing, and knows no priority.
- KWOK and the node lifecycle controller: nodes are Ready, without the taint of new ones; bound pods run.

It looks at everything over and over and keeps nothing in between.
"""

from __future__ import annotations

import contextlib
import threading
import urllib.error
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, Final

from tests.envtest import ControlPlane
from tests.nodes import make_ready

Json = dict[str, Any]

GPU: Final = "nvidia.com/gpu"
QUEUE: Final = "kai.scheduler/queue"
QUEUES: Final = "/apis/scheduling.run.ai/v2/queues"
_MERGE: Final = "application/merge-patch+json"
_PAUSE: Final = 0.1


class StandIn:
    """Runs in a thread of its own until the block ends; a call that is refused is tried again."""

    def __init__(self, server: ControlPlane, namespace: str) -> None:
        self._server, self._namespace = server, namespace
        self._stopped = threading.Event()
        self.paused = threading.Event()
        """While set, KAI places nothing."""

    @contextlib.contextmanager
    def running(self) -> Iterator[StandIn]:
        thread = threading.Thread(target=self._run, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._stopped.set()
            thread.join(30)

    def _run(self) -> None:
        while not self._stopped.wait(_PAUSE):
            with contextlib.suppress(urllib.error.HTTPError, OSError):
                self._step()

    def _step(self) -> None:
        clusters = self._items(f"/apis/ray.io/v1/namespaces/{self._namespace}/rayclusters")
        clusters += self._items(f"/apis/batch/v1/namespaces/{self._namespace}/jobs")
        self._kuberay(clusters)
        make_ready(self._server)
        for cluster in clusters if not self.paused.is_set() else ():
            # Pods first: a node whose placeholder is gone has its taint.
            running = self._items("/api/v1/pods")
            self._place(cluster, self.pods(), self._items("/api/v1/nodes"), running)
        self._tell_queues(self.pods())

    def pods(self) -> list[Json]:
        return self._items(f"/api/v1/namespaces/{self._namespace}/pods")

    def _items(self, path: str) -> list[Json]:
        return list(self._server.call("GET", path)["items"])

    # KubeRay

    def _kuberay(self, clusters: list[Json]) -> None:
        pods = self.pods()
        alive = {cluster["metadata"]["uid"] for cluster in clusters}
        for pod in pods:
            if pod["metadata"]["ownerReferences"][0]["uid"] not in alive:
                path = f"/api/v1/namespaces/{self._namespace}/pods/{pod['metadata']['name']}"
                self._server.call("DELETE", f"{path}?gracePeriodSeconds=0")
        for cluster in clusters:
            for group, (count, template) in _groups(cluster).items():
                have = {pod["metadata"]["name"] for pod in _of(cluster, pods, group)}
                numbers = (number for number in range(count * 2) if _name(cluster, group, number) not in have)
                for _, number in zip(range(count - len(have)), numbers, strict=False):
                    self._make(cluster, group, number, template)

    def _make(self, cluster: Json, group: str, number: int, template: Json) -> None:
        meta, owner = template.get("metadata", {}), cluster["metadata"]
        labels = {**_labels(cluster, group), QUEUE: owner["labels"][QUEUE]}
        api_version, kind = ("batch/v1", "Job") if _is_job(cluster) else ("ray.io/v1", "RayCluster")
        body = {
            "metadata": {
                "name": _name(cluster, group, number),
                "labels": labels,
                "annotations": meta.get("annotations", {}),
                "ownerReferences": [
                    {
                        "apiVersion": api_version,
                        "kind": kind,
                        "name": owner["name"],
                        "uid": owner["uid"],
                        "controller": True,
                    }
                ],
            },
            "spec": {**template["spec"], "schedulerName": "kai-scheduler"},
        }
        self._server.call("POST", f"/api/v1/namespaces/{self._namespace}/pods", body)

    # KAI

    def _place(self, cluster: Json, pods: list[Json], nodes: list[Json], running: list[Json]) -> None:
        """`running`: all pods of the cluster, also those that other schedulers have placed."""
        mine = [pod for group in _groups(cluster) for pod in _of(cluster, pods, group)]
        free = [pod for pod in mine if not pod["spec"].get("schedulingGates")]
        for group, least in _minimum(cluster).items():
            if len(_of(cluster, free, group)) < least:
                return
        room = {node["metadata"]["name"]: _room(node, running) for node in nodes}
        places: dict[str, str] = {}
        for pod in free:
            if pod["spec"].get("nodeName"):
                continue
            fitting = (node for node in nodes if _fits(pod, node, room[node["metadata"]["name"]]))
            node = next(fitting, None)
            if node is None:
                return
            room[node["metadata"]["name"]] -= gpus(pod)
            places[pod["metadata"]["name"]] = node["metadata"]["name"]
        if not self._has_room(cluster, free, pods):
            return
        for name, where in places.items():
            self._bind(name, where)

    def _has_room(self, cluster: Json, free: list[Json], pods: list[Json]) -> bool:
        """To KAI a limit of -1 is no bound, and one of 0, or none, is nothing at all."""
        queues = self._queues()
        asked = sum((gpus(pod) for pod in free if not pod["spec"].get("nodeName")), Fraction(0))
        for name in _path(cluster["metadata"]["labels"][QUEUE], queues):
            limit = queues[name]["spec"]["resources"].get("gpu", {}).get("limit", 0)
            if asked and limit != -1 and _held(name, queues, pods) + asked > limit:
                return False
        return True

    def _bind(self, name: str, node: str) -> None:
        path = f"/api/v1/namespaces/{self._namespace}/pods/{name}"
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}}
        self._server.call("POST", f"{path}/binding", {**body, "target": {"kind": "Node", "name": node}})
        self._server.call("PATCH", f"{path}/status", {"status": {"phase": "Running"}}, content_type=_MERGE)

    def _tell_queues(self, pods: list[Json]) -> None:
        queues = self._queues()
        for name, queue in queues.items():
            allocated = {GPU: _quantity(_held(name, queues, pods))}
            if (queue.get("status") or {}).get("allocated") != allocated:
                body = {"status": {"allocated": allocated}}
                self._server.call("PATCH", f"{QUEUES}/{name}/status", body, content_type=_MERGE)

    def _queues(self) -> dict[str, Json]:
        return {queue["metadata"]["name"]: queue for queue in self._items(QUEUES)}


def _held(name: str, queues: dict[str, Json], pods: list[Json]) -> Fraction:
    """GPUs of the bound pods of a queue and of those below it."""
    below = {leaf for leaf in queues if name in _path(leaf, queues)}
    bound = (pod for pod in pods if pod["spec"].get("nodeName"))
    return sum((gpus(pod) for pod in bound if pod["metadata"]["labels"][QUEUE] in below), Fraction(0))


def _quantity(amount: Fraction) -> str:
    """As Kubernetes writes it: `3`, `1500m`."""
    return str(amount) if amount.denominator == 1 else f"{int(amount * 1000)}m"


def gpus(pod: Json) -> Fraction:
    """GPUs of a pod: a part by annotation, or whole ones by request."""
    part = pod["metadata"].get("annotations", {}).get("gpu-fraction")
    if part:
        return Fraction(part)
    requests = pod["spec"]["containers"][0].get("resources", {}).get("requests", {})
    return Fraction(str(requests.get(GPU, 0)))


def _is_job(cluster: Json) -> bool:
    return "template" in cluster["spec"]


def _labels(cluster: Json, group: str) -> dict[str, str]:
    name = cluster["metadata"]["name"]
    if _is_job(cluster):
        return {"batch.kubernetes.io/job-name": name}
    return {"ray.io/cluster": name, "ray.io/group": group}


def _groups(cluster: Json) -> dict[str, tuple[int, Json]]:
    spec = cluster["spec"]
    if _is_job(cluster):
        return {"main": (spec["parallelism"], spec["template"])}
    workers = {each["groupName"]: (each["replicas"], each["template"]) for each in spec["workerGroupSpecs"]}
    return {"headgroup": (1, spec["headGroupSpec"]["template"]), **workers}


def _minimum(cluster: Json) -> dict[str, int]:
    if _is_job(cluster):
        return {"main": cluster["spec"]["parallelism"]}
    workers = cluster["spec"]["workerGroupSpecs"]
    least = {each["groupName"]: each.get("minReplicas") or each["replicas"] for each in workers}
    return {"headgroup": 1, **least}


def _of(cluster: Json, pods: list[Json], group: str) -> list[Json]:
    wanted = _labels(cluster, group).items()
    return [pod for pod in pods if wanted <= pod["metadata"]["labels"].items()]


def _name(cluster: Json, group: str, number: int) -> str:
    return f"{cluster['metadata']['name']}-{group}-{number}"


def _room(node: Json, pods: list[Json]) -> Fraction:
    taken = [pod for pod in pods if pod["spec"].get("nodeName") == node["metadata"]["name"]]
    return Fraction(str(node["status"].get("allocatable", {}).get(GPU, 0))) - sum(
        map(gpus, taken), Fraction(0)
    )


def _fits(pod: Json, node: Json, room: Fraction) -> bool:
    labels = node["metadata"]["labels"]
    selected = all(labels.get(key) == value for key, value in pod["spec"].get("nodeSelector", {}).items())
    tolerations = pod["spec"].get("tolerations", [])
    taints = node["spec"].get("taints", [])
    return selected and room >= gpus(pod) and all(_is_tolerated(taint, tolerations) for taint in taints)


def _is_tolerated(taint: Json, tolerations: list[Json]) -> bool:
    return any(
        each.get("key") == taint["key"]
        and (each.get("operator") == "Exists" or each.get("value", "") == taint.get("value", ""))
        and each.get("effect", taint["effect"]) == taint["effect"]
        for each in tolerations
    )


def _path(name: str, queues: dict[str, Json]) -> Iterator[str]:
    while name in queues:
        yield name
        name = queues[name]["spec"].get("parentQueue", "")
