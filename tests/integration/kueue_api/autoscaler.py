"""Nodes for pods that wait, one a pod, as Karpenter makes them; with a stock. And the real scheduler."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from muster.local.envtest.process import Process
from muster.model import names
from tests.integration.kueue_api.world import World, condition

Object = dict[str, Any]

PLACEHOLDERS: Final = f"/api/v1/namespaces/{names.PLACEHOLDER_NAMESPACE}/pods"
NODES: Final = "/api/v1/nodes"


@dataclass(slots=True)
class Autoscaler:
    """`stock`: the nodes of each pool that it can still make. A test calls `step` while it waits."""

    world: World
    stock: dict[str, int] = field(default_factory=dict)
    _made: int = 0

    def step(self) -> None:
        free = self._empty()
        for pod in self.world.items("/api/v1/pods"):
            pool = (pod["spec"].get("nodeSelector") or {}).get(names.POOL_LABEL, "")
            if not _is_unschedulable(pod) or pool not in self.stock:
                continue
            if free.get(pool, 0):
                free[pool] -= 1  # The scheduler has not looked again yet.
            elif self.stock[pool]:
                self.stock[pool] -= 1
                self._made += 1
                self.world._node(f"{pool}-{self._made}", pool)

    def _empty(self) -> dict[str, int]:
        used = {pod["spec"].get("nodeName") for pod in self.world.items("/api/v1/pods")}
        found: dict[str, int] = {}
        for node in self.nodes():
            is_free = node["metadata"]["name"] not in used and not taint_of(node)
            pool = node["metadata"]["labels"].get(names.POOL_LABEL, "")
            found[pool] = found.get(pool, 0) + is_free
        return found

    def nodes(self) -> list[Object]:
        return [node for node in self.world.items(NODES) if node["metadata"]["name"] != "cpu-0"]


def _is_unschedulable(pod: Object) -> bool:
    scheduled = condition(pod, "PodScheduled")
    return not pod["spec"].get("nodeName") and scheduled.get("reason") == "Unschedulable"


def taint_of(node: Object) -> str:
    """The placeholder set that it is held for; empty where it is not."""
    taints = node["spec"].get("taints") or []
    return next((each["value"] for each in taints if each["key"] == names.HELD_TAINT_KEY), "")


@contextmanager
def scheduler(world: World) -> Iterator[None]:
    program = world.programs.program("kube-scheduler")
    argv = [program, f"--kubeconfig={world.plane.kubeconfig()}", "--leader-elect=false", "--secure-port=0"]
    process = Process("kube-scheduler", argv, log=world.plane.folder / "kube-scheduler.log")
    world.plane.settle()
    process.start()
    try:
        yield
    finally:
        process.kill()
