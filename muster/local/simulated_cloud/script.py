"""Breaks the simulated cloud on purpose: adds and clears faults, sets the stock of a pool, breaks a node.

Writes the ConfigMap `muster-plane/faults` with the caller's own credentials; the simulated cloud reads it
within a moment. A node gets the signs themselves, as an agent on it would write them.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeVar

import aiohttp
import yaml

from muster.errors import ExitCode, MusterError
from muster.kubernetes.client import STRATEGIC
from muster.local.karpenter import Autoscaler
from muster.local.quantities import rfc3339, rfc3339_micro
from muster.local.simulated_cloud import names
from muster.local.simulated_cloud.api import MERGE, Access, Api, ApiError
from muster.local.simulated_cloud.faults import ANY_POOL, FaultKind

_SPACE: Final = f"/api/v1/namespaces/{names.NAMESPACE}/configmaps"
_KEPT: Final = ("seed", names.CAPACITY_KEY)
MEANING: Final[Mapping[FaultKind, str]] = MappingProxyType(
    {
        FaultKind.STOCK_OUT: "No capacity: requests fail. With --wait they wait forever.",
        FaultKind.PARTIAL: "Of the promised nodes --missing (1) never come, and no condition reports it.",
        FaultKind.DELAY: "Nodes come --by (60s) later.",
        FaultKind.STAGGER: "Nodes come --by (60s) after the booking of a sibling has ended.",
        FaultKind.REVOKE: "Provisioned nodes are taken back.",
        FaultKind.EXPIRE: "Bookings end at once.",
        FaultKind.SILENCE: "Requests get no answer of any kind.",
    }
)
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One entry of the script. Durations are written as `60s` and count in the cloud's time."""

    pool: str
    kind: FaultKind
    count: int | None = None
    duration: str | None = None
    after: str | None = None
    by: str | None = None
    missing: int | None = None
    waits: bool = False

    def entry(self, *, now: float) -> dict[str, object]:
        """As the simulated cloud reads it."""
        entry = {
            "pool": self.pool,
            "kind": str(self.kind),
            "at": rfc3339_micro(now),
            "count": self.count,
            "for": self.duration,
            "after": self.after,
            "by": self.by,
            "missing": self.missing,
            "mode": "wait" if self.waits else None,
        }
        return {key: value for key, value in entry.items() if value is not None}


def add_fault(kubeconfig: Path, fault: Fault) -> tuple[str, str]:
    """Break a pool; the name and the text of the entry."""

    async def add(api: Api) -> tuple[str, str]:
        offered = await _offered(api)
        if fault.pool != ANY_POOL:
            _check_pool(offered, fault.pool)
        if offered.get(names.AUTOSCALER_KEY) == Autoscaler.KARPENTER:
            _check_with_karpenter(fault)
        now = time.time()
        name, text = f"{int(now * 1000)}-{fault.kind}", json.dumps(fault.entry(now=now))
        await _patch(api, {name: text})
        return name, text

    return _with_api(kubeconfig, add)


def read_faults(kubeconfig: Path) -> dict[str, str]:
    """Every entry of the script by its name."""
    return _with_api(kubeconfig, _data)


def clear_faults(kubeconfig: Path) -> None:
    """Remove every fault; seed and stock stay."""

    async def clear(api: Api) -> None:
        await _patch(api, dict.fromkeys([name for name in await _data(api) if name not in _KEPT]))

    _with_api(kubeconfig, clear)


def set_stock(kubeconfig: Path, pool: str, nodes: int) -> None:
    """Set how many nodes of a pool the cloud has."""

    async def change(api: Api) -> None:
        _check_pool(await _offered(api), pool)
        stock = yaml.safe_load((await _data(api)).get(names.CAPACITY_KEY, "{}")) or {}
        await _patch(api, {names.CAPACITY_KEY: json.dumps({**stock, pool: nodes})})

    _with_api(kubeconfig, change)


class NodeSign(StrEnum):
    """What shows that a node is broken."""

    XID = "xid"
    BLACK_HOLE = "black-hole"
    TAINT = "taint"
    FLAP = "flap"
    NONE = "none"


XID_CONDITION: Final = "SysLogsXIDError"
_TAINT_KEY: Final = "nvidia.com/gpu-xid-error"
_REJECTED: Final = "muster-fault"
"""Of the namespaces and pods of a black hole."""
_NAMESPACES: Final = 3
_FLAP_SECONDS: Final = 20
_DONE: Final = {"POST": 409, "DELETE": 404}


def break_node(kubeconfig: Path, name: str, sign: NodeSign, *, xid: int = 79) -> None:
    """Give a node a sign, or take those of this module away (NONE)."""

    async def apply(api: Api) -> None:
        path = f"/api/v1/nodes/{name}"
        node = await api.call("GET", path)
        if sign is NodeSign.BLACK_HOLE:
            await _reject_pods(api, name)
        if sign in (NodeSign.TAINT, NodeSign.NONE):
            taints = [each for each in node["spec"].get("taints") or () if each["key"] != _TAINT_KEY]
            taint = {"key": _TAINT_KEY, "value": "true", "effect": "NoSchedule"}
            kept = [*taints, *([taint] if sign is NodeSign.TAINT else [])]
            meta = {"resourceVersion": node["metadata"]["resourceVersion"]}
            await api.call("PATCH", path, {"metadata": meta, "spec": {"taints": kept}}, content_type=MERGE)
        if sign in (NodeSign.XID, NodeSign.FLAP):
            await _set_xid(api, path, xid)
        if sign is NodeSign.FLAP:
            await asyncio.sleep(_FLAP_SECONDS)
        if sign in (NodeSign.FLAP, NodeSign.NONE):
            await _set_xid(api, path, None)
        if sign is NodeSign.NONE:
            for number in range(_NAMESPACES):
                await _ensure(api, "DELETE", f"{_pods(number)}/{name}-{number}")

    _with_api(kubeconfig, apply)


async def _set_xid(api: Api, path: str, xid: int | None) -> None:
    """As NVSentinel does."""
    status, reason = ("False", "Healthy") if xid is None else ("True", f"XID{xid}")
    condition = {
        "type": XID_CONDITION,
        "status": status,
        "reason": reason,
        "lastTransitionTime": rfc3339(time.time()),
    }
    body = {"status": {"conditions": [condition]}}
    await api.call("PATCH", f"{path}/status", body, content_type=STRATEGIC)


async def _reject_pods(api: Api, node: str) -> None:
    """Pods of three namespaces that the node's kubelet has rejected."""
    for number in range(_NAMESPACES):
        await _ensure(api, "POST", "/api/v1/namespaces", {"metadata": {"name": f"{_REJECTED}-{number}"}})
        pod = {
            "metadata": {"name": f"{node}-{number}"},
            "spec": {"nodeName": node, "containers": [{"name": "any", "image": "any"}]},
        }
        await _ensure(api, "POST", _pods(number), pod)
        status = {
            "status": {
                "phase": "Failed",
                "reason": "UnexpectedAdmissionError",
                "startTime": rfc3339(time.time()),
            }
        }
        await api.call("PATCH", f"{_pods(number)}/{node}-{number}/status", status, content_type=MERGE)


def _pods(number: int) -> str:
    return f"/api/v1/namespaces/{_REJECTED}-{number}/pods"


async def _ensure(api: Api, method: str, path: str, body: dict[str, Any] | None = None) -> None:
    """A POST of what is there, and a DELETE of what is not, have nothing to do."""
    try:
        await api.call(method, path, body)
    except ApiError as error:
        if error.status != _DONE[method]:
            raise


def _with_api(kubeconfig: Path, work: Callable[[Api], Awaitable[Result]]) -> Result:
    async def run() -> Result:
        async with Api(Access.read(kubeconfig)) as api:
            return await work(api)

    try:
        return asyncio.run(run())
    except ApiError as error:
        is_missing = error.status == 404
        fix = "check that `muster local status` is healthy." if is_missing else "check the kubeconfig."
        raise MusterError(f"{kubeconfig}: {error}.", fix=fix, exit_code=ExitCode.OUTSIDE) from None
    except (OSError, aiohttp.ClientError, TimeoutError, ValueError, KeyError) as error:
        fix = "check that `muster local status` is healthy and that this is its kubeconfig."
        raise MusterError(f"{kubeconfig}: {error!r}.", fix=fix, exit_code=ExitCode.OUTSIDE) from None


async def _offered(api: Api) -> Mapping[str, str]:
    return (await api.call("GET", f"{_SPACE}/{names.POOLS_CONFIG}")).get("data") or {}


def _check_with_karpenter(fault: Fault) -> None:
    """Its cloud sees no requests, only purchases of one node each."""
    if fault.kind is not FaultKind.STOCK_OUT or fault.count is not None or fault.waits:
        raise MusterError(
            f"fault {fault.kind}: this local cluster's nodes are bought by Karpenter.",
            fix=f"use {FaultKind.STOCK_OUT} with --for and --after alone, or `muster local capacity`.",
        )


def _check_pool(offered: Mapping[str, str], pool: str) -> None:
    entries = yaml.safe_load(offered.get(names.POOLS_KEY, "{}")).get("pools") or []
    known = [str(entry["name"]) for entry in entries if entry.get("enabled", True)]
    if pool not in known:
        raise MusterError(f"pool {pool!r} is not offered.", fix=f"name one of {', '.join(known)}.")


async def _data(api: Api) -> dict[str, str]:
    return (await api.call("GET", f"{_SPACE}/{names.FAULTS_CONFIG}")).get("data") or {}


async def _patch(api: Api, data: dict[str, Any]) -> None:
    await api.call("PATCH", f"{_SPACE}/{names.FAULTS_CONFIG}", {"data": data}, content_type=MERGE)
