"""Jobs that can never fit, in whatever pools.

Checked against the policy's pools before a job is created. When its pools are chosen,
muster.controller.gangs.limits checks again.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from muster.controller.gangs.demand import TOPOLOGY
from muster.controller.gangs.gpu_parts import asked_memory, read_share, shared_gpus
from muster.controller.gangs.limits import (
    MOST_PLACEHOLDERS,
    fewest_nodes,
    is_part_of_slice,
    nodes_needed,
    not_copied,
    one_each,
    part_of_slice,
    per_node,
    per_pool,
    too_large,
    too_many_nodes,
    too_many_pods,
    uncopied_fields,
)
from muster.controller.gangs.node_choice import ANY_NODE, NODE, domains
from muster.controller.gangs.objects import TopologySpreadConstraint
from muster.controller.kueue.jobs import Exclusive, JobPodSet
from muster.model import names
from muster.model.clusters.gke import GKE_NODE_POOL_LABEL
from muster.model.gangpolicy import FlavorPolicy, GangPolicy
from muster.model.pods import Amounts, add
from muster.model.queuetree import Queue


@dataclass(frozen=True, slots=True, kw_only=True)
class Pools:
    """The pools of a policy that a queue has quota in; without a queue all of them."""

    policy: GangPolicy
    queue: Queue | None = None

    def suited(self, pod_set: JobPodSet) -> Sequence[FlavorPolicy]:
        """Those that the PodSet may go to, whatever their size."""
        return [
            flavor
            for flavor in self.of_queue
            if pod_set.pool in ("", flavor.name)
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
        return [flavor for flavor in self.suited(pod_set) if not too_large_on(flavor, pod_set)]

    @property
    def described(self) -> str:
        """A pool, in words."""
        of_queue = self.queue is not None and bool(self.queue.pool) and bool(self._names())
        return f"pool of queue {self.queue.name}" if self.queue and of_queue else "pool"

    @property
    def of_queue(self) -> Sequence[FlavorPolicy]:
        """Those that the queue has quota in."""
        named = self._names()
        return [flavor for flavor in self.policy.flavors if not named or flavor.name in named]

    def _names(self) -> frozenset[str]:
        """Of the pools of the queue. Empty: unknown, as where the flavor of a pool has another name."""
        if self.queue is None:
            return frozenset()
        first = frozenset((self.queue.pool,) if self.queue.pool else self.queue.groups[0])
        return first if first <= {flavor.name for flavor in self.policy.flavors} else frozenset()


def _suits(pod_set: JobPodSet, flavor: FlavorPolicy) -> bool:
    has_devices = all(flavor.node.get(name) for name in names.DEVICE_RESOURCES if pod_set.amounts.get(name))
    is_tolerated = flavor.device in pod_set.tolerated or not flavor.gpu_taint
    return has_devices and is_tolerated and not lacks_memory(pod_set, flavor)


def lacks_memory(pod_set: JobPodSet, flavor: FlavorPolicy) -> bool:
    """Whether a part of a GPU that its pods ask for is more than a whole one of the pool."""
    return pod_set.shares_gpus and 0 < flavor.gpu_memory < asked_memory(pod_set.notes)


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
    known = {flavor.name for flavor in pools.policy.flavors}
    for pod_set in job_pod_sets:
        if pod_set.count and pod_set.pool and pod_set.pool not in known:
            listed = ", ".join(sorted(flavor.name for flavor in pools.of_queue))
            yield (
                f"{pod_set.name} has the node selector {names.POOL_LABEL}={pod_set.pool}, and no pool "
                f"{pod_set.pool} is for work of teams; write one of {listed}"
            )
        elif pod_set.count and (others := pools.refused(pod_set)):
            fitting = (each for each in others if _suits(pod_set, each) and not too_large_on(each, pod_set))
            fix = (
                f"or select a pool by its name: {names.POOL_LABEL}: {pool.name}"
                if (pool := next(fitting, None))
                else "and ask for less, as no node open to it holds one of its pods"
            )
            yield (
                f"{pod_set.name} selects nodes with {pod_set.nodes.misses(others, pools.policy)}, which no "
                f"{pools.described} for its pods has; write what one has, {fix}"
            )


def no_such_devices(job_pod_sets: Iterable[JobPodSet], pools: Pools) -> Iterator[str]:
    """Pods that ask for accelerators of a kind that no node has, or for slices, which count as GPUs in the
    pools that have them. Kueue's quotas say so by themselves; KAI's leave other resources than GPUs to the
    nodes.
    """
    for pod_set in job_pod_sets if pools.policy.kai else ():
        slices = {each: "such slice" for each in pod_set.amounts if each.startswith(names.MIG_PREFIX)}
        for resource, noun in {**names.DEVICES, **slices}.items():
            held = [each for each in pools.of_queue if each.node.get(resource)]
            if pod_set.count and pod_set.amounts.get(resource) and not held:
                yield (
                    f"{pod_set.name} asks for {resource}, and no {pools.described} has any {noun}; "
                    "ask for what one has"
                )


def several_pools(job_pod_sets: Iterable[JobPodSet], pools: Pools) -> str | None:
    """A gang over pools that have a queue each: KAI schedules it as one group, in the shard of one pool."""
    if pools.queue is None or not pools.queue.pool:
        return None
    named = {
        each.pool: each.name
        for each in job_pod_sets
        if each.count and each.pool and any(each.amounts.get(name) for name in names.DEVICE_RESOURCES)
    }
    if len(named) < 2:
        return None
    listed = ", ".join(f"{name}: {pool}" for pool, name in named.items())
    return (
        f"its groups select several pools ({listed}), and a gang uses one GPU pool with KAI; select pool "
        f"{pools.queue.pool}, which is that of queue {pools.queue.name}, in all of them"
    )


def with_parts(pod_set: JobPodSet, policy: GangPolicy, queue: Queue | None = None) -> JobPodSet:
    """With what KAI reads of its annotations: the topology that they require, and the parts of GPUs, of the
    smallest GPU that holds them in the pools that its nodes and its queue leave. Raises ValueError for what
    is no part, and for what KAI's webhook refuses pods for.

    Source: https://github.com/NVIDIA/KAI-Scheduler at v0.12.0, ValidateGpuRequests, read 2026-11-29
    """
    if not policy.kai:
        return pod_set
    if names.KAI_REQUIRED_PLACEMENT in pod_set.notes:
        pod_set = replace(pod_set, uncopied=(*pod_set.uncopied, TOPOLOGY))
    asked = asked_memory(pod_set.notes)
    sizes = sorted(
        each.gpu_memory
        for each in Pools(policy=policy, queue=queue).of_queue
        if each.gpus_per_node and pod_set.nodes.leaves(each, policy)
    )
    size = next((each for each in sizes if not 0 < each < asked), max(sizes, default=0))
    share = read_share(pod_set.notes, size)
    if share is None:
        if names.GPU_FRACTION_DEVICES in pod_set.notes:
            raise ValueError(f"it has {names.GPU_FRACTION_DEVICES} without {names.GPU_FRACTION}")
        return pod_set
    if pod_set.amounts.get(names.GPU_RESOURCE):
        raise ValueError(f"it asks for {names.GPU_RESOURCE} beside a part of a GPU, which KAI refuses")
    if {names.GPU_FRACTION, names.GPU_MEMORY} <= pod_set.notes.keys():
        raise ValueError(f"it has both {names.GPU_FRACTION} and {names.GPU_MEMORY}, of which KAI takes one")
    if share.part == 1 and names.GPU_FRACTION in pod_set.notes:
        raise ValueError(f"{names.GPU_FRACTION} asks for a whole GPU; a part lies between 0 and 1")
    return replace(pod_set, amounts={**pod_set.amounts, names.GPU_RESOURCE: share.gpus}, shares_gpus=True)


def on_nodes(pod_set: JobPodSet, flavor: FlavorPolicy) -> JobPodSet:
    """What takes room on nodes of a pool: its pods with what GKE adds to them, the GPUs that they share, or
    all of them as one.
    """
    if pod_set.sidecar and GKE_NODE_POOL_LABEL in flavor.node_labels:
        amounts = dict(pod_set.amounts)
        add(amounts, pod_set.sidecar)
        pod_set = replace(pod_set, name=f"{pod_set.name} with GKE's gcsfuse sidecar", amounts=amounts)
    if pod_set.is_together:
        amounts = {name: amount * pod_set.count for name, amount in pod_set.amounts.items()}
        return replace(pod_set, count=min(1, pod_set.count), amounts=amounts)
    share = read_share(pod_set.notes, flavor.gpu_memory) if pod_set.shares_gpus else None
    if share is None:
        return pod_set
    shared = shared_gpus(share, [(pod_set.count, pod_set.amounts)], flavor.node)
    # Pods that share a GPU share its node.
    uncopied = tuple(replace(each, on_one_node=False) for each in pod_set.uncopied)
    return replace(pod_set, count=shared.count, amounts=shared.amounts, uncopied=uncopied)


def too_large_on(flavor: FlavorPolicy, pod_set: JobPodSet) -> Amounts:
    """What one of its pods asks for above what any node of the pool has."""
    return too_large(on_nodes(pod_set, flavor).amounts, flavor)


def nodes_for(pod_set: JobPodSet, flavor: FlavorPolicy) -> int:
    """The fewest nodes of a pool that hold its pods."""
    placed = on_nodes(pod_set, flavor)
    fewest = nodes_needed(placed.count, placed.amounts, flavor)
    return max(fewest, pod_set.count) if pod_set.apart else fewest


def lacks_domains(exclusive: Iterable[Exclusive], pools: Pools) -> Iterator[str]:
    """Jobs or groups that would be alone in a domain, where a pool that Kueue may choose has too few domains,
    or smaller ones: the first pods would start, and the others never.
    """
    for each in exclusive:
        last = each.pods[-1]
        large = pools.large_enough(last) if each.key and last.count else ()
        lacking = [flavor.name for flavor in large if not _has_domains(each, flavor, pools.policy)]
        others = [flavor.name for flavor in large if flavor.name not in lacking]
        if lacking:
            fix = f"select {names.POOL_LABEL}: {others[0]}" if others else "ask for fewer or for less"
            yield (
                f"{last.name} takes {each.count} times all nodes with one value of {each.key}, by its "
                f"annotation exclusive-topology, and pool {', '.join(lacking)} has fewer of them, or too "
                f"small ones; {fix}, or remove the annotation"
            )


def lacks_spread(job_pod_sets: Iterable[JobPodSet], pools: Pools) -> Iterator[str]:
    """Pods that spread over more domains than a pool has that they may go to: the scheduler then counts one
    domain as empty for ever, and places in each no more pods than the skew.

    Source: minMatchNum of kube-scheduler 1.37.2, pkg/scheduler/framework/plugins/podtopologyspread, read
    2026-11-30
    """
    for pod_set in job_pod_sets:
        for rule in pod_set.spread:
            found = {each.name: _domains_of(rule, each, pools.policy) for each in pools.large_enough(pod_set)}
            few = {
                name: count
                for name, count in found.items()
                if count is not None and count < rule.min_domains and count * rule.max_skew < pod_set.count
            }
            if few:
                name, has = max(few.items(), key=lambda each: each[1])
                yield (
                    f"{pod_set.name} spreads over {rule.min_domains} values of {rule.topology_key} or more, "
                    f"by minDomains of its topologySpreadConstraints, and pool {name} has {has}, so at most "
                    f"{has * rule.max_skew} of its {pod_set.count} pods would start; "
                    f"lower minDomains to {has}"
                )


def _domains_of(rule: TopologySpreadConstraint, flavor: FlavorPolicy, policy: GangPolicy) -> int | None:
    is_node = rule.topology_key == NODE
    return (flavor.max_nodes or None) if is_node else domains(rule.topology_key, flavor, policy)


def _has_domains(exclusive: Exclusive, flavor: FlavorPolicy, policy: GangPolicy) -> bool:
    if exclusive.key != NODE:
        has = domains(exclusive.key, flavor, policy)
        return has is None or has >= exclusive.count
    amounts: dict[str, Fraction] = {}
    for pod_set in exclusive.pods:
        add(amounts, {name: amount * pod_set.count for name, amount in pod_set.amounts.items()})
    return not too_large(amounts, flavor) and not too_many_nodes(exclusive.count, flavor)


def lacks_copies(
    pod_set: JobPodSet, flavor: FlavorPolicy, *, beside: Iterable[JobPodSet] = ()
) -> Sequence[str]:
    """What of its pods placeholders of the pool would lack, so that they may stand where the pods do not fit.
    `beside`: what else of the gang goes there.
    """
    if not flavor.by_placeholders:
        return ()
    placed, *others = (on_nodes(each, flavor) for each in (pod_set, *beside))
    sizes = (each.amounts for each in (placed, *others))
    return uncopied_fields(placed.uncopied, placed.amounts, sizes, flavor)


def never_fits_anywhere(job_pod_sets: Iterable[JobPodSet], pools: Pools) -> Iterator[str]:
    """The same for a job whose PodSets may still go to any pool of its queue, or to those that their node
    selectors leave.

    The policy lists every pool, also those that nothing is asked for: what fits in none of them fits nowhere.
    """
    pinned: dict[str, list[tuple[int, Amounts]]] = {}
    listed = [(each, pools.large_enough(each)) for each in job_pod_sets if each.count]
    placed = [(each, large) for each, large in listed if large and all(one.by_placeholders for one in large)]
    if (count := sum(on_nodes(each, large[0]).count for each, large in placed)) > MOST_PLACEHOLDERS:
        name = placed[0][0].name if len(placed) == 1 else "the gang"
        yield too_many_pods(name, count, [flavor for _, large in placed for flavor in large])

    def pinned_to(flavor: FlavorPolicy) -> list[JobPodSet]:
        return [each for each, large in listed if list(large) == [flavor]]

    for pod_set, large in listed:
        suited = pools.suited(pod_set)
        if suited and not large:
            together = " (all on one node, by its podAffinity)" if pod_set.is_together else ""
            one = on_nodes(pod_set, suited[0])
            yield per_node(f"{one.name}{together}", one.amounts, suited)
        sizes = [(nodes_for(pod_set, flavor), flavor) for flavor in large]
        lacking = [lacks_copies(pod_set, flavor, beside=pinned_to(flavor)) for flavor in large]
        if sizes and all(too_many_nodes(nodes, flavor) for nodes, flavor in sizes):
            name = one_each(pod_set.name, pod_set.apart)
            yield per_pool(name, min(nodes for nodes, _ in sizes), large)
        elif large and all(is_part_of_slice(pod_set.count, pod_set.amounts, flavor) for flavor in large):
            yield part_of_slice(pod_set.name, large)
        elif lacking and all(lacking):
            yield not_copied(pod_set.name, lacking[0], large[0].name)
        elif len(large) == 1:
            only = large[0]
            shared = on_nodes(pod_set, only)
            pinned.setdefault(only.name, []).append((shared.count, shared.amounts))
            needed = fewest_nodes(pinned[only.name], only)
            if too_many_nodes(needed, only):
                yield per_pool("the gang", needed, large)
                return
