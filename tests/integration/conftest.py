"""A throw-away etcd and kube-apiserver on loopback, for tests that need the real API and no nodes.

The programs come from the file that MUSTER_ARTIFACTS names, or from the local
plane's cache; without them the tests are skipped and say so.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import socket
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pytest
import yaml
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests import built

_BOOT_SECONDS = 90.0
_PAUSE = 0.1


@dataclass
class ApiServer:
    """A running API server with RBAC on; `admin` is a kubeconfig that may do everything."""

    url: str
    folder: Path
    admin: Path
    admin_token: str
    crd: Path  # the ProvisioningRequest CRD, applied already
    _argv: list[str]
    _log: IO[bytes]
    _process: subprocess.Popen[bytes] | None = None

    @property
    def certificate(self) -> Path:
        return self.folder / "tls" / "apiserver.crt"

    def kubeconfig(self, token: str, name: str = "") -> Path:
        """A kubeconfig for whoever the token belongs to."""
        path = self.folder / f"kubeconfig-{name or secrets.token_hex(4)}"
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "clusters": [
                {
                    "name": "test",
                    "cluster": {"server": self.url, "certificate-authority": str(self.certificate)},
                }
            ],
            "users": [{"name": "test", "user": {"token": token}}],
        }
        path.write_text(yaml.safe_dump(content))
        path.chmod(0o600)
        return path

    def service_account_kubeconfig(self, namespace: str, name: str) -> Path:
        """A kubeconfig with a fresh token of the ServiceAccount."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        return self.kubeconfig(self.call("POST", path, body)["status"]["token"], f"{namespace}-{name}")

    def call(
        self, method: str, path: str, body: Any = None, *, content_type: str = "application/json"
    ) -> Any:
        """One call as the administrator."""
        request = urllib.request.Request(  # noqa: S310 - the address is this test's own server
            self.url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self.admin_token}", "Content-Type": content_type},
        )
        context = ssl.create_default_context(cafile=str(self.certificate))
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        )
        with opener.open(request, timeout=20) as answer:
            return json.loads(answer.read() or b"null")

    def apply(self, manifest: dict[str, Any], path: str) -> Any:
        """Server-side apply to the object's own path."""
        query = "?fieldManager=test&force=true"
        return self.call("PATCH", path + query, manifest, content_type="application/apply-patch+yaml")

    def start(self) -> None:
        self._process = subprocess.Popen(self._argv, stdout=self._log, stderr=self._log)
        self._await_ready()

    def kill(self) -> None:
        """A power cut of the API server; etcd goes on. `start` brings it back on the same port."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(20)
            self._process = None

    def _await_ready(self) -> None:
        end = time.monotonic() + _BOOT_SECONDS
        while time.monotonic() < end:
            if self._process is None or self._process.poll() is not None:
                break
            # /readyz answers in words; a namespace tells as well that the first hooks have run.
            with contextlib.suppress(OSError, ValueError):
                self.call("GET", "/api/v1/namespaces/default")
                return
            time.sleep(_PAUSE)
        tail = (self.folder / "processes.log").read_text(errors="replace")[-3000:]
        raise AssertionError(f"the API server did not become ready in {_BOOT_SECONDS:.0f} s:\n{tail}")


@pytest.fixture(scope="session")
def api_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """One server for all tests of the session; whoever makes cluster-scoped objects removes them again."""
    programs = {name: built.program(name) for name in ("etcd", "kube-apiserver")}
    crd = built.provisioning_requests()
    missing = [name for name, path in programs.items() if path is None]
    missing += [] if crd else ["ProvisioningRequest CRD"]
    if missing:
        fix = "build them with `make up`, or let MUSTER_ARTIFACTS name a file with them"
        pytest.skip(f"no {', '.join(missing)}: {fix}")
    folder = tmp_path_factory.mktemp("api-server")
    with (folder / "processes.log").open("ab") as log, _etcd(str(programs["etcd"]), folder, log) as etcd:
        server = _server(str(programs["kube-apiserver"]), folder, log, etcd=etcd, crd=crd or Path())
        try:
            server.start()
            crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
            document = yaml.safe_load(server.crd.read_text())
            name = document["metadata"]["name"]
            server.apply(document, f"{crds}/{name}")
            yield server
        finally:
            server.kill()


def _server(program: str, folder: Path, log: IO[bytes], *, etcd: str, crd: Path) -> ApiServer:
    token, port = secrets.token_hex(16), _free_port()
    (folder / "tokens.csv").write_text(f"{token},admin,admin,system:masters\n")
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    (folder / "accounts.key").write_bytes(pem)
    argv = [
        program,
        f"--etcd-servers={etcd}",
        f"--secure-port={port}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        "--endpoint-reconciler-type=none",
        f"--cert-dir={folder / 'tls'}",
        f"--token-auth-file={folder / 'tokens.csv'}",
        "--authorization-mode=RBAC",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={folder / 'accounts.key'}",
        f"--service-account-signing-key-file={folder / 'accounts.key'}",
        # No controller makes default ServiceAccounts here, and pods must be creatable all the same.
        "--disable-admission-plugins=ServiceAccount",
    ]
    server = ApiServer(
        f"https://127.0.0.1:{port}", folder, folder / "kubeconfig-admin", token, crd, argv, log
    )
    server.kubeconfig(token, "admin")
    return server


@contextlib.contextmanager
def _etcd(program: str, folder: Path, log: IO[bytes]) -> Iterator[str]:
    client, peer = (f"http://127.0.0.1:{_free_port()}" for _ in range(2))
    argv = [program, f"--data-dir={folder / 'etcd'}", "--unsafe-no-fsync=true"]
    argv += [f"--listen-client-urls={client}", f"--advertise-client-urls={client}"]
    argv += [
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
    ]
    process = subprocess.Popen(argv, stdout=log, stderr=log)
    try:
        yield client
    finally:
        process.kill()
        process.wait(20)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
