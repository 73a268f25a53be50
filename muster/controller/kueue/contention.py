"""Gangs that compete with one gang for its nodes.

Looks only at gangs that share a pool, and computes each once for each of its versions, because the cost grows
with their number. Reads caches, calls nothing.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from muster.controller.gangs.capacity_claims import unpinned_demand, unused_claims
from muster.controller.gangs.indexes import BY_POOL, BY_REQUEST
from muster.controller.gangs.objects import Pod, ProvisioningRequest
from muster.controller.gangs.verify import PodDemand
from muster.controller.kueue import identity
from muster.controller.kueue.checks import Checks
from muster.controller.kueue.claim_cache import CachedSnapshot, ClaimCache, Version, rank
from muster.controller.kueue.indexes import BY_MINUTE, BY_WORKLOAD, minute
from muster.controller.kueue.objects import ResourceFlavor, Workload
from muster.controller.kueue.snapshot import WorkloadSnapshot
from muster.controller.runtime.informer import Informer

START_WINDOW: Final = timedelta(minutes=15)
"""How long after its last request was provisioned a gang's pods may be starting: a booking and a margin."""
_MINUTE: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompetingGangs:
    """`base_snapshot`: a Workload, a check and a moment to what is known of it alone."""

    workloads: Informer[Workload]
    requests: Informer[ProvisioningRequest]
    pods: Informer[Pod]
    flavors: Informer[ResourceFlavor]
    checks: Checks
    claim_cache: ClaimCache
    base_snapshot: Callable[[Workload, str, datetime], WorkloadSnapshot]
    is_asking: Callable[[str], bool]
    """Whether a request of the gang with this uid is being written."""

    def claims_before_asking(self, snapshot: WorkloadSnapshot) -> Iterator[PodDemand]:
        """Room on existing nodes for gangs that have their own nodes before this one, which has requested
        nothing: those that wait in the same pools, and those whose pods are starting.
        """
        pools = {spec.pool for spec in snapshot.gang.request_specs}
        waiting = {
            (workload.metadata.uid, each.name)
            for pool in pools
            for workload in self.workloads.store.by_index(BY_POOL, pool)
            for each in workload.status.admission_checks
            if self.checks.is_ours(each.name)
        }
        for cached in self._others(snapshot, {*waiting, *self._starting(snapshot.now)}):
            if cached.rank is None:
                continue
            other = cached.snapshot
            yield from self._unused_claims(other)
            if _waits_in(other, pools, is_asking=self.is_asking(other.workload.metadata.uid)):
                yield from (unpinned_demand(demand) for demand in other.gang.present)

    def prior_claims(self, snapshot: WorkloadSnapshot) -> Iterator[PodDemand]:
        """Room that gangs before this one were promised in its pools and have not taken yet."""
        own_rank = rank(snapshot)
        for other in self._others(snapshot, self._claimants(snapshot)):
            if other.rank is not None and other.rank < own_rank:
                yield from self._unused_claims(other.snapshot)

    def _others(
        self, snapshot: WorkloadSnapshot, claimants: Iterable[tuple[str, str]]
    ) -> Iterator[CachedSnapshot]:
        """Those of these gangs that can be read."""
        flavors = self._flavor_versions()
        for uid, check in claimants:
            workload = self.workloads.store.by_uid(uid)
            if workload is None or uid == snapshot.workload.metadata.uid:
                continue
            try:
                other = self._cached(workload, check, flavors, snapshot.now)
                if other.snapshot.gang.request_specs:
                    yield other
            except ValueError:
                continue

    def _unused_claims(self, other: WorkloadSnapshot) -> Iterable[PodDemand]:
        # Of a scale-up, which of its pods are done does not show whether they are new ones.
        ended = {} if other.is_scale_up else other.ended
        return unused_claims(other.gang, other.current, self._consumers(other), ended=ended)

    def _claimants(self, snapshot: WorkloadSnapshot) -> Iterable[tuple[str, str]]:
        """Uid and check of all that wait for their pods in pools that this gang shares. A part that brings
        no nodes of its own (a head) shares them with those of all gangs whose pieces came lately.
        """
        shared = {
            spec.pool for spec in snapshot.gang.request_specs if not spec.flavor.node_selector_from_details
        }
        requests = [each for pool in shared for each in self.requests.store.by_index(BY_POOL, pool)]
        starting = self._starting(snapshot.now) if snapshot.gang.present else set()
        return self._made_for(requests) | starting

    def _starting(self, now: datetime) -> set[tuple[str, str]]:
        """All whose nodes came lately and whose pods are not all bound."""
        minutes = (minute(now - ago * _MINUTE) for ago in range(-1, START_WINDOW // _MINUTE))
        return self._made_for(
            each for name in minutes for each in self.requests.store.by_index(BY_MINUTE, name)
        )

    def _made_for(self, requests: Iterable[ProvisioningRequest]) -> set[tuple[str, str]]:
        waiting, used = set[tuple[str, str]](), set[str]()
        for each in requests:
            labels = each.metadata.labels
            uid = labels.get(identity.WORKLOAD_UID, "")
            if self._is_used(each):
                used.add(uid)
            else:
                waiting.add((uid, labels.get(identity.CHECK, "")))
        for uid in used - {uid for uid, _ in waiting}:
            self.claim_cache.forget(uid)
        return waiting

    def _is_used(self, request: ProvisioningRequest) -> bool:
        """Whether all pods that it was made for have a node."""
        pods = self.pods.store.by_index(BY_REQUEST, request.key)
        bound = sum(1 for pod in pods if pod.spec.node_name)
        return bound >= sum(pod_set.count for pod_set in request.spec.pod_sets)

    def _cached(self, workload: Workload, check: str, flavors: Version, now: datetime) -> CachedSnapshot:
        requests = self.requests.store.by_index(BY_WORKLOAD, workload.key)
        versions = (request.metadata.resource_version for request in requests)
        policy = self.checks.policy(check)
        version = (workload.metadata.resource_version, policy, flavors, *versions)
        uid = workload.metadata.uid
        return self.claim_cache.get(uid, check, version, lambda: self.base_snapshot(workload, check, now))

    def _consumers(self, other: WorkloadSnapshot) -> Iterator[Pod]:
        for request in other.current.values():
            yield from self.pods.store.by_index(BY_REQUEST, request.key)

    def _flavor_versions(self) -> Version:
        return tuple(flavor.metadata.resource_version for flavor in self.flavors.store)


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
