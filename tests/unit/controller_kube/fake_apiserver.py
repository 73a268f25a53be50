"""A small API server over real HTTP on loopback: lists, watches, writes, and misbehaves on request.

It keeps whole objects as dictionaries under one resourceVersion counter, as etcd does. Faults are scripted:
each LIST and each WATCH takes the next one from its script. It knows nothing of schemas and merges an apply
naively.
"""

import asyncio
import copy
import json
import ssl
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from muster.controller.kube.client import Client
from muster.controller.kube.connection import explicit

Manifest = dict[str, Any]
Address = tuple[str, str, str]
"""(collection, namespace, name)"""

DEEP = "served as JSON of 9,990 levels"
"""Anywhere in an object, for what neither `json` nor `copy` could carry."""


@dataclass(frozen=True)
class Change:
    version: int
    type: str
    address: Address
    object: Manifest


@dataclass(frozen=True)
class Fault:
    """`name` says what goes wrong, `after` how many events or pages go right before it."""

    name: str
    after: int = 0


@asynccontextmanager
async def answering(
    answer: Callable[[web.Request], Awaitable[web.StreamResponse]], *, tls: ssl.SSLContext | None = None
) -> AsyncIterator[int]:
    """Gives the port of loopback on which every request is answered so."""
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


class FakeApiServer:
    """Serve it with `running`. `objects` is the truth at this moment."""

    def __init__(self) -> None:
        self.version = 1
        self.compacted = 0
        self.objects: dict[Address, Manifest] = {}
        self.history: list[Change] = []
        self.list_faults: deque[Fault] = deque()
        self.watch_faults: deque[Fault] = deque()
        self.write_faults: deque[Callable[[web.Request], web.Response | None]] = deque()
        self.unserved: set[str] = set()
        self.requests: list[tuple[str, str]] = []
        self.lists: list[dict[str, str]] = []
        """The parameters of each list."""
        self.watches_open = 0
        self.port = 0
        self._clients: list[Client] = []
        self._news = asyncio.Event()
        self._uids = 0
        self._snapshots: dict[str, tuple[int, list[Manifest]]] = {}

    # What a test does to the cluster

    def put(self, collection: str, manifest: Manifest) -> Manifest:
        """Create or update an object, as somebody else would."""
        meta = manifest.setdefault("metadata", {})
        address = (collection, meta.get("namespace", ""), meta["name"])
        before = self.objects.get(address)
        self.version += 1
        if before is None:
            self._uids += 1
        meta["uid"] = before["metadata"]["uid"] if before else f"uid-{self._uids}"
        meta["resourceVersion"] = str(self.version)
        self.objects[address] = copy.deepcopy(manifest)
        self._record("MODIFIED" if before else "ADDED", address, manifest)
        return manifest

    def drop(self, address: Address) -> None:
        self.version += 1
        manifest = self.objects.pop(address)
        manifest["metadata"]["resourceVersion"] = str(self.version)
        self._record("DELETED", address, manifest)

    def compact(self) -> None:
        """Forget the past: a watch from before now gets 410. Watches that are under way go on."""
        self.compacted = self.version

    def _record(self, kind: str, address: Address, manifest: Manifest) -> None:
        self.history.append(Change(self.version, kind, address, copy.deepcopy(manifest)))
        self._news.set()
        self._news = asyncio.Event()

    # What the server answers

    @asynccontextmanager
    async def running(self) -> AsyncIterator["FakeApiServer"]:
        async with answering(self._route) as self.port:
            try:
                yield self
            finally:
                for client in self._clients:
                    await client.close()

    def client(self, **settings: Any) -> Client:
        client = Client(explicit(f"http://127.0.0.1:{self.port}"), field_manager="test", **settings)
        self._clients.append(client)
        return client

    async def _route(self, request: web.Request) -> web.StreamResponse:
        self.requests.append((request.method, request.path))
        collection, namespace, name = _parse(request.path)
        if collection in self.unserved:
            return _unknown(collection)
        if request.method == "GET" and not name:
            if request.query.get("watch") == "true":
                return await self._watch(request, collection, namespace)
            return self._list(request, collection, namespace)
        if request.method == "GET":
            held = self.objects.get((collection, namespace, name))
            return web.json_response(held, dumps=encode) if held else _unknown(name)
        fault = self.write_faults.popleft()(request) if self.write_faults else None
        if fault is not None:
            return fault
        return self._write(request.method, (collection, namespace, name), await request.text())

    def _write(self, method: str, address: Address, text: str) -> web.Response:
        collection, namespace, name = address
        body = json.loads(text) if text else {}
        meta = body.get("metadata", {})
        held = self.objects.get((collection, namespace, name or meta.get("name", "")))
        if method == "POST":
            if held:
                return _refusal(409, "AlreadyExists", "it is there")
            body.setdefault("metadata", {}).setdefault("namespace", namespace)
            return web.json_response(self.put(collection, body), status=201)
        if held is None and method != "PATCH":
            return _unknown(name)
        conflict = self._conflict(held, body.get("preconditions", meta))
        if conflict:
            return conflict
        if method == "DELETE":
            self.drop(address)
            return web.json_response({"kind": "Status", "status": "Success"})
        merged = _merge(held or {}, body) if method == "PATCH" else body
        merged["metadata"] = {**merged["metadata"], "name": name, "namespace": namespace}
        return web.json_response(self.put(collection, merged))

    def _conflict(self, held: Manifest | None, wanted: Manifest) -> web.Response | None:
        for field in ("uid", "resourceVersion"):
            if wanted.get(field) and (held or {}).get("metadata", {}).get(field) != wanted[field]:
                return _refusal(409, "Conflict", f"{field} is another one")
        return None

    def _collection(self, collection: str, namespace: str) -> list[Manifest]:
        return [
            copy.deepcopy(manifest)
            for (kind, ns, _), manifest in sorted(self.objects.items())
            if kind == collection and namespace in ("", ns)
        ]

    def _list(self, request: web.Request, collection: str, namespace: str) -> web.Response:
        self.lists.append(dict(request.query))
        token = request.query.get("continue")
        fault = self.list_faults.popleft() if self.list_faults else Fault("none")
        refusals = {
            "500": lambda: _refusal(500, "InternalError", "etcd is in trouble"),
            "429": lambda: _refusal(429, "TooManyRequests", "slow down", headers={"Retry-After": "3"}),
            "410": lambda: _refusal(410, "Expired", "the continue token is too old"),
            "a day": lambda: _refusal(503, "Unavailable", "gone home", headers={"Retry-After": "86400"}),
        }
        if fault.name in refusals:
            return refusals[fault.name]()
        version, items = (
            self._snapshots.pop(token) if token else (self.version, self._collection(collection, namespace))
        )
        if fault.name == "stale":
            version, items = 1, []
        size = int(request.query.get("limit", "500"))
        metadata: dict[str, Any] = {"resourceVersion": str(version)}
        if len(items) > size:
            metadata["continue"] = f"token-{len(self.requests)}"
            self._snapshots[metadata["continue"]] = (version, items[size:])
        return web.json_response({"kind": "List", "metadata": metadata, "items": items[:size]}, dumps=encode)

    async def _watch(self, request: web.Request, collection: str, namespace: str) -> web.StreamResponse:
        fault = self.watch_faults.popleft() if self.watch_faults else Fault("none")
        start = int(request.query["resourceVersion"])
        if fault.name == "410" or start < self.compacted:
            return _refusal(410, "Expired", "too old resource version")
        if fault.name == "too large":
            return _too_large()
        if fault.name == "replay":
            start = max(self.compacted, start - fault.after)
        response = web.StreamResponse()
        response.content_type = "application/json"
        await response.prepare(request)
        self.watches_open += 1
        try:
            async with asyncio.timeout(int(request.query["timeoutSeconds"])):
                await self._stream(response, collection, namespace, start=start, fault=fault)
        except (TimeoutError, ConnectionError):
            pass
        finally:
            self.watches_open -= 1
        if fault.name == "cut" and request.transport is not None:
            request.transport.abort()
        return response

    async def _stream(
        self, response: web.StreamResponse, collection: str, namespace: str, *, start: int, fault: Fault
    ) -> None:
        sent, resumed = 0, start + (fault.after if fault.name == "replay" else 0)
        while True:
            history, scanned = list(self.history), self.version
            fresh = [
                change
                for change in history
                if change.version > start
                and change.address[0] == collection
                and namespace in ("", change.address[1])
            ]
            if fault.name == "swap" and len(fresh) > 1:
                fresh[0], fresh[1] = fresh[1], fresh[0]
            for change in fresh:
                line = encode({"type": change.type, "object": change.object}).encode() + b"\n"
                if fault.name == "replay" and change.version > resumed:
                    await response.write(line)
                    return
                if fault.name in ("cut", "error", "end", "stall") and sent >= fault.after:
                    await self._break(response, fault, line)
                    return
                sent += 1
                await response.write(line * 2 if fault.name == "twice" else line)
            start = max([start, *(change.version for change in history)])
            try:
                async with asyncio.timeout(60):
                    if self.version == scanned:
                        await self._news.wait()
            except TimeoutError:
                if fault.name == "stall":
                    await asyncio.Event().wait()
                # The real one, too, accepts a watch from the future.
                start = max(start, scanned)
                bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(scanned)}}}
                await response.write(json.dumps(bookmark).encode() + b"\n")

    async def _break(self, response: web.StreamResponse, fault: Fault, line: bytes) -> None:
        if fault.name == "cut":
            await response.write(line[: len(line) // 2])
        elif fault.name == "error":
            status = {
                "code": 410,
                "reason": "Expired",
                "message": "too old resource version",
                "status": "Failure",
            }
            await response.write(json.dumps({"type": "ERROR", "object": status}).encode() + b"\n")
        elif fault.name == "stall":
            await asyncio.Event().wait()


def encode(body: object) -> str:
    return json.dumps(body).replace(json.dumps(DEEP), '{"f:a":' * 9990 + "{}" + "}" * 9990)


def _parse(path: str) -> Address:
    parts = path.strip("/").split("/")
    rest = parts[2:] if parts[0] == "api" else parts[3:]
    namespace = ""
    if len(rest) > 2 and rest[0] == "namespaces":
        namespace, rest = rest[1], rest[2:]
    return rest[0], namespace, rest[1] if len(rest) > 1 else ""


def _merge(base: Manifest, patch: Manifest) -> Manifest:
    merged = copy.deepcopy(base)
    for name, value in patch.items():
        if isinstance(value, dict) and isinstance(merged.get(name), dict):
            merged[name] = _merge(merged[name], value)
        elif value is None:
            merged.pop(name, None)
        else:
            merged[name] = value
    return merged


def _refusal(code: int, reason: str, message: str, *, headers: dict[str, str] | None = None) -> web.Response:
    status = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}
    return web.json_response(status, status=code, headers=headers)


def _unknown(name: str) -> web.Response:
    return _refusal(404, "NotFound", f"{name} not found")


def _too_large() -> web.Response:
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    status = {
        "kind": "Status",
        "code": 504,
        "reason": "Timeout",
        "message": "Too large resource version",
        "details": {"causes": [cause], "retryAfterSeconds": 1},
    }
    return web.json_response(status, status=504)
