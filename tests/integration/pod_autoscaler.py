"""Nodes for pods that wait, one a pod, as Karpenter makes them; with a stock. And the real scheduler."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from muster.model import names
from tests.envtest import ControlPlane, path_of
from tests.envtest.controllers import scheduler as scheduler
from tests.integration.kueue_api.objects import apply

Object = dict[str, Any]

PLACEHOLDERS: Final = f"/api/v1/namespaces/{names.PLACEHOLDER_NAMESPACE}/pods"
NODES: Final = "/api/v1/nodes"
_MERGE: Final = "application/merge-patch+json"


@dataclass(slots=True)
class Autoscaler:
    """`stock`: the nodes of each pool that it can still make. A test calls `step` while it waits."""

    plane: ControlPlane
    stock: dict[str, int] = field(default_factory=dict)
    _made: int = 0

    def step(self) -> None:
        free = self._empty()
        for pod in self._items("/api/v1/pods"):
            pool = (pod["spec"].get("nodeSelector") or {}).get(names.POOL_LABEL, "")
            if not _is_unschedulable(pod) or pool not in self.stock or _wants_old_node(pod):
                continue
            if free.get(pool, 0):
                free[pool] -= 1  # The scheduler has not looked again yet.
            elif self.stock[pool]:
                self.stock[pool] -= 1
                self._made += 1
                self.make_node(f"{pool}-{self._made}", pool)

    def make_node(self, name: str, pool: str) -> None:
        make_node(self.plane, name, pool)

    def _empty(self) -> dict[str, int]:
        used = {pod["spec"].get("nodeName") for pod in self._items("/api/v1/pods")}
        found: dict[str, int] = {}
        for node in self.nodes():
            is_free = node["metadata"]["name"] not in used and not (taint_of(node) or is_closed(node))
            pool = node["metadata"]["labels"].get(names.POOL_LABEL, "")
            found[pool] = found.get(pool, 0) + is_free
        return found

    def nodes(self) -> list[Object]:
        return [node for node in self._items(NODES) if node["metadata"]["name"] != "cpu-0"]

    def _items(self, path: str) -> list[Object]:
        return list(self.plane.call("GET", path)["items"])


def make_node(
    plane: ControlPlane,
    name: str,
    pool: str,
    *,
    lease: str = "",
    gpus: int = 1,
    device: str = names.GPU_RESOURCE,
    labels: Mapping[str, str] | None = None,
    size: Mapping[str, str] | None = None,
) -> None:
    """A Ready node with GPUs, or another device; in pool `cpu` it lacks their taint. `size`: of what it has
    more, or another amount.
    """
    lent = {names.GKE_LEASE_LABEL: lease} if lease else {}
    labels = {**(labels or {}), names.POOL_LABEL: pool, **lent}
    taint = {"key": device, "value": names.GPU_TAINT_VALUE, "effect": "NoSchedule"}
    spec = {"taints": [taint] if pool != "cpu" else []}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": spec}
    apply(plane, node)
    size = {"cpu": "4", "memory": "8Gi", "pods": "20", device: str(gpus), **(size or {})}
    ready = {"type": "Ready", "status": "True", "reason": "Test", "message": "said by a test"}
    status = {"status": {"capacity": size, "allocatable": size, "conditions": [ready]}}
    path = f"{path_of(node)}/status"
    plane.call("PATCH", path, status, content_type="application/strategic-merge-patch+json")
    # A new node is tainted until a controller that is not here has seen it.
    plane.call("PATCH", path_of(node), {"spec": spec}, content_type=_MERGE)


def _is_unschedulable(pod: Object) -> bool:
    conditions = pod["status"].get("conditions", [])
    scheduled: Object = next((each for each in conditions if each["type"] == "PodScheduled"), {})
    return not pod["spec"].get("nodeName") and scheduled.get("reason") == "Unschedulable"


def _wants_old_node(pod: Object) -> bool:
    """It demands nodes by their names: no new one helps it."""
    affinity = pod["spec"].get("affinity", {}).get("nodeAffinity", {})
    terms = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {}).get("nodeSelectorTerms", [])
    rules = [rule for term in terms for rule in term.get("matchExpressions", [])]
    return any(rule["key"] == "kubernetes.io/hostname" and rule["operator"] == "In" for rule in rules)


def taint_of(node: Object) -> str:
    """The placeholder set that it is held for; empty where it is not."""
    taints = node["spec"].get("taints") or []
    return next((each["value"] for each in taints if each["key"] == names.HELD_TAINT_KEY), "")


def is_closed(node: Object) -> bool:
    """Whether it is set aside as broken."""
    return any(each["key"] == names.BROKEN_TAINT_KEY for each in node["spec"].get("taints") or ())


def set_condition(plane: ControlPlane, node: str, kind: str, status: str) -> None:
    patch = {"status": {"conditions": [{"type": kind, "status": status}]}}
    path, merge = f"{NODES}/{node}/status", "application/strategic-merge-patch+json"
    plane.call("PATCH", path, patch, content_type=merge)
