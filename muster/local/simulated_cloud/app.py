"""The autoscaler's loop: watch, read, decide, execute. It keeps no state that a restart would lose."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Final, Generic, TypeVar

from muster.local import karpenter
from muster.local.karpenter import CLOUD, Autoscaler
from muster.local.simulated_cloud import attempts, conditions, faults, names, offering, ondemand, queued
from muster.local.simulated_cloud.actions import Action, RecordHit
from muster.local.simulated_cloud.api import (
    MERGE,
    NODES,
    POD_TEMPLATES,
    PODS,
    REQUESTS,
    Access,
    Api,
    ApiError,
    Cache,
    Raw,
    Resource,
)
from muster.local.simulated_cloud.attempts import Ledger
from muster.local.simulated_cloud.execute import FAILURES, Executor
from muster.local.simulated_cloud.faults import FaultBook
from muster.local.simulated_cloud.fit import PodShape, pod_shape
from muster.local.simulated_cloud.inventory import Inventory, MachineError, Machines
from muster.local.simulated_cloud.objects import (
    Node,
    Pod,
    Request,
    VmState,
    parse_node,
    parse_pod,
    parse_request,
)
from muster.local.simulated_cloud.offering import Offering

# The autoscaler's decision: from what exists, the next actions. Pure: no clock, no network, no state.
# Level-triggered: deciding twice on the same input gives the same actions, and a decision that was not
# carried out is made again.


def decide(
    offering: Offering,
    *,
    requests: Iterable[Request],
    nodes: Iterable[Node],
    pods: Iterable[Pod],
    faults: FaultBook,
    now: float,
) -> list[Action]:
    """Actions in the order in which to try them; the hits of faults first, so that none is forgotten."""
    inventory = Inventory(offering, requests=requests, nodes=nodes, pods=pods, faults=faults, now=now)
    ordered = sorted(inventory.requests.values(), key=_place_in_queue)
    tried = False
    for request in ordered:
        if not _ours(request) or ondemand.clean_up(inventory, request) or request.ended:
            continue
        if request.provisioning_class == names.QUEUED:
            queued.serve(inventory, request)
        elif not tried and attempts.due(inventory, request):
            attempts.attempt(inventory, request)
            tried = True  # cluster-autoscaler looks at one request a loop
        else:
            attempts.serve(inventory, request)
    ondemand.serve(inventory)
    for node in list(inventory.nodes.values()):
        if node.vm is not None:
            ondemand.reclaim(inventory, node)
    return [*(RecordHit(fault, uid) for fault, uid in inventory.faults.new_hits), *inventory.actions]


def _place_in_queue(request: Request) -> tuple[float, float, str]:
    accepted = request.since(conditions.ACCEPTED)
    return (accepted if accepted is not None else float("inf"), request.created, request.key)


def _ours(request: Request) -> bool:
    """Other classes are other autoscalers' business, as is check-capacity for another instance."""
    if request.provisioning_class == names.CHECK_CAPACITY:
        return not request.parameters.get(names.PROCESSOR_INSTANCE)
    return request.provisioning_class in names.CLASSES


log = logging.getLogger("autoscaler")

_CONFIG: Final = Resource("configmaps", namespace=names.NAMESPACE)
_STATUS_PATH: Final = _CONFIG.path(names.STATUS_CONFIG)
_SLOWEST_TICK: Final = 0.5
_FASTEST_TICK: Final = 0.05
_GATHERING: Final = 0.02  # changes come in swarms; one decision serves them all
_PUBLISH_EVERY: Final = 5.0
_AFTER_A_MISTAKE: Final = 2.0
UNREADABLE: Final = (
    ValueError,
    OverflowError,
    KeyError,
    TypeError,
    AttributeError,
    IndexError,
    RecursionError,
)

T = TypeVar("T")


class Reader(Generic[T]):
    """Reads each version of an object once, and complains once about one that cannot be read."""

    def __init__(self, kind: str, parse: Callable[[Raw], T]) -> None:
        self._kind = kind
        self._parse = parse
        self._read: dict[str, tuple[str, T | None]] = {}

    def read(self, objects: Mapping[str, Raw]) -> dict[str, T]:
        fresh: dict[str, tuple[str, T | None]] = {}
        for key, raw in objects.items():
            version = f"{raw['metadata'].get('uid')}/{raw['metadata'].get('resourceVersion')}"
            known = self._read.get(key)
            fresh[key] = (
                known if known is not None and known[0] == version else (version, self._one(key, raw))
            )
        self._read = fresh
        return {key: value for key, (_, value) in fresh.items() if value is not None}

    def _one(self, key: str, raw: Raw) -> T | None:
        try:
            return self._parse(raw)
        except UNREADABLE as error:
            log.warning(
                "%s %s is left alone: %s: %s", self._kind, key, type(error).__name__, str(error)[:200]
            )
            return None


@dataclass(frozen=True, slots=True)
class World:
    """Everything that one decision looks at."""

    requests: list[Request]
    nodes: list[Node]
    pods: list[Pod]


class SimulatedCloud:
    """The cloud of one local cluster; `run` ends only by cancellation."""

    def __init__(self, api: Api, machines: Machines, *, scale: float) -> None:
        self._api = api
        self._machines = machines
        self._scale = scale
        self._changed = asyncio.Event()
        notify = self._changed.set
        self._requests, self._templates, self._nodes, self._pods, self._config = (
            Cache(api, resource, notify) for resource in (REQUESTS, POD_TEMPLATES, NODES, PODS, _CONFIG)
        )
        self._executor = Executor(
            api, machines, requests=self._requests, nodes=self._nodes, config=self._config
        )
        self._executor.on_release(self._close_lease)
        self._nodes.on_gone = self._node_gone
        self._read_template: Reader[PodShape] = Reader("PodTemplate", _template_shape)
        self._read_node: Reader[Node] = Reader("Node", parse_node)
        self._read_pod: Reader[Pod] = Reader("Pod", parse_pod)
        self._offering = offering.read(scale=scale)
        self._offering_text = ""
        self._autoscaler = Autoscaler.SIMULATED
        self._faults_version = ""
        self._faults = faults.FaultBook()
        self._complained: set[str] = set()
        self._ledger = Ledger()
        self._published: tuple[float, dict[str, str]] = (0.0, {})

    async def run(self) -> None:
        caches = (self._requests, self._templates, self._nodes, self._pods, self._config)
        async with asyncio.TaskGroup() as group:
            for cache in caches:
                group.create_task(cache.run())
            group.create_task(self._loop(caches))

    async def _loop(self, caches: Iterable[Cache]) -> None:
        for cache in caches:
            await cache.synced.wait()
        status = self._config.objects.get(f"{names.NAMESPACE}/{names.STATUS_CONFIG}") or {}
        self._ledger = Ledger.read(status.get("data") or {})
        self._configure()
        await self._sweep()
        log.info(
            "pools: %s; a second here is %g s of the cloud", ", ".join(self._offering.pools), self._scale
        )
        tick = max(_FASTEST_TICK, min(_SLOWEST_TICK, 2.0 / self._scale))
        try:
            while True:
                self._changed.clear()
                await self._step_safely()
                try:
                    async with asyncio.timeout(tick):
                        await self._changed.wait()
                except TimeoutError:
                    continue
                await asyncio.sleep(_GATHERING)
        finally:
            await self._executor.stop()

    async def _step_safely(self) -> None:
        """A failed decision is retried; an unexpected exception is logged with its traceback."""
        try:
            await self._publish(await self._step())
        except FAILURES as error:
            log.warning("could not look (%s); again in %.0f s", error, _AFTER_A_MISTAKE)
            await asyncio.sleep(_AFTER_A_MISTAKE)
        except Exception:
            log.exception("this decision failed; the next one is made in %.0f s", _AFTER_A_MISTAKE)
            await asyncio.sleep(_AFTER_A_MISTAKE)

    async def _step(self) -> World:
        self._configure()
        world = self._world()
        if await self._fetched(world.requests):
            world = self._world()
        await self._executor.carry_out(self._decided(world))
        return world

    def _decided(self, world: World) -> list[Action]:
        book = faults.FaultBook(self._faults.faults, self._faults.capacity, self._faults.seed)
        if self._autoscaler is Autoscaler.KARPENTER:
            cloud = self._config.objects.get(f"{names.NAMESPACE}/{CLOUD}") or {}
            return karpenter.decide(
                self._offering,
                nodes=world.nodes,
                cloud=cloud.get("data") or {},
                faults=book,
                now=time.time(),
            )
        return decide(
            self._offering,
            requests=world.requests,
            nodes=world.nodes,
            pods=world.pods,
            faults=book,
            now=time.time(),
        )

    # -- reading -------------------------------------------------------------------------------

    async def _fetched(self, requests: Iterable[Request]) -> bool:
        """Read templates that requests name and no watch has reported; return whether there were any.

        Two watches keep no order between them. The original looks every ten seconds, when both of its caches
        have long caught up; this one looks at once.
        """
        unseen = {
            (request.namespace, name)
            for request in requests
            if not request.ended and not request.is_true(conditions.PROVISIONED)
            for name in request.missing_templates
            if f"{request.namespace}/{name}" not in self._templates.objects
        }
        found = [await self._fetch_template(namespace, name) for namespace, name in sorted(unseen)]
        return any(found)

    async def _fetch_template(self, namespace: str, name: str) -> bool:
        """By a selector: the name is whatever its author wrote, and may be no part of a path."""
        where = POD_TEMPLATES.path(namespace=namespace)
        try:
            found = await self._api.call("GET", where, params={"fieldSelector": f"metadata.name={name}"})
        except ApiError as error:
            if error.status != HTTPStatus.BAD_REQUEST:
                raise
            return False
        for template in found["items"]:
            self._templates.learn(template)
        return bool(found["items"])

    def _world(self) -> World:
        templates = self._read_template.read(self._templates.objects)
        return World(
            requests=self._read_requests(templates),
            nodes=list(self._read_node.read(self._nodes.objects).values()),
            pods=list(self._read_pod.read(self._pods.objects).values()),
        )

    def _read_requests(self, templates: Mapping[str, PodShape]) -> list[Request]:
        requests = []
        for key, raw in self._requests.objects.items():
            if raw["metadata"].get("deletionTimestamp"):
                continue  # kept by a finalizer, but entitled to nothing
            try:
                requests.append(parse_request(raw, templates))
            except UNREADABLE as error:
                self._complain(f"request {key} is left alone: {type(error).__name__}: {str(error)[:200]}")
        return requests

    def _configure(self) -> None:
        """Take over pools and faults when their ConfigMaps change; keeps the last good ones otherwise."""
        pools = self._config.objects.get(f"{names.NAMESPACE}/{names.POOLS_CONFIG}") or {}
        text = str((pools.get("data") or {}).get(names.POOLS_KEY) or "")
        if text and text != self._offering_text:
            self._offering_text = text
            try:
                self._offering = offering.parse(
                    text, source=f"ConfigMap {names.NAMESPACE}/{names.POOLS_CONFIG}", scale=self._scale
                )
            except offering.OfferingError as error:
                log.error("%s; the pools stay as they were", error)
        self._executor.offering = self._offering
        self._autoscaler = Autoscaler((pools.get("data") or {}).get(names.AUTOSCALER_KEY, self._autoscaler))
        script = self._config.objects.get(f"{names.NAMESPACE}/{names.FAULTS_CONFIG}") or {}
        version = str((script.get("metadata") or {}).get("resourceVersion") or "")
        if version != self._faults_version:
            self._faults_version = version
            self._faults, complaints = faults.parse(script.get("data") or {}, scale=self._scale)
            for complaint in complaints:
                self._complain(complaint)
            log.info(
                "faults: %s",
                ", ".join(f"{fault.name} ({fault.pool} {fault.kind})" for fault in self._faults.faults)
                or "none",
            )

    def _complain(self, complaint: str) -> None:
        if complaint not in self._complained and len(self._complained) < 1000:
            self._complained.add(complaint)
            log.warning("%s", complaint)

    # -- machines and the bill -----------------------------------------------------------------

    async def _sweep(self) -> None:
        """Stop machines without a Node object: it was deleted while this process was down."""
        try:
            running = await self._machines.running()
        except MachineError as error:
            log.warning("%s; machines without a Node object, if any, stay", error)
            return
        for name, pool in running.items():
            known = self._offering.pools.get(pool)
            if known is not None and known.kind is offering.Kind.REAL and name not in self._nodes.objects:
                self._executor.start(name, self._executor.sweep(name))

    def _node_gone(self, raw: Raw) -> None:
        """Somebody else deleted one of our Node objects: the machine and its lease go too."""
        try:
            node = parse_node(raw)
        except UNREADABLE:
            return
        if node.vm is None or node.uid in self._executor.released:
            return
        self._ledger.close(node, now=time.time(), scale=self._scale)
        if names.KWOK_ANNOTATION not in (raw["metadata"].get("annotations") or {}):
            self._executor.start_next(node.name, self._executor.sweep(node.name))

    async def _close_lease(self, name: str) -> None:
        raw = self._nodes.objects.get(name)
        if raw is None:
            return
        node = parse_node(raw)
        if node.vm is not VmState.FAILED and self._ledger.close(node, now=time.time(), scale=self._scale):
            await self._publish(self._world(), force=True)

    async def _publish(self, world: World, *, force: bool = False) -> None:
        last, before = self._published
        if not force and time.monotonic() < last + _PUBLISH_EVERY:
            return
        waiting = Counter(
            request.pool
            for request in world.requests
            if request.pool and not request.ended and not request.is_true(conditions.PROVISIONED)
        )
        data = self._ledger.write(
            self._offering,
            world.nodes,
            now=time.time(),
            stock=self._faults.capacity,
            waiting={str(pool): count for pool, count in waiting.items()},
        )
        self._published = (time.monotonic(), data)
        if data == before:
            return
        try:
            await self._write_status(data)
        except FAILURES as error:
            self._published = (time.monotonic(), before)
            log.warning("the bill could not be written (%s); it will be with the next one", error)

    async def _write_status(self, data: dict[str, str]) -> None:
        try:
            await self._api.call("PATCH", _STATUS_PATH, {"data": data}, content_type=MERGE)
        except ApiError as error:
            if error.status != 404:
                raise
            body = {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": names.STATUS_CONFIG, "namespace": names.NAMESPACE},
                "data": data,
            }
            await self._api.call("POST", _CONFIG.path(), json.loads(json.dumps(body)))


def _template_shape(raw: Raw) -> PodShape:
    return pod_shape(raw["template"].get("spec") or {})


async def serve(kubeconfig: Path, control: Path, *, scale: float) -> None:
    """Run until cancelled."""
    async with Api(Access.read(kubeconfig)) as api:
        await SimulatedCloud(api, Machines(control), scale=scale).run()
