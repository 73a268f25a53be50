"""What a field of Kueue's or KAI's API means where an object does not have it, by kind.

Kueue 0.19.2, v1beta2; KAI 0.17.0. Both sides of a comparison are completed with these, so that a default that
one side spells out is no difference.
"""

import copy
from collections.abc import Mapping
from typing import Any, Final

from muster.model.kai import DEFAULT_QUEUE_PRIORITY

OWN_NAME: Final = "kubernetes.io/metadata.name"
# A ClusterQueue without a selector lets no namespace in, and {} lets all in. Every namespace has its name.
NO_NAMESPACE: Final[Mapping[str, Any]] = {"matchExpressions": [{"key": OWN_NAME, "operator": "DoesNotExist"}]}

# Of a resource of a KAI Queue.
_NOTHING: Final = {"quota": 0, "limit": 0, "overQuotaWeight": 0}
_ONE: Final = {"fairSharing": {"weight": "1"}}
DEFAULTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "ClusterQueue": {
        **_ONE,
        "queueingStrategy": "BestEffortFIFO",
        "stopPolicy": "None",
        "flavorFungibility": {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "TryNextFlavor"},
        "preemption": {
            "withinClusterQueue": "Never",
            "reclaimWithinCohort": "Never",
            "borrowWithinCohort": {"policy": "Never"},
        },
    },
    "LocalQueue": {**_ONE, "stopPolicy": "None"},
    "Cohort": dict(_ONE),
    "Queue": {
        "priority": DEFAULT_QUEUE_PRIORITY,
        "resources": {key: dict(_NOTHING) for key in ("gpu", "cpu", "memory")},
    },
    "SchedulingShard": {"placementStrategy": {"gpu": "binpack", "cpu": "binpack"}},
    "ProvisioningRequestConfig": {
        "retryStrategy": {"backoffLimitCount": 3, "backoffBaseSeconds": 60, "backoffMaxSeconds": 1800}
    },
}


def completed(kind: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    """The spec with every default that it leaves out."""
    found = _over(DEFAULTS.get(kind, {}), spec)
    if kind == "ClusterQueue" and found.get("namespaceSelector") is None:
        found["namespaceSelector"] = copy.deepcopy(NO_NAMESPACE)
    return found


def _over(defaults: Mapping[str, Any], spec: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = copy.deepcopy(dict(defaults))
    for key, value in spec.items():
        known = found.get(key)
        if isinstance(known, dict) and isinstance(value, Mapping):
            found[key] = _over(known, value)
        elif value is not None:
            found[key] = value
    return found
