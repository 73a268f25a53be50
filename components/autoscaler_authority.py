"""What cluster-autoscaler may do in the cluster, as RBAC rules.

It simulates the scheduler, so it reads whatever decides where a pod fits; it evicts pods of nodes that it
takes away, and answers ProvisioningRequests. Source: the example manifest and the FAQ of
https://github.com/kubernetes/autoscaler/tree/master/cluster-autoscaler
"""

from typing import Any, Final

from muster.model import names

Rule = dict[str, Any]

_READ: Final = ["get", "list", "watch"]
STATUS: Final = "cluster-autoscaler-status"


def _rule(group: str, resources: list[str], verbs: list[str], *, only: list[str] | None = None) -> Rule:
    named = {"resourceNames": only} if only else {}
    return {"apiGroups": [group], "resources": resources, "verbs": verbs, **named}


def cluster_rules() -> list[Rule]:
    return [
        _rule("", ["pods", "services", "replicationcontrollers", "namespaces", "podtemplates"], _READ),
        _rule("", ["persistentvolumes", "persistentvolumeclaims"], _READ),
        _rule("apps", ["daemonsets", "replicasets", "statefulsets"], _READ),
        _rule("batch", ["jobs"], _READ),
        _rule("policy", ["poddisruptionbudgets"], _READ),
        _rule(
            "storage.k8s.io",
            ["storageclasses", "csinodes", "csidrivers", "csistoragecapacities", "volumeattachments"],
            _READ,
        ),
        # Taints nodes that it is about to take away, and forgets those that are gone.
        _rule("", ["nodes"], [*_READ, "update", "patch", "delete"]),
        _rule("", ["pods/eviction"], ["create"]),
        _rule("", ["pods/status"], ["update"]),
        _rule("", ["events"], ["create", "patch"]),
        _rule("autoscaling.x-k8s.io", ["provisioningrequests"], _READ),
        _rule("autoscaling.x-k8s.io", ["provisioningrequests/status"], ["update", "patch"]),
    ]


def rules() -> list[Rule]:
    """In its own namespace: its lease, and the ConfigMap with its status. Creating cannot be limited by
    name.
    """
    return [
        _rule("coordination.k8s.io", ["leases"], ["create"]),
        _rule("coordination.k8s.io", ["leases"], ["get", "update"], only=[names.AUTOSCALER]),
        _rule("", ["configmaps"], [*_READ, "create"]),
        _rule("", ["configmaps"], ["update", "delete"], only=[STATUS]),
    ]
