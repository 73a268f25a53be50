"""What Kueue may write on the temporary control plane: only what its decisions depend on.

All other writes are refused, which saves time. Written for Kueue 0.19.2; docs/decisions/006 explains why no
decision depends on a refused write.
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
    """Grant Kueue's rights, before it starts. `usage_counts`: Kueue decides by the usage over time that it
    keeps in the status of LocalQueues (admission fair sharing).
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
    """Revoke writing ClusterQueue status. Called once all are active: from then on the status only holds
    figures.
    """
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
