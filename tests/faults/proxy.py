"""Between the manager and the API server: every call passes, and some do not arrive as they were sent."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Final

import aiohttp
from aiohttp import web

from tests.envtest import ControlPlane
from tests.faults.breaks import Call, Calm, Plan
from tests.faults.exchange import Exchange

_PATIENCE: Final = 60.0
_REFUSED: Final = 400


@dataclass(slots=True)
class Proxy:
    """`plan` may be exchanged at any time; it takes effect with the next call. `calls` have arrived here, in
    order; `refusals` are those that the server itself refused, with what it said.
    """

    server: ControlPlane
    plan: Plan = field(default_factory=Calm)
    url: str = ""
    calls: list[Call] = field(default_factory=list)
    refusals: list[tuple[Call, str]] = field(default_factory=list)

    @property
    def writes(self) -> list[Call]:
        """Those about gangs that would change something."""
        return [call for call in self.calls if call.writes]

    def refused(self, words: str) -> list[Call]:
        """The writes about gangs that the server refused so."""
        return [call for call, said in self.refusals if call.writes and words in said]

    @contextmanager
    def serving(self, context: ssl.SSLContext | None = None, *, port: int = 0) -> Iterator[Proxy]:
        """Until the block ends; with `context`, over TLS."""
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever, daemon=True)
        thread.start()
        try:
            closing = asyncio.run_coroutine_threadsafe(self._serve(context, port), loop).result(_PATIENCE)
            try:
                yield self
            finally:
                asyncio.run_coroutine_threadsafe(closing.aclose(), loop).result(_PATIENCE)
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(_PATIENCE)

    async def _serve(self, context: ssl.SSLContext | None, port: int) -> AsyncExitStack:
        closing = AsyncExitStack()
        trust = ssl.create_default_context(cafile=str(self.server.certificate))
        session = await closing.enter_async_context(
            aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, ssl=trust, force_close=True),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=_PATIENCE),
                auto_decompress=False,
            )
        )
        app = web.Application(client_max_size=2**26)

        async def answer(request: web.Request) -> web.StreamResponse:
            return await self._answer(request, session)

        app.router.add_route("*", "/{path:.*}", answer)
        # A manager that was killed leaves its connections; nothing waits for their handlers.
        runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
        await runner.setup()
        closing.push_async_callback(runner.cleanup)
        await web.TCPSite(runner, "127.0.0.1", port, ssl_context=context).start()
        self.url = f"{'https' if context else 'http'}://127.0.0.1:{runner.addresses[0][1]}"
        return closing

    async def _answer(self, request: web.Request, session: aiohttp.ClientSession) -> web.StreamResponse:
        call = Call.of(request)
        self.calls.append(call)
        found = self.plan.judge(call)
        exchange = Exchange(self.server.url, request, session, await request.read())
        try:
            if call.verb == "watch":
                return await exchange.watch(found)
            answer = await exchange.pass_on(found)
            if found is None and isinstance(answer, web.Response) and answer.status >= _REFUSED:
                self.refusals.append((call, answer.text or ""))
            self.plan.done(call)
            return answer
        except (aiohttp.ClientError, OSError):
            return exchange.abort()  # as if there were nothing between
