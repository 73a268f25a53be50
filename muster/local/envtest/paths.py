"""API paths of objects, for the kinds that are written to a bare control plane."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_PLURALS: Final = {
    "PriorityClass": "priorityclasses",
    "WorkloadPriorityClass": "workloadpriorityclasses",
    "Topology": "topologies",
    "GangPolicy": "gangpolicies",
    "NetworkPolicy": "networkpolicies",
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "Rules": "rules",
    "KWOKNodeClass": "kwoknodeclasses",
}


def path_of(item: Mapping[str, Any]) -> str:
    """The path of the object itself; no server is asked how it spells the plural."""
    api, kind, meta = item["apiVersion"], item["kind"], item["metadata"]
    root = f"/apis/{api}" if "/" in api else f"/api/{api}"
    space = f"/namespaces/{meta['namespace']}" if "namespace" in meta else ""
    return f"{root}{space}/{_PLURALS.get(kind, f'{kind.lower()}s')}/{meta['name']}"
