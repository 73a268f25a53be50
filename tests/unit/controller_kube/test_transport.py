"""What a call does when the answer is no, late or missing."""

import asyncio
import json
from collections.abc import Awaitable
from pathlib import Path

import pytest
from aiohttp import web

from muster.controller.kube.client import Client, Selection
from muster.controller.kube.connection import (
    TOKEN_MAX_AGE,
    Connection,
    ConnectionSettingsError,
    TokenFile,
    in_cluster,
    kubeconfig,
)
from muster.controller.kube.errors import (
    AlreadyExists,
    Conflict,
    Gone,
    KubeError,
    NotFound,
    ServerError,
    TooManyRequests,
    TransportError,
)
from muster.controller.kube.resource import Key
from tests.unit.controller_kube.fake_apiserver import FakeApiServer, Fault, answering
from tests.unit.controller_kube.test_reflector import THING, thing
from tests.unit.controller_runtime.virtual import now, on_virtual_time


def _failing(code: int, *, retry_after: str = "") -> web.Response:
    headers = {"Retry-After": retry_after} if retry_after else None
    return web.json_response(
        {"code": code, "reason": "Test", "message": "scripted"}, status=code, headers=headers
    )


@on_virtual_time
async def test_typed_errors_carry_the_apis_words() -> None:
    async with FakeApiServer().running() as server, server.client() as client:
        with pytest.raises(
            NotFound, match=r"get /apis/test\.dev/v1/namespaces/a/things/x: 404 NotFound: x not found"
        ):
            await client.get(THING, Key("a", "x"))
        made = await client.create(THING, thing("x"), namespace="a")
        with pytest.raises(AlreadyExists):
            await client.create(THING, thing("x"), namespace="a")
        with pytest.raises(Conflict):
            await client.delete(THING, made.key, uid="another")
        await client.delete(THING, made.key, uid=made.metadata.uid)
        with pytest.raises(NotFound):
            await client.delete(THING, made.key)


@on_virtual_time
async def test_trouble_is_retried_only_where_twice_is_the_same_as_once() -> None:
    async with FakeApiServer().running() as server, server.client() as client:
        server.put("things", thing("x"))
        server.write_faults.extend([lambda _: _failing(503), lambda _: _failing(500)])
        await client.apply(THING, Key("a", "x"), thing("x", size=1))
        assert [method for method, _ in server.requests] == ["PATCH"] * 3
        server.requests.clear()
        server.write_faults.append(lambda _: _failing(503))
        with pytest.raises(ServerError):
            await client.create(THING, thing("y"), namespace="a")
        assert len(server.requests) == 1


def _hanging_up(request: web.Request) -> web.Response:
    """The server has read the request, and nobody learns what came of it."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


@on_virtual_time
async def test_a_write_on_a_used_connection_that_breaks_is_repeated_by_nobody_behind_our_back() -> None:
    asked: list[str] = []
    async with FakeApiServer().running() as server, server.client() as plain:
        client = plain.guarded(lambda: asked.append("guard"))
        held = thing("x")
        server.put("things", held)

        async def hung_up(method: str, call: Awaitable[object]) -> None:
            await client.get(THING, Key("a", "x"))
            server.requests.clear()
            asked.clear()
            server.write_faults.append(_hanging_up)
            with pytest.raises(TransportError, match="ServerDisconnected"):
                await call
            assert [each for each, _ in server.requests] == [method]
            assert asked == ["guard"]

        await hung_up("PUT", client.replace(THING, Key("a", "x"), held))
        await hung_up("DELETE", client.delete(THING, Key("a", "x")))


@on_virtual_time
async def test_a_call_that_may_be_repeated_asks_the_guard_each_time_that_its_connection_breaks() -> None:
    asked: list[str] = []
    async with FakeApiServer().running() as server, server.client() as plain:
        client = plain.guarded(lambda: asked.append("guard"))
        uid = server.put("things", thing("x"))["metadata"]["uid"]
        await client.get(THING, Key("a", "x"))
        server.requests.clear()
        server.write_faults.extend([_hanging_up, _hanging_up])
        await client.delete(THING, Key("a", "x"), uid=uid)
        assert [method for method, _ in server.requests] == ["DELETE"] * 3
        assert len(asked) == 3


@on_virtual_time
async def test_a_short_retry_after_is_waited_out_and_a_long_one_is_handed_up() -> None:
    async with FakeApiServer().running() as server, server.client() as client:
        server.write_faults.append(lambda _: _failing(429, retry_after="4"))
        await client.create(THING, thing("x"), namespace="a")
        assert now() >= 4
        server.write_faults.append(lambda _: _failing(429, retry_after="60"))
        with pytest.raises(TooManyRequests) as caught:
            await client.create(THING, thing("y"), namespace="a")
        assert caught.value.retry_after == 60


@on_virtual_time
async def test_retries_are_bounded() -> None:
    async with FakeApiServer().running() as server, server.client() as client:
        server.list_faults.extend([Fault("500")] * 20)
        with pytest.raises(ServerError):
            await client.list(THING)
        assert len(server.requests) == 4


@pytest.mark.parametrize(
    ("metadata", "is_gone"),
    [
        ({}, True),
        ({"deletionTimestamp": "2026-11-26T03:37:42Z", "deletionGracePeriodSeconds": 0}, True),
        ({"deletionTimestamp": "2026-11-26T03:37:42Z", "deletionGracePeriodSeconds": 30}, False),
        (
            {
                "deletionTimestamp": "2026-11-26T03:37:42Z",
                "deletionGracePeriodSeconds": 0,
                "finalizers": ["example.com/kept"],
            },
            False,
        ),
    ],
    ids=["a Status", "a pod without a grace period", "a grace period", "a finalizer"],
)
@on_virtual_time
async def test_a_deletion_tells_whether_the_object_is_gone(
    metadata: dict[str, object], is_gone: bool
) -> None:
    """As kube-apiserver 1.34 answers it."""
    async with FakeApiServer().running() as server, server.client() as client:
        server.write_faults.append(lambda _: web.json_response({"kind": "Thing", "metadata": metadata}))
        assert await client.delete(THING, Key("a", "x"), uid="u") is is_gone


@on_virtual_time
async def test_an_expired_page_is_gone() -> None:
    async with FakeApiServer().running() as server, server.client() as client:
        for number in range(5):
            server.put("things", thing(f"t{number}"))
        server.list_faults.extend([Fault("none"), Fault("410")])
        with pytest.raises(Gone):
            async for _ in client.pages(THING, Selection(), size=2):
                pass


@on_virtual_time
async def test_a_server_that_is_not_there_is_a_transport_error_with_the_call_in_it() -> None:
    async with FakeApiServer().running() as server:
        client = server.client()
    async with client:
        with pytest.raises(TransportError, match=r"get /apis/test\.dev/v1/namespaces/a/things/x: "):
            await client.get(THING, Key("a", "x"))


@on_virtual_time
async def test_the_guard_is_asked_before_every_attempt_of_a_write_and_never_for_a_read() -> None:
    class AttemptFailed(Exception):
        pass

    answers = [True, False]

    def guard() -> None:
        if not answers.pop(0):
            raise AttemptFailed

    async with FakeApiServer().running() as server, server.client() as plain:
        client = plain.guarded(guard)
        server.put("things", thing("x"))
        await client.get(THING, Key("a", "x"))
        server.write_faults.append(lambda _: _failing(503))
        with pytest.raises(AttemptFailed):
            await client.apply(THING, Key("a", "x"), thing("x", size=1))
        assert answers == []


@on_virtual_time
async def test_a_refused_token_is_read_again_at_once(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    seen: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append(request.headers["Authorization"])
        token.write_text("new")
        if seen[-1] == "Bearer old":
            return _failing(401)
        return web.json_response({"gitVersion": "v1"})

    async with answering(answer) as port:
        connection = Connection(f"http://127.0.0.1:{port}", token=TokenFile(token))
        async with Client(connection, field_manager="test") as client:
            assert await client.version() == "v1"
    assert seen == ["Bearer old", "Bearer new"]


def test_a_token_file_is_read_again_when_it_is_old(tmp_path: Path) -> None:
    file, clock = tmp_path / "token", [0.0]
    file.write_text("one\n")
    token = TokenFile(file, clock=lambda: clock[0])
    assert token() == "one"
    file.write_text("two")
    assert token() == "one"
    clock[0] = TOKEN_MAX_AGE + 1
    assert token() == "two"


def test_missing_settings_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ConnectionSettingsError, match="--kubeconfig"):
        in_cluster({})
    with pytest.raises(ConnectionSettingsError, match="automountServiceAccountToken"):
        in_cluster({"KUBERNETES_SERVICE_HOST": "h", "KUBERNETES_SERVICE_PORT": "1"}, directory=tmp_path)
    yaml = tmp_path / "config"
    yaml.write_text("apiVersion: v1\n")
    with pytest.raises(ConnectionSettingsError, match="-o json"):
        kubeconfig(yaml)


def test_a_kubeconfig_in_json_is_understood(tmp_path: Path) -> None:
    path = tmp_path / "config"
    user: dict[str, object] = {"token": "secret"}
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": "http://127.0.0.1:1/"}}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(json.dumps(config))
    connection = kubeconfig(path)
    assert connection.server == "http://127.0.0.1:1"
    assert connection.authorization() == "Bearer secret"
    user["exec"] = {"command": "gke-gcloud-auth-plugin"}
    path.write_text(json.dumps(config))
    with pytest.raises(ConnectionSettingsError, match="from a program"):
        kubeconfig(path)


@on_virtual_time
async def test_a_call_is_given_up_after_its_timeout() -> None:
    async def answer(request: web.Request) -> web.Response:
        await asyncio.sleep(100_000)
        return web.Response()

    async with answering(answer) as port:
        async with Client(Connection(f"http://127.0.0.1:{port}"), field_manager="test") as client:
            with pytest.raises(KubeError, match="no answer in time"):
                await client.create(THING, thing("x"), namespace="a")
        assert 25 < now() < 40
