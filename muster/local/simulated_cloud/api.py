"""The Kubernetes API over aiohttp: calls with a timeout and bounded retries, lists in pages, watches; and a
copy of one kind's objects, kept up to date by list and watch, and by the answers to our own writes.

Objects stay dictionaries; no code here relies on their shape. Our own writes count at once, so that no
decision is made on a world from before the last one. Versions are compared as numbers, which the API server
promises since 1.35 and etcd has always made true.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import random
import ssl
import tempfile
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp
import yaml

log = logging.getLogger("autoscaler.api")

_TIMEOUT: Final = aiohttp.ClientTimeout(total=15)
_TRIES: Final = 5
_FIRST_PAUSE: Final = 0.2
_PAGE: Final = 500
_WATCH_SECONDS: Final = 240
# An object is at most 1.5 MiB in etcd; JSON of it is somewhat more.
_LONGEST_LINE: Final = 16 << 20
MERGE: Final = "application/merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"

Raw = dict[str, Any]


class ApiError(Exception):
    """The server's refusal: HTTP status, reason, message."""

    def __init__(self, what: str, status: int, body: Mapping[str, Any]) -> None:
        self.status = status
        self.reason = str(body.get("reason") or "")
        super().__init__(f"{what}: {status} {self.reason}: {str(body.get('message') or '')[:500]}")


class ResourceExpiredError(Exception):
    """The watch's version is too old: list again."""


@dataclass(frozen=True, slots=True)
class Resource:
    """Where a kind lives."""

    plural: str
    prefix: str = "/api/v1"
    namespace: str | None = None  # the only namespace to look at; None: all of them

    def path(self, name: str = "", *, namespace: str | None = None, sub: str = "") -> str:
        space = namespace or self.namespace
        parts = [self.prefix, *(["namespaces", space] if space else []), self.plural, name, sub]
        return "/".join(part for part in parts if part)


NODES: Final = Resource("nodes")
PODS: Final = Resource("pods")
POD_TEMPLATES: Final = Resource("podtemplates")
REQUESTS: Final = Resource("provisioningrequests", "/apis/autoscaling.x-k8s.io/v1")


@dataclass(frozen=True, slots=True)
class Access:
    """Server, credentials and authority of a kubeconfig's current context."""

    server: str
    context: ssl.SSLContext | None
    token: str | None

    @staticmethod
    def read(path: Path) -> Access:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        current = _named(content, "contexts", content["current-context"])["context"]
        cluster = _named(content, "clusters", current["cluster"])["cluster"]
        user = _named(content, "users", current["user"])["user"]
        token = user.get("token")
        if user.get("tokenFile"):
            token = (path.parent / user["tokenFile"]).read_text(encoding="utf-8").strip()
        server = str(cluster["server"]).rstrip("/")
        return Access(
            server, _tls(cluster, user, path.parent) if server.startswith("https:") else None, token
        )


def _named(content: Raw, group: str, name: str) -> Raw:
    for entry in content.get(group) or ():
        if entry.get("name") == name:
            return dict(entry)
    raise ValueError(
        f"kubeconfig: {group} has no entry {name!r}; write one or choose another current-context"
    )


def _tls(cluster: Raw, user: Raw, folder: Path) -> ssl.SSLContext:
    authority = cluster.get("certificate-authority-data")
    context = ssl.create_default_context(
        cafile=str(folder / cluster["certificate-authority"])
        if cluster.get("certificate-authority")
        else None,
        cadata=base64.b64decode(authority).decode() if authority else None,
    )
    if cluster.get("insecure-skip-tls-verify"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if user.get("client-certificate"):
        context.load_cert_chain(folder / user["client-certificate"], folder / user["client-key"])
    elif user.get("client-certificate-data"):
        # Python reads client certificates from files alone.
        with tempfile.TemporaryDirectory() as scratch:
            pair = [Path(scratch) / "certificate", Path(scratch) / "key"]
            for file, key in zip(pair, ("client-certificate-data", "client-key-data"), strict=True):
                file.touch(mode=0o600)
                file.write_bytes(base64.b64decode(user[key]))
            context.load_cert_chain(str(pair[0]), str(pair[1]))
    return context


class Api:
    """One API server. Use as an async context manager."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Api:
        headers = {"User-Agent": "localplane-autoscaler", "Accept": "application/json"}
        if self._access.token:
            headers["Authorization"] = f"Bearer {self._access.token}"
        connector = aiohttp.TCPConnector(ssl=self._access.context or True, limit=32)
        # trust_env stays off: a proxy of the environment must never see a local cluster's traffic.
        self._session = aiohttp.ClientSession(connector=connector, headers=headers, timeout=_TIMEOUT)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._open.close()

    @property
    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise RuntimeError("Api: used before `async with`")
        return self._session

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        params: Mapping[str, str] | None = None,
    ) -> Raw:
        """One call; lost connections, 429 and 5xx are tried again a few times, the rest is an ApiError."""
        what, pause = f"{method} {path}", _FIRST_PAUSE
        for left in reversed(range(_TRIES)):
            try:
                return await self._once(method, path, body, content_type=content_type, params=params)
            except (aiohttp.ClientError, TimeoutError, ApiError) as error:
                if isinstance(error, ApiError) and error.status != 429 and error.status < 500:
                    raise
                if not left:
                    raise
                log.info("%s failed (%s); trying again", what, error)
            await asyncio.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311 - spreads retries, hides nothing
            pause *= 2
        raise AssertionError("unreachable")

    async def _once(
        self, method: str, path: str, body: Any, *, content_type: str, params: Mapping[str, str] | None
    ) -> Raw:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": content_type} if data is not None else {}
        url = self._access.server + path
        async with self._open.request(method, url, data=data, headers=headers, params=params) as response:
            text = await response.read()
            answer = _json(text)
            if response.status >= 400:
                raise ApiError(f"{method} {path}", response.status, answer)
            return answer

    async def list(self, resource: Resource) -> tuple[list[Raw], str]:
        """Every object, and the version that a watch goes on from."""
        items: list[Raw] = []
        params = {"limit": str(_PAGE)}
        while True:
            page = await self.call("GET", resource.path(), params=params)
            items += page.get("items") or []
            meta = page.get("metadata") or {}
            if not meta.get("continue"):
                return items, str(meta.get("resourceVersion") or "")
            params["continue"] = str(meta["continue"])

    async def watch(self, resource: Resource, version: str) -> AsyncIterator[tuple[str, Raw]]:
        """Events since the version until the server ends the watch. ResourceExpiredError: it is too old."""
        params = {
            "watch": "1",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(_WATCH_SECONDS),
        }
        # The server ends it in time; who reads slowly reads on until all that was sent is read.
        timeout = aiohttp.ClientTimeout(total=None, connect=10, sock_read=_WATCH_SECONDS + 10)
        url = self._access.server + resource.path()
        async with self._open.get(url, params=params, timeout=timeout) as response:
            if response.status == 410:
                raise ResourceExpiredError
            if response.status >= 400:
                raise ApiError(f"watch {resource.plural}", response.status, _json(await response.read()))
            async for line in _lines(response.content):
                event = _json(line)
                kind, content = str(event.get("type")), event.get("object") or {}
                if kind == "ERROR":
                    if content.get("code") == 410:
                        raise ResourceExpiredError
                    raise ApiError(f"watch {resource.plural}", int(content.get("code") or 500), content)
                yield kind, content


async def _lines(stream: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Lines of any length up to a bound; the stream's own reader stops at 64 KiB."""
    rest = b""
    async for chunk in stream.iter_any():
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            if line:
                yield line
        if len(rest) > _LONGEST_LINE:
            raise aiohttp.ClientPayloadError(f"a watch event is longer than {_LONGEST_LINE} bytes")


def _json(text: bytes) -> Raw:
    try:
        content = json.loads(text or b"{}")
    except (ValueError, RecursionError):
        return {"message": text[:500].decode(errors="replace")}
    return content if isinstance(content, dict) else {"message": str(content)[:500]}


_cache_log = logging.getLogger("autoscaler.cache")

_FIRST_RELIST_PAUSE: Final = 0.2
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
        pause = _FIRST_RELIST_PAUSE
        while True:
            try:
                version = await self._relist()
                pause = _FIRST_RELIST_PAUSE
                while True:
                    version = await self._follow(version)
            except ResourceExpiredError:
                _cache_log.info("%s: the watch is too old; listing again", self._resource.plural)
            except ApiError as error:
                _cache_log.warning("%s: %s; listing again in %.1f s", self._resource.plural, error, pause)
            except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
                _cache_log.warning("%s: %r; listing again in %.1f s", self._resource.plural, error, pause)
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
