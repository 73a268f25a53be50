"""A copy of one kind's objects, kept up to date by list and watch, and by the answers to our own writes.

Our own writes count at once, so that no decision is made on a world from
before the last one. Versions are compared as numbers, which the API server
promises since 1.35 and etcd has always made true.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Any, Final

import aiohttp

from muster.local.simulated_cloud.api import Api, ApiError, Raw, Resource, ResourceExpiredError

log = logging.getLogger("autoscaler.cache")

_FIRST_PAUSE: Final = 0.2
_LAST_PAUSE: Final = 5.0
_REMEMBERED_DELETES: Final = 2000


class Cache:
    """Objects by namespace/name (or name)."""

    def __init__(self, api: Api, resource: Resource, changed: Callable[[], None]) -> None:
        self.objects: dict[str, Raw] = {}
        self.synced = asyncio.Event()
        self.on_gone: Callable[[Raw], None] | None = None
        self._api = api
        self._resource = resource
        self._changed = changed
        self._deleted: deque[str] = deque(maxlen=_REMEMBERED_DELETES)

    async def run(self) -> None:
        """Never ends, never raises but on cancellation."""
        pause = _FIRST_PAUSE
        while True:
            try:
                version = await self._relist()
                pause = _FIRST_PAUSE
                while True:
                    version = await self._follow(version)
            except ResourceExpiredError:
                log.info("%s: the watch is too old; listing again", self._resource.plural)
            except ApiError as error:
                log.warning("%s: %s; listing again in %.1f s", self._resource.plural, error, pause)
            except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
                log.warning("%s: %r; listing again in %.1f s", self._resource.plural, error, pause)
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LAST_PAUSE)

    async def _relist(self) -> str:
        items, version = await self._api.list(self._resource)
        known = dict(self.objects)
        fresh = {key: item for item in items if (key := _key(item))}
        for key in known.keys() - fresh.keys():
            # What we wrote while the list was on its way is newer than the list.
            if _version(known[key]) <= _number(version):
                self._drop(key)
        for item in fresh.values():
            self._put(item)
        self.synced.set()
        self._changed()
        return version

    async def _follow(self, version: str) -> str:
        async for kind, item in self._api.watch(self._resource, version):
            version = str((item.get("metadata") or {}).get("resourceVersion") or version)
            if kind in ("ADDED", "MODIFIED"):
                self._put(item)
            elif kind == "DELETED":
                self.forget(item)
            if kind != "BOOKMARK":
                self._changed()
        return version

    def learn(self, item: Raw) -> None:
        """Apply the answer to a write of ours as if a watch had reported it."""
        self._put(item)
        self._changed()

    def forget(self, item: Raw) -> None:
        uid = str((item.get("metadata") or {}).get("uid") or "")
        self._deleted.append(uid)
        key = _key(item)
        known = self.objects.get(key) if key else None
        if key and known is not None and known["metadata"].get("uid") == uid:
            self._drop(key)

    def _put(self, item: Raw) -> None:
        key = _key(item)
        if not key or str(item["metadata"].get("uid")) in self._deleted:
            return
        known = self.objects.get(key)
        if (
            known is not None
            and known["metadata"].get("uid") == item["metadata"].get("uid")
            and _version(known) > _version(item)
        ):
            return
        item["metadata"].pop("managedFields", None)  # half of the memory, and never read
        self.objects[key] = item

    def _drop(self, key: str) -> None:
        gone = self.objects.pop(key)
        if self.on_gone is not None:
            self.on_gone(gone)


def _key(item: Raw) -> str:
    meta: Any = item.get("metadata")
    if not isinstance(meta, dict) or not meta.get("name"):
        return ""
    return f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else str(meta["name"])


def _version(item: Raw) -> int:
    return _number(item["metadata"].get("resourceVersion"))


def _number(text: object) -> int:
    return int(str(text)) if str(text).isdigit() else 0
