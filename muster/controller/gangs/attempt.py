"""One attempt of a gang at one moment: plain data and questions about it.

Responsible for which requests in the API belong to the attempt and are what the policy asks for. Each
scheduler defines its gang and its attempt; its view reads the caches, and assembly.py decides.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from muster.controller.gangs.demand import Demand
from muster.controller.gangs.identity import ATTEMPT, NEEDS, template_name
from muster.controller.gangs.objects import Placeholder, PodTemplate, ProvisioningRequest
from muster.controller.gangs.placeholder_sets import ASKED, PlaceholderSet, asked
from muster.controller.gangs.retry import RetryHistory, clamp_to_clock
from muster.controller.gangs.split import Gang, RequestSpec
from muster.controller.gangs.surroundings import ALONE, Surroundings
from muster.controller.gangs.templates import set_parameters
from muster.controller.gangs.turn_order import TurnPosition
from muster.controller.gangs.vacated_leases import TakenLease, can_be_taken
from muster.model.gangpolicy import GangPolicy
from muster.model.names import SET_LABEL


@dataclass(frozen=True, kw_only=True)
class Attempt(ABC):
    """`requests` and `templates` are all that carry the owner's uid, of whatever attempt."""

    now: datetime
    policy: GangPolicy | None
    requests: tuple[ProvisioningRequest, ...] = ()
    templates: tuple[PodTemplate, ...] = ()
    placeholders: tuple[Placeholder, ...] = ()
    """Pods that keep nodes for it, of whatever attempt."""
    surroundings: Surroundings = ALONE

    @cached_property
    @abstractmethod
    def gang(self) -> Gang:
        """Raises ValueError where a quantity cannot be read."""

    @cached_property
    @abstractmethod
    def labels(self) -> Mapping[str, str]:
        """What everything of this attempt carries, `ATTEMPT` among it."""

    @abstractmethod
    def request_name(self, spec: RequestSpec) -> str:
        """The name of this request in this attempt."""

    @property
    @abstractmethod
    def history(self) -> RetryHistory:
        """What the gang's object records of this and earlier attempts."""

    @property
    def may_have_started(self) -> bool:
        """It was answered that its pods may start: what it has is taken back in other ways from then on."""
        return False

    @property
    def makes_pods_later(self) -> bool:
        """Its controllers create its pods once it has its capacity, so the API server has not judged them."""
        return False

    @property
    def tries_pods(self) -> bool:
        """Nothing of this attempt is written yet: a pod that cannot be made is found before it costs."""
        return self.makes_pods_later and not self.attempted and not self.written

    @property
    def clamped_history(self) -> RetryHistory:
        """The same, where a clock that was wrong has put off the next try."""
        return clamp_to_clock(self.history, now=self.now, policy=(self.policy or GangPolicy()).retry)

    def request_labels(self, spec: RequestSpec) -> Mapping[str, str]:
        """The labels of a request, its templates and its placeholders."""
        held = {SET_LABEL: self.held_as(spec)} if spec.flavor.by_placeholders else {}
        return {**self.labels, **held}

    def held_as(self, spec: RequestSpec) -> str:
        """The value of the taint on the nodes that placeholders of this request have."""
        return self.request_name(spec)

    @property
    def is_in_turn(self) -> bool:
        """Each request is made when the one before is Provisioned, not already when it is Accepted."""
        return bool(self.history.in_turn)

    @property
    def kept_turn(self) -> str:
        """What a failed attempt leaves of that to the next one. Nothing where it got nodes: one after another
        the rest came too late for them, and all at once it may not.
        """
        has_nodes = any(request.status.holds("Provisioned") for request in self.current.values())
        return "" if has_nodes else self.history.in_turn

    @property
    def late(self) -> RequestSpec | None:
        """The first request, in order, that exists and is not provisioned."""
        asked = ((spec, self.current.get(spec.shape)) for spec in self.gang.request_specs)
        return next(
            (spec for spec, request in asked if request and not request.status.holds("Provisioned")), None
        )

    @property
    def awaits_queue(self) -> bool:
        """A cloud has yet to provision what it has queued. The nodes of placeholders come in minutes, and
        would be paid for meanwhile.
        """
        return self.late is not None and not self.late.flavor.by_placeholders

    @property
    def early(self) -> tuple[ProvisioningRequest, ...]:
        """Provisioned requests after a late one: their booking ends while the late one is waited for."""
        if self.late is None:
            return ()
        after = self.gang.request_specs[self.gang.request_specs.index(self.late) + 1 :]
        asked = (self.current.get(spec.shape) for spec in after)
        return tuple(request for request in asked if request and request.status.holds("Provisioned"))

    @abstractmethod
    def turn_position(self) -> TurnPosition | None:
        """The turn position of a split gang; None when it is not one, or has nothing left to request."""

    @cached_property
    def attempted(self) -> tuple[ProvisioningRequest, ...]:
        """The requests of this attempt, also those that the policy would no longer make."""
        attempt = self.labels[ATTEMPT]
        return tuple(r for r in self.requests if r.metadata.labels.get(ATTEMPT) == attempt)

    @property
    def last_answer(self) -> datetime | None:
        """When a request of it was made or answered last."""
        requests = self.attempted
        moments = (
            *(request.metadata.creation_timestamp for request in requests),
            *(each.last_transition_time for request in requests for each in request.status.conditions),
        )
        return max((moment for moment in moments if moment), default=None)

    @property
    def last_progress(self) -> datetime | None:
        """When something of what it has asked for changed last: its requests, the nodes that it waits for."""
        moments = (
            self.last_answer,
            *(request.progressed_at for request in self.attempted if isinstance(request, PlaceholderSet)),
            *(node.status.since("Ready") for node in self.surroundings.nodes),
        )
        return max((moment for moment in moments if moment), default=None)

    @cached_property
    def current(self) -> Mapping[str, ProvisioningRequest]:
        """The live requests of this attempt that match the policy, by shape."""
        named = {request.metadata.name: request for request in self.attempted if not _is_going(request)}
        found = {spec.shape: (spec, named.get(self.request_name(spec))) for spec in self.gang.request_specs}
        return {
            shape: request
            for shape, (spec, request) in found.items()
            if request and _is_for(spec, request) and self._is_up_to_date(spec, request)
        }

    @cached_property
    def written(self) -> Mapping[str, PodTemplate]:
        """Templates of this attempt that say where its pods may go now, and how many placeholders they stand
        for, by name.
        """
        wanted = {
            template_name(self.request_name(spec), number): (spec, _placeholders_of(demand, spec))
            for spec in self.gang.request_specs
            for number, demand in enumerate(spec.demands)
        }
        named = {each.metadata.name: each for each in self.templates if each.metadata.name in wanted}
        return {
            name: each
            for name, each in named.items()
            if self._is_up_to_date(wanted[name][0], each)
            and each.metadata.annotations.get(ASKED, "") == wanted[name][1]
        }

    def _is_up_to_date(self, spec: RequestSpec, item: ProvisioningRequest | PodTemplate) -> bool:
        expected = self.request_labels(spec).get(NEEDS)
        return expected is None or item.metadata.labels.get(NEEDS, expected) == expected

    @property
    def is_provisioned(self) -> bool:
        """Every request is Provisioned; verify.py checks the nodes."""
        asked = [self.current.get(spec.shape) for spec in self.gang.request_specs]
        return all(request is not None and request.status.holds("Provisioned") for request in asked)

    def _turn_position(self, *, uid: str, since: datetime | None, priority: int = 0) -> TurnPosition | None:
        specs, current = self.gang.request_specs, self.current
        if since is None or not self.gang.takes_turns:
            return None
        unasked = [spec for spec in specs if spec.shape not in current]
        # It requests nothing before what is late is Provisioned, so it delays no other gang.
        if self.is_in_turn and self.late is not None:
            unasked = []
        elif self.awaits_queue:
            unasked = [spec for spec in unasked if not spec.flavor.by_placeholders]
        asked = [(spec.pool, current[spec.shape]) for spec in specs if spec.shape in current]
        held = {pool for pool, request in asked if _keeps_nodes(request)}
        waits = [
            (pool, request.status.holds("Accepted")) for pool, request in asked if not _is_whole(request)
        ]
        unaccepted = {pool for pool, is_accepted in waits if not is_accepted}
        return TurnPosition(
            uid=uid,
            since=since,
            priority=priority,
            pools=frozenset(spec.pool for spec in specs),
            asked=frozenset(pool for pool, _ in asked),
            unaccepted=frozenset(
                unaccepted.union(spec.pool for spec in unasked if not spec.flavor.by_placeholders)
            ),
            held=frozenset(held),
            short=frozenset(pool for pool, is_accepted in waits if is_accepted),
            by_pods=frozenset(pool for pool, request in asked if isinstance(request, PlaceholderSet)),
            next_pool=unasked[0].pool if unasked else "",
        )


def _placeholders_of(demand: Demand, spec: RequestSpec) -> str:
    """What its template says of them; empty where a ProvisioningRequest follows."""
    return asked(demand.count, spec.count) if spec.flavor.by_placeholders else ""


def _keeps_nodes(request: ProvisioningRequest) -> bool:
    """Others cannot have what it has got."""
    if isinstance(request, PlaceholderSet):
        return request.bound > 0
    return request.status.holds("Provisioned")


def _is_whole(request: ProvisioningRequest) -> bool:
    """It waits for no other gang's capacity."""
    return request.is_bound if isinstance(request, PlaceholderSet) else request.status.holds("Provisioned")


def _is_going(request: ProvisioningRequest) -> bool:
    return request.metadata.deletion_timestamp is not None


def _is_for(spec: RequestSpec, request: ProvisioningRequest) -> bool:
    """A request cannot be changed: when the policy has changed meanwhile, it is another one's. What webhooks
    of the cluster have added to it does not count.
    """
    if isinstance(request, TakenLease):
        return can_be_taken(spec)
    return (
        request.spec.provisioning_class_name == spec.flavor.provisioning_class_name
        and set_parameters(request) == spec.parameters
        and sum(pod_set.count for pod_set in request.spec.pod_sets) == spec.count
    )
