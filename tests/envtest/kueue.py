"""Kueue as a process of the caller: the real program, its own CRDs, and its webhooks on request.

It finds what its chart would have made: a namespace, and the Secret for its certificate. Without its webhooks
nothing is defaulted or refused, so writers must set every field.

Its webhooks are read from its chart without Helm: which are installed, and which address they call. The
chart's few template lines (labels, the name of a Service, the choice of a namespace selector) are resolved
here, and an unknown one is an error: a newer chart must be reviewed. Written against charts/kueue of Kueue
0.19.2.
"""

from __future__ import annotations

import base64
import json
import re
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import yaml

from muster.local import LocalClusterError
from muster.local.cluster.certificates import authority
from muster.model.work import WORK
from tests.envtest.control_plane import ControlPlane
from tests.envtest.process import CRDS, PROVISIONING_CRD, Process, Programs, free_port

Manifest = dict[str, Any]

_COMMENT: Final = re.compile(r"\{\{-? ?/\*.*?\*/ ?-?\}\}", re.S)
_LINE: Final = re.compile(r"^\s*\{\{-? *(.*?) *-?\}\}\s*$")
_INLINE: Final = re.compile(r"'?\{\{.*?\}\}[^']*'?")
_SELECTOR: Final = "toYaml $managerConfig.managedJobsNamespaceSelector"
# The safe loader, in C where it is there.
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def configurations(chart: Path, config: Mapping[str, Any], *, url: str, authority: str) -> list[Manifest]:
    """Its webhook configurations, calling `url` and trusting `authority` (base64 of PEM), for its own kinds
    and those that its configuration manages.
    """
    frameworks = config["integrations"]["frameworks"]
    groups = {each.framework: each.group for each in WORK}
    served = {"kueue.x-k8s.io", *(groups.get(name, "") for name in frameworks)}
    if any(each.serves for each in WORK if each.framework in frameworks):
        served.add("")  # Their pods wait behind a gate, which the webhook of pods puts there.
    selector = config.get("managedJobsNamespaceSelector") or {}
    found = []
    for each in _read(
        chart / "templates" / "webhook" / "manifests.yaml", selector=selector, frameworks=frameworks
    ):
        # Not the names that Kueue looks for: it would put an authority of its own in.
        each["metadata"] = {"name": f"bare-{each['kind'].removesuffix('WebhookConfiguration').lower()}"}
        each["webhooks"] = [
            _ours(hook, url, authority) for hook in each["webhooks"] if _groups(hook) <= served
        ]
        found.append(each)
    return found


def _ours(hook: Manifest, url: str, authority: str) -> Manifest:
    path = hook["clientConfig"]["service"]["path"]
    hook.pop("reinvocationPolicy", None)
    return {**hook, "clientConfig": {"url": url + path, "caBundle": authority}}


def _groups(hook: Manifest) -> set[str]:
    return {group for rule in hook["rules"] for group in rule["apiGroups"]}


def _read(path: Path, *, selector: Mapping[str, Any], frameworks: Iterable[str]) -> list[Manifest]:
    text = _COMMENT.sub("", path.read_text(encoding="utf-8"))
    lines = _rendered(text.splitlines(), json.dumps(selector), list(frameworks), path)
    documents = yaml.load_all("\n".join(lines), Loader=_LOADER)
    return [each for each in documents if each]


def _rendered(lines: list[str], selector: str, frameworks: list[str], path: Path) -> Iterator[str]:
    """The lines that hold, template expressions within a line as plain words."""
    branches: list[bool] = []
    for line in lines:
        match = _LINE.match(line)
        if match is None:
            if all(branches):
                yield _INLINE.sub("template", line)
            continue
        word = match[1]
        if word.startswith("if "):
            branches.append(_holds(word, frameworks, path))
        elif word == "else":
            branches[-1] = not branches[-1]
        elif word == "end":
            branches.pop()
        elif word.startswith(_SELECTOR) and all(branches):
            yield f"{line[: len(line) - len(line.lstrip())]}  {selector}"


def _holds(word: str, frameworks: list[str], path: Path) -> bool:
    if word == "if .Values.enableCertManager":
        return False
    if word == 'if (hasKey $managerConfig "managedJobsNamespaceSelector")':
        return True
    managed = re.fullmatch(r'if has "(\w+)" \$integrationsConfig\.frameworks', word)
    if managed is not None:
        return managed[1] in frameworks
    raise LocalClusterError(f"{path.name} of Kueue's chart", f"asks {word!r}", fix="decide it in webhooks.py")


NAMESPACE: Final = "kueue-system"
_MERGE: Final = "application/merge-patch+json"
_DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_SECRET: Final = "kueue-webhook-server-cert"
# pkg/util/cert/cert.go of Kueue 0.19.2
CONVERTED: Final = frozenset(
    f"{plural}.kueue.x-k8s.io"
    for plural in ("clusterqueues", "cohorts", "localqueues", "multikueueclusters", "workloads")
)
# pkg/util/cert/cert.go
_AUTHORITY: Final = "kueue-ca"
_BOOT_SECONDS: Final = 120.0


def definitions(programs: Programs) -> list[dict[str, Any]]:
    """The kinds that Kueue reads and the one that it asks an autoscaler with."""
    return [*programs.kinds(CRDS), *programs.kinds(PROVISIONING_CRD)]


def define(plane: ControlPlane, programs: Programs) -> None:
    """Its kinds, on a plane that runs."""
    plane.define(definitions(programs))


@contextmanager
def kueue(
    plane: ControlPlane,
    programs: Programs,
    *,
    config: Mapping[str, Any],
    chart: Path | None = None,
    user: str | None = None,
) -> Iterator[Process]:
    """Kueue with this Configuration (`config.kueue.x-k8s.io/v1beta2`), serving, until the block ends.

    Addresses, certificates and leader election are set here, whatever `config` has. With `chart`, the
    folder of Kueue's chart, the webhooks that are in it judge what is written. With `user`, it has that
    user's rights instead of the administrator's. It is asked for the other version of what is stored in one.
    """
    folder = plane.folder / "kueue"
    certificates = folder / "certificates"
    certificates.mkdir(parents=True, exist_ok=True)
    health, port = free_port(), free_port()
    _prepare(plane, certificates, url=f"https://127.0.0.1:{port}/convert")
    file = folder / "config.yaml"
    file.write_text(yaml.safe_dump(_here(config, certificates, health=health, port=port)))
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


def _install_webhooks(
    plane: ControlPlane, chart: Path, config: Mapping[str, Any], *, url: str, trust: Path
) -> None:
    bundle = base64.b64encode((trust / "ca.crt").read_bytes()).decode()
    for each in configurations(chart, config, url=url, authority=bundle):
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


def _prepare(plane: ControlPlane, certificates: Path, *, url: str) -> None:
    """As at a second start of Kueue: its certificate is in its Secret and in files, and the API server trusts
    it and asks Kueue to convert its kinds. Without a webhook that converts, the API server could not fill its
    caches of their older versions, and would list all objects again every second.
    """
    host = f"kueue-webhook-service.{NAMESPACE}.svc"
    # What Kueue's cert-controller 0.16 takes for its own: an authority of its name, with a key in PKCS #1.
    ours = authority(certificates / "ca", _AUTHORITY, hosts=(_AUTHORITY,), is_rsa=True)
    ours.issue(certificates / "tls", host, hosts=(host, "127.0.0.1"))
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    plane.apply(namespace, f"/api/v1/namespaces/{NAMESPACE}")
    data = {
        name: base64.b64encode((certificates / name).read_bytes()).decode()
        for name in ("ca.crt", "ca.key", "tls.crt", "tls.key")
    }
    meta = {"name": _SECRET, "namespace": NAMESPACE}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": data}
    plane.apply(secret, f"/api/v1/namespaces/{NAMESPACE}/secrets/{_SECRET}")
    client = {"url": url, "caBundle": data["ca.crt"]}
    webhook = {"clientConfig": client, "conversionReviewVersions": ["v1"]}
    body = {"spec": {"conversion": {"strategy": "Webhook", "webhook": webhook}}}
    for name in CONVERTED:
        plane.call("PATCH", f"{_DEFINITIONS}/{name}", body, content_type=_MERGE)


def _is_ready(port: int) -> bool:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
        return bool(answer.status == 200)
