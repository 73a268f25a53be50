"""The controllers that a cluster brings along, those of JobSet, LeaderWorkerSet and Kubeflow, as processes of
this host.
"""

import base64
import os
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from muster.local.cluster.certificates import authority
from tests.envtest import ControlPlane, Programs
from tests.envtest.process import Process, free_port
from tests.waiting import PATIENCE

_KUBEFLOW: Final = "kubeflow"
_MOUNTED: Final = Path("/tmp/k8s-webhook-server/serving-certs/tls.crt")
"""Where the training operator's cert-controller expects its Secret, whatever its webhooks' server reads."""


@contextmanager
def controller(
    plane: ControlPlane,
    name: str,
    programs: Programs,
    *,
    webhooks: Path | None = None,
    user: str | None = None,
) -> Iterator[Process]:
    """It serves with the certificate of the plane's Kueue, where there is one. `webhooks`: the file of its
    webhooks, which judge what is written until the block ends. `user`: whom it acts as, the administrator by
    default.
    """
    health, port = free_port(), free_port()
    certificates, config = _certificates(plane), plane.folder / f"{name}.yaml"
    webhook: dict[str, Any] = {"host": "127.0.0.1", "port": port}
    settings = {
        "apiVersion": f"config.{name}.x-k8s.io/v1alpha1",
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
        "metrics": {"bindAddress": "0"},
        "webhook": webhook,
        "leaderElection": {"leaderElect": False},
    }
    environment = {}
    if user:
        environment["KUBECONFIG"] = str(plane.kubeconfig(name=name, acting_as=user))
    if name == "trainer":
        settings |= {
            "apiVersion": "config.trainer.kubeflow.org/v1alpha1",
            "certManagement": {"enable": False},
            "statusServer": {"port": free_port()},
        }
        environment["TMPDIR"] = str(_served(plane, name))
    else:
        webhook["certDir"] = str(certificates)
        settings["internalCertManagement"] = {"enable": False}
    config.write_text(yaml.safe_dump(settings))
    with _running(plane, name, [programs.program(name), f"--config={config}"], environment) as process:
        process.await_(lambda: _is_ready(health), seconds=PATIENCE)
        trust = base64.b64encode((certificates / "ca.crt").read_bytes()).decode()
        for body in yaml.safe_load_all(webhooks.read_text()) if webhooks else ():
            _install(plane, name, body, url=f"https://127.0.0.1:{port}", trust=trust)
        yield process


@contextmanager
def _training_operator(plane: ControlPlane, programs: Programs) -> Iterator[Process]:
    """Kubeflow's operator, of PyTorchJobs alone. Its webhooks judge nothing."""
    health = free_port()
    _kubeflow(plane)
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "training-operator-webhook-cert"}}
    plane.apply(secret, f"/api/v1/namespaces/{_KUBEFLOW}/secrets/training-operator-webhook-cert")
    service = {"name": "training-operator", "namespace": _KUBEFLOW}
    hook = {
        "name": "nothing.training-operator.kubeflow.org",
        "rules": [],
        "clientConfig": {"service": service},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    judges = "validator.training-operator.kubeflow.org"
    body = {"kind": "ValidatingWebhookConfiguration", "metadata": {"name": judges}, "webhooks": [hook]}
    body["apiVersion"] = "admissionregistration.k8s.io/v1"
    plane.apply(body, f"/apis/{body['apiVersion']}/validatingwebhookconfigurations/{judges}")
    # It waits for a file of this name, and serves with the certificates where controller-runtime looks.
    _MOUNTED.parent.mkdir(parents=True, exist_ok=True)
    _MOUNTED.touch()
    settings = {"TMPDIR": str(_served(plane, "training-operator")), "MY_POD_NAMESPACE": _KUBEFLOW}
    argv = [
        programs.program("training-operator"),
        "--metrics-bind-address=0",
        f"--health-probe-bind-address=127.0.0.1:{health}",
        f"--webhook-server-port={free_port()}",
        "--enable-scheme=pytorchjob",
    ]
    with _running(plane, "training-operator", argv, settings) as process:
        process.await_(lambda: _is_ready(health), seconds=PATIENCE)
        yield process


@contextmanager
def _mpi_operator(plane: ControlPlane, programs: Programs) -> Iterator[Process]:
    """Its health is served on port 8080 of this host: there is one at a time."""
    _kubeflow(plane)
    argv = [
        programs.program("mpi-operator"),
        f"--kubeConfig={plane.kubeconfig()}",
        f"--lock-namespace={_KUBEFLOW}",
    ]
    with _running(plane, "mpi-operator", argv, {}) as process:
        process.await_(lambda: _is_ready(8080, "healthz"), seconds=PATIENCE)
        yield process


@dataclass(frozen=True, slots=True)
class Operator:
    """One of Kubeflow's: the program, the folder of its CRDs, and the kind that it serves here."""

    name: str
    below: str
    kind: str
    running: Callable[[ControlPlane, Programs], AbstractContextManager[Process]]

    def kinds(self, programs: Programs) -> list[dict[str, Any]]:
        found = programs.kinds(f"{self.name}-config", below=self.below)
        return [each for each in found if each["spec"]["names"]["kind"] == self.kind]


OPERATORS: Final = {
    each.kind: each
    for each in (
        Operator("training-operator", "crds", "PyTorchJob", _training_operator),
        Operator("mpi-operator", ".", "MPIJob", _mpi_operator),
    )
}


@contextmanager
def _running(plane: ControlPlane, name: str, argv: list[str], settings: dict[str, str]) -> Iterator[Process]:
    environment = {**os.environ, "KUBECONFIG": str(plane.kubeconfig()), **settings}
    process = Process(name, argv, log=plane.folder / f"{name}.log", environment=environment)
    process.start()
    try:
        yield process
    finally:
        process.kill()


def _kubeflow(plane: ControlPlane) -> None:
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _KUBEFLOW}}
    plane.apply(body, f"/api/v1/namespaces/{_KUBEFLOW}")


def _served(plane: ControlPlane, name: str) -> Path:
    """A folder for temporary files with the certificate where controller-runtime looks by default."""
    served = plane.folder / name / "k8s-webhook-server"
    served.mkdir(parents=True, exist_ok=True)
    certificates = served / "serving-certs"
    if not certificates.exists():
        certificates.symlink_to(_certificates(plane))
    return served.parent


def _certificates(plane: ControlPlane) -> Path:
    folder = plane.folder / "kueue/certificates"
    if not (folder / "tls.crt").exists():
        folder.mkdir(parents=True)
        authority(folder / "ca", "tests", hosts=()).issue(folder / "tls", "tests", hosts=("127.0.0.1",))
    return folder


def _install(plane: ControlPlane, name: str, body: dict[str, Any], *, url: str, trust: str) -> None:
    body["metadata"] = {"name": f"{name}-{body['kind'].removesuffix('WebhookConfiguration').lower()}"}
    for hook in body["webhooks"]:
        hook["clientConfig"] = {"url": url + hook["clientConfig"]["service"]["path"], "caBundle": trust}
    path = f"/apis/admissionregistration.k8s.io/v1/{body['kind'].lower()}s/{body['metadata']['name']}"
    plane.apply(body, path)


def _is_ready(port: int, path: str = "readyz") -> bool:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=5) as answer:
        return bool(answer.status == 200)
