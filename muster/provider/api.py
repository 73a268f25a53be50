"""The Kubernetes API as a Bundle needs it: find a kind, read, apply, delete; with bounded retries.

It knows no order and no Bundle. What is retried: a connection that fails, 429, 502-504, a webhook that is
not up yet, and a kind whose CRD was made a moment ago. Each call has a thread of its own, with a connection
that stays open.
"""

import asyncio
import contextlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlencode

from muster.kubernetes.client import APPLY, JSON, MERGE, Client, api_root
from muster.kubernetes.errors import ApiError, UnreachableError
from muster.kubernetes.kubeconfig import Access
from muster.provider.manifests import Ref

# How long an operation may still take.
# Time out and cancellation are the same exception to the code that waits.


class DeadlineError(Exception):
    """The operation's time is over, or the user cancelled it."""


class Deadline:
    """Counts down from its creation. Setting `cancelled` ends every wait on it at once."""

    def __init__(self, seconds: float, *, cancelled: asyncio.Event | None = None) -> None:
        self._end = asyncio.get_running_loop().time() + seconds
        self._cancelled = cancelled or asyncio.Event()
        self.seconds = seconds

    @property
    def cancelled(self) -> bool:
        return self._cancelled.is_set()

    def remaining(self) -> float:
        return self._end - asyncio.get_running_loop().time()

    def check(self) -> None:
        if self.cancelled:
            raise DeadlineError("cancelled")
        if self.remaining() <= 0:
            raise DeadlineError(f"not done after {self.seconds:.0f} s")

    def within(self, seconds: float) -> "Deadline":
        """A shorter one inside this one."""
        return Deadline(max(0.0, min(seconds, self.remaining())), cancelled=self._cancelled)

    async def sleep(self, seconds: float) -> None:
        """Raises DeadlineError instead of sleeping past the end."""
        self.check()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._cancelled.wait(), min(seconds, max(0.0, self.remaining())))
        self.check()


# What the API server gets at once from one Bundle provider: enough to keep it busy, little enough for its
# fairness queues (the default `global-default` level has about 20 seats on a small control plane).
_CONCURRENCY = 16
_REQUEST_TIMEOUT = 30.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 5.0
# A kind may be unknown because its CRD was made seconds ago; a typing error should not take longer to be
# reported.
_KIND_PATIENCE = 20.0
# Webhooks start with their Deployment, which may have to pull its image.
_WEBHOOK_PATIENCE = 180.0
_UNREACHABLE_PATIENCE = 60.0
_METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


class UnknownKindError(Exception):
    """The cluster serves no such kind."""


@dataclass(slots=True)
class _Discovery:
    """(apiVersion, kind) -> (plural, namespaced), asked once per group and version."""

    kinds: dict[tuple[str, str], tuple[str, bool]] = field(default_factory=dict)
    asked: set[str] = field(default_factory=set)


class Cluster:
    """One API server. Use as `async with`."""

    def __init__(self, access: Access) -> None:
        self.access = access
        self._client = Client(access, seconds=_REQUEST_TIMEOUT, agent="muster-bundle")
        self._threads = ThreadPoolExecutor(_CONCURRENCY)
        self._discovery = _Discovery()
        self._discovering = asyncio.Lock()
        self._seats = asyncio.Semaphore(_CONCURRENCY)
        self._uid: str | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def uid(self, deadline: Deadline) -> str:
        """The cluster's identity: the UID of kube-system, which lives as long as the cluster does."""
        if self._uid is None:
            self._uid = str(
                (await self._call("GET", "/api/v1/namespaces/kube-system", deadline))["metadata"]["uid"]
            )
        return self._uid

    async def get(self, ref: Ref, deadline: Deadline) -> dict[str, Any] | None:
        """The live object, or None. A kind that the cluster does not serve has no objects."""
        try:
            path = await self._path(ref, deadline, patience=0)
            return await self._call("GET", path, deadline)
        except UnknownKindError:
            return None
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    async def find(
        self, api_version: str, kind: str, selector: str, deadline: Deadline
    ) -> list[dict[str, Any]]:
        """The live objects of a kind with these labels, in all namespaces; none where the kind is not
        served.
        """
        try:
            path = await self._list_path(api_version, kind, deadline)
        except UnknownKindError:
            return []
        query = {"labelSelector": selector, "limit": "500"}
        listed = await self._call("GET", path, deadline, query=query)
        return list(listed.get("items") or ())

    async def metadata_of_all(self, api_version: str, kind: str, deadline: Deadline) -> list[dict[str, Any]]:
        """The metadata of every object of a kind. Raises UnknownKindError where the kind is not served."""
        path = await self._list_path(api_version, kind, deadline)
        # From the API server's cache: a list of what existed a moment ago is enough, and spares etcd.
        query = {"resourceVersion": "0"}
        listed = await self._call("GET", path, deadline, query=query, accept=_METADATA_ONLY)
        return [dict(each["metadata"]) for each in listed.get("items") or ()]

    async def serves(self, plural: str, group: str, deadline: Deadline) -> bool:
        """Whether the cluster serves this resource, in any version of its group (`""` is the core group)."""
        versions = ["v1"]
        if group:
            found = await self._found(f"/apis/{group}", deadline)
            versions = [str(each["groupVersion"]) for each in found.get("versions") or ()]
        # A new version is in its group before it is served.
        lists = [await self._found(api_root(version), deadline) for version in versions]
        return any(each["name"] == plural for listed in lists for each in listed.get("resources") or ())

    async def apply(
        self, ref: Ref, body: Mapping[str, Any], deadline: Deadline, *, manager: str, force: bool
    ) -> dict[str, Any]:
        """Server-side apply. Raises ApiError with `conflicts` when others hold fields and `force` is off."""
        path = await self._path(ref, deadline, patience=_KIND_PATIENCE)
        query = {"fieldManager": manager, "force": "true" if force else "false", "fieldValidation": "Strict"}
        return await self._call("PATCH", path, deadline, query=query, body=body, content_type=APPLY)

    async def remove_finalizer(
        self, ref: Ref, live: Mapping[str, Any], finalizer: str, deadline: Deadline
    ) -> None:
        """Take one finalizer off an object as it was read. ApiError (409) where it has changed since."""
        path = await self._path(ref, deadline, patience=0)
        metadata = live["metadata"]
        left = [each for each in metadata.get("finalizers") or () if each != finalizer]
        body = {"metadata": {"resourceVersion": metadata["resourceVersion"], "finalizers": left}}
        await self._call("PATCH", path, deadline, body=body, content_type=MERGE)

    async def create(
        self, ref: Ref, body: Mapping[str, Any], deadline: Deadline, *, dry_run: bool
    ) -> dict[str, Any]:
        """Create an object. With `dry_run` it passes admission and quota, and nothing is stored."""
        path = await self._path(ref, deadline, patience=_KIND_PATIENCE)
        query = {"fieldValidation": "Strict"} | ({"dryRun": "All"} if dry_run else {})
        return await self._call("POST", path.rpartition("/")[0], deadline, query=query, body=body)

    async def delete(
        self, ref: Ref, deadline: Deadline, *, propagation: str = "Background"
    ) -> dict[str, Any] | None:
        """Request the deletion. Returns the object as it goes, or None when it was not there."""
        try:
            path = await self._path(ref, deadline, patience=0)
            return await self._call("DELETE", path, deadline, body={"propagationPolicy": propagation})
        except UnknownKindError:
            return None
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    async def _path(self, ref: Ref, deadline: Deadline, *, patience: float) -> str:
        plural, namespaced = await self._resource(ref, deadline, patience=patience)
        space = f"/namespaces/{ref.namespace or 'default'}" if namespaced else ""
        return f"{api_root(ref.api_version)}{space}/{plural}/{ref.name}"

    async def _list_path(self, api_version: str, kind: str, deadline: Deadline) -> str:
        """Raises UnknownKindError where the kind is not served."""
        plural, _ = await self._resource(Ref(api_version, kind, "", ""), deadline, patience=0)
        return f"{api_root(api_version)}/{plural}"

    async def _resource(self, ref: Ref, deadline: Deadline, *, patience: float) -> tuple[str, bool]:
        """Raises UnknownKindError when the kind does not turn up within `patience` seconds."""
        wanted = (ref.api_version, ref.kind)
        limit = deadline.within(patience)
        while wanted not in self._discovery.kinds:
            async with self._discovering:
                if wanted not in self._discovery.kinds:
                    await self._discover(ref, deadline)
            if wanted in self._discovery.kinds:
                break
            if limit.remaining() <= 0:
                deadline.check()
                raise UnknownKindError(
                    f"the cluster serves no kind {ref.kind} in {ref.api_version}; install its CRD first, or "
                    "correct apiVersion and kind"
                )
            await deadline.sleep(min(1.0, max(0.05, limit.remaining())))
        return self._discovery.kinds[wanted]

    async def _discover(self, ref: Ref, deadline: Deadline) -> None:
        listed = await self._found(api_root(ref.api_version), deadline)
        for each in listed.get("resources", ()):
            if "/" not in each["name"]:
                self._discovery.kinds[ref.api_version, each["kind"]] = (
                    each["name"],
                    bool(each["namespaced"]),
                )

    async def _found(self, path: str, deadline: Deadline) -> dict[str, Any]:
        """What is at a path of discovery; empty where nothing is."""
        try:
            return await self._call("GET", path, deadline)
        except ApiError as error:
            if error.status == 404:
                return {}
            raise

    async def _call(
        self,
        method: str,
        path: str,
        deadline: Deadline,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        content_type: str = JSON,
        accept: str = JSON,
    ) -> dict[str, Any]:
        place = f"{path}?{urlencode(query)}" if query else path
        call = partial(self._client.call, method, place, body, content_type=content_type, accept=accept)
        pause = _FIRST_PAUSE
        webhook, reach = deadline.within(_WEBHOOK_PATIENCE), deadline.within(_UNREACHABLE_PATIENCE)
        while True:
            deadline.check()
            try:
                async with self._seats:
                    answer = asyncio.get_running_loop().run_in_executor(self._threads, call)
                    limit = max(1.0, min(_REQUEST_TIMEOUT, deadline.remaining()))
                    return dict(await asyncio.wait_for(answer, limit))
            except ApiError as error:
                patience = webhook if error.webhook_down else reach
                if not (error.webhook_down or error.passing) or patience.remaining() <= pause:
                    raise
            except (UnreachableError, TimeoutError) as error:
                if reach.remaining() <= pause:
                    cause = error.__cause__ or error
                    raise UnreachableError(
                        f"no answer from the cluster of context {self.access.context!r} at "
                        f"{self.access.server}: {str(cause) or type(cause).__name__}"
                    ) from error
            await deadline.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
