"""A PodSet's template as its pods will be.

Merges a Workload's template and its flavors into the pod that nodes are requested for. Ownership is
muster.controller.gangs'.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from muster.controller.gangs.demand import Demand
from muster.controller.gangs.objects import Toleration
from muster.controller.gangs.templates import Json, fill_requests
from muster.controller.kueue.objects import Flavors, ResourceFlavor


def merged(template: Mapping[str, Any], demand: Demand, flavors: Flavors) -> Json:
    """With its flavors' labels and tolerations, limits as requests, and without a gate that holds its pods
    back.
    """
    body: Json = msgspec.json.decode(msgspec.json.encode(template))  # A tenth of the time of deepcopy.
    spec = body.setdefault("spec", {})
    spec.pop("schedulingGates", None)
    for flavor in _assigned(demand, flavors):
        if flavor.spec.node_labels:
            spec["nodeSelector"] = {**spec.get("nodeSelector", {}), **flavor.spec.node_labels}
        if flavor.spec.tolerations:
            spec["tolerations"] = [*spec.get("tolerations", []), *map(_toleration, flavor.spec.tolerations)]
    fill_requests(spec)
    return body


def _assigned(demand: Demand, flavors: Flavors) -> Iterable[ResourceFlavor]:
    return (flavors[name] for name in demand.assigned if name in flavors)


def _toleration(toleration: Toleration) -> Json:
    fields = {name: getattr(toleration, name) for name in ("key", "operator", "value", "effect")}
    return {name: value for name, value in fields.items() if value}
