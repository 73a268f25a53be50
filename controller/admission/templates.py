"""The PodTemplates and ProvisioningRequests that we write.

Decides their content and who owns them. The Workload owns the templates and the templates own the request, so
that everything goes with the Workload even when we are not there; and Kueue's own provisioning controller,
which deletes every request whose owner has a Workload's *name*, never matches. No owner blocks a deletion:
that would ask for rights on Workloads' finalizers, and nothing here has to go first.
"""

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from typing import Any, Final

from controller.admission import identity
from controller.admission.demand import Demand
from controller.admission.objects import POD_TEMPLATE, WORKLOAD, Flavors, PodTemplate, Workload
from controller.admission.split import Ask
from controller.kube.resource import Resource
from model.names import GROUP

OWNING_WORKLOAD: Final = f"{GROUP}/workload"
"""The Workload's name, an annotation because a label holds 63 characters only."""
POOL: Final = f"{GROUP}/requested-pool"

Json = dict[str, Any]


def pod_template(
    workload: Workload,
    *,
    name: str,
    template: Mapping[str, Any],
    demand: Demand,
    flavors: Flavors,
    labels: Mapping[str, str],
) -> Json:
    """A PodSet's template as its pods will be: with its flavors' labels and tolerations, limits as
    requests.
    """
    return {
        "metadata": _metadata(
            workload, name, labels, pool=demand.flavor.name, owners=[_owner(WORKLOAD, workload)]
        ),
        "template": _merged(template, (flavors[flavor] for flavor in demand.assigned if flavor in flavors)),
    }


def provisioning_request(
    workload: Workload, *, name: str, ask: Ask, templates: Sequence[PodTemplate], labels: Mapping[str, str]
) -> Json:
    """The request; `templates` are those of the ask's demands, in their order, as they are in the API."""
    owners = [_owner(POD_TEMPLATE, template) for template in templates]
    pod_sets = [
        {"podTemplateRef": {"name": template.metadata.name}, "count": demand.count}
        for template, demand in zip(templates, ask.demands, strict=True)
    ]
    return {
        "metadata": _metadata(workload, name, labels, pool=ask.pool, owners=owners),
        "spec": {
            "provisioningClassName": ask.flavor.provisioning_class_name,
            "parameters": dict(ask.parameters),
            "podSets": pod_sets,
        },
    }


def _metadata(
    workload: Workload, name: str, labels: Mapping[str, str], *, pool: str, owners: list[Json]
) -> Json:
    return {
        "namespace": workload.metadata.namespace,
        "name": name,
        "labels": dict(labels),
        "annotations": {OWNING_WORKLOAD: workload.metadata.name, POOL: pool},
        "ownerReferences": owners,
    }


def _owner(resource: Resource[Any], owner: Workload | PodTemplate) -> Json:
    meta = owner.metadata
    return {"apiVersion": resource.api_version, "kind": resource.kind, "name": meta.name, "uid": meta.uid}


def _merged(template: Mapping[str, Any], flavors: Iterable[Any]) -> Json:
    merged: Json = deepcopy(dict(template))
    spec = merged.setdefault("spec", {})
    for flavor in flavors:
        if flavor.spec.node_labels:
            spec["nodeSelector"] = {**spec.get("nodeSelector", {}), **flavor.spec.node_labels}
        if flavor.spec.tolerations:
            spec["tolerations"] = [*spec.get("tolerations", []), *map(_toleration, flavor.spec.tolerations)]
    for container in (*spec.get("initContainers", ()), *spec.get("containers", ())):
        resources = container.get("resources", {})
        if resources.get("limits"):
            resources["requests"] = {**resources["limits"], **resources.get("requests", {})}
    return merged


def _toleration(toleration: Any) -> Json:
    fields = {name: getattr(toleration, name) for name in ("key", "operator", "value", "effect")}
    return {name: value for name, value in fields.items() if value}


def is_ours(template: PodTemplate, workload: Workload) -> bool:
    """Whether a template of this name, found instead of created, was written for this very Workload."""
    owned = any(owner.uid == workload.metadata.uid for owner in template.metadata.owner_references)
    return owned and template.metadata.labels.get(identity.WORKLOAD_UID) == workload.metadata.uid
