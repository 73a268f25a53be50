"""Limits of a namespace: the number of objects, and what a container requests by default and at least.

Counts of objects protect the API server and the controllers from a single team. Without default
and least requests a pod would count as nothing in every queue. The team's queue limits how much it may run.
"""

from collections.abc import Mapping
from typing import Final

from muster.model.quantities import format_count
from muster.model.queues import Team
from muster.model.stack import Stack
from muster.model.tenancy import MOST_OBJECTS
from muster.render.manifest import Manifest, manifest

# Kubernetes' names for the keys of the stack file.
_COUNTED: Final[Mapping[str, str]] = {
    "pods": "count/pods",
    "configMaps": "count/configmaps",
    "secrets": "count/secrets",
    "services": "count/services",
    "volumeClaims": "count/persistentvolumeclaims",
}
# A Ray dashboard behind one of these would run the code of any client that finds it.
_OPEN_DOORS: Final = ("services.loadbalancers", "services.nodeports")
DEFAULT_REQUEST: Final = {"cpu": "100m", "memory": "128Mi"}
LEAST_REQUEST: Final = {"cpu": "10m", "memory": "16Mi"}


def most_objects(stack: Stack) -> Mapping[str, int]:
    """How many objects of a kind a namespace holds, by the keys of `MOST_OBJECTS`."""
    return {**MOST_OBJECTS, **stack.tenancy.objects}


def limits(stack: Stack, team: Team, labels: Mapping[str, str]) -> list[Manifest]:
    most = most_objects(stack)
    counted = {kind.word: f"count/{kind.resource}.{kind.group}" for kind in stack.work_kinds}
    counted |= _COUNTED
    hard = {counted[word]: format_count(count) for word, count in most.items() if word in counted}
    hard |= dict.fromkeys(_OPEN_DOORS, "0")
    defaults = {"type": "Container", "defaultRequest": dict(DEFAULT_REQUEST), "min": dict(LEAST_REQUEST)}
    return [
        manifest(
            "v1", "ResourceQuota", "objects", namespace=team.namespace, labels=labels, spec={"hard": hard}
        ),
        manifest(
            "v1",
            "LimitRange",
            "defaults",
            namespace=team.namespace,
            labels=labels,
            spec={"limits": [defaults]},
        ),
    ]
