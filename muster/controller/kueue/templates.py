"""A PodSet's template as its pods will be.

Merges a Workload's template and its flavors into the pod that nodes are requested for, and that the API
server judges before. Ownership is muster.controller.gangs'.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from muster.controller.gangs.demand import Demand
from muster.controller.gangs.identity import trial_name
from muster.controller.gangs.objects import Toleration
from muster.controller.gangs.templates import Json, fill_requests
from muster.controller.kueue.objects import Flavors, Workload

_ADDED: Final = ("autoscaler", "ray-job-submitter")
"""Containers that KubeRay adds to a head. Kueue counts them by their resources alone, without an image.

Source: https://github.com/kubernetes-sigs/kueue at v0.19.2, pkg/controller/jobs/raycluster/common.go and
rayjob/rayjob_controller.go (addSidecarSubmitterToHeadPodSet), read 2026-11-29
"""


def merged(template: Mapping[str, Any], demand: Demand, flavors: Flavors) -> Json:
    """As nodes are requested for it."""
    return _in_flavors(template, demand.assigned, flavors)


def _in_flavors(template: Mapping[str, Any], assigned: Iterable[str], flavors: Flavors) -> Json:
    """With its flavors' labels and tolerations, limits as requests, and without a gate that holds its pods
    back.
    """
    body: Json = msgspec.json.decode(msgspec.json.encode(template))  # A tenth of the time of deepcopy.
    spec = body.setdefault("spec", {})
    spec.pop("schedulingGates", None)
    for flavor in (flavors[name] for name in assigned if name in flavors):
        if flavor.spec.node_labels:
            spec["nodeSelector"] = {**spec.get("nodeSelector", {}), **flavor.spec.node_labels}
        if flavor.spec.tolerations:
            spec["tolerations"] = [*spec.get("tolerations", []), *map(_toleration, flavor.spec.tolerations)]
    fill_requests(spec)
    return body


def trial_pods(
    workload: Workload, templates: Mapping[str, Json], flavors: Flavors, *, request: str
) -> Iterator[tuple[str, Json]]:
    """A pod of each PodSet that is admitted, with the PodSet's name. `templates`: by PodSet. What the
    controllers of jobs add to their pods is not there. The job is their owner, because policies of others
    refuse pods without one.
    """
    meta = workload.metadata
    owners = [msgspec.to_builtins(each) for each in meta.owner_references if each.controller]
    admission = workload.status.admission
    for number, each in enumerate(admission.pod_set_assignments if admission else ()):
        if each.count == 0 or each.name not in templates:
            continue
        pod = _in_flavors(templates[each.name], dict.fromkeys(each.flavors.values()), flavors)
        for container in pod["spec"].get("containers", ()):
            if container.get("name") in _ADDED:
                container.setdefault("image", "added-by-kuberay")
        named = {"namespace": meta.namespace, "name": trial_name(request, number)}
        yield each.name, {**pod, "metadata": {**pod.get("metadata", {}), **named, "ownerReferences": owners}}


def _toleration(toleration: Toleration) -> Json:
    fields = {name: getattr(toleration, name) for name in ("key", "operator", "value", "effect")}
    return {name: value for name, value in fields.items() if value}
