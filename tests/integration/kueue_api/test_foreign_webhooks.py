"""Webhooks of others. What one adds to our ProvisioningRequests is left alone. One that changes what is ours,
or denies the pods of a gang, ends the attempt, with a pause before the next one.
"""

import base64
import http.server
import json
import ssl
import threading
import urllib.error
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from muster.local.cluster.certificates import authority
from muster.model import names
from tests.envtest import path_of
from tests.envtest.process import free_port
from tests.integration.kueue_api.objects import apply
from tests.integration.kueue_api.works import plain
from tests.integration.kueue_api.world import PODS, REQUESTS, TEAM, World, is_outside
from tests.waiting import eventually

_REQUESTS: Final = "autoscaling.x-k8s.io/provisioningrequests"
_ADDED: Final = ({"op": "add", "path": "/spec/parameters/zone", "value": "europe-west4-a"},)
_CHANGED: Final = (
    {"op": "replace", "path": "/spec/provisioningClassName", "value": "check-capacity.x-k8s.io"},
)


def test_a_webhook_that_adds_a_parameter_costs_no_second_request(world: World) -> None:
    with _webhook(world, _REQUESTS, _patched(_ADDED)) as creates, world.manager():
        world.submit("gang", "l4")
        (asked,) = eventually("it has asked", partial(world.asked, "gang"))
        assert asked["spec"]["parameters"]["zone"] == "europe-west4-a"
        world.provision(asked)
        world.wait_until_runs("gang")
    assert len(creates) == 1


def test_a_webhook_that_changes_the_request_costs_one_create_a_try_and_is_named(world: World) -> None:
    with _webhook(world, _REQUESTS, _patched(_CHANGED)) as creates, world.manager():
        world.submit("gang", "l4")
        eventually("its second try has failed", lambda: _tries(world) == 2)
        assert len(creates) == 2
        assert is_outside(world.workload("gang"))
        failure = world.notes("gang")[names.LAST_FAILURE_ANNOTATION]
        for word in ("changed by a webhook", "provisioningClassName is check-capacity.x-k8s.io", "Fix: "):
            assert word in failure, failure
        assert not world.asked("gang")


def _tries(world: World) -> int:
    return int(world.notes("gang").get(names.TRIES_ANNOTATION, "0"))


def test_a_webhook_that_denies_pods_is_named_before_a_node_is_asked_for(world: World) -> None:
    denial = {"allowed": False, "status": {"message": "not on Fridays"}}
    with _webhook(world, "/pods", denial), world.manager():
        world.submit("gang", "l4")
        eventually("its first try has failed", lambda: _tries(world) >= 1)
        failure = world.notes("gang")[names.LAST_FAILURE_ANNOTATION]
        for word in ("denied by a policy", "pod of main", "pods.example.com", "not on Fridays"):
            assert word in failure, failure
        assert not world.asked("gang")


def test_a_gang_waits_for_a_webhook_that_does_not_answer(world: World) -> None:
    with world.manager() as manager:
        with _configured(world, _configuration("/pods", free_port(), "")):
            eventually("pods are refused", lambda: "failed calling webhook" in _probe(world, "/pods"))
            world.submit("gang", "l4")
            eventually("a pod was tried", lambda: "failed calling webhook" in manager.log.read_text())
            assert not world.asked("gang")
        eventually("it asks", partial(world.asked, "gang"))


def _patched(patch: tuple[dict[str, str], ...]) -> dict[str, Any]:
    change = base64.b64encode(json.dumps(patch).encode()).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": change}


@contextmanager
def _webhook(world: World, resource: str, response: dict[str, Any]) -> Iterator[list[str]]:
    """Gives this response to each object that is created; yields their names, as they come."""
    created: list[str] = []

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            request = review.pop("request")
            created.append(request["name"])
            review["response"] = {"uid": request["uid"], **response}
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
    ca = base64.b64encode(issuer.pair.certificate.read_bytes()).decode()
    try:
        with _configured(world, _configuration(resource, port, ca)):
            eventually("the API server calls it", lambda: [_probe(world, resource), *created][1:])
            created.clear()
            yield created
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


@contextmanager
def _configured(world: World, configuration: dict[str, Any]) -> Iterator[None]:
    apply(world.plane, configuration)
    try:
        yield
    finally:
        world.delete(path_of(configuration))


def _configuration(resource: str, port: int, ca: str) -> dict[str, Any]:
    """`resource`: its API group and plural."""
    group, plural = resource.split("/")
    rule = {"apiGroups": [group], "apiVersions": ["*"], "operations": ["CREATE"], "resources": [plural]}
    hook = {
        "name": f"{plural}.example.com",
        "rules": [rule],
        "clientConfig": {"url": f"https://127.0.0.1:{port}/", "caBundle": ca},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": f"{plural}.example.com"},
        "webhooks": [hook],
    }


def _probe(world: World, resource: str) -> str:
    """What the server answers to a dry run; a new configuration takes a moment."""
    meta = {"name": "probe", "namespace": TEAM}
    if resource == _REQUESTS:
        path = REQUESTS
        body = {
            "apiVersion": names.PROVISIONING_API_VERSION,
            "kind": "ProvisioningRequest",
            "metadata": meta,
            "spec": {
                "provisioningClassName": "any",
                "parameters": {},
                "podSets": [{"podTemplateRef": {"name": "any"}, "count": 1}],
            },
        }
    else:
        path, body = PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": plain()}
    try:
        world.plane.call("POST", f"{path}?dryRun=All", body)
    except urllib.error.HTTPError as refused:
        return refused.read().decode()
    return ""
