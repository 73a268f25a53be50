"""The engine's protocol around a stand-in cloud. Nothing is decided here that the other modules can decide.

Checked against what the engine expects of a provider that Terraform's is bridged into: inputs are judged in
Check, replacements are announced in Diff, and a creation that did not end well leaves its state behind.
"""

import hashlib
import re
from collections.abc import Mapping
from typing import Any

import grpc  # type: ignore[import-untyped]  # grpcio ships no types
from google.protobuf import empty_pb2  # type: ignore[import-untyped]  # protobuf ships no types
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc

from muster.provider.provider import UNKNOWN, from_struct, init_failure, to_struct
from tests.clouds.standin import functions, sdk
from tests.clouds.standin.changes import Change, changes
from tests.clouds.standin.cloud import Cloud, Refused, Standing, Unfinished
from tests.clouds.standin.judge import judge
from tests.clouds.standin.refusal import Refusal
from tests.clouds.standin.rules import rules_among, rules_of
from tests.clouds.standin.table import Table
from tests.clouds.standin.tables import TABLES
from tests.clouds.standin.values import plain

_KINDS = {
    (Change.ADD, False): provider_pb2.PropertyDiff.ADD,
    (Change.UPDATE, False): provider_pb2.PropertyDiff.UPDATE,
    (Change.DELETE, False): provider_pb2.PropertyDiff.DELETE,
    (Change.ADD, True): provider_pb2.PropertyDiff.ADD_REPLACE,
    (Change.UPDATE, True): provider_pb2.PropertyDiff.UPDATE_REPLACE,
    (Change.DELETE, True): provider_pb2.PropertyDiff.DELETE_REPLACE,
}


class StandIn(provider_pb2_grpc.ResourceProviderServicer):
    """Serves one cloud."""

    def __init__(self, cloud: Cloud, *, version: str) -> None:
        self._cloud = cloud
        self._version = version

    # What the provider is

    async def Handshake(self, request: Any, context: Any) -> provider_pb2.ProviderHandshakeResponse:
        return provider_pb2.ProviderHandshakeResponse()

    async def Attach(self, request: Any, context: Any) -> Any:
        return empty_pb2.Empty()

    async def GetPluginInfo(self, request: Any, context: Any) -> plugin_pb2.PluginInfo:
        return plugin_pb2.PluginInfo(version=self._version)

    async def Cancel(self, request: Any, context: Any) -> Any:
        return empty_pb2.Empty()

    # Its configuration

    async def CheckConfig(self, request: Any, context: Any) -> provider_pb2.CheckResponse:
        arguments = sdk.arguments(f"pulumi_{self._cloud.name}:ProviderArgs")
        known = {*sdk.fields(arguments), "version", "pluginDownloadURL"}
        failures = [
            provider_pb2.CheckFailure(property=name, reason=f"{arguments.__name__} has no such input")
            for name in sorted(set(from_struct(request.news)) - known)
        ]
        return provider_pb2.CheckResponse(inputs=request.news, failures=failures)

    async def DiffConfig(self, request: Any, context: Any) -> provider_pb2.DiffResponse:
        differ = from_struct(request.old_inputs) != from_struct(request.news)
        kind = provider_pb2.DiffResponse.DIFF_SOME if differ else provider_pb2.DiffResponse.DIFF_NONE
        return provider_pb2.DiffResponse(changes=kind)

    async def Configure(self, request: Any, context: Any) -> provider_pb2.ConfigureResponse:
        config = from_struct(request.args)
        for name in ("project", "region"):
            if isinstance(config.get(name), str) and config[name] != UNKNOWN:
                self._cloud.handed[name] = config[name]
        return provider_pb2.ConfigureResponse(supportsPreview=True)

    async def Invoke(self, request: Any, context: Any) -> provider_pb2.InvokeResponse:
        try:
            answer = functions.call(request.tok, plain(from_struct(request.args)), self._cloud)
        except LookupError as error:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"{request.tok}: {error}")
            raise
        return provider_pb2.InvokeResponse(**{"return": to_struct(answer)})

    # Resources

    async def Check(self, request: Any, context: Any) -> provider_pb2.CheckResponse:
        table = await self._table(request.urn, context)
        news = plain(from_struct(request.news))
        if table.autonamed and news.get(table.autonamed) is None:
            old = plain(from_struct(request.olds)).get(table.autonamed)
            news[table.autonamed] = old or _autoname(request)
        failures = judge(table, news, rules_of(table.token), takes_deprecated=self._cloud.takes_deprecated)
        return provider_pb2.CheckResponse(
            inputs=to_struct(news),
            failures=[provider_pb2.CheckFailure(property=each.path, reason=each.reason) for each in failures],
        )

    async def Diff(self, request: Any, context: Any) -> provider_pb2.DiffResponse:
        table = await self._table(request.urn, context)
        old, new = plain(from_struct(request.old_inputs)), plain(from_struct(request.news))
        found = changes(table, old, new, ignored=list(request.ignoreChanges))
        detailed = {
            path: provider_pb2.PropertyDiff(kind=_KINDS[change.kind, change.replaces], inputDiff=True)
            for path, change in found.items()
        }
        replaces = sorted({_top(path) for path, change in found.items() if change.replaces})
        keeps_name = bool(replaces) and _same_name(request.urn, old, new)
        return provider_pb2.DiffResponse(
            changes=provider_pb2.DiffResponse.DIFF_SOME if found else provider_pb2.DiffResponse.DIFF_NONE,
            diffs=sorted({_top(path) for path in found}),
            replaces=replaces,
            detailedDiff=detailed,
            hasDetailedDiff=True,
            # The bridge does so where a name that the program chose stays: two cannot stand under one name.
            deleteBeforeReplace=keeps_name,
        )

    async def Create(self, request: Any, context: Any) -> provider_pb2.CreateResponse:
        table = await self._table(request.urn, context)
        inputs = plain(from_struct(request.properties))
        if request.preview:
            return provider_pb2.CreateResponse(properties=request.properties)
        await self._refuse(context, self._among(table, inputs))
        patience = request.timeout or table.timeout
        try:
            made = await self._cloud.create(table, inputs, urn=request.urn, patience=patience)
        except Refused as error:
            await context.abort(grpc.StatusCode.UNKNOWN, f"creating {_name(request.urn)}: {error}")
            raise
        except Unfinished as error:
            await self._unfinished(context, request.urn, error)
            raise
        return provider_pb2.CreateResponse(id=made.id, properties=to_struct(made.outputs))

    async def Update(self, request: Any, context: Any) -> provider_pb2.UpdateResponse:
        table = await self._table(request.urn, context)
        inputs = plain(from_struct(request.news))
        if request.preview:
            coming = dict.fromkeys(table.counts, UNKNOWN)
            planned = {**from_struct(request.olds), **inputs, **coming}
            return provider_pb2.UpdateResponse(properties=to_struct(planned))
        await self._refuse(context, self._among(table, inputs))
        made = self._cloud.standing.get((table.token, request.id))
        if made is None:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"updating {request.id}: it does not exist")
            raise AssertionError
        try:
            await self._cloud.update(made, inputs, patience=request.timeout or table.timeout)
        except Refused as error:
            await context.abort(grpc.StatusCode.UNKNOWN, f"updating {_name(request.urn)}: {error}")
        except Unfinished as error:
            await self._unfinished(context, request.urn, error)
        return provider_pb2.UpdateResponse(properties=to_struct(made.outputs))

    async def Read(self, request: Any, context: Any) -> provider_pb2.ReadResponse:
        table = await self._table(request.urn, context)
        made = self._cloud.standing.get((table.token, request.id))
        if made is None:
            return provider_pb2.ReadResponse()
        return provider_pb2.ReadResponse(
            id=made.id, properties=to_struct(made.outputs), inputs=to_struct(made.inputs)
        )

    async def Delete(self, request: Any, context: Any) -> Any:
        table = await self._table(request.urn, context)
        made = self._cloud.standing.get((table.token, request.id))
        if made is not None:
            await self._deleted(context, made)
        return empty_pb2.Empty()

    # What they share

    async def _table(self, urn: str, context: Any) -> Table:
        token = urn.split("::")[2].split("$")[-1]
        if token not in TABLES:
            reason = f"the stand-in has no table of {token}: look its inputs up and add one"
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, reason)
        return TABLES[token]

    def _among(self, table: Table, inputs: Mapping[str, Any]) -> list[Refusal]:
        rules = rules_among(table.token).values()
        return [refusal for rule in rules for refusal in rule(inputs, self._cloud.find)]

    async def _refuse(self, context: Any, refusals: list[Refusal]) -> None:
        if refusals:
            await context.abort(grpc.StatusCode.UNKNOWN, "\n".join(map(str, refusals)))

    async def _deleted(self, context: Any, made: Standing) -> None:
        try:
            await self._cloud.delete(made)
        except Refused as error:
            await context.abort(grpc.StatusCode.UNKNOWN, f"deleting {made.id}: {error}")

    async def _unfinished(self, context: Any, urn: str, error: Unfinished) -> None:
        """The engine keeps the state and what is wrong with it: the next `up` goes on from there."""
        made, reason = error.made, f"{_name(urn)}: {error}"
        details = init_failure(id_=made.id, properties=made.outputs, inputs=made.inputs, reasons=[reason])
        metadata = (("grpc-status-details-bin", details),)
        await context.abort(grpc.StatusCode.UNKNOWN, reason, trailing_metadata=metadata)


def _autoname(request: Any) -> str:
    seed = request.randomSeed or request.urn.encode()
    return f"{_name(request.urn)}-{hashlib.sha256(seed).hexdigest()[:7]}"


def _name(urn: str) -> str:
    return urn.rpartition("::")[2]


def _top(path: str) -> str:
    return path.partition(".")[0].partition("[")[0]


def _same_name(urn: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Whether the program chose the name and keeps it. A name with our suffix was made in Check."""
    made = re.compile(re.escape(_name(urn)) + "-[0-9a-f]{7}")
    names = [new[name] for name in ("name", "nodeGroupName") if name in new and old.get(name) == new[name]]
    return any(not made.fullmatch(str(name)) for name in names)
