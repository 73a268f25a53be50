"""The PodTemplates and ProvisioningRequests that we write.

The gang's owner owns the templates and the templates own the request, so that garbage collection works
without this controller; and Kueue's own provisioning controller, which deletes every request whose owner has
a Workload's *name*, never matches.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from muster.controller.gangs.demand import Demand
from muster.controller.gangs.objects import POD_TEMPLATE, PodTemplate, ProvisioningRequest
from muster.controller.gangs.owner import Owner, owner_reference
from muster.controller.gangs.placeholder_sets import ASKED, KEPT, asked
from muster.controller.gangs.split import RequestSpec
from muster.model.names import GROUP, UNDISTURBED

POOL: Final = f"{GROUP}/requested-pool"
PARAMETERS: Final = f"{GROUP}/parameters"
"""On a request: the names of the parameters that we set. A webhook of the cluster may have added others."""

Json = dict[str, Any]
NO_NOTES: Final[Mapping[str, str]] = MappingProxyType({})


def pod_template(
    owner: Owner,
    *,
    name: str,
    template: Mapping[str, Any],
    pool: str,
    labels: Mapping[str, str],
    notes: Mapping[str, str] = NO_NOTES,
) -> Json:
    """`template` is a pod's metadata and spec as its pods will be. `notes`: further annotations."""
    metadata = _metadata(owner, name, labels, pool=pool, owners=[owner.reference()])
    metadata["annotations"] |= notes
    return {"metadata": metadata, "template": template}


def set_notes(spec: RequestSpec, demand: Demand, template: Mapping[str, Any]) -> Mapping[str, str]:
    """What makes a PodTemplate one of a placeholder set; nothing where a ProvisioningRequest follows."""
    if not spec.flavor.by_placeholders:
        return NO_NOTES
    own = (template.get("metadata") or {}).get("annotations") or {}
    return {
        ASKED: asked(demand.count, spec.count),
        KEPT: ",".join(key for key in UNDISTURBED if key in own),
    }


def provisioning_request(
    owner: Owner, *, name: str, spec: RequestSpec, templates: Sequence[PodTemplate], labels: Mapping[str, str]
) -> Json:
    """The request; `templates` are those of its demands, in their order, as they are in the API."""
    owners = [owner_reference(POD_TEMPLATE, template) for template in templates]
    pod_sets = [
        {"podTemplateRef": {"name": template.metadata.name}, "count": demand.count}
        for template, demand in zip(templates, spec.demands, strict=True)
    ]
    metadata = _metadata(owner, name, labels, pool=spec.pool, owners=owners)
    metadata["annotations"][PARAMETERS] = ",".join(sorted(spec.parameters))
    return {
        "metadata": metadata,
        "spec": {
            "provisioningClassName": spec.flavor.provisioning_class_name,
            "parameters": dict(spec.parameters),
            "podSets": pod_sets,
        },
    }


def _metadata(owner: Owner, name: str, labels: Mapping[str, str], *, pool: str, owners: list[Json]) -> Json:
    return {
        "namespace": owner.key.namespace,
        "name": name,
        "labels": dict(labels),
        "annotations": {owner.name_annotation: owner.key.name, POOL: pool},
        "ownerReferences": owners,
    }


def set_parameters(request: ProvisioningRequest) -> Mapping[str, str]:
    """The parameters that we set; all of them on a request of a build that did not note which."""
    actual, noted = request.spec.parameters, request.metadata.annotations.get(PARAMETERS)
    if noted is None:
        return actual
    names = frozenset(noted.split(","))
    return {name: value for name, value in actual.items() if name in names}


def fill_requests(spec: Json) -> None:
    """Limits as requests, in place: the API server does it for pods and not for templates."""
    for container in (*spec.get("initContainers", ()), *spec.get("containers", ())):
        resources = container.get("resources", {})
        if resources.get("limits"):
            resources["requests"] = {**resources["limits"], **resources.get("requests", {})}


def is_ours(template: PodTemplate, owner: Owner) -> bool:
    """Whether a template of this name, found instead of created, was written for this very owner."""
    owned = any(reference.uid == owner.uid for reference in template.metadata.owner_references)
    return owned and template.metadata.labels.get(owner.uid_label) == owner.uid
