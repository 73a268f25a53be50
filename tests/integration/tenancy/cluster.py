"""A cluster as a tenant meets it: the API server alone, with everything of tenancy that the program applies.

Requests are made as whoever has the right to: tokens of the TokenRequest API, or a user in a mapped group.
"""

from __future__ import annotations

import http.client
import json
import re
import ssl
import urllib.error
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from tests.envtest import ControlPlane
from tests.waiting import eventually

Object = dict[str, Any]

MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
_TIMEOUT = 120.0
# What a slow server gives up, and what it says of a kind that it reads anew, as it was defined a moment ago.
_LATER = (HTTPStatus.GATEWAY_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS)
# By the address of the server.
_CONNECTIONS: dict[str, http.client.HTTPSConnection] = {}
_REFUSAL = re.compile(
    r"ValidatingAdmissionPolicy '(?P<policy>[^']+)' with binding '[^']+'(?: denied request)?: (?P<says>.*)",
    re.DOTALL,
)
_PLURALS = {
    "NetworkPolicy": "networkpolicies",
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "Endpoints": "endpoints",
    "Gateway": "gateways",
}
_GLOBAL = frozenset(
    (
        *("Namespace", "ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition"),
        *("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"),
        *("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"),
        *("ClusterQueue", "Cohort", "ResourceFlavor", "WorkloadPriorityClass", "AdmissionCheck", "QueueTree"),
        "GangPolicy",
    )
)


@dataclass(frozen=True)
class Answer:
    """What the API server said."""

    code: int
    body: Object
    warnings: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        return str(self.body.get("message", ""))

    @property
    def is_allowed(self) -> bool:
        return self.code < 300

    @property
    def refusals(self) -> dict[str, str]:
        """What each policy says that refuses the request: `answer.message` has one of them, as it happens."""
        texts = (self.message, *(warning.replace('\\"', '"') for warning in self.warnings))
        refusals: dict[str, str] = {}
        for found in filter(None, map(_REFUSAL.search, texts)):
            refusals[found["policy"]] = f"{refusals.get(found['policy'], '')}{found['says']}\n"
        return refusals


def allowed(answer: Answer) -> Answer:
    assert answer.is_allowed, answer.message
    return answer


def refused(answer: Answer, *words: str) -> None:
    """By a policy or for want of a right, in these words."""
    assert answer.code == HTTPStatus.FORBIDDEN, answer
    for word in words:
        assert word in answer.message, answer.message


@dataclass(frozen=True)
class Caller:
    """Somebody who makes requests: with a token of his own, or impersonated by the administrator."""

    name: str
    server: ControlPlane
    token: str
    headers: Mapping[str, str] = field(default_factory=dict)

    def create(self, body: Object, *, dry_run: bool = True, is_strict: bool = False) -> Answer:
        """`is_strict`: unknown fields are refused, as kubectl asks, and not dropped."""
        asked = ["dryRun=All"] * dry_run + ["fieldValidation=Strict"] * is_strict
        return self.send("POST", collection(body) + (f"?{'&'.join(asked)}" if asked else ""), body)

    def ensure(self, body: Object) -> Object:
        """The object, which is created where it does not exist yet."""
        answer = self.create(body, dry_run=False)
        assert answer.code in (HTTPStatus.CREATED, HTTPStatus.CONFLICT), answer.message
        return body

    def patch(
        self,
        of: Object,
        change: Object | list[Object],
        kind: str = MERGE,
        *,
        subresource: str = "",
        dry_run: bool = True,
    ) -> Answer:
        """`kind`: the content type of the change."""
        path = _part(of, subresource) + ("?dryRun=All" if dry_run else "")
        return self.send("PATCH", path, change, kind)

    def put(self, of: Object, body: Object, *, subresource: str = "") -> Answer:
        return self.send("PUT", f"{_part(of, subresource)}?dryRun=All", body)

    def apply(self, body: Object, *, subresource: str = "") -> Answer:
        """Server-side, with force and as no controller's."""
        path = f"{_part(body, subresource)}?dryRun=All&force=true&fieldManager=another"
        return self.send("PATCH", path, body, "application/apply-patch+yaml")

    def delete(self, of: Object) -> Answer:
        """As kubectl does."""
        return self.send("DELETE", place(of) + "?dryRun=All&propagationPolicy=Background")

    def get(self, path: str) -> Answer:
        return self.send("GET", path)

    def send(
        self,
        method: str,
        path: str,
        body: Object | list[Object] | None = None,
        content_type: str = "application/json",
    ) -> Answer:
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": content_type, **self.headers}
        data = None if body is None else json.dumps(body).encode()

        def answered() -> tuple[int, bytes, tuple[str, ...]] | None:
            found = _exchange(self.server, method, path, data, headers)
            return None if found[0] in _LATER else found

        code, text, warnings = eventually(f"{method} {path} is answered", answered)
        return Answer(code, _status(text or b"{}"), warnings)


def _exchange(
    server: ControlPlane, method: str, path: str, data: bytes | None, headers: dict[str, str]
) -> tuple[int, bytes, tuple[str, ...]]:
    """Over a connection that is kept, because a handshake takes longer than a dry run. One that the server
    has closed meanwhile is opened again.
    """
    kept = server.url in _CONNECTIONS
    connection = _CONNECTIONS.get(server.url) or _connected(server)
    try:
        connection.request(method, path, data, headers)
        answer = connection.getresponse()
        warnings = tuple(answer.headers.get_all("Warning") or ())
        return answer.status, answer.read(), warnings
    except OSError:
        connection.close()
        del _CONNECTIONS[server.url]
        if not kept:
            raise
        return _exchange(server, method, path, data, headers)


def _connected(server: ControlPlane) -> http.client.HTTPSConnection:
    context = ssl.create_default_context(cafile=str(server.certificate))
    address = server.url.removeprefix("https://")
    connection = http.client.HTTPSConnection(address, timeout=_TIMEOUT, context=context)
    return _CONNECTIONS.setdefault(server.url, connection)


def _status(text: bytes) -> Object:
    try:
        found = json.loads(text)
    except ValueError:
        return {"message": text.decode(errors="replace")}
    return found if isinstance(found, dict) else {"message": str(found)}


def administrator(server: ControlPlane) -> Caller:
    return Caller("administrator", server, server.token)


def account(server: ControlPlane, namespace: str, name: str) -> Caller:
    """A ServiceAccount with a fresh token of its own."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = server.call("POST", path, body)["status"]["token"]
    return Caller(f"{namespace}/{name}", server, token)


def person(server: ControlPlane, name: str, *groups: str) -> Caller:
    """A user in groups of the identity provider. One header a group; urllib keeps one of each name."""
    (group,) = groups
    headers = {"Impersonate-User": name, "Impersonate-Group": group}
    return Caller(name, server, server.token, headers)


def collection(body: Object) -> str:
    group, _, version = body["apiVersion"].rpartition("/")
    root = f"/apis/{group}/{version}" if group else f"/api/{version}"
    kind = body["kind"]
    plural = _PLURALS.get(kind) or _plural(kind.lower())
    if kind in _GLOBAL:
        return f"{root}/{plural}"
    return f"{root}/namespaces/{body['metadata']['namespace']}/{plural}"


def _plural(word: str) -> str:
    if word.endswith(("s", "ss", "x")):
        return f"{word}es"
    return f"{word[:-1]}ies" if word.endswith("y") else f"{word}s"


def place(body: Object) -> str:
    return f"{collection(body)}/{body['metadata']['name']}"


def _part(body: Object, subresource: str) -> str:
    return place(body) + (f"/{subresource}" if subresource else "")


def apply(server: ControlPlane, objects: Iterable[Object]) -> None:
    for body in objects:
        try:
            server.apply(body, place(body))
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{place(body)}: {_status(error.read()).get('message')}") from error
        if body["kind"] == "ResourceQuota":
            _count(server, body)


def warning_bindings(policies: Iterable[Object]) -> list[Object]:
    """A second binding of each policy, which warns of what the policy denies: of several denials the API
    server returns one. Applied before the bindings that deny, it is in force when they are.
    """
    bindings = (each for each in policies if each["kind"] == "ValidatingAdmissionPolicyBinding")
    return [
        {
            **each,
            "metadata": {"name": f"{each['metadata']['name']}-warns"},
            "spec": {**each["spec"], "validationActions": ["Warn"]},
        }
        for each in bindings
    ]


def _count(server: ControlPlane, quota: Object) -> None:
    """What the controller manager would count: there is none here, and without a count nothing is let in."""
    hard = quota["spec"]["hard"]
    status = {"status": {"hard": hard, "used": dict.fromkeys(hard, "0")}}
    server.call("PATCH", f"{place(quota)}/status", status, content_type="application/merge-patch+json")


def await_allowed(caller: Caller, body: Object) -> None:
    """Until what was in the way is forgotten."""
    eventually("nothing is in the way", lambda: caller.create(body).is_allowed)


def await_denied(caller: Caller, body: Object) -> None:
    """Until policies are in force: the API server compiles them some time after it has stored them."""
    eventually("the policies are in force", lambda: not caller.create(body).is_allowed)
