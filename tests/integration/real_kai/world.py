"""A KAI stack in small with the real KAI: its API server, a namespace, and what a person sees there."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from muster.controller.kai.labels import CLUSTER_NAME, STATUS
from muster.local.simulated_cloud import names as cloud
from muster.model.gangpolicy import GangPolicy, to_manifest
from muster.model.names import GPU_RESOURCE, KAI_QUEUE_LABEL
from muster.model.work import GATED
from tests.envtest import ControlPlane
from tests.integration.ours import Ours
from tests.integration.real_kai.bodies import (
    Gang,
    Json,
    Shapes,
    fake_node,
    job,
    job_set,
    jobs_of,
    lone_pod,
    offering,
    ray_cluster,
)
from tests.integration.real_kai.programs import Running
from tests.waiting import eventually

QUEUES: Final = "/apis/scheduling.run.ai/v2/queues"
_OF: Final = ("ray.io/cluster", "app", *(each.labels.name for each in GATED if each.labels))
PRIORITIES: Final = "/apis/scheduling.k8s.io/v1/priorityclasses"


@dataclass
class World:
    server: ControlPlane
    namespace: str
    ours: Ours
    running: Running

    def start_ours(self) -> None:
        """The manager and the simulated autoscaler, with every right."""
        self.start_manager()
        self.ours.start_autoscaler(self.server.kubeconfig())

    def start_manager(self) -> None:
        self.ours.start_manager(self.server.kubeconfig(), *(f"--gate={each.kind}" for each in GATED))

    def govern(self, policy: GangPolicy) -> None:
        self.server.apply(to_manifest(policy), "/apis/muster.dev/v1alpha1/gangpolicies/default")

    def offer(self, *, stock: int, classes: tuple[str, ...], scale_down: str = "5s") -> None:
        """What the cloud has of the one GPU pool, and how long it leaves an empty node."""
        body = offering(stock, classes, scale_down=scale_down)
        path = f"/api/v1/namespaces/{cloud.NAMESPACE}/configmaps/{cloud.POOLS_CONFIG}"
        self.server.apply(body, path)

    # Work

    def submit(self, name: str, *, queue: str, gang: Gang, priority: str = "") -> None:
        self.server.call("POST", self._clusters, ray_cluster(name, queue, gang, priority=priority))

    def submit_job(self, name: str, *, queue: str, pods: int) -> None:
        self.server.call("POST", self._jobs, job(name, queue, pods=pods))

    def submit_job_set(self, name: str, *, queue: str, shapes: Shapes) -> None:
        """With its Jobs."""
        made = self.server.call("POST", self._job_sets, job_set(name, queue, shapes))
        for each in jobs_of(made, queue, shapes):
            self.server.call("POST", self._jobs, each)

    def make(self, body: Json) -> None:
        """What its own controller makes pods of."""
        self.server.call("POST", self.path_of(body["kind"]), body)

    def path_of(self, kind: str) -> str:
        (row,) = (each for each in GATED if each.kind == kind)
        return f"{row.api}/namespaces/{self.namespace}/{row.resource}"

    def end_job(self, name: str) -> None:
        self.server.call("DELETE", f"{self._jobs}/{name}?propagationPolicy=Background")

    def scale(self, name: str, workers: int) -> None:
        patch = [{"op": "replace", "path": "/spec/workerGroupSpecs/0/replicas", "value": workers}]
        self.server.call(
            "PATCH", f"{self._clusters}/{name}", patch, content_type="application/json-patch+json"
        )

    def end(self, name: str) -> None:
        self.server.call("DELETE", f"{self._clusters}/{name}")

    def pod(self, name: str, *, queue: str, priority: str = "", gpus: int = 1, **resources: str) -> None:
        """A pod of its own, which KAI takes for a gang of one."""
        body = lone_pod(name, queue, priority, gpus=gpus, **resources)
        self.server.call("POST", f"/api/v1/namespaces/{self.namespace}/pods", body)

    def remove_pod(self, name: str) -> None:
        path = f"/api/v1/namespaces/{self.namespace}/pods/{name}"
        self.server.call("DELETE", f"{path}?gracePeriodSeconds=0")

    def node(self, name: str, *, gpus: int = 0) -> None:
        """A node of somebody's own, kept alive by KWOK."""
        self.server.call("POST", "/api/v1/nodes", fake_node(name, gpus))

    @property
    def _clusters(self) -> str:
        return f"/apis/ray.io/v1/namespaces/{self.namespace}/rayclusters"

    @property
    def _jobs(self) -> str:
        return f"/apis/batch/v1/namespaces/{self.namespace}/jobs"

    @property
    def _job_sets(self) -> str:
        return f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{self.namespace}/jobsets"

    # What is seen

    def items(self, path: str) -> list[Json]:
        return list(self.server.call("GET", path)["items"])

    def pods(self, name: str = "") -> list[Json]:
        """Those of a Ray cluster, or all."""
        pods = self.items(f"/api/v1/namespaces/{self.namespace}/pods")
        return [pod for pod in pods if not name or name in map(pod["metadata"]["labels"].get, _OF)]

    def bound(self, name: str = "", *, queue: str = "") -> int:
        """Pods with a node that are not on their way out."""
        return sum(
            "nodeName" in pod["spec"]
            and "deletionTimestamp" not in pod["metadata"]
            and queue in ("", pod["metadata"]["labels"][KAI_QUEUE_LABEL])
            for pod in self.pods(name)
        )

    def gated(self, name: str) -> int:
        return sum(bool(pod["spec"].get("schedulingGates")) for pod in self.pods(name))

    def requests(self) -> list[Json]:
        return self.items(f"/apis/autoscaling.x-k8s.io/v1/namespaces/{self.namespace}/provisioningrequests")

    def requests_of(self, name: str) -> list[Json]:
        """A Ray cluster's, or of work of another kind, KIND/NAME."""
        notes = ((each, each["metadata"].get("annotations", {})) for each in self.requests())
        return [each for each, note in notes if note.get(CLUSTER_NAME) == name]

    def groups(self) -> dict[str, Json]:
        """KAI's pod groups by the name of what owns them."""
        return {group["metadata"]["ownerReferences"][0]["name"]: group for group in self.pod_groups()}

    def pod_groups(self) -> list[Json]:
        return self.items(f"/apis/scheduling.run.ai/v2alpha2/namespaces/{self.namespace}/podgroups")

    def queue(self, name: str) -> Json:
        return dict(self.server.call("GET", f"{QUEUES}/{name}"))

    def told_of(self, queue: str, what: str) -> Json:
        """An amount of a queue's status, as KAI's queue controller tells it."""
        return dict(self.queue(queue).get("status", {}).get(what, {}))

    def held(self, queue: str) -> str:
        """GPUs that KAI says are allocated in a queue."""
        return str(self.told_of(queue, "allocated").get(GPU_RESOURCE, "0"))

    def told(self, name: str = "") -> str:
        notes = [pod["metadata"].get("annotations", {}) for pod in self.pods(name)]
        return " / ".join(each[STATUS] for each in notes if STATUS in each)

    def eventually(
        self,
        what: str | Callable[[], object],
        reached: Callable[[], object] | str,
        step: Callable[[], object] = lambda: None,
    ) -> None:
        """In either order: cases that are kept elsewhere write the condition first, as `stays` does."""
        if callable(what):
            what, reached = reached, what
        assert isinstance(what, str), "what has to come is said in words"
        assert callable(reached), "a condition is something to ask"
        eventually(what, reached, told=self.explained, step=step)

    def stays(self, holds: Callable[[], object], what: str, *, rounds: int = 6) -> None:
        """Over so many rounds of KAI's scheduler, told by what it does meanwhile for a pod of its own."""
        for number in range(rounds):
            assert holds(), f"{what}; {self.explained()}"
            self.await_round(f"round-{number}")
        assert holds(), f"{what}; {self.explained()}"

    def await_round(self, name: str) -> None:
        """KAI has looked at everything once more: a fresh pod without a GPU has got its node."""
        self.pod(name, queue="rounds", gpus=0)
        path = f"/api/v1/namespaces/{self.namespace}/pods/{name}"
        self.eventually(
            f"pod {name} is placed", lambda: self.server.call("GET", path)["spec"].get("nodeName")
        )
        self.remove_pod(name)

    def explained(self) -> str:
        groups = {name: group.get("status") for name, group in self.groups().items()}
        logs = f"{self.ours.logs(most=1500)}\n{self.running.logs()}"
        return f"told: {self.told()}\ngroups: {json.dumps(groups)}\n{logs}"


def clean(world: World) -> None:
    """Everything of a test goes, and is gone."""
    server, space = world.server, world.namespace
    for path in (
        f"/apis/ray.io/v1/namespaces/{space}/rayclusters",
        f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{space}/jobsets",
        f"/apis/batch/v1/namespaces/{space}/jobs",
        f"/apis/apps/v1/namespaces/{space}/deployments",
        f"/apis/apps/v1/namespaces/{space}/statefulsets",
    ):
        server.call("DELETE", f"{path}?propagationPolicy=Background")
    for path in (
        f"/api/v1/namespaces/{space}/pods?gracePeriodSeconds=0",
        f"/apis/scheduling.run.ai/v2alpha2/namespaces/{space}/podgroups",
        f"/apis/scheduling.run.ai/v1alpha2/namespaces/{space}/bindrequests",
        f"/apis/autoscaling.x-k8s.io/v1/namespaces/{space}/provisioningrequests",
        "/api/v1/nodes",
        QUEUES,
        PRIORITIES,
    ):
        server.call("DELETE", path)


def names_of(items: list[Json]) -> Iterator[str]:
    return (item["metadata"]["name"] for item in items)


def classes_of(policy: GangPolicy) -> tuple[str, ...]:
    """By which gangs ask for nodes with GPUs."""
    return tuple(each.provisioning_class_name for each in policy.flavors if each.gpus_per_node)
