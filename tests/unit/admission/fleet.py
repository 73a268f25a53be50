"""Many gangs at once, on virtual time: the controller's own loop, queue, view and writes over caches.

Stands in for the API server (each call takes a while, is counted, and is in the caches when it answers),
for Kueue (quota for all, admission when our check is Ready) and for the cloud. What it counts is exact; its
CPU is that of the controller and of these stand-ins.
"""

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import msgspec
from prometheus_client import CollectorRegistry

from muster.controller.gangs.objects import (
    PLACEHOLDER,
    POD_TEMPLATE,
    PROVISIONING_REQUEST,
    ProvisioningRequest,
    ProvisioningRequestStatus,
)
from muster.controller.gangs.reconciler import GangReconciler
from muster.controller.gangs.requests import Requests
from muster.controller.gangs.templates import POOL
from muster.controller.kube.errors import NotFound, TransportError
from muster.controller.kube.resource import Key, ObjectMeta
from muster.controller.kueue.executor import Executor
from muster.controller.kueue.hooks import WorkloadHooks
from muster.controller.kueue.identity import WORKLOADS
from muster.controller.kueue.objects import WORKLOAD, CheckState, ResourceFlavor, Workload
from muster.controller.kueue.pending_workloads import PendingWorkloads
from muster.controller.kueue.setup import watch
from muster.controller.runtime.controller import Controller, Result
from muster.controller.runtime.informer import Informer
from muster.controller.runtime.metrics import Metrics
from muster.controller.runtime.queue import WorkQueue
from muster.model.gangpolicy import GangPolicy
from muster.model.names import GKE_LEASE_DETAIL, POOL_LABEL
from tests.unit.admission.gang_world import CHECK, FLAVORS, POLICY, assignment, workload
from tests.unit.admission.views import view_of
from tests.unit.controller_runtime.virtual import now as virtual_now
from tests.unit.controller_runtime.virtual import virtual
from tests.unit.gangs.paper import node, size_of, with_condition
from tests.unit.gangs.slow_api import SlowApi, moment

replace = msgspec.structs.replace

Pieces = dict[str, tuple[str, int]]
TWO_SHAPES: Pieces = {"big": ("h100", 1), "small": ("l4", 1)}
ONE_SHAPE: Pieces = {"main": ("h100", 1)}
SPACE = "team-a"


@dataclass
class Api(SlowApi):
    """The calls that a Kueue gang makes besides."""

    async def apply(self, resource: Any, key: Key, body: Any, **_: object) -> Any:
        await self._call("apply", resource)
        (entry,) = msgspec.convert(body["status"]["admissionChecks"], tuple[CheckState, ...])
        held = self.caches[WORKLOAD].get(key)
        assert held is not None
        return self.change(held, status=replace(held.status, admission_checks=(entry,)))

    async def merge_patch(self, resource: Any, key: Key, body: Any) -> Any:
        await self._call("patch", resource)
        held = self.caches[WORKLOAD].get(key)
        assert held is not None
        notes = {**held.metadata.annotations, **body["metadata"]["annotations"]}
        kept = {name: value for name, value in notes.items() if value is not None}
        spec = replace(held.spec, active=body.get("spec", {}).get("active", held.spec.active))
        return self.change(held, metadata=replace(held.metadata, annotations=kept), spec=spec)

    async def get(self, resource: Any, key: Key) -> Any:
        try:
            return await super().get(resource, key)
        except NotFound as missing:
            raise AssertionError(f"{resource} {key} is read, and does not exist") from missing

    def change(self, held: Any, **changes: Any) -> Any:
        resource = WORKLOAD if isinstance(held, Workload) else PROVISIONING_REQUEST
        return self.put(resource, replace(held, **changes))

    def condition(self, held: Any, kind: str) -> Any:
        conditions = with_condition(held.status.conditions, kind, "True", moment())
        return self.change(held, status=replace(held.status, conditions=conditions))


@dataclass
class Cloud:
    """Accepts a request after a while and provisions it when its nodes have started, while stock lasts.

    `first`: which of those that wait in a pool, in the order in which it accepted them, it serves first.
    """

    api: Api
    nodes: Informer[Any]
    stock: dict[str, int]
    accepts: Callable[[str], float]
    starts: Callable[[str], float]
    first: Callable[[list[str]], list[str]] = lambda names: names
    waiting: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    accepted: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    taken: dict[str, tuple[str, int]] = field(default_factory=dict)

    def changed(self, before: ProvisioningRequest | None, after: ProvisioningRequest | None) -> None:
        loop = asyncio.get_running_loop()
        if before is None and after is not None:
            pool = after.metadata.annotations[POOL]
            loop.call_later(self.accepts(pool), self._accept, after.key, pool)
        elif after is None and before is not None:
            pool, _ = self.taken.pop(before.metadata.name, ("", 0))
            if pool:
                loop.call_soon(self._serve, pool)

    def _find(self, key: Key) -> ProvisioningRequest | None:
        found: ProvisioningRequest | None = self.api.caches[PROVISIONING_REQUEST].get(key)
        return found

    def _accept(self, key: Key, pool: str) -> None:
        if (request := self._find(key)) is None:
            return
        self.accepted[pool].append(request.key.name)
        self.api.condition(request, "Accepted")
        asyncio.get_running_loop().call_later(self.starts(pool), self._wait, key, pool)

    def _wait(self, key: Key, pool: str) -> None:
        self.waiting[pool].append(key.name)
        self._serve(pool)

    def _serve(self, pool: str) -> None:
        for name in self.first(list(self.waiting[pool])):
            request = self._find(Key(SPACE, name))
            if request is None:
                self.waiting[pool].remove(name)
                continue
            used = sum(count for taken, count in self.taken.values() if taken == pool)
            if used + size_of(request) > self.stock[pool]:
                continue
            self.waiting[pool].remove(name)
            self.taken[name] = pool, size_of(request)
            self._provision(request, pool)

    def _provision(self, request: ProvisioningRequest, pool: str) -> None:
        lease = f"lease-{request.metadata.name}"
        for number in range(size_of(request)):
            made = node(f"{lease}-{number}", pool, lease)
            self.nodes.store.put(
                replace(made, metadata=replace(made.metadata, resource_version=self.api.version()))
            )
        conditions = with_condition(request.status.conditions, "Provisioned", "True", moment())
        details = {GKE_LEASE_DETAIL: lease}
        status = ProvisioningRequestStatus(conditions=conditions, provisioning_class_details=details)
        self.api.change(request, status=status)


class Fleet:
    """The controller of the gangs, with everything that it talks to."""

    def __init__(
        self,
        *,
        stock: int = 10_000,
        accepts: Callable[[str], float] = lambda _: 0.025,
        starts: Callable[[str], float] = lambda _: 0.025,
        first: Callable[[list[str]], list[str]] = lambda names: names,
        latency: float = 0.025,
        hangs: Callable[[str, Any], bool] = lambda _, __: False,
        policy: GangPolicy = POLICY,
        pools: tuple[str, ...] = ("l4", "h100"),
    ) -> None:
        self.view = view_of(policy, flavors=[_flavor(name) for name in pools])
        view = self.view
        caches: dict[Any, Informer[Any]] = {
            WORKLOAD: view.workloads,
            PROVISIONING_REQUEST: view.requests,
            POD_TEMPLATE: view.templates,
            PLACEHOLDER: view.placeholders,
        }
        self.api = Api(caches, latency=latency, hangs=hangs)
        self.cloud = Cloud(
            self.api, view.nodes, dict.fromkeys(pools, stock), accepts=accepts, starts=starts, first=first
        )
        self.pending = PendingWorkloads()
        self.events: Counter[str] = Counter()
        self.ready: dict[str, float] = {}
        self.asked: dict[str, float] = {}
        self.reconciles = 0
        self._executor = Executor(
            cast(Any, self.api),
            events=cast(Any, SimpleNamespace(event=self._event)),
            requests=Requests(cast(Any, self.api), caches=caches),
            pending=self.pending,
            slice_of=view.slice_of,
            is_current=lambda: True,
            clock=moment,
        )

    def _event(self, about: Any, kind: str, **rest: str) -> None:
        self.events[rest["reason"]] += 1

    def submit(self, name: str, pieces: Pieces) -> None:
        """A gang whose quota is reserved now."""
        made = workload(name, pieces)
        held = self.api.change(made, status=replace(made.status, admission=assignment(pieces)))
        held = self.api.condition(held, "QuotaReserved")
        templates = [
            {"name": each.name, "template": msgspec.to_builtins(each.template)} for each in held.spec.pod_sets
        ]
        body = {"metadata": msgspec.to_builtins(held.metadata), "spec": {"podSets": templates}}
        self.pending.on_event(held, msgspec.Raw(msgspec.json.encode(body)))

    def finish(self, name: str) -> None:
        held = self.view.workloads.get(Key(SPACE, name))
        assert held is not None
        self.api.condition(held, "Finished")

    async def run(self, until: Callable[[], bool], *, limit: float = 10_000.0) -> None:
        """The controller works until it is so."""
        metrics = Metrics(CollectorRegistry())
        queue = WorkQueue[Key]("gangs", metrics=metrics)
        hooks = WorkloadHooks(self.view, self._executor)
        gangs = GangReconciler(hooks, enqueue=queue.add, clock=moment)
        errors: list[Exception] = []

        async def reconcile(key: Key) -> Result:
            self.reconciles += 1
            try:
                return await gangs.reconcile(key)
            except TransportError:
                raise
            except Exception as error:
                errors.append(error)
                return None

        controller = Controller("gangs", reconcile, metrics=metrics, workers=16, queue=queue)
        view = self.view
        view.split_gangs.enqueue = queue.add
        watch(controller, gangs, view)
        caches: tuple[Informer[Any], ...] = (
            *(view.workloads, view.requests, view.templates, view.placeholders),
            *(view.nodes, view.pods, view.queues),
        )
        for informer in caches:
            informer.relisted("test", 0)
        view.requests.store.listen(self.cloud.changed)
        view.requests.store.listen(self._requested)
        view.workloads.store.listen(self._admit)
        task = asyncio.create_task(controller.run())
        while not until():
            assert virtual_now() < limit, f"not so after {limit} s: {len(self.ready)} are Ready"
            if errors:
                raise errors[0]
            await asyncio.sleep(0.1)
        controller.stop()
        await task

    def _requested(self, before: ProvisioningRequest | None, after: ProvisioningRequest | None) -> None:
        if before is None and after is not None:
            for key in WORKLOADS.keys_of(after):
                self.asked.setdefault(key.name, virtual_now())

    def _admit(self, before: Workload | None, after: Workload | None) -> None:
        entry = after.check_state(CHECK) if after else None
        if after and entry and entry.state == "Ready" and not after.status.holds("Admitted"):
            self.ready.setdefault(after.metadata.name, virtual_now())
            asyncio.get_running_loop().call_soon(self._admitted, after.key)

    def _admitted(self, key: Key) -> None:
        held = self.view.workloads.get(key)
        if held is not None and not held.status.holds("Admitted"):
            self.api.condition(held, "Admitted")


def _flavor(name: str) -> Any:
    spec = replace(FLAVORS["l4"].spec, node_labels={POOL_LABEL: name})
    return ResourceFlavor(metadata=ObjectMeta(name=name, resource_version="1"), spec=spec)


@dataclass(frozen=True)
class Costs:
    """What one gang cost, on average."""

    calls: Mapping[str, float]
    cpu: float
    """Milliseconds, with the stand-ins'."""
    last_asked: float
    """Virtual seconds until each had its first request."""
    last_ready: float
    """Virtual seconds until all were Ready."""
    reconciles: float


def costs(count: int, pieces: Callable[[int], Pieces], **settings: Any) -> Costs:
    """So many gangs whose quota is reserved at once, until all are Ready."""

    async def scenario() -> Fleet:
        fleet = Fleet(**settings)
        for number in range(count):
            fleet.submit(f"gang-{number:04}", pieces(number))
        await fleet.run(lambda: len(fleet.ready) == count)
        return fleet

    began = time.process_time()
    fleet = virtual(scenario())
    spent = 1000 * (time.process_time() - began) / count
    calls = {name: number / count for name, number in sorted(fleet.api.calls.items())}
    return Costs(
        calls=calls,
        cpu=spent,
        last_asked=max(fleet.asked.values()),
        last_ready=max(fleet.ready.values()),
        reconciles=fleet.reconciles / count,
    )
