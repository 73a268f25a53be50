"""A document finds its image again, in registries that list referrers themselves."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from muster.artifacts.oci.image import attach, attached
from muster.artifacts.oci.registry import MANIFEST, Registry, Repository, digest_of

MEDIA_TYPE = "application/vnd.cyclonedx+json"


class Modern(BaseHTTPRequestHandler):
    """What of the distribution specification 1.1 is asked for; everything is kept by its digest."""

    held: dict[str, bytes]

    def do_HEAD(self) -> None:
        self._answer(200 if self._name() in self.held else 404)

    def do_GET(self) -> None:
        place, name = self.path.rpartition("/")[0], self._name()
        if place.endswith("/referrers"):
            self._answer(200, json.dumps({"manifests": list(self._about(name))}).encode())
        elif name in self.held:
            self._answer(200, self.held[name])
        else:
            self._answer(404)

    def do_POST(self) -> None:
        self._answer(202, location=f"{self.path}one")

    def do_PUT(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"]))
        self.held[self._name() if "/manifests/" in self.path else digest_of(content)] = content
        self._answer(201)

    def _about(self, subject: str) -> Iterator[dict[str, Any]]:
        for digest, content in self.held.items():
            found = json.loads(content) if content.startswith(b"{") else {}
            if (found.get("subject") or {}).get("digest") == subject:
                yield {"digest": digest, "artifactType": found["artifactType"], "mediaType": MANIFEST}

    def _name(self) -> str:
        return self.path.partition("?")[0].rpartition("/")[2]

    def _answer(self, status: int, body: bytes = b"", location: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        if location:
            self.send_header("Location", location)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None: ...


@pytest.fixture
def modern() -> Iterator[tuple[Registry, dict[str, bytes]]]:
    held: dict[str, bytes] = {}
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (Modern,), {"held": held}))
    Thread(target=server.serve_forever, daemon=True).start()
    yield Registry(Repository.of(f"127.0.0.1:{server.server_port}/x")), held
    server.shutdown()
    server.server_close()


def test_it_is_found_by_its_subject_and_no_tag_is_made(modern: tuple[Registry, dict[str, bytes]]) -> None:
    registry, held = modern
    subject = b'{"an": "image"}'
    for _ in range(2):
        attach(registry, subject=subject, content=b"bill", media_type=MEDIA_TYPE)
    assert attached(registry, digest_of(subject), media_type=MEDIA_TYPE) == [b"bill"]
    assert attached(registry, digest_of(subject), media_type="text/other") == []
    assert all(name.startswith("sha256:") for name in held)


def test_an_attached_document_names_its_subject(modern: tuple[Registry, dict[str, bytes]]) -> None:
    registry, held = modern
    subject = b'{"an": "image"}'
    manifest = json.loads(held[attach(registry, subject=subject, content=b"bill", media_type=MEDIA_TYPE)])
    assert manifest["subject"] == {"mediaType": MANIFEST, "digest": digest_of(subject), "size": len(subject)}
    assert manifest["artifactType"] == manifest["layers"][0]["mediaType"] == MEDIA_TYPE
    assert registry.blob(manifest["config"]["digest"]) == b"{}"
