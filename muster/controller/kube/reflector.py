"""Follows one collection forever: paged LIST, then WATCH, then whatever is needed to continue.

Responsible for when to resume, when to list again and how long to wait in between. What is known about each
object is the sink's, which must handle duplicates: a resumed watch may repeat events.

What can go wrong, and what happens then:
- the server ends the watch (every 5 to 10 minutes, on our request): resume after the last resourceVersion;
- the connection breaks or is half open (silence past `IDLE_TIMEOUT`; bookmarks come about once a minute):
  the same;
- 410, as an HTTP status or as an ERROR event, or a resourceVersion from the future: list again; the sink
  works out the difference;
- a list older than what we have seen (a lagging replica, or an etcd restored from a backup): listed once more
  after a pause, and handed to the sink the second time, as a new history;
- an object that does not decode: reported by name and skipped; everything else continues.
"""

import asyncio
import random
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Final, Generic, Protocol

import msgspec
import structlog

from muster.controller.kube import decoding
from muster.controller.kube.client import PAGE, Client, RawPage, Selection
from muster.controller.kube.errors import (
    STATUSES,
    Gone,
    KubeError,
    ServerError,
    Status,
    TransportError,
    from_status,
)
from muster.controller.kube.resource import Key, Resource, T

WATCH_SECONDS = (300, 600)
"""Server-side length of one watch, drawn again each time so that replicas and kinds do not reconnect
together.
"""

IDLE_TIMEOUT = 150.0
"""Two bookmark intervals and a half: longer silence means that the connection is dead."""

BACKOFF_BASE = 0.5
BACKOFF_CAP = 30.0
STEADY_AFTER = 10.0
"""A watch that lived this long was a good one: the next failure starts again from the shortest pause."""

BURST = 200
"""Events handled in one go before other tasks of the loop get their turn."""


class Sink(Protocol[T]):
    """Where a reflector puts what it learns."""

    def known(self, obj: T) -> T:
        """The object already held in this very version, or `obj`: a list of 50,000 must not be in memory
        twice.
        """

    def replace(
        self, objects: list[T], *, unreadable: Mapping[Key, str], version: str, new_history: bool
    ) -> None:
        """The whole collection as it was at `version`. What is missing from it and not younger is deleted.
        `new_history`: versions run backwards. A sink that cannot go on from there raises HistoryReplaced.
        """

    def put(self, obj: T) -> None:
        """An object was added or changed, or is delivered again."""

    def remove(self, obj: T) -> None:
        """An object was deleted; its resourceVersion is that of the deletion."""

    def mark_unreadable(self, key: Key, message: str) -> None:
        """This object exists in a form that does not decode."""


class HistoryReplaced(Exception):
    """The API server has another past than the one that was read, as after a restore of etcd. Caches find out
    one after another, and until the last has, they do not fit together: the process must end.
    """


class Watcher(Protocol):
    """Observes the watch, for metrics."""

    def event(self, kind: str) -> None: ...

    def heard(self) -> None: ...

    def relisted(self, reason: str, count: int) -> None: ...

    def opened(self) -> None:
        """A watch was accepted: the kind is served. What it brings may be long in coming."""

    def failed(self, error: Exception) -> None: ...


OnEvent = Callable[[T, msgspec.Raw], None]
"""Called with each object that a watch delivers and its bytes; these are valid during the call only."""


class _Event(msgspec.Struct, frozen=True, gc=False):
    type: str
    object: msgspec.Raw


class _Identity(msgspec.Struct, frozen=True):
    """The least that can be read of an object that does not fit its type."""

    class Metadata(msgspec.Struct, frozen=True, rename="camel"):
        name: str = ""
        namespace: str = ""
        resource_version: str = ""

    metadata: Metadata = Metadata()


_EVENTS: Final = msgspec.json.Decoder(_Event)
_IDENTITIES: Final = msgspec.json.Decoder(_Identity)


@dataclass(slots=True)
class _Listed(Generic[T]):
    objects: list[T] = field(default_factory=list)
    unreadable: dict[Key, str] = field(default_factory=dict)
    version: str = ""


def older(version: str, than: str) -> bool:
    """Whether one resourceVersion comes before another; False where they cannot be compared."""
    return version.isdecimal() and than.isdecimal() and int(version) < int(than)


class Reflector(Generic[T]):
    """Keeps a sink equal to a collection. `run` never returns; it raises HistoryReplaced or a bug."""

    def __init__(
        self,
        client: Client,
        resource: Resource[T],
        sink: Sink[T],
        *,
        watcher: Watcher,
        selection: Selection | None = None,
        on_event: OnEvent[T] | None = None,
        page: int = PAGE,
        idle_timeout: float = IDLE_TIMEOUT,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.resource = resource
        self._client = client
        self._sink = sink
        self._watcher = watcher
        self._on_event = on_event
        self._selection = selection or Selection()
        self._page = page
        self._idle_timeout = idle_timeout
        self._jitter = jitter
        self._version = ""
        self._regressed = False
        self._failures = 0
        self._relist_reason = "start"
        self._objects = msgspec.json.Decoder(resource.type)
        self._log = structlog.get_logger("reflector").bind(resource=str(resource))

    async def run(self) -> None:
        while True:
            try:
                if self._failures and not self._relist_reason:
                    await self._check_history()
                if self._relist_reason:
                    await self._relist()
                await self._follow()
            except KubeError as error:
                self._judge(error)
                await asyncio.sleep(self._pause(error))

    def _judge(self, error: KubeError) -> None:
        """Decide whether the position in the history is still good."""
        self._failures += 1
        self._watcher.failed(error)
        lost = isinstance(error, Gone) or (
            isinstance(error, ServerError) and error.status.has_cause("ResourceVersionTooLarge")
        )
        if lost:
            self._relist_reason = "expired"
        log = self._log.info if lost or self._failures == 1 else self._log.warning
        log("watch interrupted", error=str(error), failures=self._failures, relist=self._relist_reason)

    def _pause(self, error: KubeError) -> float:
        ceiling: float = min(BACKOFF_CAP, BACKOFF_BASE * 2.0 ** min(self._failures - 1, 10))
        return max(error.retry_after or 0.0, ceiling * (0.5 + 0.5 * self._jitter()))

    async def _check_history(self) -> None:
        """Before resuming after a failure: is the server's history at least as long as ours?

        A watch from a future version is accepted and stays silent forever (kube-apiserver 1.34), so ask
        with the smallest list there is. Without labels and fields: to find one object that has them, the
        server reads all that come before it from etcd.
        """
        anything = Selection(namespace=self._selection.namespace)
        async with aclosing(self._client.pages(self.resource, anything, size=1)) as pages:
            page = await anext(pages)
        if older(page.metadata.resource_version, self._version):
            self._relist_reason = "regressed"

    async def _relist(self) -> None:
        listed = await self._list()
        regressed = older(listed.version, self._version)
        if regressed and not self._regressed:
            self._regressed = True
            raise TransportError(
                f"the list is at {listed.version}, before {self._version} which was seen already",
                call=f"list {self.resource}",
            )
        self._sink.replace(
            listed.objects, unreadable=listed.unreadable, version=listed.version, new_history=regressed
        )
        self._watcher.relisted(self._relist_reason, len(listed.objects))
        self._version, self._regressed, self._relist_reason = listed.version, False, ""

    async def _list(self) -> _Listed[T]:
        """While one page is decoded here, the server makes the next."""
        listed: _Listed[T] = _Listed()
        async with aclosing(self._client.pages(self.resource, self._selection, size=self._page)) as pages:
            coming = asyncio.create_task(_next(pages))
            try:
                while (page := await coming) is not None:
                    coming = asyncio.create_task(_next(pages))
                    await asyncio.sleep(0)  # In which it is asked for.
                    self._watcher.heard()
                    listed.version = page.metadata.resource_version
                    for raw in page.items or ():
                        self._take(raw, listed)
            finally:
                coming.cancel()
                await asyncio.wait({coming})
        return listed

    def _take(self, raw: msgspec.Raw, listed: _Listed[T]) -> None:
        try:
            listed.objects.append(self._sink.known(self._read(raw)))
        except msgspec.MsgspecError as error:
            key, _ = self._identify(raw)
            listed.unreadable[key] = str(error)
            self._log.warning("object does not decode", object=str(key), error=str(error))

    async def _follow(self) -> None:
        """Watch until the server ends it or it breaks, which raises."""
        shortest, longest = WATCH_SECONDS
        seconds = int(shortest + (longest - shortest) * self._jitter())
        lines = LineSplitter()
        async with self._client.watch(
            self.resource,
            self._selection,
            resource_version=self._version,
            timeout_seconds=seconds,
            idle_timeout=self._idle_timeout,
        ) as chunks:
            self._watcher.opened()
            started = asyncio.get_running_loop().time()
            try:
                async for chunk in chunks:
                    await self._digest(lines.feed(chunk))
            finally:
                is_steady = asyncio.get_running_loop().time() - started >= STEADY_AFTER
                if is_steady:
                    self._failures = 0
        if not is_steady:
            raise TransportError("the watch ended early", call=f"watch {self.resource}")

    async def _digest(self, lines: list[bytes]) -> None:
        self._watcher.heard()
        for count, line in enumerate(lines, start=1):
            self._event(line)
            if count % BURST == 0:
                await asyncio.sleep(0)

    def _event(self, line: bytes) -> None:
        try:
            event = decoding.decode(_EVENTS, line)
        except msgspec.MsgspecError as error:
            raise TransportError(f"not an event: {error}", call=f"watch {self.resource}") from error
        self._watcher.event(event.type)
        match event.type:
            case "ADDED" | "MODIFIED" | "DELETED":
                self._changed(event)
            case "BOOKMARK":
                self._bookmark(self._identify(event.object)[1])
            case "ERROR":
                raise from_status(_status(event.object), call=f"watch {self.resource}")

    def _bookmark(self, version: str) -> None:
        """A bookmark from before where we are: the server waits, deaf, for a future that its history may
        never reach.
        """
        if older(version, self._version):
            self._relist_reason = "regressed"
            raise TransportError(
                f"the server is at {version}, before {self._version} which was seen already",
                call=f"watch {self.resource}",
            )
        self._advance(version)

    def _changed(self, event: _Event) -> None:
        try:
            obj = self._read(event.object)
        except msgspec.MsgspecError as error:
            self._unreadable(event, error)
            return
        if self._on_event is not None:
            self._on_event(obj, event.object)
        if event.type == "DELETED":
            self._sink.remove(obj)
        else:
            self._sink.put(obj)
        self._advance(obj.metadata.resource_version)

    def _unreadable(self, event: _Event, error: msgspec.MsgspecError) -> None:
        key, version = self._identify(event.object)
        self._log.warning("object does not decode", object=str(key), error=str(error))
        if event.type == "DELETED":
            metadata = {"namespace": key.namespace, "name": key.name, "resourceVersion": version}
            self._sink.remove(msgspec.convert({"metadata": metadata}, self.resource.type))
        else:
            self._sink.mark_unreadable(key, str(error))
        self._advance(version)

    def _read(self, raw: msgspec.Raw) -> T:
        return self.resource.compact(decoding.decode(self._objects, raw))

    def _identify(self, raw: msgspec.Raw) -> tuple[Key, str]:
        try:
            metadata = decoding.decode(_IDENTITIES, raw).metadata
        except msgspec.MsgspecError:
            return Key("", ""), ""
        return Key(metadata.namespace, metadata.name), metadata.resource_version

    def _advance(self, version: str) -> None:
        """Remember how far we have read. Never backwards: a repeated event must not make the next resume
        older.
        """
        if version and not older(version, self._version):
            self._version = version


async def _next(pages: AsyncGenerator[RawPage, None]) -> RawPage | None:
    return await anext(pages, None)


def _status(raw: msgspec.Raw) -> Status:
    try:
        return decoding.decode(STATUSES, raw)
    except msgspec.MsgspecError:
        return Status(
            code=500, reason="Unknown", message="the watch ended with an error that does not decode"
        )


# Lines from a stream of chunks.
#
# Splits watch events of any length: an object may be larger than the line limit of every ready-made reader.


class LineSplitter:
    """Collects chunks and hands out whole lines without their newline. Empty lines are left out."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that `chunk` completes."""
        first, *rest = chunk.split(b"\n")
        self._pieces.append(first)
        if not rest:
            return []
        lines = [b"".join(self._pieces), *rest[:-1]]
        self._pieces = [rest[-1]]
        return [line for line in lines if line.strip()]

    @property
    def pending(self) -> int:
        """Bytes of the line that is not complete yet."""
        return sum(map(len, self._pieces))
