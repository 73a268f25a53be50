"""The other half of the pair: our AdmissionChecks and the GangPolicies that they name.

Decides whether a check is Active, so that Kueue sends Workloads to it only when we know what to do with them,
and tells on every GangPolicy whether it is obeyed and what is wrong with it. Leaves Workloads to the
reconciler.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

from controller.admission.objects import (
    ADMISSION_CHECK,
    GANG_POLICY,
    AdmissionCheck,
    Condition,
    Conditioned,
    GangPolicyObject,
    ResourceFlavor,
)
from controller.kube.client import Client
from controller.kube.resource import Key, Object, Resource, T
from controller.runtime.controller import Result
from controller.runtime.informer import Informer
from model.gangpolicy import GangPolicy, from_spec
from model.names import CONTROLLER_NAME, GANG_POLICY_KIND, GROUP
from model.violations import Violation

ACTIVE: Final = "Active"
ACCEPTED: Final = "Accepted"


class Policies:
    """The GangPolicies of the cluster, each judged once a version."""

    def __init__(self, policies: Informer[GangPolicyObject]) -> None:
        self._policies = policies
        self._read: dict[str, tuple[str, GangPolicy | list[Violation]]] = {}

    def judged(self, name: str) -> GangPolicy | list[Violation] | None:
        """The policy of this name, or what is wrong with it; None when there is none."""
        found = self._policies.get(Key("", name))
        if found is None:
            self._read.pop(name, None)
            return None
        version, known = self._read.get(name, ("", []))
        if version != found.metadata.resource_version:
            known = from_spec(found.spec)
            self._read[name] = (found.metadata.resource_version, known)
        return known

    def accepted(self, name: str) -> GangPolicy | None:
        found = self.judged(name)
        return found if isinstance(found, GangPolicy) else None


class Checks:
    """Which checks are ours and which policy each follows."""

    def __init__(self, checks: Informer[AdmissionCheck], policies: Policies) -> None:
        self._checks, self._policies = checks, policies

    def is_ours(self, name: str) -> bool:
        check = self._checks.get(Key("", name))
        return check is not None and is_ours(check)

    def policy(self, name: str) -> GangPolicy | None:
        """The accepted policy of a check; None while there is none."""
        check = self._checks.get(Key("", name))
        return self._policies.accepted(policy_name(check)) if check and is_ours(check) else None


def is_ours(check: AdmissionCheck) -> bool:
    return check.spec.controller_name == CONTROLLER_NAME


def policy_name(check: AdmissionCheck) -> str:
    """The name of the GangPolicy that the check refers to; empty when it refers to something else."""
    parameters = check.spec.parameters
    fits = parameters and (parameters.api_group, parameters.kind) == (GROUP, GANG_POLICY_KIND)
    return parameters.name if parameters and fits else ""


class CheckReconciler:
    """Keeps the Active condition of our AdmissionChecks."""

    def __init__(
        self,
        client: Client,
        checks: Informer[AdmissionCheck],
        known: Policies,
        *,
        clock: Callable[[], datetime],
    ) -> None:
        self._client, self._checks, self._known, self._clock = client, checks, known, clock

    async def reconcile(self, key: Key) -> Result:
        check = self._checks.get(key)
        if check is None or not is_ours(check) or check.metadata.deletion_timestamp:
            return None
        status, reason, message = self._verdict(check)
        condition = Condition(type=ACTIVE, status=status, reason=reason, message=message)
        await tell(self._client, ADMISSION_CHECK, check, check.status, condition, now=self._clock())
        return None

    def _verdict(self, check: AdmissionCheck) -> tuple[str, str, str]:
        name = policy_name(check)
        if not name:
            wanted = f"apiGroup: {GROUP}, kind: {GANG_POLICY_KIND}, name: <policy>"
            return "False", "BadParametersRef", f"spec.parameters must refer to a GangPolicy ({wanted})"
        found = self._known.judged(name)
        if found is None:
            return (
                "False",
                "BadParametersRef",
                f"there is no GangPolicy {name}; create it, or name another one",
            )
        if isinstance(found, list):
            return "False", "BadParametersRef", f"GangPolicy {name} is refused: {found[0]}"
        return "True", "Active", "The admission check is active"


class PolicyReconciler:
    """Keeps the Accepted condition of GangPolicies."""

    def __init__(
        self,
        client: Client,
        policies: Informer[GangPolicyObject],
        flavors: Informer[ResourceFlavor],
        known: Policies,
        *,
        clock: Callable[[], datetime],
    ) -> None:
        self._client, self._policies, self._flavors = client, policies, flavors
        self._known, self._clock = known, clock

    async def reconcile(self, key: Key) -> Result:
        policy = self._policies.get(key)
        found = self._known.judged(key.name)
        if policy is None or found is None or policy.metadata.deletion_timestamp:
            return None
        status, reason, message = self._verdict(found)
        condition = Condition(type=ACCEPTED, status=status, reason=reason, message=message)
        await tell(self._client, GANG_POLICY, policy, policy.status, condition, now=self._clock())
        return None

    def _verdict(self, found: GangPolicy | list[Violation]) -> tuple[str, str, str]:
        if isinstance(found, list):
            return "False", "Invalid", " ".join(str(violation) for violation in found)
        missing = [flavor.name for flavor in found.flavors if self._flavors.get(Key("", flavor.name)) is None]
        if missing:
            return (
                "True",
                "FlavorsMissing",
                f"Obeyed; these ResourceFlavors do not exist: {', '.join(missing)}",
            )
        return "True", "Accepted", f"Obeyed for {len(found.flavors)} flavors"


async def tell(
    client: Client,
    resource: Resource[T],
    obj: Object,
    status: Conditioned,
    condition: Condition,
    *,
    now: datetime,
) -> None:
    """Apply one condition of ours, if it says something new."""
    before = status.condition(condition.type)
    generation = obj.metadata.generation
    if before is not None and _said(before) == (*_said(condition)[:3], generation):
        return
    same = before is not None and before.status == condition.status and before.last_transition_time
    since = before.last_transition_time if before is not None and same else now
    entry: dict[str, Any] = {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message[:32_000],
        "observedGeneration": generation,
        "lastTransitionTime": (since or now).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    body = {
        "metadata": {"name": obj.metadata.name, "uid": obj.metadata.uid},
        "status": {"conditions": [entry]},
    }
    await client.apply(resource, obj.key, body, subresource="status", force=True)


def _said(condition: Condition) -> tuple[str, str, str, int]:
    return condition.status, condition.reason, condition.message, condition.observed_generation
