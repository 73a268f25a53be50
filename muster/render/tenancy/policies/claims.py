"""Devices that pods claim by Dynamic Resource Allocation: what no queue would ever admit or count.

Source: https://github.com/kubernetes-sigs/kueue/tree/v0.19.2/pkg/dra/claims.go and
pkg/controller/core/workload_controller.go, read 2026-11-27.
"""

from typing import Final

from muster.model.stack import Scheduler, Stack

_CLAIMS: Final = "pod.spec.?resourceClaims.orValue([])"


def faults(stack: Stack) -> str:
    """What has to change in `pod`, as a list in CEL. Only Kueue reads which classes a template claims."""
    if stack.scheduler is Scheduler.KAI:
        return _none("no quota of KAI counts devices that are claimed")
    if not stack.kueue.install:
        return "[]"
    if not stack.kueue.device_classes:
        return _none("Kueue admits no claim of a class that muster:kueue.deviceClasses does not map")
    return (
        f"{_CLAIMS}.filter(claim, claim.?resourceClaimName.hasValue()).map(claim, "
        "'in resourceClaims ' + claim.name + ' write resourceClaimTemplateName in place of "
        "resourceClaimName, which Kueue does not admit')"
    )


def _none(reason: str) -> str:
    return f"({_CLAIMS}.size() == 0 ? [] : ['remove resourceClaims: {reason}'])"
