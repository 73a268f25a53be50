"""What a queue can never hold of a job: more than its quota and all that it may borrow.

Necessary conditions alone: what passes may still wait for a division of its groups among pools that Kueue
does not find.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

from muster.controller.kueue.jobs import JobPodSet
from muster.controller.kueue.limits import Pools
from muster.model.gangpolicy import GangPolicy
from muster.model.names import DEVICE_RESOURCES, GPU_RESOURCE, MIG_PREFIX, POOL_LABEL
from muster.model.nearest import meant_resource
from muster.model.pods import Amounts, add, describe
from muster.model.queuetree import ANY_POOL, Queue, QueueTree

_NONE: Final = Fraction(0)
_GROUP = Mapping[str, Amounts]


def uncovered(
    job_pod_sets: Iterable[JobPodSet], queue: Queue, tree: QueueTree, policy: GangPolicy | None = None
) -> Iterator[str]:
    """Resources that the queue has no quota of: Kueue assigns such a PodSet no flavor, and waits
    (pkg/scheduler/flavorassigner of 0.19.2, `unavailable in ClusterQueue`). KAI leaves them to the nodes.
    """
    if tree.kai or not queue.limits:
        return
    covered = dict.fromkeys(name for group in queue.groups for bounds in group.values() for name in bounds)
    missing: dict[str, list[str]] = {}
    for pod_set in job_pod_sets:
        for resource, amount in pod_set.amounts.items():
            if amount and resource not in covered and not resource.startswith(tree.uncounted):
                missing.setdefault(resource, []).append(pod_set.name)
    for resource, pod_sets in missing.items():
        yield (
            f"{', '.join(pod_sets)} asks for {resource}, of which queue {queue.name} has no quota (it has "
            f"{', '.join(covered)}), so it would wait forever; {_instead(resource, covered, queue, policy)}"
        )


def _instead(resource: str, covered: Iterable[str], queue: Queue, policy: GangPolicy | None) -> str:
    """What to ask for. Slices of GPUs count as GPUs in the pools that have them."""
    if resource.startswith(MIG_PREFIX):
        profile = resource.removeprefix(MIG_PREFIX)
        cut = [each for each in policy.flavors if each.mig_profile] if policy else []
        fitting = [each.name for each in cut if each.mig_profile == profile and each.name in queue.groups[0]]
        if fitting:
            return f"ask for {GPU_RESOURCE} of pool {' or '.join(fitting)} ({POOL_LABEL}: {fitting[0]})"
        sizes = ", ".join(f"{each.name}: {each.mig_profile}" for each in cut)
        return (
            f"no pool of the queue has slices {profile} ({sizes or 'there are none'}); ask for {GPU_RESOURCE}"
        )
    if meant := meant_resource(resource, covered):
        return f"write {meant} in place of {resource}"
    return (
        f"remove {resource} from the requests and limits of its containers, or ask the platform team for a "
        f"quota of it, or not to count it (muster:kueue: {{excludeResourcePrefixes: [{resource}]}})"
    )


def over_quota(job_pod_sets: Sequence[JobPodSet], queue: Queue, pools: Pools | None) -> Iterator[str]:
    """`pools` None: of nodes nothing is known."""
    for number, group in enumerate(queue.groups):
        yield from _Demands(queue.name, group, pools, is_of_pools=not number).over(job_pod_sets)


@dataclass(frozen=True, slots=True)
class _Demands:
    """What a job asks of one resource group. `is_of_pools`: its flavors are the pools'."""

    queue: str
    group: _GROUP
    pools: Pools | None
    is_of_pools: bool
    sums: dict[frozenset[str], dict[str, Fraction]] = field(default_factory=dict)

    def over(self, job_pod_sets: Iterable[JobPodSet]) -> Iterator[str]:
        covered = {name for bounds in self.group.values() for name in bounds}
        for pod_set in job_pod_sets:
            whole = {
                name: amount * pod_set.count
                for name, amount in pod_set.amounts.items()
                if name in covered and amount and pod_set.count
            }
            places = self._places(pod_set)
            if not whole or not places:
                continue
            # Kueue takes all of a PodSet from one flavor.
            fitting = frozenset(place for place in places if not self._above(whole, (place,)))
            if fitting:
                add(self.sums.setdefault(fitting, {}), whole)
            else:
                yield self._alone(pod_set, whole, places)
        yield from self._together()

    def _places(self, pod_set: JobPodSet) -> frozenset[str]:
        """The pools or flavors that the PodSet may take; empty where no node is large enough, which is
        refused elsewhere.
        """
        if not self.is_of_pools or ANY_POOL in self.group:
            return frozenset(self.group)
        named = frozenset((pod_set.pool,) if pod_set.pool else self.group)
        if self.pools is None or not (suited := self.pools.suited(pod_set)):
            return named
        if not named <= {flavor.name for flavor in self.pools.policy.flavors}:
            return named  # A flavor has another name than its pool.
        large = {flavor.name for flavor in self.pools.large_enough(pod_set)}
        return named & large if suited else named

    def _above(self, asked: Amounts, places: Iterable[str]) -> Amounts:
        """What of it is more than these hold together."""
        bounds = self._bounds(places)
        return {name: amount for name, amount in asked.items() if amount > bounds.get(name, _NONE)}

    def _bounds(self, places: Iterable[str]) -> Amounts:
        found: dict[str, Fraction] = {}
        for place in places:
            add(found, self.group.get(place, {}))
        return found

    def _alone(self, pod_set: JobPodSet, whole: Amounts, places: frozenset[str]) -> str:
        above = [self._above(whole, (place,)) for place in places]
        asked = {name: amount for name, amount in whole.items() if all(name in each for each in above)}
        if asked:
            most = {name: max(self._bounds((place,)).get(name, _NONE) for place in places) for name in asked}
            return self._message(asked, places, describe(most))
        held = "; ".join(f"{place}: {describe(self._of(whole, place))}" for place in sorted(places))
        return self._message(whole, places, held, of=f"{pod_set.name} needs one pool for all its pods: ")

    def _of(self, whole: Amounts, place: str) -> Amounts:
        bounds = self._bounds((place,))
        return {name: bounds.get(name, _NONE) for name in whole}

    def _together(self) -> Iterator[str]:
        """PodSets that have nothing but these pools to go to, by each set of pools."""
        said: set[str] = set()
        for places in sorted(self.sums, key=len):
            asked: dict[str, Fraction] = {}
            for each, amounts in self.sums.items():
                if each <= places:
                    add(asked, amounts)
            above = {name: amount for name, amount in self._above(asked, places).items() if name not in said}
            if above:
                said |= set(above)
                bounds = self._bounds(places)
                yield self._message(
                    above, places, describe({name: bounds.get(name, _NONE) for name in above})
                )

    def _message(self, asked: Amounts, places: frozenset[str], most: str, *, of: str = "") -> str:
        where = f" of pool {next(iter(places))}" if len(places) == 1 and self._is_pool(places) else ""
        word = "fewer" if set(asked) <= {*DEVICE_RESOURCES} else "less"
        return (
            f"{of}in all it asks for {describe(asked)}{where}, and queue {self.queue} can hold at most "
            f"{most}, including what it may borrow; ask for {word}, or have its quota raised"
        )

    def _is_pool(self, places: frozenset[str]) -> bool:
        return self.is_of_pools and ANY_POOL not in places
