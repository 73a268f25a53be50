"""/healthz, /readyz and /metrics, on a port of their own.

The process is ready when every named check passes. Liveness checks only that the event loop runs: a process
that cannot reach the API server must not be restarted for it.
"""

from collections.abc import Callable

from aiohttp import web
from prometheus_client import exposition

from muster.controller.runtime.metrics import Metrics

Check = Callable[[], str | None]
"""None when good, else a few words on what is missing."""


class Health:
    """The checks of a process and the server that answers for them. Port 0 takes a free one, found in
    `port`.
    """

    def __init__(self, metrics: Metrics, *, host: str = "0.0.0.0", port: int = 0) -> None:  # noqa: S104 - probes come from the kubelet
        self._metrics = metrics
        self._host, self.port = host, port
        self._ready: dict[str, Check] = {}
        self._runner: web.AppRunner | None = None

    def ready_when(self, name: str, check: Check) -> None:
        self._ready[name] = check

    def unready(self) -> dict[str, str]:
        """The checks that fail, with their words."""
        answers = {name: check() for name, check in self._ready.items()}
        return {name: answer for name, answer in answers.items() if answer is not None}

    async def start(self) -> None:
        app = web.Application()
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._serve_metrics)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, self._host, self.port).start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _healthz(self, _: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _readyz(self, _: web.Request) -> web.Response:
        failing = self.unready()
        if not failing:
            return web.Response(text="ok\n")
        lines = "".join(f"{name}: {words}\n" for name, words in sorted(failing.items()))
        return web.Response(status=503, text=lines)

    async def _serve_metrics(self, request: web.Request) -> web.Response:
        encoder, content_type = exposition.choose_encoder(request.headers.get("Accept", ""))
        return web.Response(body=encoder(self._metrics.registry), headers={"Content-Type": content_type})
