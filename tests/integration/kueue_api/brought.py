"""The controllers that a cluster brings along, those of JobSet, LeaderWorkerSet and Kubeflow's Trainer, as
processes of this host.
"""

import base64
import os
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from muster.local.cluster.certificates import authority
from tests.envtest import ControlPlane, Programs
from tests.envtest.process import Process, free_port
from tests.waiting import PATIENCE


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
    kubeconfig = plane.kubeconfig(name=name, acting_as=user) if user else plane.kubeconfig()
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
    if name == "trainer":
        settings |= {
            "apiVersion": "config.trainer.kubeflow.org/v1alpha1",
            "certManagement": {"enable": False},
            "statusServer": {"port": free_port()},
        }
        # It reads its certificate where controller-runtime looks by default.
        served = plane.folder / name / "k8s-webhook-server"
        served.mkdir(parents=True)
        (served / "serving-certs").symlink_to(certificates)
        environment["TMPDIR"] = str(served.parent)
    else:
        webhook["certDir"] = str(certificates)
        settings["internalCertManagement"] = {"enable": False}
    config.write_text(yaml.safe_dump(settings))
    argv = [programs.program(name), f"--config={config}"]
    process = Process(name, argv, log=plane.folder / f"{name}.log", environment=environment)
    process.start()
    try:
        process.await_(lambda: _is_ready(health), seconds=PATIENCE)
        trust = base64.b64encode((certificates / "ca.crt").read_bytes()).decode()
        for body in yaml.safe_load_all(webhooks.read_text()) if webhooks else ():
            _install(plane, name, body, url=f"https://127.0.0.1:{port}", trust=trust)
        yield process
    finally:
        process.kill()


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


def _is_ready(port: int) -> bool:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
        return bool(answer.status == 200)
