"""Kueue as a process of the caller: the real program, its own CRDs, and its webhooks on request.

It finds what its chart would have made: a namespace, and the Secret for its certificate. Without its
webhooks nothing is defaulted or refused, so writers must set every field.
"""

from __future__ import annotations

import base64
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import yaml

from muster.local.cluster.certificates import authority
from muster.local.envtest import webhooks
from muster.local.envtest.control_plane import ControlPlane
from muster.local.envtest.process import Process, free_port
from muster.local.envtest.programs import CRDS, PROVISIONING_CRD, Programs

NAMESPACE: Final = "kueue-system"
_MERGE: Final = "application/merge-patch+json"
_DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_SECRET: Final = "kueue-webhook-server-cert"  # noqa: S105 - a name
# pkg/util/cert/cert.go of Kueue 0.19.2
CONVERTED: Final = frozenset(
    f"{plural}.kueue.x-k8s.io"
    for plural in ("clusterqueues", "cohorts", "localqueues", "multikueueclusters", "workloads")
)
# pkg/util/cert/cert.go
_AUTHORITY: Final = "kueue-ca"
_BOOT_SECONDS: Final = 120.0


def define(plane: ControlPlane, programs: Programs) -> None:
    """The kinds that Kueue reads and the one that it asks an autoscaler with."""
    plane.define([*map(_convertible, programs.kinds(CRDS)), *programs.kinds(PROVISIONING_CRD)])


def _convertible(kind: dict[str, Any]) -> dict[str, Any]:
    """Kueue does not start before it could put its certificate there. Nothing calls it: all is stored as
    written.
    """
    if kind["metadata"]["name"] not in CONVERTED:
        return kind
    webhook = {"clientConfig": {"url": "https://127.0.0.1:9/convert"}, "conversionReviewVersions": ["v1"]}
    return {**kind, "spec": {**kind["spec"], "conversion": {"strategy": "Webhook", "webhook": webhook}}}


@contextmanager
def kueue(
    plane: ControlPlane,
    programs: Programs,
    *,
    config: Mapping[str, Any],
    chart: Path | None = None,
    user: str | None = None,
    converts: bool = False,
) -> Iterator[Process]:
    """Kueue with this Configuration (`config.kueue.x-k8s.io/v1beta2`), serving, until the block ends.

    Addresses, certificates and leader election are set here, whatever `config` has. With `chart`, the
    folder of Kueue's chart, the webhooks that are in it judge what is written. With `user`, it has that
    user's rights instead of the administrator's. With `converts`, it is asked for the other version of what
    is stored in one.
    """
    folder = plane.folder / "kueue"
    certificates = folder / "certificates"
    certificates.mkdir(parents=True, exist_ok=True)
    _prepare(plane, certificates)
    health, port = free_port(), free_port()
    file = folder / "config.yaml"
    file.write_text(yaml.safe_dump(_here(config, certificates, health=health, port=port)))
    if converts:
        _let_convert(plane, certificates, url=f"https://127.0.0.1:{port}/convert")
    argv = [programs.program("kueue"), f"--config={file}", f"--kubeconfig={_identity(plane, user)}"]
    process = Process("kueue", argv, log=folder / "kueue.log")
    process.start()
    try:
        process.await_(lambda: _is_ready(health), seconds=_BOOT_SECONDS)
        if chart is not None:
            _install_webhooks(plane, chart, config, url=f"https://127.0.0.1:{port}", trust=certificates)
        yield process
    finally:
        process.kill()


def _identity(plane: ControlPlane, user: str | None) -> Path:
    return plane.kubeconfig(name=user, acting_as=user) if user else plane.kubeconfig()


def _let_convert(plane: ControlPlane, certificates: Path, *, url: str) -> None:
    """The API server asks this one, which finds what it serves with in its Secret, as at a second start, and
    puts the authority of that into its kinds.
    """
    data = {
        name: base64.b64encode((certificates / name).read_bytes()).decode()
        for name in ("ca.crt", "ca.key", "tls.crt", "tls.key")
    }
    path = f"/api/v1/namespaces/{NAMESPACE}/secrets/{_SECRET}"
    plane.call("PATCH", path, {"data": data}, content_type=_MERGE)
    body = {"spec": {"conversion": {"webhook": {"clientConfig": {"url": url}}}}}
    for name in CONVERTED:
        plane.call("PATCH", f"{_DEFINITIONS}/{name}", body, content_type=_MERGE)


def _install_webhooks(
    plane: ControlPlane, chart: Path, config: Mapping[str, Any], *, url: str, trust: Path
) -> None:
    bundle = base64.b64encode((trust / "ca.crt").read_bytes()).decode()
    for each in webhooks.configurations(chart, config, url=url, authority=bundle):
        path = f"/apis/admissionregistration.k8s.io/v1/{each['kind'].lower()}s"
        plane.apply(each, f"{path}/{each['metadata']['name']}")


def _here(config: Mapping[str, Any], certificates: Path, *, health: int, port: int) -> dict[str, Any]:
    gates = {**(config.get("featureGates") or {}), "VisibilityOnDemand": False, "LocalQueueMetrics": False}
    return {
        **config,
        "namespace": NAMESPACE,
        "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": "127.0.0.1", "port": port, "certDir": str(certificates)},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": True},
        "featureGates": gates,
    }


def _prepare(plane: ControlPlane, certificates: Path) -> None:
    """What a chart and a kubelet would have put there: an empty Secret for Kueue to fill, and files to serve
    with.
    """
    host = f"kueue-webhook-service.{NAMESPACE}.svc"
    # What Kueue's cert-controller 0.16 takes for its own: an authority of its name, with a key in PKCS #1.
    ours = authority(certificates / "ca", _AUTHORITY, hosts=(_AUTHORITY,), is_rsa=True)
    ours.issue(certificates / "tls", host, hosts=(host, "127.0.0.1"))
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    plane.apply(namespace, f"/api/v1/namespaces/{NAMESPACE}")
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": _SECRET, "namespace": NAMESPACE}}
    plane.apply(secret, f"/api/v1/namespaces/{NAMESPACE}/secrets/{_SECRET}")


def _is_ready(port: int) -> bool:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
        return bool(answer.status == 200)
