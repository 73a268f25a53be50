"""The HTTPS server that the API server calls before it stores an object.

Responsible for TLS, for reading a body in time, for what a failed review means for the client, and for which
certificate a new connection gets. `connections` decides which clients stay connected, review functions give
the verdicts, and the keeper rotates the certificates.
"""

import asyncio
import base64
import ssl
import time
from asyncio import sslproto
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

import msgspec
import structlog
from aiohttp import web

from muster.controller.kube import decoding, tls
from muster.controller.runtime.connections import HANDSHAKE_TIMEOUT, IDLE, Connection, Connections, Reason
from muster.controller.runtime.metrics import Metrics
from muster.controller.runtime.review import REVIEWS, Allow, Deny, Patch, Request, Verdict, Webhook, question
from muster.controller.runtime.spans import Traces
from muster.controller.runtime.traces import NO_TRACES

MAX_BODY = 8 * 1024 * 1024
"""The API server takes objects of up to 3 MiB; an update carries two of them."""

READ_TIMEOUT = 5.0
"""Seconds to read a body: the API server has waited longer than our timeoutSeconds by then."""

SLOW = 0.1
"""A review longer than this is logged: nothing in it should wait."""

LOOK: Final = 1.0
"""Seconds between two looks for clients that have waited too long."""

HEADERS: Final = 24
HEADER_SIZE: Final = 4096
"""The API server sends about ten short headers. Headers that do not end are kept in memory up to here."""


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
        self._connections = Connections(clock=_loop_time, on_drop=self._count_drop)
        self._by_handler: dict[web.RequestHandler, Connection] = {}
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
        http = web.Server(
            self._answer,
            access_log=None,
            keepalive_timeout=IDLE,
            max_line_size=HEADER_SIZE,
            max_field_size=HEADER_SIZE,
            max_headers=HEADERS,
        )
        context = self._listener_context()
        listener = await asyncio.get_running_loop().create_server(
            lambda: _Tls(http(), context, self._connections, self._by_handler), self._host, self.port
        )
        try:
            self.port = listener.sockets[0].getsockname()[1]
            self._listening.set()
            while True:
                await asyncio.sleep(LOOK)
                self._connections.drop_idle()
        finally:
            self._listening.clear()
            listener.close()
            await asyncio.sleep(0)  # What has arrived is begun before idle connections are closed.
            http.pre_shutdown()
            await http.shutdown(READ_TIMEOUT)

    def _count_drop(self, reason: Reason) -> None:
        self._metrics.webhook_connections_dropped.labels(reason).inc()

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

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        webhook = self._webhooks.get(request.path) if request.method == "POST" else None
        if webhook is None:
            return web.Response(status=404, text=f"no webhook at {request.path}\n")
        status = 500  # What the server makes of an exception.
        try:
            with self._metrics.webhook_in_flight.labels(webhook.path).track_inprogress():
                response = await self._respond(webhook, request)
            status = response.status
        finally:
            self._metrics.webhook_requests.labels(webhook.path, str(status)).inc()
        if self._is_ending():
            response.force_close()  # What came on a connection while we close it would be lost.
        return response

    async def _respond(self, webhook: Webhook[Any], request: web.BaseRequest) -> web.Response:
        failing = self._unready()
        if failing:
            # Not a verdict: the failurePolicy of the webhook decides, as for a server that is not there.
            return web.Response(status=503, text=f"not ready: {failing}\n")
        connection = self._by_handler[request.protocol]
        self._connections.used(connection)
        try:
            async with asyncio.timeout(READ_TIMEOUT):
                body = await self._read(request, connection)
            review = decoding.decode(REVIEWS, body)
        except TimeoutError:
            return web.Response(status=408, text=f"the body did not arrive within {READ_TIMEOUT:g} s\n")
        except (ConnectionError, web.RequestPayloadError) as error:
            return web.Response(status=400, text=f"the body broke off: {error}\n")
        except _TooLong:
            return web.Response(status=413, text=f"the body is longer than {MAX_BODY} bytes\n")
        except msgspec.MsgspecError as error:
            return web.Response(status=400, text=f"not an AdmissionReview of admission.k8s.io/v1: {error}\n")
        finally:
            self._connections.release(connection)
        judged = self._judge(webhook, review.request)
        self._connections.answered(connection)
        return web.Response(body=judged, content_type="application/json")

    async def _read(self, request: web.BaseRequest, connection: Connection) -> bytes:
        """The whole body. No other review waits for it: what it may take is memory, which is counted."""
        parts: list[bytes] = []
        try:
            async for part in request.content.iter_any():
                parts.append(part)
                self._connections.hold(connection, len(part))
                if connection.held > MAX_BODY:
                    raise _TooLong
            return b"".join(parts)
        finally:
            parts.clear()  # The exception of a lost connection would keep them until the next collection.

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


class _TooLong(Exception):
    """The body is longer than any object's review."""


class _Tls(sslproto.SSLProtocol):
    """One connection: TLS between a socket and `handler`, and its entry among `connections`."""

    max_size = 16 * 1024
    """Its buffer, of one TLS record. asyncio's own has 256 KiB, also while the client is silent."""

    def __init__(
        self,
        handler: web.RequestHandler,
        context: ssl.SSLContext,
        connections: Connections,
        by_handler: dict[web.RequestHandler, Connection],
    ) -> None:
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        waiter.cancel()  # The connections' entry is all that waits for the handshake.
        super().__init__(
            loop,
            handler,
            context,
            waiter,
            server_side=True,
            ssl_handshake_timeout=HANDSHAKE_TIMEOUT,
            ssl_shutdown_timeout=HANDSHAKE_TIMEOUT,
        )
        self._handler, self._connections, self._by_handler = handler, connections, by_handler

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        source = transport.get_extra_info("peername")[0]
        self._by_handler[self._handler] = self._connections.open(
            source, cast(asyncio.Transport, transport).abort
        )
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._connections.gone(self._by_handler.pop(self._handler))
        super().connection_lost(exc)


def _loop_time() -> float:
    return asyncio.get_running_loop().time()


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
        case Patch(operations):
            response["patchType"] = "JSONPatch"
            response["patch"] = base64.b64encode(msgspec.json.encode(operations)).decode("ascii")
        case Allow(warnings):
            response["warnings"] = warnings
    return msgspec.json.encode(
        {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
    )
