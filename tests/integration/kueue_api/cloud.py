"""A cloud that makes a node for each pod that waits, while it has some, and the world that it does so for."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from tests.envtest import ControlPlane
from tests.integration.kueue_api.works import with_gpu
from tests.integration.kueue_api.world import CLUSTERS, JOBS, PODS, TEMPLATES, WORKLOADS, World
from tests.integration.pod_autoscaler import PLACEHOLDERS, Autoscaler
from tests.waiting import eventually

RIVALS: Final = "rivals"


@dataclass(slots=True, kw_only=True)
class Cloud(Autoscaler):
    world: World

    def eventually(self, what: str, reached: Callable[[], Any]) -> Any:
        """What `reached` gives as soon as it gives something, while nodes come."""
        return eventually(what, reached, told=self.explained, step=self.step)

    def explained(self) -> str:
        pods = [
            (pod["metadata"]["name"], pod["spec"], pod["status"]) for pod in self.world.items("/api/v1/pods")
        ]
        nodes = [(node["metadata"]["name"], node["spec"]) for node in self.nodes()]
        return f"{pods}\n{nodes}\n{[each.get('status') for each in self.world.items(WORKLOADS)]}"

    def clear(self) -> None:
        for at in (JOBS, CLUSTERS):
            self.world.remove(at)
        for path in (PODS, f"/api/v1/namespaces/{RIVALS}/pods", PLACEHOLDERS):
            force(self.plane, path)
        for path in (WORKLOADS, TEMPLATES, PODS, PLACEHOLDERS):
            self.world.wait_until_empty(path)
        for node in self.nodes():
            self.world.delete(f"/api/v1/nodes/{node['metadata']['name']}")


def force(plane: ControlPlane, path: str) -> None:
    """No kubelet is here that would end a pod."""
    body = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}
    plane.call("DELETE", path, body)


def rival(number: int) -> dict[str, Any]:
    """A pod of others for the same nodes."""
    meta = {"name": f"rival-{number}", "namespace": RIVALS}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": with_gpu("l4")}
