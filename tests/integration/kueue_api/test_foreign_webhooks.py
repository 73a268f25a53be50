"""A webhook of others that changes our ProvisioningRequests: what it adds is left alone, and what it changes
of ours ends the attempt, with a pause before the next one.
"""

import base64
import http.server
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from muster.local.cluster.certificates import authority
from muster.local.envtest import path_of
from muster.local.envtest.process import free_port
from muster.model import names
from tests.integration.kueue_api.objects import apply
from tests.integration.kueue_api.world import World, is_outside
from tests.waiting import eventually

_ADDED: Final = ({"op": "add", "path": "/spec/parameters/zone", "value": "europe-west4-a"},)
_CHANGED: Final = (
    {"op": "replace", "path": "/spec/provisioningClassName", "value": "check-capacity.x-k8s.io"},
)


def test_a_webhook_that_adds_a_parameter_costs_no_second_request(world: World) -> None:
    with _webhook(world, _ADDED) as creates, world.manager():
        world.submit("gang", "l4")
        (asked,) = eventually("it has asked", partial(world.asked, "gang"))
        assert asked["spec"]["parameters"]["zone"] == "europe-west4-a"
        world.provision(asked)
        world.wait_until_runs("gang")
    assert len(creates) == 1


def test_a_webhook_that_changes_the_request_costs_one_create_a_try_and_is_named(world: World) -> None:
    with _webhook(world, _CHANGED) as creates, world.manager():
        world.submit("gang", "l4")
        eventually("its second try has failed", lambda: _tries(world) == 2)
        assert len(creates) == 2
        assert is_outside(world.workload("gang"))
        notes = (world.workload("gang") or {})["metadata"]["annotations"]
        failure = notes[names.LAST_FAILURE_ANNOTATION]
        for word in ("changed by a webhook", "provisioningClassName is check-capacity.x-k8s.io", "Fix: "):
            assert word in failure, failure
        assert not world.asked("gang")


def _tries(world: World) -> int:
    notes = (world.workload("gang") or {"metadata": {}})["metadata"].get("annotations") or {}
    return int(notes.get(names.TRIES_ANNOTATION, "0"))


@contextmanager
def _webhook(world: World, patch: tuple[dict[str, str], ...]) -> Iterator[list[str]]:
    """Applies the patch to each ProvisioningRequest that is created; yields their names, as they come."""
    created: list[str] = []

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            request = review.pop("request")
            created.append(request["name"])
            change = base64.b64encode(json.dumps(patch).encode()).decode()
            review["response"] = {"uid": request["uid"], "allowed": True}
            review["response"] |= {"patchType": "JSONPatch", "patch": change}
            body = json.dumps(review).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Its log would be read by no test."""

    port = free_port()
    folder = world.plane.folder / f"webhook-{port}"
    folder.mkdir(parents=True)
    issuer = authority(folder / "authority", "webhook")
    pair = issuer.issue(folder / "webhook", "webhook", hosts=("127.0.0.1",))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Answer)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, name="webhook", daemon=True)
    thread.start()
    configuration = _configuration(port, base64.b64encode(issuer.pair.certificate.read_bytes()).decode())
    apply(world.plane, configuration)
    try:
        eventually("the API server calls it", partial(_is_called, world, created))
        created.clear()
        yield created
    finally:
        world.delete(path_of(configuration))
        server.shutdown()
        server.server_close()
        thread.join(10)


def _configuration(port: int, ca: str) -> dict[str, Any]:
    rule = {
        "apiGroups": ["autoscaling.x-k8s.io"],
        "apiVersions": ["*"],
        "operations": ["CREATE"],
        "resources": ["provisioningrequests"],
    }
    hook = {
        "name": "requests.example.com",
        "rules": [rule],
        "clientConfig": {"url": f"https://127.0.0.1:{port}/", "caBundle": ca},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "requests.example.com"},
        "webhooks": [hook],
    }


def _is_called(world: World, created: list[str]) -> bool:
    """A new configuration takes a moment: until a dry run has been reviewed."""
    body = {
        "apiVersion": names.PROVISIONING_API_VERSION,
        "kind": "ProvisioningRequest",
        "metadata": {"name": "probe", "namespace": "team-b"},
        "spec": {
            "provisioningClassName": "any",
            "parameters": {},
            "podSets": [{"podTemplateRef": {"name": "any"}, "count": 1}],
        },
    }
    path = f"/apis/{names.PROVISIONING_API_VERSION}/namespaces/team-b/provisioningrequests?dryRun=All"
    world.plane.call("POST", path, body)
    return bool(created)
