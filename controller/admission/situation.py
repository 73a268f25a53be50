"""Everything that a decision about one Workload is made from, at one moment.

Decides which of the requests that carry the Workload's uid belong to its present attempt. Plain data and
plain questions about it; reading the caches is the reconciler's, deciding is the machine's.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from controller.admission import identity
from controller.admission.line import Place
from controller.admission.objects import (
    CheckEntry,
    Flavors,
    Node,
    Pod,
    PodTemplate,
    ProvisioningRequest,
    Workload,
)
from controller.admission.retry import History, history
from controller.admission.split import Ask, Gang, gang
from controller.admission.verify import Wanted
from model.gangpolicy import GangPolicy


@dataclass(frozen=True, kw_only=True)
class Situation:
    """`requests` and `templates` are all that carry the Workload's uid, of whatever attempt."""

    check: str
    workload: Workload
    now: datetime
    policy: GangPolicy | None
    flavors: Flavors = field(default_factory=dict)
    requests: tuple[ProvisioningRequest, ...] = ()
    templates: tuple[PodTemplate, ...] = ()
    nodes: tuple[Node, ...] = ()
    pods: tuple[Pod, ...] = ()
    claims: tuple[Wanted, ...] = ()
    """Room promised to other gangs whose pods are not there yet."""
    others: tuple[Place, ...] = ()
    """Other split gangs that are not whole yet."""

    @cached_property
    def entry(self) -> CheckEntry | None:
        return self.workload.entry(self.check)

    @cached_property
    def past(self) -> History:
        return history(self.workload)

    @cached_property
    def gang(self) -> Gang:
        """Raises ValueError where the Workload holds a quantity that is none."""
        return gang(self.workload, self.policy or GangPolicy(), self.flavors)

    def request_name(self, ask: Ask) -> str:
        return identity.request_name(self.workload, check=self.check, shape=ask.shape)

    @cached_property
    def labels(self) -> Mapping[str, str]:
        return identity.labels(self.workload, check=self.check)

    @cached_property
    def attempted(self) -> tuple[ProvisioningRequest, ...]:
        """The requests of this attempt, also those that the policy would no longer make."""
        attempt = self.labels[identity.ATTEMPT]
        return tuple(r for r in self.requests if r.metadata.labels.get(identity.ATTEMPT) == attempt)

    @cached_property
    def current(self) -> Mapping[str, ProvisioningRequest]:
        """The live requests of this attempt that are what the policy asks for, by shape."""
        named = {request.metadata.name: request for request in self.attempted if not _is_going(request)}
        found = {ask.shape: (ask, named.get(self.request_name(ask))) for ask in self.gang.asks}
        return {
            shape: request for shape, (ask, request) in found.items() if request and _is_for(ask, request)
        }

    @property
    def quota_since(self) -> datetime | None:
        return self.workload.status.since("QuotaReserved")

    @cached_property
    def may_act(self) -> bool:
        """Kueue has reserved quota and is not taking it away again."""
        status = self.workload.status
        return (
            status.holds("QuotaReserved")
            and status.admission is not None
            and not status.holds("Evicted")
            and not status.holds("DeactivationTarget")
        )

    @property
    def is_gathering(self) -> bool:
        """Quota is held and the gang does not run: what it still lacks is the question."""
        return (
            self.policy is not None
            and self.entry is not None
            and self.workload.spec.active
            and self.may_act
            and not self.is_over
            and not self.is_admitted
        )

    @property
    def is_provisioned(self) -> bool:
        """Every request says Provisioned; whether the nodes stand is another question."""
        asked = [self.current.get(ask.shape) for ask in self.gang.asks]
        return all(request is not None and request.status.holds("Provisioned") for request in asked)

    @property
    def holds_promises(self) -> bool:
        """What its requests were promised is still meant for its pods."""
        return self.may_act and not self.is_over and self.policy is not None

    @property
    def is_over(self) -> bool:
        return self.workload.status.holds("Finished") or self.workload.metadata.deletion_timestamp is not None

    @property
    def is_admitted(self) -> bool:
        return self.workload.status.holds("Admitted")

    def place(self) -> Place | None:
        """Where a split gang stands in line; None when it is not one, or has nothing left to wait for."""
        since = self.quota_since
        if since is None or not self.gang.is_split:
            return None
        unasked = [ask for ask in self.gang.asks if ask.shape not in self.current]
        return Place(
            uid=self.workload.metadata.uid,
            name=str(self.workload.key),
            since=since,
            asked=frozenset(ask.pool for ask in self.gang.asks if ask.shape in self.current),
            next_pool=unasked[0].pool if unasked else "",
        )


def _is_going(request: ProvisioningRequest) -> bool:
    return request.metadata.deletion_timestamp is not None


def _is_for(ask: Ask, request: ProvisioningRequest) -> bool:
    """A request cannot be changed: when the policy has changed meanwhile, it is another one's."""
    wanted = (ask.flavor.provisioning_class_name, dict(ask.parameters), ask.count)
    spec = request.spec
    return wanted == (
        spec.provisioning_class_name,
        spec.parameters,
        sum(pod_set.count for pod_set in spec.pod_sets),
    )
