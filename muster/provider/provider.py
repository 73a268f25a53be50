"""The gRPC service: the engine's requests to `resource.py`, and its answers back.

An engine compares a resource with its state, and a namespace that a person deleted is still in the state. One
metadata listing of each kind, for all Bundles of a run, finds which objects are no longer in the cluster.
What differs in an object that is there is the business of `comparison.py`, at `pulumi refresh`. Nothing else
here decides anything about Kubernetes.
"""

import asyncio
import contextlib
import functools
import hashlib
import json
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Literal, TypeVar

import grpc  # type: ignore[import-untyped]  # grpcio ships no types
from google.protobuf import empty_pb2, struct_pb2  # type: ignore[import-untyped]  # protobuf ships no types
from pulumi.runtime.proto import (
    engine_pb2,
    engine_pb2_grpc,
    plugin_pb2,
    provider_pb2,
    provider_pb2_grpc,
    status_pb2,
)

from muster.kubernetes.errors import ApiError, UnreachableError
from muster.kubernetes.kubeconfig import KubeconfigError, load_access
from muster.provider import VERSION
from muster.provider.api import Cluster, Deadline, DeadlineError, UnknownKindError
from muster.provider.manifests import ManifestError, Ref, read, same
from muster.provider.resource import BUNDLE, FIND, SCHEMA, Written, delete, inventory, read_live, write

# The engine's log: lines that stay, and one status line for each resource, which is replaced.

# The engine redraws its tree for each status; faster changes cannot be read.
_STATUS_EVERY = 0.5


class Engine:
    """The engine's log. It never fails: a lost line is no reason to stop an update."""

    def __init__(self) -> None:
        self._stub: engine_pb2_grpc.EngineStub | None = None
        self._last: dict[str, float] = {}
        self._channel: grpc.aio.Channel | None = None

    def connect(self, address: str) -> None:
        self._channel = grpc.aio.insecure_channel(address)
        self._stub = engine_pb2_grpc.EngineStub(self._channel)

    async def warn(self, urn: str, message: str) -> None:
        await self._log(engine_pb2.WARNING, urn, message)

    async def status(self, urn: str, message: str) -> None:
        """Shown in the resource's own line while it runs, kept nowhere."""
        now = time.monotonic()
        if now - self._last.get(urn, 0.0) >= _STATUS_EVERY:
            self._last[urn] = now
            await self._log(engine_pb2.INFO, urn, message, ephemeral=True)

    async def _log(
        self,
        severity: "engine_pb2.LogSeverity.ValueType",
        urn: str,
        message: str,
        *,
        ephemeral: bool = False,
    ) -> None:
        if self._stub is None:
            return
        request = engine_pb2.LogRequest(severity=severity, urn=urn, message=message, ephemeral=ephemeral)
        with contextlib.suppress(grpc.RpcError):
            await self._stub.Log(request, timeout=5)


# Between the engine's messages and plain Python values, unknown and secret ones included.

# Fixed by the engine's protocol (sdk/go/common/resource/plugin/rpc.go): what a computed string looks like
# in a preview, and the key that marks a wrapped value with its kind.
UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
_WRAPPED = "4dabf18193072939515e22adb298388d"


def from_struct(struct: Any) -> dict[str, Any]:
    return {name: _value(value) for name, value in struct.fields.items()}


def to_struct(values: Mapping[str, Any]) -> Any:
    struct = struct_pb2.Struct()
    struct.update(values)
    return struct


def is_known(value: Any) -> bool:
    return bool(value != UNKNOWN)


def init_failure(
    *, id_: str, properties: Mapping[str, Any], inputs: Mapping[str, Any], reasons: Iterable[str]
) -> bytes:
    """gRPC status details for a resource that exists and was not completed."""
    detail = provider_pb2.ErrorResourceInitFailed(
        id=id_, properties=to_struct(properties), inputs=to_struct(inputs), reasons=list(reasons)
    )
    status = status_pb2.Status(code=2, message="the bundle is applied in part")
    status.details.add().Pack(detail)
    return bytes(status.SerializeToString())


def _value(value: Any) -> Any:
    kind = value.WhichOneof("kind")
    if kind == "struct_value":
        inner = from_struct(value.struct_value)
        # The engine unwraps secrets for a provider that does not accept them; this is for wrapped values in
        # old states.
        return inner["value"] if _WRAPPED in inner and "value" in inner else inner
    if kind == "list_value":
        return [_value(each) for each in value.list_value.values]
    if kind is None or kind == "null_value":
        return None
    return getattr(value, kind)


_UNANSWERED = (ApiError, DeadlineError, KubeconfigError, UnreachableError)
# A cluster has many that are not ours, and a Bundle has few: these are read one by one.
_NUMEROUS = frozenset({"ConfigMap", "Secret"})
_SHOWN = 3

Place = tuple[str, str]


class Presence:
    """What one cluster holds, read once. An answer that does not come counts as `nothing is missing`."""

    def __init__(self, cluster: Cluster, *, cancelled: asyncio.Event, seconds: float) -> None:
        self._cluster, self._cancelled, self._seconds = cluster, cancelled, seconds
        self._listings: dict[tuple[str, str], asyncio.Task[frozenset[Place] | None]] = {}

    async def missing(self, refs: Iterable[Ref]) -> list[Ref]:
        """Those that are not in the cluster or are being deleted."""
        wanted = sorted(refs, key=lambda ref: (ref.kind != "Namespace", ref))
        present = await asyncio.gather(*(self._is_present(ref) for ref in wanted))
        return [ref for ref, is_present in zip(wanted, present, strict=True) if not is_present]

    async def _is_present(self, ref: Ref) -> bool:
        if ref.kind in _NUMEROUS:
            return await self._is_found(ref)
        held = await self._listing(ref)
        return held is None or not held.isdisjoint(
            {(ref.namespace, ref.name), (ref.namespace or "default", ref.name)}
        )

    async def _is_found(self, ref: Ref) -> bool:
        try:
            live = await self._cluster.get(ref, self._deadline())
        except _UNANSWERED:
            return True
        return live is not None and not live["metadata"].get("deletionTimestamp")

    async def _listing(self, ref: Ref) -> frozenset[Place] | None:
        kind = ref.api_version, ref.kind
        if kind not in self._listings:
            self._listings[kind] = asyncio.ensure_future(self._list(ref))
        return await self._listings[kind]

    async def _list(self, ref: Ref) -> frozenset[Place] | None:
        try:
            found = await self._cluster.metadata_of_all(ref.api_version, ref.kind, self._deadline())
        except UnknownKindError:
            return frozenset()
        except _UNANSWERED:
            return None
        return frozenset(
            (each.get("namespace", ""), each["name"]) for each in found if not each.get("deletionTimestamp")
        )

    def _deadline(self) -> Deadline:
        return Deadline(self._seconds, cancelled=self._cancelled)


def describe(missing: list[Ref]) -> str:
    """The warning for a Bundle with missing objects."""
    named = ", ".join(str(ref) for ref in missing[:_SHOWN])
    others = f" and {len(missing) - _SHOWN} more objects" if len(missing) > _SHOWN else ""
    return f"no longer in the cluster: {named}{others}. `pulumi up` puts back what is missing"


# What differs between two versions of a Bundle's manifests, key by key. Pure.

Change = Literal["add", "update", "delete"]


def changes(old: Mapping[str, str], new: Mapping[str, str]) -> dict[str, Change]:
    """Keys whose objects differ.

    The same objects in another spelling are no change; an unknown text is one.
    """
    found: dict[str, Change] = {}
    for key in old.keys() | new.keys():
        if key not in new:
            found[key] = "delete"
        elif key not in old:
            found[key] = "add"
        elif not is_known(new[key]) or not same(old[key], new[key]):
            found[key] = "update"
    return dict(sorted(found.items()))


def path(key: str, name: str = "manifests") -> str:
    """The property path of a key, in the engine's notation."""
    quoted = key.replace("\\", "\\\\").replace('"', '\\"')
    return f'{name}["{quoted}"]'


# Overridden by the resource option custom_timeouts. Deleting is shorter, so that a destroy with one hanging
# finalizer still ends, with its message, within two minutes.
_WRITE_TIMEOUT, _READ_TIMEOUT, _DELETE_TIMEOUT = 300.0, 120.0, 100.0
_PROBE_TIMEOUT = 5.0
# A Diff that cannot see in this time what is missing reports nothing as missing.
_PRESENCE_TIMEOUT = 20.0

_EXPECTED_ERRORS = (ApiError, KubeconfigError, ManifestError, DeadlineError, UnreachableError)
_KINDS = {
    "add": provider_pb2.PropertyDiff.ADD,
    "update": provider_pb2.PropertyDiff.UPDATE,
    "delete": provider_pb2.PropertyDiff.DELETE,
}

R = TypeVar("R")
Method = Callable[["MusterProvider", Any, Any], Awaitable[R]]


def _explained(method: Method[R]) -> Method[R]:
    """Turn an expected error into one readable message instead of a stack trace."""

    @functools.wraps(method)
    async def explained(self: "MusterProvider", request: Any, context: Any) -> R:
        try:
            return await method(self, request, context)
        except _EXPECTED_ERRORS as error:
            await context.abort(grpc.StatusCode.UNKNOWN, str(error))
            raise  # abort has raised already; this is for the reader and the type checker

    return explained


class MusterProvider(provider_pb2_grpc.ResourceProviderServicer):
    """One process serves all Bundles of one cluster."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._cluster: Cluster | None = None
        self._why_not = "the provider is not configured"
        self._cancelled = asyncio.Event()
        self._target: asyncio.Task[str | None] | None = None
        self._presence: Presence | None = None

    async def close(self) -> None:
        """Close the connection to the cluster."""
        if self._cluster is not None:
            await self._cluster.close()
        self._cluster = self._target = self._presence = None

    # What the provider is

    async def Handshake(self, request: Any, context: Any) -> provider_pb2.ProviderHandshakeResponse:
        if request.engine_address:
            self._engine.connect(request.engine_address)
        return provider_pb2.ProviderHandshakeResponse()

    async def Attach(self, request: Any, context: Any) -> Any:
        self._engine.connect(request.address)
        return empty_pb2.Empty()

    async def GetPluginInfo(self, request: Any, context: Any) -> plugin_pb2.PluginInfo:
        return plugin_pb2.PluginInfo(version=VERSION)

    async def GetSchema(self, request: Any, context: Any) -> provider_pb2.GetSchemaResponse:
        return provider_pb2.GetSchemaResponse(schema=SCHEMA)

    async def Cancel(self, request: Any, context: Any) -> Any:
        self._cancelled.set()
        return empty_pb2.Empty()

    # Its configuration

    async def CheckConfig(self, request: Any, context: Any) -> provider_pb2.CheckResponse:
        unknown = sorted(
            set(from_struct(request.news)) - {"kubeconfig", "context", "version", "pluginDownloadURL"}
        )
        reason = "the provider muster knows kubeconfig and context"
        failures = [provider_pb2.CheckFailure(property=name, reason=reason) for name in unknown]
        return provider_pb2.CheckResponse(inputs=request.news, failures=failures)

    async def DiffConfig(self, request: Any, context: Any) -> provider_pb2.DiffResponse:
        """Never a replacement: an address or a credential changes more often than the cluster behind it.

        Whether it is another cluster is read from the cluster itself, in `Diff`.
        """
        old, new = from_struct(request.old_inputs), from_struct(request.news)
        differ = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
        kind = provider_pb2.DiffResponse.DIFF_SOME if differ else provider_pb2.DiffResponse.DIFF_NONE
        return provider_pb2.DiffResponse(changes=kind, diffs=differ)

    async def Configure(self, request: Any, context: Any) -> provider_pb2.ConfigureResponse:
        config = from_struct(request.args)
        source, name = config.get("kubeconfig"), config.get("context")
        await self.close()
        if not is_known(source) or not is_known(name):
            self._why_not = "the kubeconfig is not known before the cluster exists"
        else:
            try:
                self._cluster = Cluster(load_access(source, name))
            except KubeconfigError as error:
                # A preview has to work without a cluster; calls that need one raise this.
                self._why_not = str(error)
        return provider_pb2.ConfigureResponse(supportsPreview=True)

    @_explained
    async def Invoke(self, request: Any, context: Any) -> provider_pb2.InvokeResponse:
        """`muster:k8s:find`: live objects by kind and labels. A preview that cannot reach the cluster finds
        none.
        """
        if request.tok != FIND:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"the provider muster serves {FIND} only")
        arguments = from_struct(request.args)
        objects: list[dict[str, Any]] = []
        asked = self._cluster is not None and await self._cluster_uid() is not None
        if self._cluster is not None and asked:
            deadline = Deadline(_READ_TIMEOUT, cancelled=self._cancelled)
            objects = await self._cluster.find(
                str(arguments["apiVersion"]), str(arguments["kind"]), str(arguments["selector"]), deadline
            )
        texts = [json.dumps(each) for each in objects]
        return provider_pb2.InvokeResponse(**{"return": to_struct({"objects": texts, "asked": asked})})

    # Bundles

    @_explained
    async def Check(self, request: Any, context: Any) -> provider_pb2.CheckResponse:
        if (wrong := _wrong_type(request.urn)) is not None:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, wrong)
        news = from_struct(request.news)
        failures = [
            provider_pb2.CheckFailure(property=name, reason="a Bundle takes manifests and dryRuns only")
            for name in sorted(set(news) - {"manifests", "dryRuns"})
        ]
        for name, keys, texts in (
            ("manifests", "a key of your choice", news.get("manifests")),
            ("dryRuns", "a key of manifests", news.get("dryRuns") or {}),
        ):
            if not is_known(texts):
                break
            if isinstance(texts, dict):
                failures += _invalid_texts(name, texts)
            else:
                reason = f"{name} maps {keys} to the text of Kubernetes objects"
                failures.append(provider_pb2.CheckFailure(property=name, reason=reason))
        return provider_pb2.CheckResponse(inputs=request.news, failures=failures)

    @_explained
    async def Diff(self, request: Any, context: Any) -> provider_pb2.DiffResponse:
        """What changes in the manifests, and what is no longer in the cluster.

        `dryRuns` alone are no change: nothing of them is in the cluster.
        """
        old, new, state = map(from_struct, (request.old_inputs, request.news, request.olds))
        cluster_changed = await self._cluster_changed(state)
        if not is_known(new.get("manifests")):
            return provider_pb2.DiffResponse(changes=provider_pb2.DiffResponse.DIFF_SOME, diffs=["manifests"])
        found = changes(old.get("manifests") or {}, new.get("manifests") or {})
        detailed = {
            path(key): provider_pb2.PropertyDiff(kind=_KINDS[kind], inputDiff=True)
            for key, kind in found.items()
        }
        replaces = []
        if cluster_changed:
            replaces = ["cluster"]
            detailed["cluster"] = provider_pb2.PropertyDiff(kind=provider_pb2.PropertyDiff.UPDATE_REPLACE)
        missing = [] if detailed else await self._missing(state, new)
        if missing:
            await self._engine.warn(request.urn, describe(missing))
        # What is missing differs in no input. Not `manifests`: a change of these may replace the Bundle, and
        # this must not. No detail: the engine would show the state's `objects` as going.
        is_different = bool(detailed or missing)
        kind = provider_pb2.DiffResponse.DIFF_SOME if is_different else provider_pb2.DiffResponse.DIFF_NONE
        return provider_pb2.DiffResponse(
            changes=kind,
            diffs=[*(["manifests"] if found else []), *(["objects"] if missing else []), *replaces],
            replaces=replaces,
            detailedDiff=detailed,
            hasDetailedDiff=True,
        )

    @_explained
    async def Create(self, request: Any, context: Any) -> provider_pb2.CreateResponse:
        inputs = from_struct(request.properties)
        if request.preview:
            return provider_pb2.CreateResponse(properties=request.properties)
        written = await self._write(request, inputs, before={}, state={})
        id_ = _id(request.urn)
        await self._report(request.urn, context, written, id_=id_, inputs=inputs)
        return provider_pb2.CreateResponse(id=id_, properties=to_struct(written.state | inputs))

    @_explained
    async def Update(self, request: Any, context: Any) -> provider_pb2.UpdateResponse:
        inputs, state = from_struct(request.news), from_struct(request.olds)
        if request.preview:
            return provider_pb2.UpdateResponse(properties=to_struct(state | inputs))
        before = from_struct(request.old_inputs).get("manifests") or {}
        written = await self._write(request, inputs, before=before, state=state)
        await self._report(request.urn, context, written, id_=request.id, inputs=inputs)
        return provider_pb2.UpdateResponse(properties=to_struct(written.state | inputs))

    @_explained
    async def Read(self, request: Any, context: Any) -> provider_pb2.ReadResponse:
        state, inputs = from_struct(request.properties), from_struct(request.inputs)
        if "manifests" not in inputs:
            raise KubeconfigError(
                "a Bundle cannot be imported: run `pulumi up`, which takes existing objects over"
            )
        deadline = self._deadline(request, _READ_TIMEOUT)
        cluster = self._need()
        if state.get("cluster") and await cluster.uid(deadline) != state["cluster"]:
            await self._engine.warn(request.urn, f"context {cluster.access.context!r} is another cluster now")
            return provider_pb2.ReadResponse()
        seen = await read_live(cluster, inputs["manifests"], deadline=deadline)
        if seen.total and seen.missing == seen.total:
            return provider_pb2.ReadResponse()
        current = inputs | {"manifests": seen.manifests}
        return provider_pb2.ReadResponse(
            id=request.id, properties=to_struct(state | current), inputs=to_struct(current)
        )

    @_explained
    async def Delete(self, request: Any, context: Any) -> Any:
        state = from_struct(request.properties)
        if not inventory(state):
            return empty_pb2.Empty()
        deadline = self._deadline(request, _DELETE_TIMEOUT)
        cluster = self._need()
        if state.get("cluster") and await cluster.uid(deadline) != state["cluster"]:
            await self._engine.warn(
                request.urn,
                f"not deleted: these objects are in another cluster than the one that context "
                f"{cluster.access.context!r} points to now. Fix: if that cluster exists, delete them there",
            )
            return empty_pb2.Empty()
        deleted = await delete(cluster, state, deadline=deadline, log_status=self._log_status(request.urn))
        if deleted.failures:
            # The state stays as it was: an object that is gone by then costs one request.
            await context.abort(grpc.StatusCode.UNKNOWN, "\n".join(deleted.failures))
        return empty_pb2.Empty()

    # Shared by the methods above

    async def _write(
        self, request: Any, inputs: Mapping[str, Any], *, before: Mapping[str, str], state: Mapping[str, Any]
    ) -> Written:
        return await write(
            self._need(),
            inputs.get("manifests") or {},
            dry_runs=inputs.get("dryRuns") or {},
            before=before,
            state=state,
            deadline=self._deadline(request, _WRITE_TIMEOUT),
            log_status=self._log_status(request.urn),
        )

    async def _report(
        self, urn: str, context: Any, written: Written, *, id_: str, inputs: Mapping[str, Any]
    ) -> None:
        """Log the warnings. Failures end the call with the state as it is: the next run continues from it."""
        for warning in written.warnings:
            await self._engine.warn(urn, warning)
        if not written.failures:
            return
        details = init_failure(
            id_=id_, properties={**written.state, **inputs}, inputs=inputs, reasons=written.failures
        )
        await context.abort(
            grpc.StatusCode.UNKNOWN,
            "\n".join(written.failures),
            trailing_metadata=(("grpc-status-details-bin", details),),
        )

    async def _missing(self, state: Mapping[str, Any], inputs: Mapping[str, Any]) -> list[Ref]:
        """What the Bundle has applied and the cluster no longer has; empty where it does not answer."""
        if self._cluster is None or not state.get("cluster") or await self._cluster_uid() is None:
            return []
        if self._presence is None:
            self._presence = Presence(self._cluster, cancelled=self._cancelled, seconds=_PRESENCE_TIMEOUT)
        applied = {ref.identity for ref in inventory(state)}
        wanted = {item.ref for item in read(inputs["manifests"]) if item.ref.identity in applied}
        return await self._presence.missing(wanted)

    async def _cluster_changed(self, state: Mapping[str, Any]) -> bool:
        """Whether the configured cluster is known to be another one than the Bundle's.

        Read once for all Bundles.
        """
        if not state.get("cluster"):
            return False
        uid = await self._cluster_uid()
        return uid is not None and uid != state["cluster"]

    async def _cluster_uid(self) -> str | None:
        """The UID of the configured cluster, None when it cannot be reached."""
        if self._cluster is None:
            return None
        if self._target is None:
            self._target = asyncio.ensure_future(self._probe_cluster_uid(self._cluster))
        return await self._target

    async def _probe_cluster_uid(self, cluster: Cluster) -> str | None:
        try:
            return await cluster.uid(Deadline(_PROBE_TIMEOUT, cancelled=self._cancelled))
        except _EXPECTED_ERRORS:
            return None

    def _need(self) -> Cluster:
        if self._cluster is None:
            raise KubeconfigError(self._why_not)
        return self._cluster

    def _deadline(self, request: Any, default: float) -> Deadline:
        return Deadline(request.timeout or default, cancelled=self._cancelled)

    def _log_status(self, urn: str) -> Callable[[str], None]:
        tasks: set[asyncio.Task[None]] = set()

        def log_status(message: str) -> None:
            task = asyncio.ensure_future(self._engine.status(urn, message))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        return log_status


def _wrong_type(urn: str) -> str | None:
    kind = urn.split("::")[2].split("$")[-1]
    return None if kind == BUNDLE else f"the provider muster serves {BUNDLE}, not {kind}"


def _invalid_texts(name: str, texts: Mapping[str, Any]) -> list[provider_pb2.CheckFailure]:
    """Problems of the texts that are known; a text from another resource is checked when it is known."""
    wrong = [key for key, text in texts.items() if not isinstance(text, str)]
    problems = [(key, "expected the text of Kubernetes objects (YAML or JSON)") for key in wrong]
    try:
        read({key: text for key, text in texts.items() if key not in wrong and is_known(text)})
    except ManifestError as error:
        problems += [(problem.key, problem.message) for problem in error.problems]
    return [provider_pb2.CheckFailure(property=path(key, name), reason=reason) for key, reason in problems]


def _id(urn: str) -> str:
    """Stable for a URN, so that a creation that is repeated after a crash gives the same resource."""
    return f"{urn.rsplit('::', 1)[-1]}-{hashlib.sha256(urn.encode()).hexdigest()[:8]}"
