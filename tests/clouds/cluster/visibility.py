"""The part of Kueue's visibility API that everybody asks for: which resources it has.

Without an answer at the address that Kueue's chart registers, the API server counts the group as broken, and
no namespace can be deleted.
"""

import http.server
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from muster.local.cluster.certificates import Pair, authority


class _Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = json.dumps(
            {
                "apiVersion": "v1",
                "kind": "APIResourceList",
                "groupVersion": "/".join(self.path.strip("/").split("/")[1:3]),
                "resources": [],
            }
        ).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nobody reads it."""


@contextmanager
def visibility(address: str, folder: Path) -> Iterator[None]:
    """Serves at port 443 of an address of this machine until the block ends."""
    pair = authority(folder / "visibility-ca", "visibility").issue(
        folder / "visibility", "visibility", hosts=(address,)
    )
    with serving(address, _Answer, pair):
        yield


@contextmanager
def serving(address: str, handler: type[http.server.BaseHTTPRequestHandler], pair: Pair) -> Iterator[None]:
    """HTTPS at port 443 of an address of this machine until the block ends."""
    server = http.server.ThreadingHTTPServer((address, 443), handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, name=handler.__module__, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
