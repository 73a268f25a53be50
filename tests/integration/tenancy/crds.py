"""KubeRay's real definitions, from what the local cluster installs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def kuberay(kustomization: Path) -> list[dict[str, Any]]:
    return [_read(file) for file in sorted((kustomization.parent / "crd" / "bases").glob("*.yaml"))]


def _read(file: Path) -> dict[str, Any]:
    body: dict[str, Any] = yaml.load(file.read_text(), Loader=_Loader)  # noqa: S506 - the safe loader, in C
    body["metadata"] = {"name": body["metadata"]["name"]}
    return body
