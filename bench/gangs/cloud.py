"""The cloud of a trial. It answers every ProvisioningRequest at once, for both controllers alike.

A Node that has room for the whole gang (of the request's lease, where its class gives leases), then Accepted
and Provisioned in one write; or Failed, for the gangs that the trial has no stock for. The local cluster's
simulated autoscaler evaluates all requests at every change, as the real one does. With thousands of requests
the bench would measure that.
"""

import asyncio
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final

from bench.gangs.shapes import POOL
from muster.controller.gangs.templates import POOL as REQUESTED_POOL
from muster.local.simulated_cloud import conditions
from muster.local.simulated_cloud.api import MERGE, NODES, REQUESTS, Api, ApiError, Raw
from muster.local.simulated_cloud.conditions import ConditionUpdate
from muster.local.simulated_cloud.queued import resize_request_name
from muster.model import names

_AT_ONCE: Final = 16
_GPUS: Final = "32"
IsOut = Callable[[Raw], bool]


def always_stocked(_: Raw) -> bool:
    return False


class Cloud:
    """Answers until cancelled. `delay`: seconds from a request to its answer, more or less a tenth."""

    def __init__(self, api: Api, *, is_out: IsOut = always_stocked, delay: float = 0.0) -> None:
        self._api, self._is_out, self._delay = api, is_out, delay
        self._gate = asyncio.Semaphore(_AT_ONCE)
        self._answered: set[str] = set()

    async def run(self) -> None:
        items, version = await self._api.list(REQUESTS)
        async with asyncio.TaskGroup() as group:
            for item in items:
                self._take(item, group)
            while True:
                async for kind, item in self._api.watch(REQUESTS, version):
                    version = str(item["metadata"].get("resourceVersion") or version)
                    if kind == "ADDED":
                        self._take(item, group)

    def _take(self, item: Raw, group: asyncio.TaskGroup) -> None:
        uid = item["metadata"]["uid"]
        if uid not in self._answered:
            self._answered.add(uid)
            group.create_task(self._answer(item))

    async def _answer(self, item: Raw) -> None:
        if self._delay:
            await asyncio.sleep(self._delay * random.uniform(0.9, 1.1))  # noqa: S311 - no secret
        meta = item["metadata"]
        async with self._gate:
            if self._is_out(item):
                await self._set_conditions(meta, [conditions.STOCK_OUT], {})
                return
            lease = resize_request_name(meta["namespace"], meta["name"])
            is_leased = item["spec"]["provisioningClassName"] == names.GKE_QUEUED_CLASS
            # Its node still exists where there was a request of this name before, as the built-in's after a
            # preemption.
            pool = (meta.get("annotations") or {}).get(REQUESTED_POOL, POOL)
            with _allowed(409):
                node = _node(lease[-63:], pool, lease if is_leased else "")
                await self._api.call("POST", NODES.path(), node)
            words = [conditions.QUEUED, conditions.GKE_PROVISIONED]
            await self._set_conditions(meta, words, {names.GKE_LEASE_DETAIL: lease})

    async def _set_conditions(self, meta: Raw, words: list[ConditionUpdate], details: dict[str, str]) -> None:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        written = [
            {
                "type": word.type,
                "status": word.status,
                "reason": word.reason,
                "message": word.message,
                "lastTransitionTime": now,
            }
            for word in words
        ]
        path = REQUESTS.path(meta["name"], namespace=meta["namespace"], sub="status")
        status = {"conditions": written, "provisioningClassDetails": details}
        with _allowed(404):  # taken back meanwhile
            await self._api.call("PATCH", path, {"status": status}, content_type=MERGE)


@contextmanager
def _allowed(status: int) -> Iterator[None]:
    try:
        yield
    except ApiError as error:
        if error.status != status:
            raise


def _node(name: str, pool: str, lease: str) -> dict[str, Any]:
    labels = {names.POOL_LABEL: pool, "kubernetes.io/hostname": name}
    labels |= {names.GKE_LEASE_LABEL: lease} if lease else {}
    taint = {
        "key": names.GPU_TAINT_KEY,
        "value": names.GPU_TAINT_VALUE,
        "effect": names.GPU_TAINT_EFFECT,
    }
    amounts = {"cpu": "96", "memory": "384Gi", "pods": "110", names.GPU_RESOURCE: _GPUS}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "played by the bench"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": [taint]},
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": [ready]},
    }
