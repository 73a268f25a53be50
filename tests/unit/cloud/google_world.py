"""Google Cloud on loopback: answers by method and path, and what was asked."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from google.auth.credentials import AnonymousCredentials

from muster.cloud.clients import Google

Routes = dict[str, tuple[int, dict[str, Any]]]


class Cloud:
    """`routes`: "GET /path" -> (status, answer); another path is not found. `asked`: (route, body)."""

    def __init__(self, routes: Routes) -> None:
        self.routes = routes
        self.asked: list[tuple[str, Any]] = []

    def answer(self, route: str, body: Any) -> tuple[int, dict[str, Any]]:
        self.asked.append((route, body))
        return self.routes.get(route, (404, {"error": {"code": 404, "message": f"no {route}"}}))


@contextmanager
def cloud(routes: Routes) -> Iterator[tuple[Cloud, Google]]:
    """The library's own calls against it."""
    made = Cloud(routes)

    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            status, answer = made.answer(f"{self.command} {self.path.partition('?')[0]}", body)
            content = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = _serve

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        endpoint = f"http://127.0.0.1:{server.server_port}/"
        yield made, Google(endpoint=endpoint, credentials=AnonymousCredentials())
    finally:
        server.shutdown()
        server.server_close()
