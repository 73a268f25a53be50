"""Many KAI gangs at once, on virtual time: the controller as `setup` builds it, over caches.

Stands in for the API server: each call takes a while, is counted, and is in the caches when it answers. A
test is KubeRay, KAI and the cloud. What it counts is exact.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from muster.controller.gangs import setup as gangs_setup
from muster.controller.gangs.objects import (
    GANG_POLICY,
    NODE,
    PROVISIONING_REQUEST,
    ProvisioningRequest,
    ProvisioningRequestStatus,
)
from muster.controller.gangs.templates import POOL
from muster.controller.kai import setup as kai_setup
from muster.controller.kai.labels import STATUS, is_gated
from muster.controller.kai.objects import (
    GATED_POD,
    PRIORITY_CLASS,
    QUEUE,
    RAY_CLUSTER,
    WHOLE_POD,
    GatedPod,
    Queue,
    QueueStatus,
    WholePod,
)
from muster.controller.kube.resource import Key, ObjectMeta
from muster.controller.runtime.controller import Controller
from muster.controller.runtime.health import Health
from muster.controller.runtime.informer import Informer
from muster.controller.runtime.manager import Manager
from muster.controller.runtime.metrics import Metrics
from muster.model.gangpolicy import GangPolicy, to_manifest
from muster.model.names import GKE_LEASE_DETAIL, GPU_RESOURCE
from tests.unit.gangs.paper import node, with_condition
from tests.unit.gangs.slow_api import SlowApi, moment
from tests.unit.kai.kai_world import POLICY, PRIORITIES, World

replace = msgspec.structs.replace


@dataclass
class Api(SlowApi):
    """The calls that a KAI gang makes besides."""

    caches: dict[Any, Informer[Any]] = field(default_factory=dict)

    async def get(self, resource: Any, key: Key) -> Any:
        if resource is not WHOLE_POD:
            return await super().get(resource, key)
        held = await super().get(GATED_POD, key)
        return WholePod(metadata=held.metadata, spec={"containers": [{"name": "ray", "resources": {}}]})

    async def merge_patch(self, resource: Any, key: Key, body: Any) -> Any:
        await self._call("patch", resource)
        held = self.caches[resource].get(key)
        assert held is not None
        notes = {**held.metadata.annotations, **body["metadata"].get("annotations", {})}
        kept = {name: value for name, value in notes.items() if value is not None}
        spec = held.spec
        if "schedulingGates" in body.get("spec", {}):
            pins = {**spec.node_selector, **body["spec"].get("nodeSelector", {})}
            spec = replace(spec, scheduling_gates=(), node_selector=pins)
        return self.change(resource, held, metadata=replace(held.metadata, annotations=kept), spec=spec)

    def change(self, resource: Any, held: Any, **changes: Any) -> Any:
        return self.put(resource, replace(held, **changes))


class Fleet:
    """The controller of KAI gangs and everything that it reads. `world` makes objects, nothing else."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        *,
        policy: GangPolicy = POLICY,
        hangs: Callable[[str, Any], bool] = lambda _, __: False,
    ) -> None:
        for module in (gangs_setup, kai_setup):
            monkeypatch.setattr(module, "utc_now", moment)
        self.api = Api(hangs=hangs)
        self.world = World(policy=policy)
        metrics = Metrics()
        events = SimpleNamespace(event=lambda *_, **__: None, run=None)
        manager = Manager(
            cast(Any, self.api), metrics=metrics, health=Health(metrics, port=0), events=cast(Any, events)
        )
        kai_setup.setup(manager, manager.informer(GANG_POLICY))
        self.caches = self.api.caches
        self.caches |= {informer.resource: informer for informer in manager._informers}
        (self.gangs,) = (each for each in manager._controllers if each.name == "kai-gangs")
        self._put(GANG_POLICY, msgspec.convert(to_manifest(policy, name="default"), GANG_POLICY.type))
        for each in PRIORITIES.values():
            self._put(PRIORITY_CLASS, each)

    def _put(self, resource: Any, obj: Any) -> None:
        meta = replace(obj.metadata, resource_version=self.api.version())
        if not meta.uid:
            meta = replace(meta, uid=f"uid-{meta.name}")
        self.caches[resource].store.put(replace(obj, metadata=meta))

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Controller[Any]]:
        for informer in self.caches.values():
            informer.relisted("test", 0)
        task = asyncio.create_task(self.gangs.run())
        await asyncio.sleep(1)
        try:
            yield self.gangs
        finally:
            self.gangs.stop()
            await task

    # What others do

    def queue(self, made: Queue) -> None:
        self.world.queues[made.metadata.name] = made
        self._put(QUEUE, made)

    def allocated(self, name: str, gpus: float) -> None:
        """KAI writes what a queue holds."""
        held = self.caches[QUEUE].get(Key("", name))
        self.api.change(QUEUE, held, status=QueueStatus(allocated={GPU_RESOURCE: str(gpus)}))

    def submit(self, name: str, groups: dict[str, Any], *, queue: str, **labels: str) -> None:
        """A Ray cluster, and its pods as KubeRay makes them."""
        self.world.submit(name, groups, queue=queue, **labels)
        self._put(RAY_CLUSTER, self.world.clusters[name])
        self.kuberay(name)

    def kuberay(self, name: str) -> None:
        """Makes the pods that a Ray cluster lacks."""
        self.world.now = moment()
        known = {pod.metadata.name for pod in self.of(name)}
        self.world.kuberay()
        for pod in self.world.of(name):
            if pod.metadata.name not in known:
                self._put(GATED_POD, pod)

    def remove_cluster(self, name: str) -> None:
        """Its pods end later."""
        self.remove(RAY_CLUSTER, Key("ns", name))
        self.world.end(name)

    def foreign(self, name: str, *, queue: str, gpus: int = 1) -> None:
        """A pod of no Ray cluster, that KAI has bound."""
        meta = {"name": name, "namespace": "ns", "labels": {"kai.scheduler/queue": queue}}
        container = {"resources": {"requests": {GPU_RESOURCE: str(gpus)}}}
        body = {"metadata": meta, "spec": {"nodeName": "elsewhere", "containers": [container]}}
        self._put(GATED_POD, msgspec.convert(body, GatedPod))

    def leased(self, pool: str) -> list[tuple[Any, Key]]:
        """A node with a pod, and the request that has brought it: the last two are returned."""
        name, lease = "leased", "lease-1"
        meta = ObjectMeta(name=name, namespace="ns", annotations={POOL: pool})
        status = ProvisioningRequestStatus(provisioning_class_details={GKE_LEASE_DETAIL: lease})
        self._put(NODE, node("elsewhere", pool, lease))
        self.foreign(name, queue="")
        self._put(PROVISIONING_REQUEST, ProvisioningRequest(metadata=meta, status=status))
        return [(resource, Key("ns", name)) for resource in (GATED_POD, PROVISIONING_REQUEST)]

    def remove(self, resource: Any, key: Key) -> None:
        self.caches[resource].store.remove(self.caches[resource].get(key))

    def accept(self) -> None:
        """The cloud accepts every request."""
        for request in self.requests():
            if not request.status.holds("Accepted"):
                conditions = with_condition(request.status.conditions, "Accepted", "True", moment())
                status = replace(request.status, conditions=conditions)
                self.api.change(PROVISIONING_REQUEST, request, status=status)

    # Questions

    def of(self, name: str) -> list[GatedPod]:
        pods = self.caches[GATED_POD].store
        return [pod for pod in pods if pod.metadata.labels.get("ray.io/cluster") == name]

    def status(self, name: str) -> str:
        notes = [pod.metadata.annotations for pod in self.of(name)]
        return " / ".join(each[STATUS] for each in notes if STATUS in each)

    def gated(self, name: str) -> int:
        return sum(is_gated(pod) for pod in self.of(name))

    def requests(self) -> list[Any]:
        return list(self.caches[PROVISIONING_REQUEST].store)
