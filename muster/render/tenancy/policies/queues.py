"""What a ClusterQueue may not have beside our check, regardless of who writes it."""

from typing import Final

from muster.model import names
from muster.render.tenancy.policies.policy import Kinds, Policy, Rule

REASON: Final = (
    "Kueue then queues one Workload a flavor and activates those that lose again and again, which the check "
    "takes for the order to try once more"
)


def queues() -> Policy:
    before = "dyn(oldObject).spec.?concurrentAdmissionPolicy.hasValue()"
    ours = (
        "object.spec.?admissionChecksStrategy.?admissionChecks.orValue([])"
        f".exists(check, check.name == '{names.ADMISSION_CHECK}')"
    )
    return Policy(
        name="muster-queues",
        purpose=(
            "The gang-admission check cannot serve a ClusterQueue with these fields. Applies to everyone."
        ),
        kinds=(Kinds(group="kueue.x-k8s.io", resources=("clusterqueues",)),),
        rules=(
            Rule(
                holds=f"!has(object.spec.concurrentAdmissionPolicy) || !{ours} || "
                f"(request.operation == 'UPDATE' && {before})",
                message=f"'concurrentAdmissionPolicy does not go with AdmissionCheck "
                f"{names.ADMISSION_CHECK}: {REASON}; remove one of them from ClusterQueue ' + "
                "object.metadata.name",
            ),
        ),
        everywhere=True,
    )
