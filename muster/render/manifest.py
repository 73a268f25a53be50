"""The common fields of every manifest."""

from collections.abc import Mapping
from typing import Any

from muster.model import names

Manifest = dict[str, Any]

MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"


def manifest(
    api_version: str,
    kind: str,
    name: str,
    *,
    namespace: str | None = None,
    labels: Mapping[str, str] | None = None,
    **body: object,
) -> Manifest:
    """One object; `body` holds its other top-level fields, usually `spec`."""
    metadata: dict[str, object] = {"name": name}
    if namespace is not None:
        metadata["namespace"] = namespace
    metadata["labels"] = {MANAGED_BY_LABEL: "muster", **(labels or {})}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **body}


def kueue(kind: str, name: str, *, labels: Mapping[str, str] | None = None, **body: object) -> Manifest:
    """A cluster-scoped Kueue object."""
    return manifest(names.KUEUE_API_VERSION, kind, name, namespace=None, labels=labels, **body)


# The security context of every container that Muster runs: the Pod Security Standard `restricted`, and no
# writing to its own image.


def restricted_container() -> Manifest:
    """`securityContext` of a container; that of its pod says as whom it runs."""
    return {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
