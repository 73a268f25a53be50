"""KubeRay's real definitions, from what the local cluster installs, and what others say of their kinds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from muster.model.work import BROUGHT
from tests import built
from tests.envtest.process import CRDS, PROVISIONING_CRD, Programs

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def kinds(programs: Programs) -> list[dict[str, Any]]:
    """What Kueue, KubeRay and autoscalers define, as their authors wrote it."""
    return [*programs.kinds(CRDS), *programs.kinds(PROVISIONING_CRD), *kuberay(built.kuberay())]


def kuberay(kustomization: Path) -> list[dict[str, Any]]:
    return [_read(file) for file in sorted((kustomization.parent / "crd" / "bases").glob("*.yaml"))]


def compute_domains() -> dict[str, Any]:
    """NVIDIA's kind for NVLink across machines."""
    body: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("computedomains.yaml").read_text())
    return body


def gateways() -> list[dict[str, Any]]:
    """Two kinds of the Gateway API, without its schemas."""
    return [_gateway_kind(kind) for kind in ("Gateway", "HTTPRoute")]


def _gateway_kind(kind: str) -> dict[str, Any]:
    return _open_kind(kind, "gateway.networking.k8s.io", "v1")


def groups_of_pods() -> list[dict[str, Any]]:
    """The kinds whose controllers a cluster brings along, without their schemas."""
    return [_open_kind(each.kind, each.group, each.version) for each in BROUGHT]


def _open_kind(kind: str, group: str, version_name: str) -> dict[str, Any]:
    plural = f"{kind.lower()}s"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": version_name, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{group}",
            # The API server keeps groups of k8s.io to those who say so.
            "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"},
        },
        "spec": {
            "group": group,
            "names": {"kind": kind, "plural": plural},
            "scope": "Namespaced",
            "versions": [version],
        },
    }


def _read(file: Path) -> dict[str, Any]:
    body: dict[str, Any] = yaml.load(file.read_text(), Loader=_Loader)  # noqa: S506 - the safe loader, in C
    body["metadata"] = {"name": body["metadata"]["name"]}
    return body
