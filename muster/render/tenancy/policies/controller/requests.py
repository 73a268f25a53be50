"""ProvisioningRequests, PodTemplates and ComputeDomains: those of ours, known by their names."""

from muster.model import names
from muster.render.tenancy.policies.controller.fence import fence
from muster.render.tenancy.policies.policy import Kinds, Policy, Rule

_WRITES = ("CREATE", "UPDATE", "DELETE")


def requests() -> Policy:
    return fence(
        "muster-controller-requests",
        purpose="The controller writes its own ProvisioningRequests and ComputeDomains.",
        kinds=(
            Kinds(group="autoscaling.x-k8s.io", resources=("provisioningrequests",), operations=_WRITES),
            Kinds(group="", resources=("podtemplates",), operations=_WRITES),
            Kinds(group="resource.nvidia.com", resources=("computedomains",), operations=_WRITES),
        ),
        rules=(
            Rule(
                # The name of the request is empty where a collection is deleted.
                holds=f"(object == null ? oldObject : object).metadata.name.startsWith('{names.OWN_PREFIX}')",
                message="'this account writes requests, templates and domains of its own, whose names begin "
                f"with {names.OWN_PREFIX}'",
            ),
        ),
    )
