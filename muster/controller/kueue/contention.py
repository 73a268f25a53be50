"""Gangs that compete with one gang for its nodes.

Looks only at gangs that share a pool, and computes each anew only when it has changed: a gang that verifies
its nodes leaves room for every unused claim, and all of them each time would cost the square of their number.
Reads caches, calls nothing.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from muster.controller.gangs.capacity_claims import unpinned_demand, unused_claims
from muster.controller.gangs.identity import request_of_template
from muster.controller.gangs.indexes import BY_POOL, BY_REQUEST
from muster.controller.gangs.objects import (
    Pod,
    PodTemplate,
    ProvisioningRequest,
)
from muster.controller.gangs.placeholder_sets import size_of_set
from muster.controller.gangs.vacated_leases import pods_of_taken
from muster.controller.gangs.verify import PodDemand
from muster.controller.kube.resource import Key
from muster.controller.kueue import identity
from muster.controller.kueue.checks import Checks
from muster.controller.kueue.indexes import BY_MINUTE, minute
from muster.controller.kueue.known_snapshots import KnownSnapshots
from muster.controller.kueue.objects import Workload
from muster.controller.kueue.snapshot import WorkloadSnapshot
from muster.controller.runtime.informer import Informer

START_WINDOW: Final = timedelta(minutes=15)
"""How long after its last request was provisioned a gang's pods may be starting: a booking and a margin."""
_MINUTE: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a gang asked for under one name, whichever way: its pods carry the name."""

    uid: str
    check: str
    key: Key
    pods: int


class CompetingGangs:
    """`is_asking`: whether a request of the gang with this uid is being written."""

    def __init__(
        self,
        *,
        workloads: Informer[Workload],
        requests: Informer[ProvisioningRequest],
        templates: Informer[PodTemplate],
        pods: Informer[Pod],
        checks: Checks,
        known: KnownSnapshots,
        is_asking: Callable[[str], bool],
    ) -> None:
        self._workloads, self._requests, self._pods, self._checks = workloads, requests, pods, checks
        self._templates, self._known, self._is_asking = templates, known, is_asking

    def claims_before_asking(self, snapshot: WorkloadSnapshot) -> Iterator[PodDemand]:
        """Room on existing nodes for gangs that have their own nodes before this one, which has requested
        nothing: those that wait in the same pools, and those whose pods are starting.
        """
        pools = {spec.pool for spec in snapshot.gang.request_specs}
        waiting = {
            (workload.metadata.uid, each.name)
            for pool in pools
            for workload in self._workloads.store.by_index(BY_POOL, pool)
            for each in workload.status.admission_checks
            if self._checks.is_ours(each.name)
        }
        for other in self._others(snapshot, {*waiting, *self._starting(snapshot)}):
            yield from self._unused_claims(other)
            if _waits_in(other, pools, is_asking=self._is_asking(other.workload.metadata.uid)):
                yield from (unpinned_demand(demand) for demand in other.gang.present)

    def prior_claims(self, snapshot: WorkloadSnapshot) -> Iterator[PodDemand]:
        """Room that gangs before this one were promised in its pools and have not taken yet."""
        rank = snapshot.claim_rank
        for other in self._others(snapshot, self._claimants(snapshot)):
            if other.claim_rank < rank:
                yield from self._unused_claims(other)

    def _others(
        self, snapshot: WorkloadSnapshot, claimants: Iterable[tuple[str, str]]
    ) -> Iterator[WorkloadSnapshot]:
        """Those of these gangs that hold claims and can be read."""
        for uid, check in claimants:
            workload = self._workloads.store.by_uid(uid)
            if workload is None or uid == snapshot.workload.metadata.uid:
                continue
            try:
                other = self._known.of(workload, check, snapshot.now)
                if other.gang.request_specs and other.holds_capacity_claims:
                    yield other
            except ValueError:
                continue

    def _unused_claims(self, other: WorkloadSnapshot) -> Iterable[PodDemand]:
        # Of a scale-up, which of its pods are done does not show whether they are new ones.
        ended = {} if other.is_scale_up else other.ended
        return unused_claims(
            *(other.gang, other.current, self._consumers(other)),
            ended=ended,
            is_handed_over=other.is_admitted,
        )

    def _claimants(self, snapshot: WorkloadSnapshot) -> Iterable[tuple[str, str]]:
        """Uid and check of all that wait for their pods in pools that this gang shares. A part that brings
        no nodes of its own (a head) shares them with those of all gangs whose pieces came lately.
        """
        shared = {
            spec.pool for spec in snapshot.gang.request_specs if not spec.flavor.node_selector_from_details
        }
        asked = [
            _of_request(each) for pool in shared for each in self._requests.store.by_index(BY_POOL, pool)
        ]
        starting = self._starting(snapshot) if snapshot.gang.present else set()
        return self._made_for(asked) | starting

    def _starting(self, snapshot: WorkloadSnapshot) -> set[tuple[str, str]]:
        """All whose nodes came lately and whose pods are not all bound."""
        minutes = (minute(snapshot.now - ago * _MINUTE) for ago in range(-1, START_WINDOW // _MINUTE))
        requests = (each for name in minutes for each in self._requests.store.by_index(BY_MINUTE, name))
        return self._made_for((*map(_of_request, requests), *self._by_templates(snapshot)))

    def _by_templates(self, snapshot: WorkloadSnapshot) -> Iterator[_Asked]:
        """All sets and taken leases of gangs that have not started, or did so lately."""
        pools = [flavor.name for flavor in snapshot.policy.flavors] if snapshot.policy else []
        for template in (each for pool in pools for each in self._templates.store.by_index(BY_POOL, pool)):
            asked = _of_template(template)
            workload = self._workloads.store.by_uid(asked.uid)
            since = workload.status.since("Admitted") if workload is not None else None
            if since is None or snapshot.now - since < START_WINDOW:
                yield asked

    def _made_for(self, asked: Iterable[_Asked]) -> set[tuple[str, str]]:
        waiting, used = set[tuple[str, str]](), set[str]()
        for each in asked:
            if self._is_used(each):
                used.add(each.uid)
            else:
                waiting.add((each.uid, each.check))
        for uid in used - {uid for uid, _ in waiting}:
            self._known.forget(uid)
        return waiting

    def _is_used(self, asked: _Asked) -> bool:
        """Whether all pods that it was made for have a node."""
        pods = self._pods.store.by_index(BY_REQUEST, asked.key)
        return sum(1 for pod in pods if pod.spec.node_name) >= asked.pods

    def _consumers(self, other: WorkloadSnapshot) -> Iterator[Pod]:
        for request in other.current.values():
            yield from self._pods.store.by_index(BY_REQUEST, request.key)


def _of_request(request: ProvisioningRequest) -> _Asked:
    labels = request.metadata.labels
    return _Asked(
        *(labels.get(identity.WORKLOAD_UID, ""), labels.get(identity.CHECK, ""), request.key),
        pods=sum(pod_set.count for pod_set in request.spec.pod_sets),
    )


def _of_template(template: PodTemplate) -> _Asked:
    """The set that it belongs to, or the lease that it takes."""
    labels, name = template.metadata.labels, request_of_template(template.metadata.name)
    return _Asked(
        *(labels.get(identity.WORKLOAD_UID, ""), labels.get(identity.CHECK, "")),
        key=Key(template.metadata.namespace, name),
        pods=size_of_set(template) or pods_of_taken(template),
    )


def _waits_in(other: WorkloadSnapshot, pools: Collection[str], *, is_asking: bool) -> bool:
    """Whether it has begun and still lacks nodes of one of these pools."""
    if not (other.current or is_asking):
        return False
    missing = [
        spec
        for spec in other.gang.request_specs
        if not ((request := other.current.get(spec.shape)) and request.status.holds("Provisioned"))
    ]
    return any(spec.pool in pools for spec in missing)
