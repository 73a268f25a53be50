"""The GangPolicies of the cluster: which are valid, and the condition on each.

Each scheduler's room decides which policy applies to which gang.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final

from muster.controller.gangs.kinds import REASON, SHORT_RECHECK, Kinds
from muster.controller.gangs.objects import GANG_POLICY, Condition, GangPolicyObject, Reported
from muster.controller.kube.client import Client
from muster.controller.kube.resource import Key, Resource
from muster.controller.runtime.controller import Result
from muster.controller.runtime.informer import Informer
from muster.model.gangpolicy import FlavorPolicy, GangPolicy, OnStaggered, from_spec, unknown_fields
from muster.model.quantities import many
from muster.model.violations import Violation

ACCEPTED: Final = "Accepted"


class Policies:
    """The GangPolicies of the cluster, each judged once a version."""

    def __init__(self, policies: Informer[GangPolicyObject]) -> None:
        self._policies = policies
        self._read: dict[str, tuple[str, GangPolicy | list[Violation]]] = {}

    def listen(self, changed: Callable[[], None]) -> None:
        self._policies.store.listen(lambda *_: changed())

    def judged(self, name: str) -> GangPolicy | list[Violation] | None:
        """The policy of this name, or what is wrong with it; None when there is none."""
        found = self._policies.get(Key("", name))
        if found is None:
            self._read.pop(name, None)
            return None
        version, known = self._read.get(name, ("", []))
        if version != found.metadata.resource_version:
            known = from_spec(found.spec, is_stored=True)
            self._read[name] = (found.metadata.resource_version, known)
        return known

    def accepted(self, name: str) -> GangPolicy | None:
        found = self.judged(name)
        return found if isinstance(found, GangPolicy) else None

    def flavor(self, name: str) -> FlavorPolicy | None:
        """The flavor in the first accepted policy that has it."""
        accepted = (self.accepted(policy.metadata.name) for policy in self._policies.store)
        return next((flavor for policy in accepted if policy and (flavor := policy.flavor(name))), None)


class PolicyReconciler:
    """Keeps the Accepted condition of GangPolicies. `missing`: the ResourceFlavors that a policy speaks of
    and that do not exist.
    """

    def __init__(
        self,
        client: Client,
        policies: Informer[GangPolicyObject],
        known: Policies,
        kinds: Kinds,
        *,
        missing: Callable[[GangPolicy], Sequence[str]],
        clock: Callable[[], datetime],
    ) -> None:
        self._client, self._policies, self._known, self._kinds = client, policies, known, kinds
        self._missing, self._clock = missing, clock

    async def reconcile(self, key: Key) -> Result:
        policy = self._policies.get(key)
        found = self._known.judged(key.name)
        if policy is None or found is None or policy.metadata.deletion_timestamp:
            return None
        if not self._kinds.are_known():
            return SHORT_RECHECK
        result = self._kinds.recheck_interval()
        status, reason, message = self._verdict(found)
        if unknown := unknown_fields(policy.spec):
            message += f"; left out, because a newer controller knows them: {', '.join(unknown)}"
        condition = Condition(type=ACCEPTED, status=status, reason=reason, message=message)
        await apply_condition(self._client, GANG_POLICY, policy, condition, now=self._clock())
        return result

    def _verdict(self, found: GangPolicy | list[Violation]) -> tuple[str, str, str]:
        if isinstance(found, list):
            return "False", "Invalid", " ".join(str(violation) for violation in found)
        if message := self._kinds.message:
            return "True", REASON, f"No gang can start: {message}"
        if found.on_staggered is OnStaggered.HOLD and not found.holds:
            what = "Applied as onStaggered: release; hold needs placeholderImage, an image that only waits"
            return "True", "NoPlaceholderImage", what
        missing = self._missing(found)
        if missing:
            return (
                "True",
                "FlavorsMissing",
                f"Applied; these ResourceFlavors do not exist: {', '.join(missing)}",
            )
        return "True", "Accepted", f"Applied to {many(len(found.flavors), 'flavor')}"


async def apply_condition(
    client: Client, resource: Resource[Any], obj: Reported, condition: Condition, *, now: datetime
) -> None:
    """Apply one condition of ours, if it has changed."""
    before = obj.status.condition(condition.type)
    generation = obj.metadata.generation
    if before is not None and _content(before) == (*_content(condition)[:3], generation):
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


def _content(condition: Condition) -> tuple[str, str, str, int]:
    return condition.status, condition.reason, condition.message, condition.observed_generation
