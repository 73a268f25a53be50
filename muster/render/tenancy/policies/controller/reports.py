"""What the controller reports: a condition of its own AdmissionChecks, and Events under its own name.

Kueue stops a queue whose check is not active, also a check that another controller answers.
"""

from typing import Final

from muster.model import names
from muster.render.tenancy.policies.controller.fence import fence
from muster.render.tenancy.policies.policy import Kinds, Policy, Rule

_CONTROLLER: Final = names.CONTROLLER_NAME


def reports() -> Policy:
    return fence(
        "muster-controller-reports",
        purpose="The controller reports as itself alone.",
        kinds=(
            Kinds(group="kueue.x-k8s.io", resources=("admissionchecks/status",), operations=("UPDATE",)),
            Kinds(group="events.k8s.io", resources=("events",)),
        ),
        rules=(
            Rule(
                holds="request.resource.resource != 'admissionchecks' || "
                f"oldObject.spec.controllerName == '{_CONTROLLER}'",
                message=f"'this account answers for AdmissionChecks of controller {_CONTROLLER} alone'",
            ),
            Rule(
                holds="request.resource.resource != 'events' || "
                f"(object.?reportingController.orValue('') == '{_CONTROLLER}' && "
                "(request.operation == 'CREATE' || "
                f"oldObject.?reportingController.orValue('') == '{_CONTROLLER}'))",
                message=f"'this account writes Events of reportingController {_CONTROLLER} alone'",
            ),
        ),
    )
