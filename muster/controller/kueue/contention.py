"""What other gangs wait for and were promised, as far as it concerns one.

Decides who stands in one line with a gang, and whose room it has to leave. Whoever looks at others pays for
their number: only those are looked at that may concern it, and each is worked out once for each version of
it. Reads caches, calls nothing.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from muster.controller.gangs.capacity_claims import outstanding
from muster.controller.gangs.indexes import BY_POOL, BY_REQUEST
from muster.controller.gangs.objects import Pod, ProvisioningRequest
from muster.controller.gangs.turn_order import Place
from muster.controller.gangs.verify import Wanted
from muster.controller.kueue import identity
from muster.controller.kueue.checks import Checks
from muster.controller.kueue.claim_cache import Memory, Promised, Version, is_whole, rank
from muster.controller.kueue.indexes import BY_MINUTE, BY_WORKLOAD, minute
from muster.controller.kueue.objects import ResourceFlavor, Workload
from muster.controller.kueue.slices import is_elastic
from muster.controller.kueue.snapshot import Situation
from muster.controller.runtime.informer import Informer

STARTING: Final = timedelta(minutes=15)
"""For so long after its last piece a gang's pods may be on their way: a booking, and what comes before."""
_MINUTE: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbours:
    """`plain`: a Workload, a check and a moment to what is known of it alone."""

    workloads: Informer[Workload]
    requests: Informer[ProvisioningRequest]
    pods: Informer[Pod]
    flavors: Informer[ResourceFlavor]
    checks: Checks
    memory: Memory
    plain: Callable[[Workload, str, datetime], Situation]

    def in_line(self, mine: Situation) -> Iterator[Place]:
        """The other split gangs that wait in the same pools and are not whole yet."""
        pools = {ask.pool for ask in mine.gang.asks}
        found = {
            workload.metadata.uid: workload
            for pool in pools
            for workload in self.workloads.store.by_index(BY_POOL, pool)
            if may_be_split(workload)
        }
        found.pop(mine.workload.metadata.uid, None)
        flavors = self._flavors()
        for workload in found.values():
            for entry in workload.status.admission_checks:
                if self.checks.is_ours(entry.name) and (
                    place := self._place(workload, entry.name, flavors, mine.now)
                ):
                    yield place

    def claims(self, mine: Situation) -> Iterator[Wanted]:
        """Room that gangs before this one were promised in its pools and have not taken yet."""
        mine_is, flavors = rank(mine), self._flavors()
        for uid, check in self._promisees(mine):
            workload = self.workloads.store.by_uid(uid)
            if workload is None or uid == mine.workload.metadata.uid:
                continue
            try:
                other = self._recalled(workload, check, flavors, mine.now)
                if other.rank is not None and other.rank < mine_is:
                    yield from self._outstanding(other.situation)
            except ValueError:
                continue

    def _outstanding(self, other: Situation) -> Iterable[Wanted]:
        # Of a growth, which of its pods are done does not tell whether they are new ones.
        ended = {} if other.is_growth else other.ended
        return outstanding(other.gang, other.current, self._consumers(other), ended=ended)

    def _promisees(self, mine: Situation) -> Iterable[tuple[str, str]]:
        """Uid and check of all that wait for their pods in pools that this gang shares. A part that brings
        no nodes of its own (a head) shares them with those of all gangs whose pieces came lately.
        """
        shared = {ask.pool for ask in mine.gang.asks if not ask.flavor.node_selector_from_details}
        requests = [each for pool in shared for each in self.requests.store.by_index(BY_POOL, pool)]
        if mine.gang.present:
            for ago in range(-1, STARTING // _MINUTE):
                requests += self.requests.store.by_index(BY_MINUTE, minute(mine.now - ago * _MINUTE))
        labels = (each.metadata.labels for each in requests if not self._is_used(each))
        return {(each.get(identity.WORKLOAD_UID, ""), each.get(identity.CHECK, "")) for each in labels}

    def _is_used(self, request: ProvisioningRequest) -> bool:
        """Whether all pods that it was made for have a node."""
        pods = self.pods.store.by_index(BY_REQUEST, request.metadata.name)
        bound = sum(1 for pod in pods if pod.spec.node_name)
        return bound >= sum(pod_set.count for pod_set in request.spec.pod_sets)

    def _place(self, workload: Workload, check: str, flavors: Version, now: datetime) -> Place | None:
        try:
            # What a slice of an elastic gang asks for goes by the slice before it, too: not remembered.
            if is_elastic(workload):
                return place_of(self.plain(workload, check, now))
            return place_of(self._recalled(workload, check, flavors, now).situation)
        except ValueError:
            return None

    def _recalled(self, workload: Workload, check: str, flavors: Version, now: datetime) -> Promised:
        requests = self.requests.store.by_index(BY_WORKLOAD, workload.key)
        versions = (request.metadata.resource_version for request in requests)
        policy = self.checks.policy(check)
        version = (workload.metadata.resource_version, policy, flavors, *versions)
        uid = workload.metadata.uid
        return self.memory.recall(uid, check, version, lambda: self.plain(workload, check, now))

    def _consumers(self, other: Situation) -> Iterator[Pod]:
        for request in other.current.values():
            yield from self.pods.store.by_index(BY_REQUEST, request.metadata.name)

    def _flavors(self) -> Version:
        return tuple(flavor.metadata.resource_version for flavor in self.flavors.store)


def may_be_split(workload: Workload) -> bool:
    """Each request is for a PodSet of its own at least, and most gangs have one."""
    admission = workload.status.admission
    return admission is not None and len(admission.pod_set_assignments) > 1


def place_of(other: Situation) -> Place | None:
    """Where it stands in line; None where it does not, or cannot be read."""
    try:
        return other.place() if other.is_gathering and not is_whole(other) else None
    except ValueError:
        return None
