"""A blob arrives whole over a line that is slow or breaks."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from muster.artifacts.oci.registry import (
    Registry,
    RegistryError,
    Repository,
    UnreachableError,
    Web,
    digest_of,
)

_MEBI = 1024 * 1024


@dataclass
class Uploads:
    """A registry that takes each upload once, as the real one does: a second PUT to it is refused.

    `breaks`: how many PUTs it hangs up on in the middle. `pause`: seconds between two MiB that it reads.
    """

    breaks: int = 0
    pause: float = 0.0
    begun: int = 0
    touched: set[str] = field(default_factory=set)
    held: list[bytes] = field(default_factory=list)

    def take(self, handler: BaseHTTPRequestHandler) -> int:
        upload = handler.path.partition("?")[0]
        if upload in self.touched:
            return 416
        self.touched.add(upload)
        length = int(handler.headers["Content-Length"])
        if self.breaks:
            self.breaks -= 1
            handler.rfile.read(length // 2)
            handler.close_connection = True
            handler.connection.close()
            return 0
        pieces = []
        for start in range(0, length, _MEBI):
            pieces.append(handler.rfile.read(min(_MEBI, length - start)))
            time.sleep(self.pause)
        self.held.append(b"".join(pieces))
        return 201


@contextmanager
def _served(uploads: Uploads) -> Iterator[Repository]:
    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self._answer(404)

        def do_POST(self) -> None:
            uploads.begun += 1
            self._answer(202, {"Location": f"/v2/a/blobs/uploads/{uploads.begun}"})

        def do_PUT(self) -> None:
            if status := uploads.take(self):
                self._answer(status)

        def _answer(self, status: int, headers: dict[str, str] | None = None) -> None:
            self.send_response(status)
            for name, value in {**(headers or {}), "Content-Length": "0"}.items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield Repository.of(f"127.0.0.1:{server.server_port}/a")
    finally:
        server.shutdown()
        server.server_close()


def test_a_broken_upload_is_restarted() -> None:
    content = b"x" * _MEBI
    uploads = Uploads(breaks=2)
    with _served(uploads) as repository:
        pushed = Registry(repository, None, Web(timeout=60, tries=3, pause=0.01)).push_blob(content)
    assert pushed == digest_of(content)
    assert uploads.held == [content]
    assert uploads.begun == 3


def test_an_upload_that_always_breaks_ends_with_the_hosts_name() -> None:
    with _served(Uploads(breaks=9)) as repository:
        registry = Registry(repository, None, Web(timeout=60, tries=2, pause=0.01))
        with pytest.raises((UnreachableError, RegistryError), match=repository.host):
            registry.push_blob(b"x" * _MEBI)


def test_a_blob_may_take_longer_than_a_timeout_as_long_as_it_moves() -> None:
    """More than sockets hold, so that the sender feels how slowly the other side reads.

    They hold a tenth of it: the wait for the answer is that much, and far from the timeout, also where other
    work keeps this process waiting.
    """
    content = bytes(64 * _MEBI)
    uploads = Uploads(pause=0.1)
    with _served(uploads) as repository:
        Registry(repository, None, Web(timeout=5, tries=3, pause=0.01)).push_blob(content)
    assert uploads.held == [content]
