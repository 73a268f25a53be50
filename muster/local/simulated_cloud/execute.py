"""Carries out actions through the API and the supervisor, and retries what fails.

Quick writes are done before `carry_out` returns. Starting and stopping a machine takes seconds and runs in
a task for each node, in parallel with the next decisions.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

import aiohttp
import yaml

from muster.local import karpenter
from muster.local.simulated_cloud import actions, names
from muster.local.simulated_cloud.actions import (
    Action,
    AdvertiseGpus,
    CreateNode,
    DeleteRequest,
    NoteNode,
    RecordHit,
    ReleaseNode,
    SetStatus,
    SetStock,
    StartVm,
)
from muster.local.simulated_cloud.api import JSON_PATCH, MERGE, NODES, PODS, REQUESTS, Api, ApiError, Cache
from muster.local.simulated_cloud.inventory import MachineError, Machines
from muster.local.simulated_cloud.objects import VmState, parse_pod
from muster.local.simulated_cloud.offering import Kind, Offering

log = logging.getLogger("autoscaler")

_AT_ONCE: Final = 16
_MACHINE_TRIES: Final = 5
_LAST_WAIT: Final = 60.0


class HitError(Exception):
    """A fault with no requests left to affect; the decision that used it is void."""


FAILURES: Final = (ApiError, MachineError, HitError, aiohttp.ClientError, TimeoutError, OSError)


class Executor:
    """Hands and feet of the autoscaler."""

    def __init__(self, api: Api, machines: Machines, *, requests: Cache, nodes: Cache, config: Cache) -> None:
        self.offering: Offering | None = None
        self.released: set[str] = set()  # uids of nodes whose going was our doing
        self._api = api
        self._machines = machines
        self._requests = requests
        self._nodes = nodes
        self._config = config
        self._close_lease: Callable[[str], Coroutine[Any, Any, None]] | None = None
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._waits: dict[str, tuple[int, float]] = {}
        self._gate = asyncio.Semaphore(_AT_ONCE)

    def on_release(self, close_lease: Callable[[str], Coroutine[Any, Any, None]]) -> None:
        """What to await, with the node's name, before a node of ours is deleted."""
        self._close_lease = close_lease

    async def carry_out(self, actions: Sequence[Action]) -> None:
        """Tries every action once. A failure costs its own object a growing wait, and the others nothing."""
        for action in actions:
            if isinstance(action, RecordHit):
                try:
                    await self._record_hit(action)
                except FAILURES as error:
                    log.warning(
                        "fault %s: could not record a hit (%s); nothing is done before that",
                        action.fault,
                        error,
                    )
                    return
        await asyncio.gather(*(self._try(action) for action in actions if not isinstance(action, RecordHit)))

    async def stop(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def start(self, key: str, work: Coroutine[Any, Any, None]) -> None:
        """Run the work beside everything else, unless something runs for the key already."""
        if key in self._tasks:
            work.close()
            return
        self._tasks[key] = asyncio.create_task(self._guarded(key, work))

    def start_next(self, key: str, work: Coroutine[Any, Any, None]) -> None:
        """Run the work once nothing else runs for the key."""
        self._tasks[key] = asyncio.create_task(self._after(self._tasks.get(key), key, work))

    async def _after(
        self, before: asyncio.Task[None] | None, key: str, work: Coroutine[Any, Any, None]
    ) -> None:
        try:
            if before is not None:
                await asyncio.wait([before])
        except asyncio.CancelledError:
            work.close()
            raise
        await self._guarded(key, work)

    # -- one action ----------------------------------------------------------------------------

    async def _try(self, action: Action) -> None:
        key = _subject(action)
        if time.monotonic() < self._waits.get(key, (0, 0.0))[1]:
            return
        match action:
            case StartVm(node):
                self.start(node, self._start_machine(node))
            case ReleaseNode(node):
                self.start(node, self._release(action))
            case _:
                async with self._gate:
                    await self._guarded(key, self._write(action))

    async def _guarded(self, key: str, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
            self._waits.pop(key, None)
        except FAILURES as error:
            if isinstance(error, ApiError) and error.status in (404, 409):
                log.info("%s: %s; the next decision will see", key, error)
                self._wait(key, first=0.1)
            else:
                self._wait(key, first=0.5)
                log.warning(
                    "%s: %s; trying again in %.1f s", key, error, self._waits[key][1] - time.monotonic()
                )
        finally:
            if self._tasks.get(key) is asyncio.current_task():
                del self._tasks[key]

    def _wait(self, key: str, *, first: float) -> None:
        failures = self._waits.get(key, (0, 0.0))[0]
        self._waits[key] = (failures + 1, time.monotonic() + min(first * 2**failures, _LAST_WAIT))

    async def _write(self, action: Action) -> None:
        match action:
            case SetStatus():
                await self._set_status(action)
            case DeleteRequest(request):
                path = REQUESTS.path(request.name, namespace=request.namespace)
                await self._api.call("DELETE", path, {"preconditions": {"uid": request.uid}})
                log.info("request %s: deleted, it has been over for a week", request.key)
            case CreateNode():
                await self._create_node(action)
            case NoteNode(node, notes):
                await self._note(node, dict(notes))
            case AdvertiseGpus(node, count):
                patch = [{"op": "add", "path": "/status/capacity/nvidia.com~1gpu", "value": str(count)}]
                answer = await self._api.call(
                    "PATCH", NODES.path(node, sub="status"), patch, content_type=JSON_PATCH
                )
                self._nodes.learn(answer)
                log.info("node %s: advertises %d GPUs", node, count)
            case SetStock(data):
                path = f"/api/v1/namespaces/{names.NAMESPACE}/configmaps/{karpenter.CLOUD}"
                self._config.learn(
                    await self._api.call("PATCH", path, {"data": dict(data)}, content_type=MERGE)
                )
                log.info("in stock: %s", ", ".join(f"{key} {value}" for key, value in data.items()))

    async def _set_status(self, action: SetStatus) -> None:
        request = action.request
        path = REQUESTS.path(request.name, namespace=request.namespace, sub="status")
        answer = await self._api.call("PATCH", path, actions.status(action), content_type=MERGE)
        self._requests.learn(answer)
        for condition in action.conditions:
            if condition not in request.conditions:
                log.info(
                    "request %s: %s=%s %s: %s",
                    request.key,
                    condition.type,
                    condition.status,
                    condition.reason,
                    condition.message[:200],
                )

    async def _create_node(self, action: CreateNode) -> None:
        pool = self.offering.pools.get(action.pool) if self.offering else None
        if pool is None:
            return
        try:
            answer = await self._api.call("POST", NODES.path(), actions.node(action, pool))
            log.info(
                "node %s: bought from pool %s for %s", action.name, pool.name, action.owner or "waiting pods"
            )
        except ApiError as error:
            if error.status != 409:
                raise
            answer = await self._api.call("GET", NODES.path(action.name))
        self._nodes.learn(answer)

    async def _note(
        self, node: str, notes: dict[str, str | None], *, spec: dict[str, Any] | None = None
    ) -> None:
        known = self._nodes.objects.get(node)
        if known is None:
            return
        patch: dict[str, Any] = {"metadata": {"uid": known["metadata"]["uid"], "annotations": notes}}
        if spec is not None:
            patch["spec"] = spec
        self._nodes.learn(await self._api.call("PATCH", NODES.path(node), patch, content_type=MERGE))

    async def _record_hit(self, action: RecordHit) -> None:
        path = f"/api/v1/namespaces/{names.NAMESPACE}/configmaps/{names.FAULTS_CONFIG}"
        current = await self._api.call("GET", path)
        text = (current.get("data") or {}).get(action.fault)
        if text is None:
            return  # the script was cleared in between; the next decision knows
        try:
            entry = yaml.safe_load(text)
            hits = [str(uid) for uid in entry.get("hits") or ()]
            most = int(entry.get("count") or 0)
        except (yaml.YAMLError, AttributeError, TypeError, ValueError, OverflowError) as error:
            raise HitError(f"was rewritten into something unreadable: {error}") from error
        if action.uid in hits:
            return
        if len(hits) >= most:
            self._config.learn(current)
            raise HitError(f"has affected {len(hits)} requests already; the decision was made before")
        entry["hits"] = [*hits, action.uid]
        version = {"resourceVersion": current["metadata"]["resourceVersion"]}
        patch = {"metadata": version, "data": {action.fault: json.dumps(entry, default=str)}}
        self._config.learn(await self._api.call("PATCH", path, patch, content_type=MERGE))
        log.info("fault %s: hits request %s", action.fault, action.uid)

    # -- machines ------------------------------------------------------------------------------

    async def _start_machine(self, name: str) -> None:
        known = self._nodes.objects.get(name)
        pool_name = ((known or {}).get("metadata", {}).get("labels") or {}).get(names.POOL_LABEL)
        pool = self.offering.pools.get(pool_name) if self.offering and pool_name else None
        if known is None or pool is None:
            return
        lease = known["metadata"]["labels"].get(names.LEASE_LABEL, "")
        try:
            if pool.kind is Kind.REAL:
                await self._insist(lambda: self._machines.up(name, pool, lease=lease))
        except MachineError as error:
            log.error("node %s: the machine could not be started: %s", name, error)
            await self._note(name, {names.VM: VmState.FAILED, names.VM_ERROR: str(error)[:1000]})
        else:
            await self._note(name, {names.VM: VmState.RUNNING})
            log.info("node %s: the machine runs", name)

    async def _release(self, action: ReleaseNode) -> None:
        name = action.node
        known = self._nodes.objects.get(name)
        if known is None or known["metadata"].get("uid") != action.uid:
            return
        state = VmState.REVOKED if action.force else VmState.RELEASING
        await self._note(name, {names.VM: state}, spec={"unschedulable": True})
        if not action.force and await self._still_used(name):
            notes: dict[str, str | None] = {names.VM: VmState.RUNNING, names.UNNEEDED: None}
            await self._note(name, notes, spec={"unschedulable": None})
            log.info("node %s: a pod came at the last moment; it stays", name)
            return
        log.info("node %s: goes, because %s", name, action.why)
        if names.KWOK_ANNOTATION not in (known["metadata"].get("annotations") or {}):
            await self._insist(lambda: self._machines.down(name))
        self.released.add(action.uid)
        if self._close_lease is not None:
            await self._close_lease(name)
        try:
            await self._api.call("DELETE", NODES.path(name), {"preconditions": {"uid": action.uid}})
        except ApiError as error:
            if error.status != 404:
                raise
        self._nodes.forget(known)

    async def sweep(self, name: str) -> None:
        """Stop a machine without a Node object."""
        log.warning("node %s: a machine runs without a Node object; stopping it", name)
        await self._insist(lambda: self._machines.down(name))

    async def _still_used(self, node: str) -> bool:
        """Ask the API server: the scheduler may have bound a pod that no watch has reported yet."""
        answer = await self._api.call("GET", PODS.path(), params={"fieldSelector": f"spec.nodeName={node}"})
        for raw in answer.get("items") or ():
            try:
                pod = parse_pod(raw)
            except (ValueError, KeyError, TypeError, AttributeError):
                return True  # what cannot be read may be in use
            if pod.stays and not pod.done:
                return True
        return False

    async def _insist(self, attempt: Callable[[], Coroutine[Any, Any, None]]) -> None:
        pause = 0.2
        for left in reversed(range(_MACHINE_TRIES)):
            try:
                await attempt()
                return
            except MachineError as error:
                if not left:
                    raise
                log.info("%s; trying again", error)
            await asyncio.sleep(pause)
            pause *= 2


def _subject(action: Action) -> str:
    """What a failure of the action makes wait."""
    match action:
        case SetStatus(request) | DeleteRequest(request):
            return f"request {request.key}"
        case CreateNode(name):
            return f"new node {name}"
        case StartVm(node) | ReleaseNode(node):
            return node
        case NoteNode(node) | AdvertiseGpus(node):
            return f"node {node}"
        case RecordHit(fault):
            return f"fault {fault}"
        case SetStock():
            return "stock"
