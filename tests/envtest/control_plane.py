"""etcd and kube-apiserver on loopback.

Responsible for: their flags. RBAC is on, the administrator has a token, and no controller runs: a caller
that needs ServiceAccount tokens requests them, and one that needs garbage collection does it.
"""

from __future__ import annotations

import io
import json
import os
import secrets
import subprocess
import time
import urllib.error
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import yaml
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from muster import http_retries
from muster.kubernetes.client import APPLY, JSON, Client, api_root, inside
from muster.kubernetes.kubeconfig import Access, KubeconfigError
from muster.local.builder.cache import Cache, key_of
from muster.whole_file import write_whole
from tests.envtest.process import Process, Programs, free_port

# API paths of objects, for the kinds that are written without asking a server how it spells the plural.

_PLURALS: Final = {
    "PriorityClass": "priorityclasses",
    "WorkloadPriorityClass": "workloadpriorityclasses",
    "Topology": "topologies",
    "GangPolicy": "gangpolicies",
    "NetworkPolicy": "networkpolicies",
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "Rules": "rules",
    "KWOKNodeClass": "kwoknodeclasses",
}


def path_of(item: Mapping[str, Any]) -> str:
    """The path of the object itself."""
    meta = item["metadata"]
    return f"{collection(item['apiVersion'], item['kind'], meta.get('namespace'))}/{meta['name']}"


def collection(api: str, kind: str, namespace: str | None = None) -> str:
    """The path of the objects of a kind, in a namespace or everywhere."""
    return f"{api_root(api)}{inside(namespace or '')}/{_PLURALS.get(kind, f'{kind.lower()}s')}"


_BOOT_SECONDS: Final = 90.0
# A busy machine needs time; a caller that gives up would only ask again.
_CALL_SECONDS: Final = 120.0
_TRIES: Final = 3
# It lives for minutes: memory is cheaper than collecting it.
_ENVIRONMENT: Final = {**os.environ, "GOGC": "400"}


@dataclass(slots=True)
class ControlPlane:
    """A running API server. `etcd` is where its store listens, `token` the administrator's."""

    url: str
    etcd: str
    folder: Path
    token: str
    server: Process
    store: Process
    _client: Client | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._client = None

    @property
    def certificate(self) -> Path:
        """What its own certificate is checked against."""
        return self.folder / "tls" / "apiserver.crt"

    def kubeconfig(
        self, token: str | None = None, *, name: str = "admin", acting_as: str | None = None
    ) -> Path:
        """A kubeconfig for the holder of a token, the administrator by default, who acts as a user that has
        no token where one is named.
        """
        path = self.folder / f"kubeconfig-{name}"
        server = {"server": self.url, "certificate-authority": str(self.certificate)}
        user = {"token": token or self.token, **({"as": acting_as} if acting_as else {})}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "bare",
            "contexts": [{"name": "bare", "context": {"cluster": "bare", "user": "bare"}}],
            "clusters": [{"name": "bare", "cluster": server}],
            "users": [{"name": "bare", "user": user}],
        }
        # A program that was started with it may be reading it.
        write_whole(path, yaml.safe_dump(content).encode())
        path.chmod(0o600)
        return path

    def call(self, method: str, path: str, body: object = None, *, content_type: str = JSON) -> Any:
        """One call as the administrator; HTTPError for what is refused."""
        return json.loads(self._answer(method, path, body, content_type=content_type) or b"null")

    def _answer(self, method: str, path: str, body: object = None, *, content_type: str = JSON) -> bytes:
        client = self._client
        if client is None:
            access = Access(server=self.url, ca=self.certificate.read_bytes(), token=self.token)
            client = Client(access, seconds=_CALL_SECONDS)
        ask = partial(client.exchange, method, path, body, {"Content-Type": content_type})
        # To apply twice is to apply once: what a slow server gives up is asked for again.
        tries = _TRIES if content_type == APPLY else 1
        answer = http_retries.call(ask, method, tries=tries, wait=time.sleep, delay=_retry_delay)
        # Kept after the first answer: until then the certificate may be half written.
        self._client = client
        if answer.status >= HTTPStatus.BAD_REQUEST:
            raise urllib.error.HTTPError(
                self.url + path, answer.status, answer.reason, answer.headers, io.BytesIO(answer.body)
            )
        return answer.body

    def apply(self, manifest: dict[str, Any], path: str) -> Any:
        """Server-side apply to the object's own path."""
        return self.call("PATCH", f"{path}?fieldManager=bare&force=true", manifest, content_type=APPLY)

    def define(self, kinds: Sequence[dict[str, Any]]) -> None:
        """Apply CustomResourceDefinitions and wait until they are served, and the server is healthy."""
        for kind in kinds:
            self.apply(kind, _definition(kind))
        self.server.await_(
            lambda: all(map(self._is_established, kinds)) and all(map(self._is_served, kinds)),
            seconds=_BOOT_SECONDS,
        )
        self.settle()

    def start(self) -> None:
        """Start the API server, again after a `kill`, on the same port and store."""
        self.server.start()
        self.server.await_(self._is_ready, seconds=_BOOT_SECONDS)

    def settle(self) -> None:
        """Wait until the server calls itself healthy. On a busy machine that is long after it first answers:
        its own roles, priority classes and addresses for Services are not there before, and Kubernetes' own
        controllers wait ten seconds for it and then end.
        """
        self.server.await_(lambda: bool(self._answer("GET", "/healthz")), seconds=_BOOT_SECONDS)

    def await_discovery(self, kinds: Sequence[dict[str, Any]]) -> None:
        """Wait until a server that has just started lists these kinds, and is healthy. No object is asked
        for: with the first one the server works out the schema of its kind, which is most of the cost.
        """
        served = {
            (kind["spec"]["group"], version["name"], kind["spec"]["names"]["plural"])
            for kind in kinds
            for version in kind["spec"]["versions"]
            if version["served"]
        }
        self.server.await_(lambda: all(map(self._lists, served)), seconds=_BOOT_SECONDS)
        self.settle()

    def _lists(self, kind: tuple[str, str, str]) -> bool:
        group, version, plural = kind
        return any(
            each["name"] == plural for each in self.call("GET", f"/apis/{group}/{version}")["resources"]
        )

    def kill(self) -> None:
        """A power cut of the API server; etcd goes on."""
        self.server.kill()

    def _is_ready(self) -> bool:
        # /readyz answers in words; a namespace tells as well that the first hooks have run.
        with suppress(KubeconfigError):  # its certificate is half written
            return bool(self.call("GET", "/api/v1/namespaces/default"))
        return False

    def _is_established(self, kind: dict[str, Any]) -> bool:
        conditions = (self.call("GET", _definition(kind)).get("status") or {}).get("conditions") or []
        return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)

    def _is_served(self, kind: dict[str, Any]) -> bool:
        """In just the versions that are said here. A kind that was there before is established all along, and
        is served in others a moment later.
        """
        spec = kind["spec"]
        at = f"/apis/{spec['group']}/{{}}/{spec['names']['plural']}?limit=1"
        return all(self._is_there(at.format(each["name"])) is each["served"] for each in spec["versions"])

    def _is_there(self, path: str) -> bool:
        """Whether anything answers at the path, be it that what is stored cannot be converted now."""
        try:
            self.call("GET", path)
        except urllib.error.HTTPError as refusal:
            return refusal.code != HTTPStatus.NOT_FOUND
        return True


def _retry_delay(answer: http_retries.Answered, _attempt: int) -> float | None:
    return 1.0 if answer.status == HTTPStatus.GATEWAY_TIMEOUT else None


def _definition(kind: dict[str, Any]) -> str:
    return f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{kind['metadata']['name']}"


@contextmanager
def control_plane(
    folder: Path,
    programs: Programs,
    *,
    kinds: Sequence[dict[str, Any]] = (),
    flags: Sequence[str] = (),
    needs_accounts: bool = False,
) -> Iterator[ControlPlane]:
    """A fresh one in an empty folder, ready to be called. `kinds`: CustomResourceDefinitions that it serves.
    `flags`: more of the API server's. `needs_accounts`: whether a pod needs a ServiceAccount that exists. No
    controller makes a default one.
    """
    if kinds:
        _copy(_saved(programs, kinds), folder / "etcd")
    client, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
    token, port = secrets.token_hex(16), free_port()
    store = Process("etcd", _etcd(programs.program("etcd"), folder, client, peer), log=folder / "etcd.log")
    argv = _apiserver(programs.program("kube-apiserver"), folder, etcd=client, port=port, token=token)
    argv += flags if needs_accounts else (*flags, "--disable-admission-plugins=ServiceAccount")
    server = Process("kube-apiserver", argv, log=folder / "kube-apiserver.log", environment=_ENVIRONMENT)
    plane = ControlPlane(f"https://127.0.0.1:{port}", client, folder, token, server, store)
    try:
        store.start()
        plane.start()
        if kinds:
            plane.await_discovery(kinds)
        yield plane
    finally:
        # Nothing of it is read again: there is nothing to close in order.
        server.kill()
        store.kill()


def _saved(programs: Programs, kinds: Sequence[dict[str, Any]]) -> Path:
    """What etcd keeps of a plane that serves the kinds, from the cache. The API server needs 11 s of CPU and
    2.5 GB when a caller applies KubeRay's kinds, and 1 s and 0.6 GB when it reads them from its store.
    """
    cache = Cache()
    names = key_of(*(kind["metadata"]["name"] for kind in kinds))
    made_with = (programs.program("etcd"), programs.program("kube-apiserver"))
    entry = cache.entry("test-planes", names, key_of(*made_with, json.dumps(kinds, sort_keys=True)))
    with cache.lock(f"plane-{entry.key}"):
        if not entry.exists:
            with cache.scratch("plane") as folder:
                with control_plane(folder, programs) as plane:
                    plane.define(kinds)
                _copy(folder / "etcd", folder / "saved")
                cache.publish(entry, folder / "saved")
    return entry.path


def _copy(store: Path, target: Path) -> None:
    """etcd reserves 64 MB for a log of a few: they stay holes."""
    target.mkdir()
    subprocess.run(["cp", "-R", "--sparse=always", str(store / "member"), str(target)], check=True)


def _etcd(program: str, folder: Path, client: str, peer: str) -> list[str]:
    return [
        program,
        f"--data-dir={folder / 'etcd'}",
        "--unsafe-no-fsync=true",
        "--log-level=warn",
        "--quota-backend-bytes=4294967296",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
    ]


def _apiserver(program: str, folder: Path, *, etcd: str, port: int, token: str) -> list[str]:
    tokens, accounts = folder / "tokens.csv", folder / "accounts.key"
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    for path, content in ((tokens, f"{token},admin,admin,system:masters\n".encode()), (accounts, pem)):
        path.touch(mode=0o600)
        path.write_bytes(content)
    return [
        program,
        f"--etcd-servers={etcd}",
        f"--secure-port={port}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        "--endpoint-reconciler-type=none",
        f"--cert-dir={folder / 'tls'}",
        f"--token-auth-file={tokens}",
        "--authorization-mode=RBAC",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={accounts}",
        f"--service-account-signing-key-file={accounts}",
        "--profiling=false",
        # One caller, who is never too many.
        "--enable-priority-and-fairness=false",
    ]
