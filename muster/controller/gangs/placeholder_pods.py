"""The pods of a placeholder set: as the gang's own would be, in a namespace of ours.

Which set needs which pods is placeholder_sets.py's; placeholders.py has those that only hold what a
ProvisioningRequest has brought.
"""

from collections.abc import Iterator
from typing import Any, Final

from muster.controller.gangs.actions import CreateSet
from muster.controller.gangs.capacity_claims import pinned_demand
from muster.controller.gangs.owner import Owner
from muster.controller.gangs.placeholder_sets import SILENT, toleration_of
from muster.controller.gangs.placeholders import named, waiting_spec
from muster.model.names import (
    OWNER_NAMESPACE_ANNOTATION,
    PLACEHOLDER_NAMESPACE,
    PLACEHOLDER_PRIORITY_CLASS,
    SET_LABEL,
    UNDISTURBED,
)

_GONE_AFTER: Final = 60
"""Seconds that a placeholder stays on a node of which nothing is heard: then it is asked for again."""


def pods(owner: Owner, action: CreateSet) -> Iterator[dict[str, Any]]:
    for name, index in named(action.name, action.spec):
        yield _pod(owner, action, name=name, index=index)


def _pod(owner: Owner, action: CreateSet, *, name: str, index: int) -> dict[str, Any]:
    """It has no owner reference, because none reaches over namespaces: the next leader finds the Workload by
    its labels. It tolerates the taint of its own set, so that one that is made again may go back to a node
    that the set holds already.
    """
    held = action.labels[SET_LABEL]
    demand = pinned_demand(action.spec.demands[index], {}, (toleration_of(held),))
    spec = waiting_spec(demand, action.image, max_lifetime=action.max_lifetime)
    spec["priorityClassName"] = PLACEHOLDER_PRIORITY_CLASS
    # Those that the API server gives to every pod would come first, and the first alone counts.
    spec["tolerations"] = [
        *(each for each in spec["tolerations"] if each.get("key") not in SILENT),
        *(
            {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _GONE_AFTER}
            for key in sorted(SILENT)
        ),
    ]
    spec.setdefault("affinity", {})["podAntiAffinity"] = _apart(held)
    return {
        "metadata": {
            "namespace": PLACEHOLDER_NAMESPACE,
            "name": name,
            "labels": dict(action.labels),
            "annotations": {
                owner.name_annotation: owner.key.name,
                OWNER_NAMESPACE_ANNOTATION: owner.key.namespace,
                **UNDISTURBED,
            },
            "ownerReferences": [],
        },
        "spec": spec,
    }


def _apart(held: str) -> dict[str, Any]:
    """Two gangs share no node while they wait: one taint on it belongs to one of them."""
    others = [
        {"key": SET_LABEL, "operator": "Exists"},
        {"key": SET_LABEL, "operator": "NotIn", "values": [held]},
    ]
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchExpressions": others}}
    return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
