"""The HTTPS server that the API server calls before it stores an object.

Responsible for limits (body size, concurrent reviews, time to read), for what a failed review means for the
client, and for which certificate a new connection gets. Review functions give the verdicts; the keeper
rotates the certificates.
"""

import asyncio
import base64
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import structlog
from aiohttp import web

from muster.controller.kube import decoding, tls
from muster.controller.runtime.metrics import Metrics
from muster.controller.runtime.review import REVIEWS, Allow, Deny, Patch, Request, Verdict, Webhook, question
from muster.controller.runtime.spans import Traces
from muster.controller.runtime.traces import NO_TRACES

MAX_BODY = 8 * 1024 * 1024
"""The API server takes objects of up to 3 MiB; an update carries two of them."""

AT_A_TIME = 32
"""Reviews that may hold a body in memory; times MAX_BODY this bounds what a flood can cost."""

READ_TIMEOUT = 5.0
"""Seconds to read a body: the API server has waited longer than our timeoutSeconds by then."""

SLOW = 0.1
"""A review longer than this is logged: nothing in it should wait."""


class WebhookServer:
    """Serves reviews over TLS. Has no certificate until `use` is called, and listens only from then on."""

    def __init__(
        self,
        webhooks: Sequence[Webhook[Any]],
        *,
        metrics: Metrics,
        host: str = "0.0.0.0",  # noqa: S104 - the API server comes through a Service
        port: int = 0,
        unready: Callable[[], Mapping[str, str]] = dict,
        is_ending: Callable[[], bool] = bool,
        traces: Traces = NO_TRACES,
    ) -> None:
        self._webhooks = {webhook.path: webhook for webhook in webhooks}
        if len(self._webhooks) != len(webhooks):
            raise ValueError("two webhooks share a path")
        self._metrics, self._host, self.port, self._unready = metrics, host, port, unready
        self._traces, self._is_ending = traces, is_ending
        self._serving: ssl.SSLContext | None = None
        self._certified = asyncio.Event()
        self._listening = asyncio.Event()
        self._slots = asyncio.Semaphore(AT_A_TIME)
        self._log = structlog.get_logger("webhooks")

    def use(self, *, certificate: bytes, key: bytes) -> None:
        """Serve new connections with this pair (PEM). A pair that does not fit raises and changes nothing."""
        self._serving = tls.server_context(certificate=certificate, key=key)
        self._certified.set()

    def ready(self) -> str | None:
        """A readiness check for `Health.ready_when`."""
        return None if self._listening.is_set() else "no certificate yet"

    async def listening(self) -> None:
        await self._listening.wait()

    async def run(self) -> None:
        """Serve forever, from the first certificate on. Cancelled, it finishes the reviews under way."""
        await self._certified.wait()
        app = web.Application(client_max_size=MAX_BODY)
        app.router.add_post("/{tail:.*}", self._answer)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=READ_TIMEOUT, keepalive_timeout=120)
        await runner.setup()
        try:
            await web.TCPSite(runner, self._host, self.port, ssl_context=self._listener_context()).start()
            self.port = runner.addresses[0][1]
            self._listening.set()
            await asyncio.Event().wait()
        finally:
            self._listening.clear()
            await runner.cleanup()

    def _listener_context(self) -> ssl.SSLContext:
        """A context without a certificate of its own: every handshake gets the one that is current at that
        moment.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2

        def choose(connection: ssl.SSLObject | ssl.SSLSocket, name: str, _: ssl.SSLContext) -> None:
            if self._serving is not None:
                connection.context = self._serving

        context.sni_callback = choose
        return context

    async def _answer(self, request: web.Request) -> web.Response:
        webhook = self._webhooks.get(request.path)
        if webhook is None:
            return web.Response(status=404, text=f"no webhook at {request.path}\n")
        status = 500  # What the server makes of an exception.
        try:
            with self._metrics.webhook_in_flight.labels(webhook.path).track_inprogress():
                response = await self._respond(webhook, request)
            status = response.status
        except web.HTTPException as refused:
            status = refused.status
            raise
        finally:
            self._metrics.webhook_requests.labels(webhook.path, str(status)).inc()
        if self._is_ending():
            response.force_close()  # What came on a connection while we close it would be lost.
        return response

    async def _respond(self, webhook: Webhook[Any], request: web.Request) -> web.Response:
        failing = self._unready()
        if failing:
            # Not a verdict: the failurePolicy of the webhook decides, as for a server that is not there.
            return web.Response(status=503, text=f"not ready: {failing}\n")
        async with self._slots:
            try:
                async with asyncio.timeout(READ_TIMEOUT):
                    body = await request.read()
            except TimeoutError:
                return web.Response(status=408, text=f"the body did not arrive within {READ_TIMEOUT:g} s\n")
            except (ConnectionError, web.RequestPayloadError) as error:
                return web.Response(status=400, text=f"the body broke off: {error}\n")
            try:
                review = decoding.decode(REVIEWS, body)
            except msgspec.MsgspecError as error:
                return web.Response(
                    status=400, text=f"not an AdmissionReview of admission.k8s.io/v1: {error}\n"
                )
            return web.Response(body=self._judge(webhook, review.request), content_type="application/json")

    def _judge(self, webhook: Webhook[Any], request: Request) -> bytes:
        started = time.perf_counter()
        where = {"webhook": webhook.path, "namespace": request.namespace, "name": request.name}
        with self._traces.span("review", where) as span:
            verdict, counted = self._verdict(webhook, request)
            span.set_attributes({"verdict": counted})
        seconds = time.perf_counter() - started
        self._metrics.webhook_seconds.labels(webhook.path).observe(seconds)
        self._metrics.webhook_reviews.labels(webhook.path, counted).inc()
        if seconds > SLOW:
            self._log.warning("slow review", path=webhook.path, seconds=round(seconds, 3), uid=request.uid)
        return answer(request.uid, verdict)

    def _verdict(self, webhook: Webhook[Any], request: Request) -> tuple[Verdict, str]:
        """What is answered, and what it counts as."""
        where = f"{request.namespace}/{request.name}".strip("/")
        counted = "failed"
        try:
            verdict = webhook.review(question(request, webhook.type))
            return verdict, type(verdict).__name__.lower()
        except msgspec.MsgspecError as error:
            self._log.info("object does not decode", path=webhook.path, object=where, error=str(error))
            reason = f"this object cannot be judged, because a field does not have its type: {error}"
            counted = "unreadable"
        except Exception:
            self._log.exception("review failed", path=webhook.path, object=where)
            reason = f"the review of this object failed in Muster ({webhook.path}); its log has the reason"
        if webhook.on_error == "allow":
            return Allow(warnings=(reason,)), counted
        return Deny(reason, code=500 if counted == "failed" else 422), counted


def answer(uid: str, verdict: Verdict) -> bytes:
    """The AdmissionReview that carries a verdict."""
    response: dict[str, Any] = {"uid": uid, "allowed": not isinstance(verdict, Deny)}
    match verdict:
        case Deny(message, code):
            response["status"] = {
                "code": code,
                "message": message,
                "reason": "Forbidden" if code == 403 else "Invalid",
            }
        case Patch(operations, warnings):
            response["patchType"] = "JSONPatch"
            response["patch"] = base64.b64encode(msgspec.json.encode(operations)).decode("ascii")
            response["warnings"] = warnings
        case Allow(warnings):
            response["warnings"] = warnings
    return msgspec.json.encode(
        {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
    )
