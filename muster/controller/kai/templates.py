"""A pod as nodes are requested for it.

Copies from a gated pod into the PodTemplate of a request what the scheduler looks at. Pods that share GPUs
become one pod of whole GPUs. Ownership is muster.controller.gangs'.
"""

from copy import deepcopy
from typing import Any, Final

import msgspec

from muster.controller.gangs.placeholders import quantity
from muster.controller.gangs.templates import Json, fill_requests
from muster.controller.kai.objects import WholePod
from muster.controller.kai.pod_groups import PodGroupDemand, missing_tolerations
from muster.model.names import UNDISTURBED
from muster.model.pods import Amounts

# What belongs to one pod of many, or that a template may not carry beside its class.
_OWN: Final = ("nodeName", "schedulingGates", "hostname", "subdomain", "priority", "preemptionPolicy")


def template_of(pod: WholePod, group_demand: PodGroupDemand) -> Json:
    """The template of equal pods, made from one of them."""
    spec: Json = {key: deepcopy(value) for key, value in pod.spec.items() if key not in _OWN}
    spec["nodeSelector"] = {**spec.get("nodeSelector", {}), **group_demand.demand.needs.node_selector}
    added = missing_tolerations(group_demand.demand.flavor, group_demand.pods[0].spec.tolerations)
    spec["tolerations"] = [*spec.get("tolerations", []), *map(msgspec.to_builtins, added)]
    if group_demand.is_packed:
        spec.pop("initContainers", None)
        spec["containers"] = [_packed(spec["containers"][0], group_demand.demand.needs.amounts)]
    fill_requests(spec)
    own = {key: value for key, value in pod.metadata.annotations.items() if key in UNDISTURBED}
    return {"metadata": {"labels": dict(pod.metadata.labels), "annotations": own}, "spec": spec}


def _packed(container: Json, amounts: Amounts) -> Json:
    """One container that requests all: extended resources need a limit that equals the request."""
    written = {name: quantity(name, amount) for name, amount in amounts.items() if amount}
    limits: dict[str, Any] = {name: text for name, text in written.items() if "/" in name}
    return {**container, "resources": {"requests": written, "limits": limits}}
