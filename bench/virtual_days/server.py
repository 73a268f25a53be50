"""The API server: conflicts, outages, and what its caches hold across the lives of a controller."""

import asyncio
from dataclasses import dataclass
from typing import Any

import msgspec

from muster.controller.gangs.objects import NODE, Condition, Node, ProvisioningRequest, Taint
from muster.controller.kube.errors import AlreadyExists, Conflict, NotFound, Status, TransportError
from muster.controller.kube.resource import Key
from muster.controller.kueue.objects import (
    WHOLE_WORKLOAD,
    WORKLOAD,
    CheckState,
    WholeWorkload,
    Workload,
)
from muster.model.names import BROKEN_TAINT_KEY
from tests.unit.admission.fleet import Api
from tests.unit.gangs.paper import with_condition
from tests.unit.gangs.slow_api import SlowApi, moment

replace = msgspec.structs.replace

Change = tuple[str, str, str]
"""Kind, status and reason of a condition."""


@dataclass
class Server(Api):
    """While it is down every call fails."""

    is_down: bool = False

    async def _call(self, verb: str, resource: Any) -> None:
        await super()._call(verb, resource)
        if self.is_down:
            raise TransportError("connection refused", call=verb)

    async def create(self, resource: Any, body: Any, *, namespace: str = "") -> Any:
        meta = body["metadata"]
        if self.caches[resource].get(Key(meta["namespace"], meta["name"])) is not None:
            raise AlreadyExists(Status(code=409, reason="AlreadyExists"))
        return await super().create(resource, body, namespace=namespace)

    async def apply(self, resource: Any, key: Key, body: Any, **_: object) -> Any:
        await self._call("apply", resource)
        held = self._matching(key, body)
        entries = msgspec.convert(body["status"]["admissionChecks"], tuple[CheckState, ...])
        return self.change(held, status=replace(held.status, admission_checks=entries))

    async def merge_patch(self, resource: Any, key: Key, body: Any) -> Any:
        await self._call("patch", resource)
        held = self._matching(key, body)
        notes = {**held.metadata.annotations, **body["metadata"]["annotations"]}
        kept = {name: value for name, value in notes.items() if value is not None}
        spec = replace(held.spec, active=body.get("spec", {}).get("active", held.spec.active))
        return self.change(held, metadata=replace(held.metadata, annotations=kept), spec=spec)

    def _matching(self, key: Key, body: Any) -> Workload:
        held = self.workload(key)
        if held is None:
            raise NotFound(Status(code=404, reason="NotFound"))
        if held.metadata.resource_version != body["metadata"]["resourceVersion"]:
            raise Conflict(Status(code=409, reason="Conflict"))
        return held

    async def get(self, resource: Any, key: Key) -> Any:
        found = await SlowApi.get(self, WORKLOAD if resource is WHOLE_WORKLOAD else resource, key)
        if resource is WHOLE_WORKLOAD:
            return msgspec.convert(msgspec.to_builtins(found), WholeWorkload)
        return found

    def remove(self, resource: Any, key: Key) -> None:
        if (held := self.caches[resource].get(key)) is not None:
            self.caches[resource].store.remove(held)

    def set_conditions(self, held: Workload, *changes: Change, **others: Any) -> Workload:
        """Conditions and other fields of the status in one write."""
        found: tuple[Condition, ...] = held.status.conditions
        for kind, status, reason in changes:
            found = with_condition(found, kind, status, moment(), reason)
        return self._changed(held, status=replace(held.status, conditions=found, **others))

    def answer(self, request: ProvisioningRequest, kind: str, reason: str = "", message: str = "") -> None:
        conditions = with_condition(request.status.conditions, kind, "True", moment(), reason, message)
        self.change(request, status=replace(request.status, conditions=conditions))

    def set_ready(self, node: Node, status: str) -> None:
        self.set_condition(node, "Ready", status)

    def set_condition(self, node: Node, kind: str, status: str) -> None:
        conditions = with_condition(node.status.conditions, kind, status, moment())
        self.put(NODE, replace(node, status=replace(node.status, conditions=conditions)))

    def close(self, node: Node, *, is_closed: bool) -> None:
        """Set our taint for broken nodes, or take it away."""
        others = tuple(each for each in node.spec.taints if each.key != BROKEN_TAINT_KEY)
        own = (Taint(key=BROKEN_TAINT_KEY, effect="NoSchedule", value="broken"),) if is_closed else ()
        self.put(NODE, replace(node, spec=replace(node.spec, taints=(*others, *own))))

    def _changed(self, held: Workload, **changes: Any) -> Workload:
        changed: Workload = self.change(held, **changes)
        return changed

    def workload(self, key: Key) -> Workload | None:
        found: Workload | None = self.caches[WORKLOAD].get(key)
        return found


def later(seconds: float, call: Any, *arguments: Any) -> None:
    """On the virtual clock."""
    asyncio.get_running_loop().call_later(seconds, call, *arguments)
