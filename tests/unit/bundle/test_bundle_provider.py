"""The plugin as the engine meets it: its own process, its port on stdout, and gRPC from there on."""

import asyncio
import json
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]  # grpcio ships no types
import pytest
from google.protobuf import empty_pb2  # type: ignore[import-untyped]  # protobuf ships no types
from pulumi.runtime.proto import provider_pb2, provider_pb2_grpc, status_pb2

from muster.provider.provider import UNKNOWN, from_struct, to_struct
from tests.unit.bundle.fake_api import FakeApi
from tests.unit.bundle.test_bundle_converge import body

PLUGIN = Path(__file__).parents[3] / "muster" / "provider" / "bin" / "pulumi-resource-muster"
URN = "urn:pulumi:local::muster::muster:index:Queues$muster:k8s:Bundle::team-a"
NAMESPACE = json.dumps(body("Namespace", "team-a"))


@pytest.fixture
async def api() -> FakeApi:
    return FakeApi()


@pytest.fixture
async def configured(api: FakeApi) -> AsyncIterator[Any]:
    """What the engine configures the plugin with at the beginning of a run."""
    server, access = await api.start()
    yield provider_pb2.ConfigureRequest(args=to_struct({"kubeconfig": kubeconfig(access.server)}))
    await server.close()


@contextmanager
def running() -> Iterator[int]:
    """The port of a plugin of its own; it is ended as the engine ends it, and has to go at once."""
    with subprocess.Popen([PLUGIN], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """The plugin of all tests of a module: it takes most of a second to start."""
    with running() as port:
        yield port


@pytest.fixture
async def plugin(port: int, configured: Any) -> AsyncIterator[Any]:
    """A stub of the plugin, configured anew."""
    async with connected(port, configured) as stub:
        yield stub


@asynccontextmanager
async def connected(port: int, configured: Any) -> AsyncIterator[Any]:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = provider_pb2_grpc.ResourceProviderStub(channel)
        await stub.Configure(configured)
        yield stub


def kubeconfig(server: str) -> str:
    return json.dumps(
        {
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "k"}}],
            "clusters": [{"name": "k", "cluster": {"server": server}}],
        }
    )


def inputs(**manifests: str) -> Any:
    return to_struct({"manifests": {key.replace("_", "-"): text for key, text in manifests.items()}})


async def create(plugin: Any, **manifests: str) -> Any:
    return await plugin.Create(provider_pb2.CreateRequest(urn=URN, properties=inputs(**manifests)))


async def check(plugin: Any, news: Any) -> Any:
    return await plugin.Check(provider_pb2.CheckRequest(urn=URN, news=news))


async def diff(plugin: Any, before: Any, after: Any, *, state: Any = None) -> Any:
    return await plugin.Diff(provider_pb2.DiffRequest(urn=URN, olds=state, old_inputs=before, news=after))


async def refresh(plugin: Any, id: str, state: Any, of: Any) -> Any:
    return await plugin.Read(provider_pb2.ReadRequest(id=id, urn=URN, properties=state, inputs=of))


async def test_a_bundle_lives_from_check_to_delete(plugin: Any, api: FakeApi) -> None:
    checked = await check(plugin, inputs(team_a=NAMESPACE))
    assert not checked.failures
    created = await create(plugin, team_a=NAMESPACE)
    assert from_struct(created.properties)["objects"] == ["v1 Namespace team-a"]
    read = await refresh(plugin, created.id, created.properties, checked.inputs)
    assert (read.id, read.inputs, read.properties) == (created.id, checked.inputs, created.properties)
    await plugin.Delete(provider_pb2.DeleteRequest(id=created.id, urn=URN, properties=created.properties))
    assert "/api/v1/namespaces/team-a" not in api.objects


async def test_a_preview_writes_nothing(plugin: Any, api: FakeApi) -> None:
    await plugin.Create(provider_pb2.CreateRequest(urn=URN, properties=inputs(a=NAMESPACE), preview=True))
    assert api.log == []


async def test_only_the_changed_key_is_in_the_diff(plugin: Any) -> None:
    other = json.dumps(body("Namespace", "x"))
    before, after = inputs(a=NAMESPACE, b=other, c=other), inputs(a=NAMESPACE, b=NAMESPACE, d=other)
    found = await diff(plugin, before, after)
    kinds = {path: change.kind for path, change in found.detailedDiff.items()}
    assert kinds == {
        'manifests["b"]': provider_pb2.PropertyDiff.UPDATE,
        'manifests["c"]': provider_pb2.PropertyDiff.DELETE,
        'manifests["d"]': provider_pb2.PropertyDiff.ADD,
    }
    assert not found.replaces


async def test_another_spelling_or_nothing_new_is_no_change(plugin: Any) -> None:
    spelled = json.dumps(json.loads(NAMESPACE), indent=4)
    found = await diff(plugin, inputs(a=NAMESPACE), inputs(a=spelled))
    assert found.changes == provider_pb2.DiffResponse.DIFF_NONE


async def test_another_dry_run_alone_is_no_change(plugin: Any) -> None:
    """A stack of an older Muster has none, and its teams are not updated because of them."""
    manifests = {"manifests": {"team-a": NAMESPACE}}
    news = to_struct({**manifests, "dryRuns": {"team-a": NAMESPACE}})
    checked = await check(plugin, news)
    assert not checked.failures
    found = await diff(plugin, to_struct(manifests), checked.inputs)
    assert found.changes == provider_pb2.DiffResponse.DIFF_NONE


async def test_a_mistake_in_a_dry_run_is_reported_under_its_key(plugin: Any) -> None:
    news = to_struct({"manifests": {"team-a": NAMESPACE}, "dryRuns": {"team-a": "kind: Job"}})
    checked = await check(plugin, news)
    assert [each.property for each in checked.failures] == ['dryRuns["team-a"]']


async def test_a_text_that_is_not_known_yet_is_a_change_and_no_error(plugin: Any) -> None:
    checked = await check(plugin, inputs(a=UNKNOWN))
    assert not checked.failures
    found = await diff(plugin, inputs(a=NAMESPACE), inputs(a=UNKNOWN))
    assert found.changes == provider_pb2.DiffResponse.DIFF_SOME


async def test_a_mistake_in_a_text_is_told_under_its_key(plugin: Any) -> None:
    checked = await check(plugin, inputs(good=NAMESPACE, bad="kind: ["))
    assert [failure.property for failure in checked.failures] == ['manifests["bad"]']


async def test_another_cluster_is_a_replacement_and_its_objects_are_left_alone(
    plugin: Any, api: FakeApi
) -> None:
    created = await create(plugin, a=NAMESPACE)
    elsewhere = to_struct(from_struct(created.properties) | {"cluster": "another"})
    found = await diff(plugin, inputs(a=NAMESPACE), inputs(a=NAMESPACE), state=elsewhere)
    assert list(found.replaces) == ["cluster"]
    await plugin.Delete(provider_pb2.DeleteRequest(id=created.id, urn=URN, properties=elsewhere))
    assert "/api/v1/namespaces/team-a" in api.objects
    assert (await refresh(plugin, created.id, elsewhere, inputs(a=NAMESPACE))).id == ""


async def test_what_failed_in_part_is_kept_with_what_was_done(plugin: Any, api: FakeApi) -> None:
    path = "/api/v1/namespaces/team-a/configmaps/c"
    api.refusals[path] = [(422, {"reason": "Invalid", "message": "data: Invalid value"})]
    both = [json.loads(NAMESPACE), body("ConfigMap", "c", namespace="team-a")]
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await create(plugin, team_a=json.dumps(both))
    details = dict(caught.value.trailing_metadata() or ())["grpc-status-details-bin"]
    failed = provider_pb2.ErrorResourceInitFailed()
    assert status_pb2.Status.FromString(details).details[0].Unpack(failed)
    assert list(failed.reasons) == ["[team-a] ConfigMap team-a/c: data: Invalid value"]
    assert from_struct(failed.properties)["objects"] == ["v1 Namespace team-a"]
    assert failed.id


async def test_a_bundle_without_objects_is_refreshed_and_nothing_is_imported(plugin: Any) -> None:
    created = await create(plugin)
    assert (await refresh(plugin, created.id, created.properties, inputs())).id == created.id
    with pytest.raises(grpc.aio.AioRpcError, match="cannot be imported"):
        await plugin.Read(provider_pb2.ReadRequest(id="x", urn=URN))


async def test_everything_gone_reads_as_gone(plugin: Any, api: FakeApi) -> None:
    created = await create(plugin, a=NAMESPACE)
    del api.objects["/api/v1/namespaces/team-a"]
    assert (await refresh(plugin, created.id, created.properties, inputs(a=NAMESPACE))).id == ""


async def test_a_preview_before_the_cluster_exists_needs_none(plugin: Any) -> None:
    await plugin.Configure(provider_pb2.ConfigureRequest(args=to_struct({"kubeconfig": UNKNOWN})))
    await check(plugin, inputs(a=NAMESPACE))
    await plugin.Create(provider_pb2.CreateRequest(urn=URN, properties=inputs(a=NAMESPACE), preview=True))
    with pytest.raises(grpc.aio.AioRpcError, match="not known before the cluster exists"):
        await create(plugin, a=NAMESPACE)


async def test_cancelling_answers_what_is_under_way(configured: Any, api: FakeApi) -> None:
    api.unserved.add("ConfigMap")
    config_map = json.dumps(body("ConfigMap", "c", namespace="n"))
    with running() as port:
        async with connected(port, configured) as plugin:
            creating = asyncio.ensure_future(create(plugin, a=config_map))
            while "v1" not in api.asked:
                await asyncio.sleep(0.01)
            await plugin.Cancel(empty_pb2.Empty())
            with pytest.raises(grpc.aio.AioRpcError, match="cancelled"):
                await creating
