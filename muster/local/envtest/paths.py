"""API paths of objects, for the kinds that are written without asking a server how it spells the plural."""

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
    """The path of the object itself."""
    meta = item["metadata"]
    return f"{collection(item['apiVersion'], item['kind'], meta.get('namespace'))}/{meta['name']}"


def collection(api: str, kind: str, namespace: str | None = None) -> str:
    """The path of the objects of a kind, in a namespace or everywhere."""
    root = f"/apis/{api}" if "/" in api else f"/api/{api}"
    space = f"/namespaces/{namespace}" if namespace else ""
    return f"{root}{space}/{_PLURALS.get(kind, f'{kind.lower()}s')}"
