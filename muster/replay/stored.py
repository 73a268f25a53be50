"""Writes a snapshot's Workload in the form in which the API server stores it.

A Workload keeps its name, its age and its quota, and gets the same uid in every run. A pending one is stored
without status, so that Kueue decides about it anew.
"""

import json
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from muster.live.snapshot import PodSet, State, Term, Toleration, Workload
from muster.model import names

PREFIX: Final = "/registry/kueue.x-k8s.io/workloads"
_SPACE: Final = uuid.UUID("0c0b6f0e-3f0d-4b6e-9d5c-5a1c8f1f6e2a")
_IMAGE: Final = "none"  # no pod is ever created from it


def key(workload: Workload) -> str:
    """The etcd key under which the API server finds it."""
    return f"{PREFIX}/{workload.namespace}/{workload.name}"


def uid(namespace: str, name: str) -> str:
    return str(uuid.uuid5(_SPACE, f"{namespace}/{name}"))


def value(workload: Workload) -> bytes:
    """The object, as JSON."""
    body = holding(workload) if workload.is_holding else {**pending(workload), "status": {}}
    return json.dumps(body, separators=(",", ":")).encode()


def holding(workload: Workload) -> dict[str, Any]:
    """The object of one that holds quota."""
    return {**pending(workload), "status": _status(workload)}


def pending(workload: Workload) -> dict[str, Any]:
    """The object without a status."""
    return {
        "apiVersion": names.KUEUE_API_VERSION,
        "kind": "Workload",
        "metadata": {
            "namespace": workload.namespace,
            "name": workload.name,
            "uid": uid(workload.namespace, workload.name),
            "creationTimestamp": format_time(workload.created),
            "generation": 1,
        },
        "spec": _spec(workload),
    }


def _spec(workload: Workload) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "queueName": workload.queue,
        "priority": workload.priority,
        "active": workload.state is not State.INACTIVE,
        "podSets": [_pod_set(each) for each in workload.pod_sets],
    }
    if workload.priority_class:
        group = names.KUEUE_API_VERSION.partition("/")[0]
        kind = "WorkloadPriorityClass"
        spec["priorityClassRef"] = {"group": group, "kind": kind, "name": workload.priority_class}
    return spec


def _pod_set(pods: PodSet) -> dict[str, Any]:
    container = {"name": "work", "image": _IMAGE, "resources": {"requests": quantities(pods.requests)}}
    spec: dict[str, Any] = {"containers": [container], "restartPolicy": "Never"}
    if pods.node_selector:
        spec["nodeSelector"] = dict(pods.node_selector)
    if pods.tolerations:
        spec["tolerations"] = [toleration(each) for each in pods.tolerations]
    if pods.terms:
        required = {"nodeSelectorTerms": [term(each) for each in pods.terms]}
        spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    found = {"name": pods.name, "count": pods.count, "template": {"metadata": {}, "spec": spec}}
    return found if pods.min_count is None else {**found, "minCount": pods.min_count}


def _status(workload: Workload) -> dict[str, Any]:
    """Quota reserved and admitted. All admission checks count as Ready."""
    at = workload.since("QuotaReserved") or workload.created
    conditions = [
        {
            "type": kind,
            "status": "True",
            "reason": kind,
            "message": "As in the snapshot.",
            "lastTransitionTime": format_time(at),
        }
        for kind in ("QuotaReserved", "Admitted")
    ]
    assignments = [
        {
            "name": each.name,
            "count": each.count if each.assigned is None else each.assigned,
            "flavors": dict(each.flavors),
            "resourceUsage": quantities(each.usage),
        }
        for each in workload.pod_sets
    ]
    admission = {"clusterQueue": workload.cluster_queue, "podSetAssignments": assignments}
    return {"conditions": conditions, "admission": admission}


def quantities(amounts: Mapping[str, int]) -> dict[str, str]:
    """Amounts in the units of a snapshot as Kubernetes writes them."""
    return {name: f"{amount}m" if name == "cpu" else str(amount) for name, amount in amounts.items()}


def toleration(found: Toleration) -> dict[str, str]:
    """The toleration of a pod's spec."""
    values = {"key": found.key, "operator": found.operator, "value": found.value, "effect": found.effect}
    return {name: word for name, word in values.items() if word}


def term(found: Term) -> dict[str, Any]:
    """The term of a node affinity."""
    return {
        "matchExpressions": [
            {
                "key": each.key,
                "operator": each.operator,
                **({"values": list(each.values)} if each.values else {}),
            }
            for each in found.expressions
        ]
    }


def format_time(moment: datetime) -> str:
    """A time as Kubernetes writes it."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
