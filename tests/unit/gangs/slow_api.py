"""The API server in the tests of many gangs: each call takes a while and is counted, and what it changes is
in the caches when it answers.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import msgspec

from muster.controller.kube.errors import NotFound, Status, TransportError
from muster.controller.kube.resource import Key
from muster.controller.runtime.informer import Informer
from tests.unit.controller_runtime.virtual import now as virtual_now
from tests.unit.gangs.paper import START

replace = msgspec.structs.replace


def moment() -> datetime:
    """Now, on the virtual clock."""
    return START + timedelta(seconds=virtual_now())


@dataclass
class SlowApi:
    """The calls of a client that are the same for every scheduler. `hangs`: whether a create of this kind and
    body gets no answer for 30 seconds, and then an error.
    """

    caches: Mapping[Any, Informer[Any]] = field(default_factory=dict)
    latency: float = 0.025
    hangs: Callable[[str, Any], bool] = lambda _, __: False
    calls: Counter[str] = field(default_factory=Counter)
    _version: int = 1000

    def version(self) -> str:
        self._version += 1
        return str(self._version)

    async def _call(self, verb: str, resource: Any) -> None:
        self.calls[f"{verb} {resource.kind}"] += 1
        await asyncio.sleep(self.latency)

    async def try_create(self, resource: Any, body: Any, *, namespace: str = "") -> None:
        await self._call("try", resource)

    async def create(self, resource: Any, body: Any, *, namespace: str = "") -> Any:
        await self._call("create", resource)
        if self.hangs(resource.kind, body):
            await asyncio.sleep(30)
            raise TransportError("no answer", call="create")
        stamped = {"uid": f"uid-{self.version()}", "resourceVersion": self.version()}
        meta = {**body["metadata"], **stamped, "creationTimestamp": f"{moment():%Y-%m-%dT%H:%M:%SZ}"}
        made = msgspec.convert({**body, "metadata": meta}, resource.type)
        self.caches[resource].store.put(made)
        return made

    async def get(self, resource: Any, key: Key) -> Any:
        await self._call("get", resource)
        if (found := self.caches[resource].get(key)) is None:
            raise NotFound(Status(code=404, reason="NotFound"))
        return found

    async def delete(self, resource: Any, key: Key, *, uid: str = "") -> bool:
        await self._call("delete", resource)
        if (found := self.caches[resource].get(key)) is not None and found.metadata.uid == uid:
            self.caches[resource].store.remove(found)
        return True

    def put(self, resource: Any, item: Any) -> Any:
        """Write it with a new resourceVersion."""
        changed = replace(item, metadata=replace(item.metadata, resource_version=self.version()))
        self.caches[resource].store.put(changed)
        return changed
