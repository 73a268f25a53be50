"""What Kueue may write on the stage: what its decisions rest on, and nothing that nobody reads there.

Decides which of Kueue's writes the API server refuses. Written against Kueue 0.19.2, of which
docs/decisions/006 says why no decision depends on a refused one.
"""

from typing import Any, Final

from muster.local.envtest import ControlPlane
from muster.model import names

USER: Final = "kueue"
_GROUP: Final = names.KUEUE_API_VERSION.partition("/")[0]
_COUNTING: Final = "kueue-counts"
_AT: Final = "/apis/rbac.authorization.k8s.io/v1"
_EVERY: Final = ["*"]


def grant(plane: ControlPlane, *, usage_counts: bool) -> None:
    """Before Kueue starts. `usage_counts`: LocalQueues keep in their status what was used over time, and
    Kueue decides by it.
    """
    kept = [f"{kind}/status" for kind in (("localqueues",) if usage_counts else ())]
    _role(
        plane,
        USER,
        {"apiGroups": _EVERY, "resources": _EVERY, "verbs": ["get", "list", "watch"]},
        _write(_GROUP, "workloads", "workloads/status", "clusterqueues", "resourceflavors", *kept),
        _write("apiextensions.k8s.io", "customresourcedefinitions"),
        _write("admissionregistration.k8s.io", *_EVERY),
        _write("", "secrets"),
    )
    _role(plane, _COUNTING, _write(_GROUP, "clusterqueues/status"))


def stop_counting(plane: ControlPlane) -> None:
    """Once every ClusterQueue is known to be active: from then its status is figures alone."""
    plane.call("DELETE", f"{_AT}/clusterrolebindings/{_COUNTING}")


def _write(group: str, *resources: str) -> dict[str, Any]:
    return {"apiGroups": [group], "resources": list(resources), "verbs": _EVERY}


def _role(plane: ControlPlane, name: str, *rules: dict[str, Any]) -> None:
    api, metadata = "rbac.authorization.k8s.io", {"name": name}
    role = {"apiVersion": f"{api}/v1", "kind": "ClusterRole", "metadata": metadata, "rules": list(rules)}
    plane.apply(role, f"{_AT}/clusterroles/{name}")
    binding = {
        "apiVersion": f"{api}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": metadata,
        "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": api, "kind": "User", "name": USER}],
    }
    plane.apply(binding, f"{_AT}/clusterrolebindings/{name}")
