"""Our webhooks in the place of their pods: every review is answered, and every answer is yes.

What they decide is tested with the real program elsewhere; without an answer no RayJob could be created here.
"""

import base64
import http.server
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError

from muster.components.gang_authority import PROGRAM, WEBHOOKS
from muster.local.cluster.certificates import authority
from muster.model.names import SYSTEM_NAMESPACE
from tests.clouds.cluster.visibility import serving
from tests.envtest import ControlPlane
from tests.envtest.process import free_port

_SERVICE: Final = f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/services/{WEBHOOKS}"
_CONFIGURATIONS: Final = tuple(
    f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/{PROGRAM}"
    for kind in ("validating", "mutating")
)
_JSON_PATCH: Final = "application/json-patch+json"


class HostedReviews:
    """`follow` again and again: it serves while the Service is there, and keeps its certificate in both
    configurations, as the controller does.
    """

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._running = ExitStack()
        self._address, self._authority = "", ""

    def follow(self) -> None:
        service = self._there(_SERVICE)
        address = service["spec"]["clusterIP"] if service else ""
        if address != self._address:
            self.stop()
            if address:
                folder = self._plane.folder / f"reviews-{free_port()}"
                self._authority = self._running.enter_context(_reviews(address, folder))
                self._address = address
        if address:
            for path in _CONFIGURATIONS:
                self._trust(path)

    def stop(self) -> None:
        self._running.close()
        self._address = ""

    def _trust(self, path: str) -> None:
        configuration = self._there(path) or {}
        patch = [
            {"op": "add", "path": f"/webhooks/{index}/clientConfig/caBundle", "value": self._authority}
            for index, each in enumerate(configuration.get("webhooks") or ())
            if each["clientConfig"].get("caBundle") != self._authority
        ]
        if patch:
            self._plane.call("PATCH", path, patch, content_type=_JSON_PATCH)

    def _there(self, path: str) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = self._plane.call("GET", path)
        except HTTPError as refusal:
            if refusal.code == 404:
                return None
            raise
        return found


class _Answer(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        review["response"] = {"uid": review.pop("request")["uid"], "allowed": True}
        body = json.dumps(review).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with suppress(OSError):
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Its log would be read by no test."""


@contextmanager
def _reviews(address: str, folder: Path) -> Iterator[str]:
    """Serves at port 443 of an address of this machine until the block ends; yields the caBundle."""
    folder.mkdir(parents=True)
    issuer = authority(folder / "authority", "reviews")
    host = f"{WEBHOOKS}.{SYSTEM_NAMESPACE}.svc"
    pair = issuer.issue(folder / "reviews", "reviews", hosts=(address, host))
    with serving(address, _Answer, pair):
        yield base64.b64encode(issuer.pair.certificate.read_bytes()).decode()
