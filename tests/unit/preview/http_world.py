"""A server on loopback with scripted responses, which records its requests."""

import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True, slots=True)
class Asked:
    method: str
    path: str
    headers: dict[str, str]
    body: object


@dataclass(frozen=True, slots=True)
class Reply:
    status: int = 200
    body: object = None
    headers: dict[str, str] = field(default_factory=dict)
    is_cut: bool = False
    """The connection ends without an answer."""


Script = Callable[[Asked], Reply]


def listing(lists: Mapping[str, object]) -> Script:
    """Answers with the items of each list, by its path or its last word and whichever namespace is asked
    about, and with 404 to all else.
    """

    def script(asked: Asked) -> Reply:
        path = re.sub(r"/namespaces/[^/]+", "", asked.path.partition("?")[0])
        found = lists.get(path, lists.get(path.rpartition("/")[2]))
        return Reply(404, {}) if found is None else Reply(body={"items": found})

    return script


@dataclass(slots=True)
class Server:
    url: str
    asked: list[Asked]


@contextmanager
def serving(script: Script) -> Iterator[Server]:
    """The server, answering each request with what `script` makes of it."""
    asked: list[Asked] = []

    class Handler(BaseHTTPRequestHandler):
        def _handle(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            request = Asked(
                self.command, self.path, {key.lower(): value for key, value in self.headers.items()}, body
            )
            asked.append(request)
            reply = script(request)
            if reply.is_cut:
                self.close_connection = True
                return
            text = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
            self.send_response(reply.status)
            for key, value in {"Content-Length": str(len(text)), **reply.headers}.items():
                self.send_header(key, value)
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _handle

        def log_message(self, format: str, *args: object) -> None:
            """Nothing: the requests are kept."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield Server(f"http://127.0.0.1:{server.server_address[1]}", asked)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
