"""Jobs that can never fit, in whatever pools.

Checked against the policy's pools before a job is created. When its pools are chosen,
muster.controller.gangs.limits checks again.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from muster.controller.gangs.limits import (
    fewest_nodes,
    is_part_of_slice,
    nodes_needed,
    part_of_slice,
    per_node,
    per_pool,
    too_large,
    too_many_nodes,
)
from muster.controller.gangs.node_choice import ANY_NODE
from muster.controller.kueue.jobs import JobPodSet
from muster.model import names
from muster.model.gangpolicy import FlavorPolicy, GangPolicy
from muster.model.pods import Amounts
from muster.model.queuetree import Queue


@dataclass(frozen=True, slots=True, kw_only=True)
class Pools:
    """The pools of a policy that a queue has quota in; without a queue all of them."""

    policy: GangPolicy
    queue: Queue | None = None

    def suited(self, pod_set: JobPodSet) -> Sequence[FlavorPolicy]:
        """Those that the PodSet may go to, whatever their size."""
        named = self._of_queue()
        return [
            flavor
            for flavor in self.policy.flavors
            if (not named or flavor.name in named)
            and pod_set.pool in ("", flavor.name)
            and pod_set.nodes.leaves(flavor, self.policy)
            and _suits(pod_set, flavor)
        ]

    def refused(self, pod_set: JobPodSet) -> Sequence[FlavorPolicy]:
        """Those that its node selector and affinity alone keep it from; empty where they leave one."""
        free = replace(pod_set, nodes=ANY_NODE, pool="", tolerated=frozenset(names.DEVICE_RESOURCES))
        others = self.suited(free)
        return [] if any(pod_set.nodes.leaves(flavor, self.policy) for flavor in others) else others

    def large_enough(self, pod_set: JobPodSet) -> Sequence[FlavorPolicy]:
        """Those of which a node holds one of its pods."""
        return [flavor for flavor in self.suited(pod_set) if not too_large(pod_set.amounts, flavor)]

    def _of_queue(self) -> frozenset[str]:
        """Empty: unknown, as where the flavor of a pool has another name."""
        if self.queue is None:
            return frozenset()
        first = frozenset((self.queue.pool,) if self.queue.pool else self.queue.groups[0])
        return first if first <= {flavor.name for flavor in self.policy.flavors} else frozenset()


def _suits(pod_set: JobPodSet, flavor: FlavorPolicy) -> bool:
    has_devices = all(flavor.node.get(name) for name in names.DEVICE_RESOURCES if pod_set.amounts.get(name))
    return has_devices and (flavor.device in pod_set.tolerated or not flavor.gpu_taint)


def taints(job_pod_sets: Iterable[JobPodSet], pools: Pools) -> Iterator[str]:
    """Pods to which Kueue assigns no pool, because all that are left to them have the taint of their
    accelerators.
    """
    for pod_set in job_pod_sets:
        if not pod_set.count or pools.suited(pod_set):
            continue
        for key in names.DEVICE_RESOURCES:
            if pools.suited(replace(pod_set, tolerated=frozenset({key}))):
                yield _untolerated(pod_set, key)
                break


def _untolerated(pod_set: JobPodSet, key: str) -> str:
    selected = ", ".join(f"{label}={value}" for label, value in sorted(pod_set.nodes.selector.items()))
    by_selector = f" by its node selector ({selected})" if selected else ""
    return (
        f"{pod_set.name} does not tolerate the taint {key} of nodes with {names.DEVICES[key]}s, and "
        f"no other nodes are available to it{by_selector}; add to the tolerations of its pod template: "
        f"{{key: {key}, operator: Exists}}"
    )


def no_such_nodes(job_pod_sets: Iterable[JobPodSet], pools: Pools) -> Iterator[str]:
    """Pods that select nodes by labels that no pool with what they ask for has: an autoscaler makes no node
    for them, and Kueue gives them a pool all the same where no flavor has the label.
    """
    for pod_set in job_pod_sets:
        if pod_set.count and (others := pools.refused(pod_set)):
            yield (
                f"{pod_set.name} selects nodes with {pod_set.nodes.misses(others, pools.policy)}, which no "
                "pool for its pods has; write what one has, or select a pool by its name: "
                f"{names.POOL_LABEL}: {others[0].name}"
            )


def never_fits_anywhere(job_pod_sets: Iterable[JobPodSet], pools: Pools) -> str | None:
    """The same for a job whose PodSets may still go to any pool of its queue, or to the one that their node
    selector names.

    The policy lists every pool, also those that nothing is asked for: what fits in none of them fits nowhere.
    """
    pinned: dict[str, list[tuple[int, Amounts]]] = {}
    for pod_set in job_pod_sets:
        if not pod_set.count:
            continue
        suited, large = pools.suited(pod_set), pools.large_enough(pod_set)
        if suited and not large:
            return per_node(pod_set.name, pod_set.amounts, suited)
        sizes = [(nodes_needed(pod_set.count, pod_set.amounts, flavor), flavor) for flavor in large]
        if sizes and all(too_many_nodes(nodes, flavor) for nodes, flavor in sizes):
            return per_pool(pod_set.name, min(nodes for nodes, _ in sizes), large)
        if large and all(is_part_of_slice(pod_set.count, pod_set.amounts, flavor) for flavor in large):
            return part_of_slice(pod_set.name, large)
        if len(large) == 1:
            only = large[0]
            pinned.setdefault(only.name, []).append((pod_set.count, pod_set.amounts))
            needed = fewest_nodes(pinned[only.name], only)
            if too_many_nodes(needed, only):
                return per_pool("the gang", needed, large)
    return None
