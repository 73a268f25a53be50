"""What KWOK and the node lifecycle controller do for Node objects without a machine. Test code."""

from typing import Any, Final

from tests.envtest import ControlPlane

_MERGE: Final = "application/merge-patch+json"
_READY: Final = {"type": "Ready", "status": "True", "reason": "KwokReady", "message": ""}


def make_ready(server: ControlPlane) -> list[dict[str, Any]]:
    """Every node is Ready, and without the taint of new ones; the nodes as they were a moment before."""
    nodes = list(server.call("GET", "/api/v1/nodes")["items"])
    for node in nodes:
        path = f"/api/v1/nodes/{node['metadata']['name']}"
        if not any(each["type"] == "Ready" for each in node["status"].get("conditions", [])):
            body = {"status": {"conditions": [_READY]}}
            server.call("PATCH", f"{path}/status", body, content_type=_MERGE)
        taints = node["spec"].get("taints", [])
        kept = [taint for taint in taints if taint["key"] != "node.kubernetes.io/not-ready"]
        if kept != taints:
            server.call("PATCH", path, {"spec": {"taints": kept}}, content_type=_MERGE)
    return nodes
