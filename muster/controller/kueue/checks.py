"""Our AdmissionChecks: whether each is Active, and which policy it follows.

Kueue sends Workloads only to an active check. Workloads are the reconcile loop's, policies
muster.controller.gangs'.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Final

import structlog

from muster.controller.gangs.kinds import REASON, SHORT_RECHECK, Kinds
from muster.controller.gangs.objects import Condition
from muster.controller.gangs.policies import Policies, apply_condition
from muster.controller.kube.client import Client
from muster.controller.kube.resource import Key
from muster.controller.kueue.objects import ADMISSION_CHECK, AdmissionCheck
from muster.controller.runtime.controller import Result
from muster.controller.runtime.informer import Informer
from muster.controller.runtime.metrics import Metrics
from muster.model.gangpolicy import GangPolicy
from muster.model.names import CONTROLLER_NAME, GANG_POLICY_KIND, GROUP

ACTIVE: Final = "Active"
_BEING_DELETED: Final = (
    "it is being deleted, and Kueue keeps it while ClusterQueues name it: no gang starts. Fix: run "
    "`pulumi up`, which creates it again, or remove it from the ClusterQueues"
)
_LONGEST_NAME: Final = 63
"""Of a label's value."""


class Checks:
    """Which checks are ours and which policy each follows."""

    def __init__(self, checks: Informer[AdmissionCheck], policies: Policies) -> None:
        self._checks, self._policies = checks, policies

    def listen(self, changed: Callable[[], None]) -> None:
        """`changed` is called when a check or a policy is another one."""
        self._checks.store.listen(lambda *_: changed())
        self._policies.listen(changed)

    def is_ours(self, name: str) -> bool:
        check = self._checks.get(Key("", name))
        return check is not None and is_ours(check)

    def is_being_removed(self) -> bool:
        """Whether all of ours are being deleted, or none exists."""
        return not any(
            is_ours(check) and not check.metadata.deletion_timestamp for check in self._checks.store
        )

    def are_gone(self) -> bool:
        """Whether none of ours exists."""
        return not any(is_ours(check) for check in self._checks.store)

    def policy(self, name: str) -> GangPolicy | None:
        """The accepted policy of a check; None while there is none. Without a name: of one that is ours, for
        Workloads that Kueue has taken our entry off.
        """
        check = self._checks.get(Key("", name)) if name else next(filter(is_ours, self._checks.store), None)
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
        kinds: Kinds,
        *,
        metrics: Metrics,
        clock: Callable[[], datetime],
    ) -> None:
        self._client, self._checks, self._known = client, checks, known
        self._kinds, self._clock, self._metrics = kinds, clock, metrics
        self._log = structlog.get_logger("admissionchecks")

    async def reconcile(self, key: Key) -> Result:
        self._count()
        check = self._checks.get(key)
        if check is None or not is_ours(check):
            return None
        if check.metadata.deletion_timestamp:
            await self._publish(check, "False", "BeingDeleted", _BEING_DELETED)
            return None
        if not self._kinds.are_known():
            return SHORT_RECHECK
        result = self._kinds.recheck_interval()
        await self._publish(check, *self._verdict(check))
        return result

    async def _publish(self, check: AdmissionCheck, status: str, reason: str, message: str) -> None:
        before = check.status.condition(ACTIVE)
        if status == "False" and (before is None or before.status != "False"):
            self._log.warning(
                "no gang gets quota under this check", check=check.metadata.name, reason=message
            )
        condition = Condition(type=ACTIVE, status=status, reason=reason, message=message)
        await apply_condition(self._client, ADMISSION_CHECK, check, condition, now=self._clock())

    def _count(self) -> None:
        """How many checks of ours Kueue sends Workloads to; its writes of our conditions bring us back."""
        ours = [check for check in self._checks.store if is_ours(check)]
        active = [
            check for check in ours if (held := check.status.condition(ACTIVE)) and held.status == "True"
        ]
        self._metrics.admission_checks.labels("true").set(len(active))
        self._metrics.admission_checks.labels("false").set(len(ours) - len(active))

    def _verdict(self, check: AdmissionCheck) -> tuple[str, str, str]:
        if message := self._kinds.message:
            return "False", REASON, message
        if len(check.metadata.name) > _LONGEST_NAME:
            wanted = f"at most {_LONGEST_NAME} characters, because what is requested carries it as a label"
            return "False", "BadName", f"the name of this AdmissionCheck is too long; use {wanted}"
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
