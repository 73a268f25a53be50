"""Small random worlds of KAI: queues with all kinds of figures, gangs that ask for more than there is, some
of which run.

Every object of a world has its label, so that many are in one cluster and each has a scheduler of its own
(KAI's partitions). Pure: the same number gives the same world.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from muster.live.snapshot.kai import GROUP_ANNOTATION, SUB_GROUP_LABEL
from muster.local.simulated_cloud import names as cloud
from muster.model.names import GPU_RESOURCE, KAI_SCHEDULER
from tests.integration.real_kai.bodies import queue_body

Json = dict[str, Any]

WORLD_LABEL: Final = "muster.dev/world"
PRIORITIES: Final = {"train": 50, "build-preemptible": 75, "build": 100, "inference": 125}
_STRATEGIES: Final = ("binpack", "binpack", "spread")


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomWorld:
    name: str
    placement: dict[str, str]
    nodes: list[Json]
    queues: list[Json]
    groups: list[Json]
    pods: list[Json]


def random_world(number: int) -> RandomWorld:
    dice = random.Random(number)
    return _Maker(dice, f"w{number}").world()


def priority_classes() -> list[Json]:
    return [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
        }
        for name, value in PRIORITIES.items()
    ]


class _Maker:
    def __init__(self, dice: random.Random, name: str) -> None:
        self._dice = dice
        self._name = name
        self._free: dict[str, int] = {}

    def world(self) -> RandomWorld:
        nodes = [self._node(index) for index in range(self._dice.randint(2, 4))]
        queues = [*self._queues()]
        leaves = [each["metadata"]["name"] for each in queues if "parentQueue" in each["spec"]]
        gangs = [self._gang(index, self._dice.choice(leaves)) for index in range(self._dice.randint(8, 14))]
        return RandomWorld(
            name=self._name,
            placement={"gpu": self._dice.choice(_STRATEGIES), "cpu": self._dice.choice(_STRATEGIES)},
            nodes=nodes,
            queues=queues,
            groups=[group for group, _ in gangs],
            pods=[pod for _, pods in gangs for pod in pods],
        )

    def _node(self, index: int) -> Json:
        name, gpus = f"{self._name}-n{index}", self._dice.choice((2, 4, 4, 8))
        self._free[name] = gpus
        amounts = {"cpu": "64", "memory": "256Gi", "pods": "110", GPU_RESOURCE: str(gpus)}
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": self._metadata(name, annotations={cloud.KWOK_ANNOTATION: "fake"})
            | {"labels": {WORLD_LABEL: self._name, "kubernetes.io/hostname": name}},
            "status": {"allocatable": amounts, "capacity": amounts},
        }

    def _queues(self) -> Iterator[Json]:
        for above in range(self._dice.randint(1, 3)):
            parent = f"{self._name}-d{above}"
            yield self._queue(parent, "")
            for below in range(self._dice.randint(1, 3)):
                yield self._queue(f"{parent}-t{below}", parent)

    def _queue(self, name: str, parent: str) -> Json:
        quota = self._dice.choice((0, 1, 2, 2, 3, 4) if parent else (-1, 2, 4, 4, 6, 8))
        limit = self._dice.choice((-1, -1, -1, quota, max(quota, 0) + 2))
        gpu = {"quota": quota, "limit": limit, "overQuotaWeight": self._dice.choice((0, 1, 1, 2))}
        priority = self._dice.choice((100, 100, 100, 200))
        return queue_body(name, gpu, parent=parent, metadata=self._metadata(name), priority=priority)

    def _gang(self, index: int, queue: str) -> tuple[Json, list[Json]]:
        name = f"{self._name}-g{index}"
        least = self._dice.choice((1, 1, 1, 2, 2, 3, 4))
        count = least + self._dice.choice((0, 0, 0, 0, 1, 2))
        gpus = self._dice.choice((0, 1, 1, 1, 1, 2, 2))
        parts = self._parts(least)
        group = {
            "apiVersion": "scheduling.run.ai/v2alpha2",
            "kind": "PodGroup",
            "metadata": self._metadata(name, namespace=self._name),
            "spec": {
                "minMember": least,
                "queue": queue,
                "priorityClassName": self._dice.choice(("train", "train", *PRIORITIES)),
                **({"subGroups": parts} if parts else {}),
            },
        }
        places = self._places(count, gpus) if self._dice.random() < 0.5 else None
        pods = [
            self._pod(f"{name}-{number}", name, gpus=gpus, node=places[number] if places else "")
            for number in range(count)
        ]
        for number, pod in enumerate(pods if parts else ()):
            # The first part has one pod, the other all the rest.
            pod["metadata"]["labels"][SUB_GROUP_LABEL] = parts[min(number, 1)]["name"]
        return group, pods

    def _parts(self, least: int) -> list[Json]:
        if least < 2 or self._dice.random() < 0.7:
            return []
        return [{"name": "head", "minMember": 1}, {"name": "workers", "minMember": least - 1}]

    def _places(self, count: int, gpus: int) -> list[str] | None:
        """Nodes for all pods of a gang that runs already, whatever its queue's figures are."""
        free = dict(self._free)
        found: list[str] = []
        for _ in range(count):
            fitting = [name for name, left in free.items() if left >= gpus]
            if not fitting:
                return None
            found.append(self._dice.choice(fitting))
            free[found[-1]] -= gpus
        self._free = free
        return found

    def _pod(self, name: str, group: str, *, gpus: int, node: str) -> Json:
        amounts = {"cpu": "1", "memory": "1Gi"} | ({GPU_RESOURCE: str(gpus)} if gpus else {})
        limits = {GPU_RESOURCE: str(gpus)} if gpus else {}
        container = {"name": "work", "image": "none", "resources": {"requests": amounts, "limits": limits}}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": self._metadata(name, namespace=self._name, annotations={GROUP_ANNOTATION: group}),
            "spec": {
                "schedulerName": KAI_SCHEDULER,
                "containers": [container],
                "terminationGracePeriodSeconds": 0,
                "tolerations": [{"operator": "Exists"}],
                **({"nodeName": node} if node else {}),
            },
        }

    def _metadata(self, name: str, **more: Any) -> Json:
        return {"name": name, "labels": {WORLD_LABEL: self._name}, **more}
