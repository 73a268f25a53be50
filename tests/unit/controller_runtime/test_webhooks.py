"""Reviews over real TLS, and a rotation of certificate and authority under requests that all succeed."""

import asyncio
import base64
import json
import ssl
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
import pytest
import structlog
from prometheus_client import CollectorRegistry

from muster.controller.kube.resource import Key
from muster.controller.runtime.authority import Lifetimes, Material
from muster.controller.runtime.certificates import (
    MUTATING,
    VALIDATING,
    CertificateKeeper,
    CertificateReader,
    Configuration,
)
from muster.controller.runtime.metrics import Metrics
from muster.controller.runtime.review import Allow, Deny, Patch, Review, Verdict, Webhook
from muster.controller.runtime.webhook_server import MAX_BODY, WebhookServer
from tests.unit.controller_kube.fake_apiserver import DEEP, FakeApiServer, encode
from tests.unit.controller_kube.test_reflector import Thing
from tests.unit.controller_runtime.virtual import named_after

SECRET = Key("muster-system", "certificates")


def judge(review: Review[Thing]) -> Verdict:
    thing = review.object
    if thing is None:
        return Allow()
    if thing.spec.text == "crash":
        raise RuntimeError("bug")
    if thing.spec.size > 8:
        return Deny(f"size: {thing.spec.size} is more than 8; ask for at most 8")
    if thing.spec.size == 0:
        return Patch(({"op": "add", "path": "/spec/size", "value": 1},))
    return Allow(warnings=(f"{', '.join(review.groups)} {review.operation}",))


class Rig:
    """A server with its reader, a keeper, an API server, and a clock that a test moves."""

    def __init__(self, api: FakeApiServer) -> None:
        self.api, self.now = api, datetime.now(UTC)
        self.metrics = Metrics(CollectorRegistry())
        self.waiting: dict[str, str] = {}
        self.is_ending = False
        self.server = WebhookServer(
            [
                Webhook(path="/strict", type=Thing, review=judge),
                Webhook(path="/lenient", type=Thing, review=judge, on_error="allow"),
            ],
            metrics=self.metrics,
            host="127.0.0.1",
            unready=lambda: self.waiting,
            is_ending=lambda: self.is_ending,
        )
        self.keeper = self.make_keeper()
        self.reader = CertificateReader(api.client(), secret=SECRET, server=self.server, metrics=self.metrics)

    async def rotate(self) -> None:
        """A look of a manager, and then one of the webhooks."""
        await self.keeper.sync()
        await self.reader.sync()

    def certificate(self) -> bytes:
        """What the Secret has the webhooks serve."""
        secret = self.api.objects["secrets", SECRET.namespace, SECRET.name]
        return base64.b64decode(secret["data"]["tls.crt"])

    def make_keeper(self, *, lifetimes: Lifetimes | None = None) -> CertificateKeeper:
        return CertificateKeeper(
            self.api.client(),
            secret=SECRET,
            names=("localhost",),
            configurations=[Configuration(VALIDATING, "muster"), Configuration(MUTATING, "muster")],
            metrics=self.metrics,
            lifetimes=lifetimes,
            wall_clock=lambda: self.now,
        )

    def bundle(self, plural: str = "validatingwebhookconfigurations") -> bytes:
        (webhook,) = self.api.objects[plural, "", "muster"]["webhooks"]
        return base64.b64decode(webhook["clientConfig"]["caBundle"])

    async def spec(
        self,
        spec: dict[str, Any],
        *,
        path: str = "/strict",
        bundle: bytes | None = None,
        operation: str = "CREATE",
    ) -> dict[str, Any]:
        thing = {"metadata": {"name": "x", "namespace": "a"}, "spec": spec}
        request = {
            "uid": "u-1",
            "operation": operation,
            "name": "x",
            "namespace": "a",
            "userInfo": {"username": "alice", "groups": ["team-a"]},
            "object": None if operation == "DELETE" else thing,
            "oldObject": None if operation == "CREATE" else thing,
        }
        status, text = await self.post(path, json.dumps({"request": request}).encode(), bundle=bundle)
        assert status == 200, text
        answer = json.loads(text)
        assert answer["response"]["uid"] == "u-1"
        return dict(answer["response"])

    async def post(self, path: str, body: bytes, *, bundle: bytes | None = None) -> tuple[int, str]:
        context = ssl.create_default_context(cadata=(bundle or self.bundle()).decode())
        url = f"https://localhost:{self.server.port}{path}?timeout=3s"
        connector = aiohttp.TCPConnector(ssl=context)
        async with (
            aiohttp.ClientSession(connector=connector) as session,
            session.post(url, data=body) as response,
        ):
            return response.status, await response.text()


def with_rig(scenario: Callable[[Rig], Awaitable[None]]) -> Callable[[], None]:
    async def run() -> None:
        async with FakeApiServer().running() as api:
            for plural in ("validatingwebhookconfigurations", "mutatingwebhookconfigurations"):
                service = {"name": "s", "namespace": "n"}
                webhook = {"name": "a.muster.dev", "clientConfig": {"service": service}}
                api.put(plural, {"metadata": {"name": "muster"}, "webhooks": [webhook]})
            rig = Rig(api)
            serving = asyncio.ensure_future(rig.server.run())
            assert rig.server.ready() is not None
            assert rig.keeper.ready() is not None
            await rig.reader.sync()
            assert rig.server.ready() is not None
            await rig.rotate()
            assert rig.keeper.ready() is None
            await rig.server.listening()
            assert rig.server.ready() is None
            await scenario(rig)
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)

    return named_after(scenario, lambda: asyncio.run(run()))


@with_rig
async def test_the_three_verdicts_reach_the_client(rig: Rig) -> None:
    assert (await rig.spec({"size": 2}))["warnings"] == ["team-a CREATE"]
    denied = await rig.spec({"size": 9})
    assert denied["allowed"] is False
    assert denied["status"]["message"] == "size: 9 is more than 8; ask for at most 8"
    patched = await rig.spec({})
    assert patched["allowed"] is True
    assert json.loads(base64.b64decode(patched["patch"])) == [{"op": "add", "path": "/spec/size", "value": 1}]
    assert (await rig.spec({"size": 9}, operation="DELETE"))["allowed"] is True


@pytest.mark.parametrize(
    ("spec", "counted"),
    [({"text": "crash"}, "failed"), ({"size": "huge"}, "unreadable"), ({"size": [1]}, "unreadable")],
)
def test_a_review_that_fails_answers_as_its_webhook_chose_and_is_counted(
    spec: dict[str, Any], counted: str
) -> None:
    async def scenario(rig: Rig) -> None:
        strict = await rig.spec(spec)
        assert strict["allowed"] is False
        assert strict["status"]["message"]
        lenient = await rig.spec(spec, path="/lenient")
        assert lenient["allowed"] is True
        assert lenient["warnings"]
        for path in ("/strict", "/lenient"):
            where = {"webhook": path, "verdict": counted}
            value = rig.metrics.registry.get_sample_value
            assert value("muster_webhook_reviews_total", where) == 1

    with_rig(scenario)()


@with_rig
async def test_what_is_not_a_review_is_refused_and_costs_nothing_else(rig: Rig) -> None:
    assert (await rig.post("/strict", b"not json"))[0] == 400
    assert (await rig.post("/unknown", b"{}"))[0] == 404
    assert (await rig.post("/strict", b"x" * (MAX_BODY + 1)))[0] == 413
    rig.waiting = {"workloads": "not read yet"}
    assert (await rig.post("/strict", b"{}"))[0] == 503
    rig.waiting = {}
    assert (await rig.spec({"size": 2}))["allowed"] is True


@pytest.mark.parametrize(
    "sent",
    [
        b"Content-Length: 1000\r\n\r\n{",
        b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
        b"Content-Length: 9000000\r\n\r\n" + b"x" * 9_000_000,
    ],
    ids=["breaks off", "breaks off between chunks", "is too long"],
)
def test_a_body_that_is_none_is_not_counted_as_a_failure_of_ours(sent: bytes) -> None:
    """Whoever reaches the port can send one, and counted failures wake a person."""

    async def scenario(rig: Rig) -> None:
        context = ssl.create_default_context(cadata=rig.bundle().decode())
        _, writer = await asyncio.open_connection("localhost", rig.server.port, ssl=context)
        writer.write(b"POST /strict HTTP/1.1\r\nHost: localhost\r\n" + sent)
        await writer.drain()
        flying = rig.metrics.webhook_in_flight.labels("/strict")
        while not (flying._value.get() or counts(rig)):
            await asyncio.sleep(0.001)
        writer.transport.abort()
        while not counts(rig):
            await asyncio.sleep(0.001)
        assert {code[0] for code in counts(rig)} == {"4"}

    with_rig(scenario)()


def counts(rig: Rig) -> dict[str, float]:
    """Answered requests by their code."""
    (found,) = rig.metrics.webhook_requests.collect()
    return {each.labels["code"]: each.value for each in found.samples if each.name.endswith("_total")}


@with_rig
async def test_while_it_ends_it_answers_and_asks_for_another_connection(rig: Rig) -> None:
    """What the API server sends on a connection that is being closed is lost, and with it a RayJob."""
    context = ssl.create_default_context(cadata=rig.bundle().decode())
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session:
        for rig.is_ending in (False, True):
            url = f"https://localhost:{rig.server.port}/strict"
            async with session.post(url, data=b"{}") as response:
                assert (response.headers.get("Connection") == "close") is rig.is_ending


@with_rig
async def test_a_review_of_the_deepest_nesting_is_answered_and_counted(rig: Rig) -> None:
    thing = {"metadata": {"name": "x", "managedFields": [{"fieldsV1": DEEP}]}, "spec": {"size": 9}}
    request = {"uid": "u-1", "operation": "UPDATE", "object": thing, "oldObject": thing}
    status, text = await rig.post("/strict", encode({"request": request}).encode())
    assert (status, "ask for at most 8" in text) == (200, True)
    endless = b'{"request":' + b"[" * 100_000
    assert (await rig.post("/strict", endless))[0] == 400
    for code in ("200", "400"):
        count = rig.metrics.webhook_requests.labels("/strict", code)._value.get()
        assert count == 1, f"reviews answered {code}"


@with_rig
async def test_a_rotation_of_everything_fails_no_client_that_holds_the_bundle_from_before(rig: Rig) -> None:
    """The keeper's clock runs through four years up to now, with lives so long that all of it is still
    valid now.
    """
    lifetimes = Lifetimes(
        authority=timedelta(days=1800), serving=timedelta(days=1500), overlap=timedelta(days=100)
    )

    rig.api.drop(("secrets", SECRET.namespace, SECRET.name))
    rig.keeper = rig.make_keeper(lifetimes=lifetimes)
    rig.now -= timedelta(days=1400)
    await rig.rotate()
    served, bundles = {rig.certificate()}, {rig.bundle()}
    for _ in range(28):
        before = rig.bundle()
        rig.now += timedelta(days=50)
        await rig.rotate()
        assert rig.bundle() == rig.bundle("mutatingwebhookconfigurations")
        assert (await rig.spec({"size": 2}, bundle=before))["allowed"] is True
        served.add(rig.certificate())
        bundles.add(rig.bundle())
    assert (len(served), len(bundles)) == (2, 2)
    secret = rig.api.objects["secrets", SECRET.namespace, SECRET.name]
    del secret["data"]["tls.crt"]
    rig.api.put("secrets", secret)
    await rig.rotate()
    assert (await rig.spec({"size": 2}))["allowed"] is True
    with pytest.raises(aiohttp.ClientConnectorCertificateError):
        await rig.spec(
            {"size": 2}, bundle=bundles.difference({rig.bundle()}).pop()
        )  # the new authority signed it


@with_rig
async def test_a_new_certificate_is_served_without_a_restart_and_open_connections_go_on(rig: Rig) -> None:
    async def fingerprint() -> bytes:
        context = ssl.create_default_context(cadata=rig.bundle().decode())
        _, writer = await asyncio.open_connection("localhost", rig.server.port, ssl=context)
        certificate = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        return bytes(certificate)

    context = ssl.create_default_context(cadata=rig.bundle().decode())
    reader, writer = await asyncio.open_connection("localhost", rig.server.port, ssl=context)
    first = await fingerprint()
    secret = rig.api.objects["secrets", SECRET.namespace, SECRET.name]
    del secret["data"]["tls.crt"]
    rig.api.put("secrets", secret)
    await rig.rotate()
    assert await fingerprint() != first
    writer.write(b"POST /strict HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
    assert (await reader.readline()).startswith(b"HTTP/1.1 400")
    writer.close()


def test_a_replica_that_was_overtaken_does_not_put_an_older_authority_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It has read the Secret; before it publishes, another replica rotates and publishes."""

    async def scenario(rig: Rig) -> None:
        settle, before = rig.keeper._settle, rig.bundle()

        async def overtaken() -> Material:
            material = await settle()
            rig.now += timedelta(days=300)
            await rig.make_keeper().sync()
            return material

        monkeypatch.setattr(rig.keeper, "_settle", overtaken)
        await rig.keeper.sync()
        held = rig.api.objects["secrets", SECRET.namespace, SECRET.name]["data"]["ca.crt"]
        assert base64.b64decode(held) != before, "the other replica has rotated"
        for plural in ("validatingwebhookconfigurations", "mutatingwebhookconfigurations"):
            assert rig.bundle(plural) == base64.b64decode(held)

    with_rig(scenario)()


@with_rig
async def test_a_pair_that_does_not_fit_changes_nothing(rig: Rig) -> None:
    data = rig.api.objects["secrets", SECRET.namespace, SECRET.name]["data"]
    with pytest.raises(ssl.SSLError):
        rig.server.use(certificate=base64.b64decode(data["tls.crt"]), key=base64.b64decode(data["ca.key"]))
    assert (await rig.spec({"size": 2}))["allowed"] is True


@with_rig
async def test_a_deleted_configuration_is_reported_until_it_is_back_and_then_gets_the_bundle(
    rig: Rig,
) -> None:
    def present(kind: str) -> float:
        found = rig.metrics.registry.get_sample_value("muster_webhook_configuration_present", {"kind": kind})
        assert found is not None
        return found

    key = ("validatingwebhookconfigurations", "", "muster")
    kinds = ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration")
    bundle, held = rig.bundle(), json.loads(json.dumps(rig.api.objects[key]))
    assert [present(kind) for kind in kinds] == [1, 1]
    rig.api.drop(key)
    with structlog.testing.capture_logs() as logs:
        await rig.keeper.sync()
        await rig.keeper.sync()
    assert [present(kind) for kind in kinds] == [0, 1]
    assert key not in rig.api.objects
    (line,) = [each for each in logs if each["log_level"] == "error"]
    assert (line["kind"], line["configuration"]) == (kinds[0], "muster")
    assert "pulumi up --refresh" in line["fix"]

    for webhook in held["webhooks"]:
        del webhook["clientConfig"]["caBundle"]
    rig.api.put(key[0], held)
    await rig.keeper.sync()
    assert [present(kind) for kind in kinds] == [1, 1]
    assert rig.bundle() == bundle


@with_rig
async def test_a_configuration_without_webhooks_is_reported(rig: Rig) -> None:
    rig.api.put("mutatingwebhookconfigurations", {"metadata": {"name": "muster"}, "webhooks": []})
    await rig.keeper.sync()
    sample = {"kind": "MutatingWebhookConfiguration"}
    assert rig.metrics.registry.get_sample_value("muster_webhook_configuration_present", sample) == 0


@with_rig
async def test_replicas_that_start_together_agree_on_one_authority(rig: Rig) -> None:
    rig.api.drop(("secrets", SECRET.namespace, SECRET.name))
    await asyncio.gather(*(rig.make_keeper().sync() for _ in range(4)))
    data = rig.api.objects["secrets", SECRET.namespace, SECRET.name]["data"]
    for plural in ("validatingwebhookconfigurations", "mutatingwebhookconfigurations"):
        assert rig.bundle(plural) == base64.b64decode(data["ca.crt"])


@with_rig
async def test_a_bundle_that_somebody_removed_is_put_back_and_a_damaged_secret_is_made_anew(rig: Rig) -> None:
    good = rig.bundle()
    configuration = rig.api.objects["validatingwebhookconfigurations", "", "muster"]
    del configuration["webhooks"][0]["clientConfig"]["caBundle"]
    rig.api.put("validatingwebhookconfigurations", configuration)
    await rig.keeper.sync()
    assert rig.bundle() == good
    secret = rig.api.objects["secrets", SECRET.namespace, SECRET.name]
    secret["data"]["ca.crt"] = "Z2FyYmFnZQ=="
    rig.api.put("secrets", secret)
    await rig.rotate()
    assert rig.bundle() != good
    assert (await rig.spec({"size": 2}))["allowed"] is True
