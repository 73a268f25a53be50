"""The verbs of the Kubernetes API on typed kinds.

Decides how each verb looks on the wire and which of them may be repeated. Leaves retries and deadlines to the
transport, resuming and relisting to the reflector, and what to write to the reconcilers.

    async with Client(connection, field_manager=names.FIELD_MANAGER) as client:
        workload = await client.get(WORKLOAD, Key("team-a", "rayjob-x"))
        await client.apply(WORKLOAD, workload.key, body, subresource="status", force=True)

`client.guarded(lease.check)` is the same client whose writes ask the lease first.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from functools import lru_cache
from types import TracebackType
from typing import Any, Final, Generic, Literal, Self

import msgspec

from muster.controller.kube import decoding
from muster.controller.kube.connection import Connection
from muster.controller.kube.errors import KubeError, TransportError
from muster.controller.kube.resource import Key, Resource, T
from muster.controller.kube.transport import NULL_OBSERVER, Call, Guard, Observer, Transport

Body = bytes | Mapping[str, Any] | msgspec.Struct
Propagation = Literal["Background", "Foreground", "Orphan"]

PAGE = 500
"""Objects a LIST page: what the field uses; bounds the memory of one answer on both sides."""


class ListMeta(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class RawPage(msgspec.Struct, frozen=True):
    """A LIST answer whose items are still bytes, so that one that does not decode costs only itself."""

    metadata: ListMeta = ListMeta()
    items: list[msgspec.Raw] | None = None


class _Ending(msgspec.Struct, frozen=True):
    """The answer to a deletion: a Status, or the object with the time at which it is to be gone. A pod
    without a grace period has that too, and is gone already (`updateForGracefulDeletionAndFinalizers` in
    k8s.io/apiserver, pkg/registry/generic/registry/store.go of v0.34.4).
    """

    class Metadata(msgspec.Struct, frozen=True, rename="camel"):
        deletion_timestamp: str = ""
        deletion_grace_period_seconds: int = 0
        finalizers: tuple[str, ...] = ()

    metadata: Metadata = Metadata()

    @property
    def is_kept(self) -> bool:
        meta = self.metadata
        return bool(meta.deletion_timestamp and (meta.deletion_grace_period_seconds or meta.finalizers))


_ENDINGS: Final = msgspec.json.Decoder(_Ending)
_PAGES: Final = msgspec.json.Decoder(RawPage)


@dataclass(frozen=True, slots=True)
class Selection:
    """What a LIST or a WATCH covers. An empty namespace means all namespaces."""

    namespace: str = ""
    labels: str = ""
    fields: str = ""

    def query(self) -> dict[str, str]:
        pairs = {"labelSelector": self.labels, "fieldSelector": self.fields}
        return {name: value for name, value in pairs.items() if value}


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """A whole collection at one resourceVersion."""

    items: tuple[T, ...]
    resource_version: str


EVERYTHING = Selection()


class Client:
    """A typed client. Every method raises a `KubeError` when the answer is no."""

    def __init__(
        self,
        connection: Connection,
        *,
        field_manager: str,
        user_agent: str = "muster",
        observer: Observer = NULL_OBSERVER,
    ) -> None:
        self.field_manager = field_manager
        self.transport = Transport(connection, user_agent=user_agent, observer=observer)
        self._guard: Guard | None = None

    def guarded(self, guard: Guard) -> "Client":
        """This client, sharing its connections, with `guard` called before every attempt of every write."""
        view = object.__new__(Client)
        view.field_manager = self.field_manager
        view.transport = self.transport
        view._guard = guard
        return view

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self.transport.close()

    async def get(self, resource: Resource[T], key: Key) -> T:
        """One object, read through to etcd."""
        call = Call(verb="get", method="GET", path=_path(resource, key), query={}, repeatable=True)
        return await self._typed(resource, call)

    async def list(self, resource: Resource[T], selection: Selection = EVERYTHING) -> Listing[T]:
        """The whole collection, read page by page. Raises on an item that does not decode."""
        items: list[T] = []
        version = ""
        async for page in self.pages(resource, selection):
            items += [_decode(raw, resource, "list") for raw in page.items or ()]
            version = page.metadata.resource_version
        return Listing(tuple(items), version)

    async def pages(
        self, resource: Resource[T], selection: Selection = EVERYTHING, *, size: int = PAGE
    ) -> AsyncGenerator[RawPage, None]:
        """The collection page by page, all at the resourceVersion of the first. Raises Gone when that is
        compacted away.
        """
        token = ""
        while True:
            query = selection.query() | {"limit": str(size)} | ({"continue": token} if token else {})
            path = resource.path(namespace=selection.namespace)
            call = Call(verb="list", method="GET", path=path, query=query, repeatable=True)
            body = await self.transport.request(call)
            try:
                page = decoding.decode(_PAGES, body)
            except msgspec.MsgspecError as error:
                raise TransportError(f"not a list: {error}", call=str(call)) from error
            yield page
            token = page.metadata.continue_
            if not token:
                return

    async def latest_version(self, resource: Resource[T]) -> str:
        """The resourceVersion of the collection, read through to etcd."""
        async with aclosing(self.pages(resource, size=1)) as pages:
            return (await anext(pages)).metadata.resource_version

    @asynccontextmanager
    async def watch(
        self,
        resource: Resource[T],
        selection: Selection = EVERYTHING,
        *,
        resource_version: str,
        timeout_seconds: int,
        idle_timeout: float,
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """The raw chunks of a watch that starts after `resource_version`; use a Reflector for everything
        above that.
        """
        query = selection.query() | {
            "watch": "true",
            "resourceVersion": resource_version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(timeout_seconds),
        }
        path = resource.path(namespace=selection.namespace)
        call = Call(verb="watch", method="GET", path=path, query=query)
        async with self.transport.stream(call, idle_timeout=idle_timeout) as chunks:
            yield chunks

    async def create(self, resource: Resource[T], body: Body, *, namespace: str = "") -> T:
        """Create an object. Not repeated after a lost answer: name it deterministically and treat
        AlreadyExists as a question.
        """
        call = Call(
            verb="create",
            method="POST",
            path=resource.path(namespace=namespace),
            query={"fieldManager": self.field_manager},
            body=_identified(resource, body),
        )
        return await self._typed(resource, call)

    async def try_create(self, resource: Resource[T], body: Body, *, namespace: str = "") -> None:
        """Ask whether it could be created: all of admission judges it, and nothing is kept."""
        call = Call(
            verb="create",
            method="POST",
            path=resource.path(namespace=namespace),
            query={"fieldManager": self.field_manager, "dryRun": "All"},
            body=_identified(resource, body),
        )
        await self.transport.request(call, guard=self._guard)

    async def replace(
        self,
        resource: Resource[T],
        key: Key,
        body: Body,
        *,
        subresource: str = "",
    ) -> T:
        """Write a whole object; put its resourceVersion into the body. Never repeated: a Conflict would
        hide a success.
        """
        call = Call(
            verb="update",
            method="PUT",
            path=_path(resource, key, subresource),
            query={"fieldManager": self.field_manager},
            body=_identified(resource, body),
        )
        return await self._typed(resource, call)

    async def apply(
        self,
        resource: Resource[T],
        key: Key,
        body: Body,
        *,
        subresource: str = "",
        force: bool = False,
        field_manager: str = "",
    ) -> T:
        """Server-side apply of the fields in `body`. With `metadata.resourceVersion` in it, a Conflict when
        that is not the latest.
        """
        query = {"fieldManager": field_manager or self.field_manager, "force": "true" if force else "false"}
        call = Call(
            verb="apply",
            method="PATCH",
            path=_path(resource, key, subresource),
            query=query,
            body=_identified(resource, body),
            content_type="application/apply-patch+yaml",
            repeatable=True,
        )
        return await self._typed(resource, call)

    async def merge_patch(self, resource: Resource[T], key: Key, body: Body, *, subresource: str = "") -> T:
        """JSON merge patch: lists are replaced whole. With `metadata.resourceVersion` in it, a Conflict
        when that is not the latest.
        """
        call = Call(
            verb="patch",
            method="PATCH",
            path=_path(resource, key, subresource),
            query={"fieldManager": self.field_manager},
            body=encode(body),
            content_type="application/merge-patch+json",
            repeatable=True,
        )
        return await self._typed(resource, call)

    async def delete(
        self,
        resource: Resource[T],
        key: Key,
        *,
        uid: str = "",
        resource_version: str = "",
        propagation: Propagation = "Background",
    ) -> bool:
        """Delete one object, only if it is still that uid and resourceVersion when they are given (else
        Conflict). True where it is gone; False where a finalizer or its grace period keeps it for a while.

        Raises NotFound when it is gone already. Repeated only with a uid: without one, the second attempt
        could hit a successor of the same name.
        """
        given = {"uid": uid, "resourceVersion": resource_version}
        preconditions = {name: value for name, value in given.items() if value}
        options: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": propagation,
        }
        if preconditions:
            options["preconditions"] = preconditions
        call = Call(
            verb="delete",
            method="DELETE",
            path=_path(resource, key),
            query={},
            body=encode(options),
            repeatable=bool(uid),
        )
        return not _is_ending(await self.transport.request(call, guard=self._guard))

    async def version(self) -> str:
        """The server's version, such as v1.37.2: the cheapest question that proves that it is there."""
        call = Call(verb="version", method="GET", path="/version", query={}, repeatable=True)
        answer = msgspec.json.decode(await self.transport.request(call), type=dict[str, str])
        return answer.get("gitVersion", "")

    async def _typed(self, resource: Resource[T], call: Call) -> T:
        return _decode(await self.transport.request(call, guard=self._guard), resource, str(call))


def _is_ending(answer: bytes) -> bool:
    try:
        return decoding.decode(_ENDINGS, answer).is_kept
    except msgspec.MsgspecError:
        return True  # Unknown: the watch will show it.


def encode(body: Body) -> bytes:
    return body if isinstance(body, bytes) else msgspec.json.encode(body)


def _identified(resource: Resource[T], body: Body) -> bytes:
    """The body with apiVersion and kind, which apply needs and which typed objects do not carry. Bytes are
    sent as they are.
    """
    if isinstance(body, bytes):
        return body
    fields = msgspec.to_builtins(body) if isinstance(body, msgspec.Struct) else body
    return encode({"apiVersion": resource.api_version, "kind": resource.kind, **fields})


def _path(resource: Resource[T], key: Key, subresource: str = "") -> str:
    if not key.name:
        raise ValueError(f"an object of {resource} needs a name")
    return resource.path(namespace=key.namespace, name=key.name, subresource=subresource)


@lru_cache(maxsize=256)
def _decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    return msgspec.json.Decoder(kind)


def _decode(body: bytes | msgspec.Raw, resource: Resource[T], call: str) -> T:
    try:
        return resource.compact(decoding.decode(_decoder(resource.type), body))
    except msgspec.MsgspecError as error:
        raise UnreadableObject(f"{resource}: {error}", call=call) from error


class UnreadableObject(KubeError):
    """The API holds an object that does not fit our type of it; the message names the field."""
