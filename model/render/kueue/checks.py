"""AdmissionChecks: who gets a queued pool's capacity before a gang is admitted.

Decides which check stands on which pool. Leaves what Muster's own check does to GangPolicy
(render/gang.py).
"""

from collections.abc import Mapping
from typing import Final

from model import names
from model.pools import Pool
from model.render.manifest import Manifest, kueue
from model.stack import GangMode, Stack

# A check's controllerName can never change, so Kueue's own check has other names and a stack may switch
# between them.
_BUILTIN_NAMES: Final = {
    names.GKE_QUEUED_CLASS: "builtin-gke-queued",
    names.BEST_EFFORT_ATOMIC_CLASS: "builtin-best-effort-atomic",
    names.CHECK_CAPACITY_CLASS: "builtin-check-capacity",
}


def admission_check(stack: Stack) -> list[Manifest]:
    """The AdmissionChecks of the stack, each behind the parameters it refers to."""
    if stack.gang_admission.mode is GangMode.OFF or not stack.queued_pools:
        return []
    if stack.gang_admission.mode is GangMode.MUSTER:
        reference = {"apiGroup": names.GROUP, "kind": names.GANG_POLICY_KIND, "name": names.GANG_POLICY}
        return [_check(names.ADMISSION_CHECK, names.CONTROLLER_NAME, reference)]
    return [item for name, pools in _by_check(stack).items() for item in _builtin(stack, name, pools[0])]


def strategy(stack: Stack, flavors: list[str]) -> Manifest | None:
    """`admissionChecksStrategy` of a ClusterQueue with these flavors: every check on its queued pools
    alone.
    """
    rules = []
    for name, pools in _by_check(stack).items():
        queued = [pool.name for pool in pools if pool.name in flavors]
        if queued:
            rules.append({"name": name, "onFlavors": queued})
    return {"admissionChecks": rules} if rules else None


def _by_check(stack: Stack) -> dict[str, list[Pool]]:
    """Muster's one check knows every pool's class from its policy; Kueue's own needs a check for every kind
    of request.
    """
    if stack.gang_admission.mode is GangMode.OFF or not stack.queued_pools:
        return {}
    if stack.gang_admission.mode is GangMode.MUSTER:
        return {names.ADMISSION_CHECK: list(stack.queued_pools)}
    found: dict[str, list[Pool]] = {}
    for pool in stack.queued_pools:
        name = _BUILTIN_NAMES[pool.provisioning_class or names.BEST_EFFORT_ATOMIC_CLASS]
        found.setdefault(f"{name}-{pool.name}" if pool.parameters else name, []).append(pool)
    return found


def _builtin(stack: Stack, name: str, pool: Pool) -> list[Manifest]:
    """Kueue retries a failed request; its limit counts retries, ours is a deadline, so only the pauses
    carry over.
    """
    retry = stack.gang_admission.policy.retry
    spec: Manifest = {
        "provisioningClassName": pool.provisioning_class,
        "managedResources": list(stack.gang_admission.policy.managed_resources),
        "retryStrategy": {
            "backoffLimitCount": 3,
            "backoffBaseSeconds": int(retry.base.total_seconds()),
            "backoffMaxSeconds": int(retry.max.total_seconds()),
        },
    }
    if pool.parameters:
        spec["parameters"] = dict(sorted(pool.parameters.items()))
    if pool.provisioning_class == names.GKE_QUEUED_CLASS:
        lease = {"key": names.GKE_LEASE_LABEL, "valueFromProvisioningClassDetail": names.GKE_LEASE_DETAIL}
        spec["podSetUpdates"] = {"nodeSelector": [lease]}
    config = kueue("ProvisioningRequestConfig", name, spec=spec)
    reference = {"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": name}
    return [config, _check(name, names.BUILTIN_CONTROLLER_NAME, reference)]


def _check(name: str, controller: str, parameters: Mapping[str, str]) -> Manifest:
    return kueue("AdmissionCheck", name, spec={"controllerName": controller, "parameters": dict(parameters)})
