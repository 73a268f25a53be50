"""Jobs that can never fit, in whatever pools.

Checked against the policy's pools before a job is created. When its pools are chosen,
muster.controller.gangs.limits checks again.
"""

from collections.abc import Iterable

from muster.controller.gangs.limits import (
    fewest_nodes,
    nodes_needed,
    per_node,
    per_pool,
    too_many_gpus,
    too_many_nodes,
)
from muster.controller.kueue.jobs import JobPodSet
from muster.model.gangpolicy import GangPolicy
from muster.model.names import GPU_RESOURCE
from muster.model.pods import Amounts


def never_fits_anywhere(job_pod_sets: Iterable[JobPodSet], policy: GangPolicy) -> str | None:
    """The same for a job whose PodSets may still go to any pool, or to the one that their node selector
    names.

    The policy lists every GPU pool, also those that nothing is asked for: what fits in none of them fits
    nowhere.
    """
    pinned: dict[str, list[tuple[int, Amounts]]] = {}
    for pod_set in job_pod_sets:
        if not pod_set.amounts.get(GPU_RESOURCE) or not pod_set.count:
            continue
        flavors = [
            flavor for flavor in policy.flavors if flavor.gpus_per_node and pod_set.pool in ("", flavor.name)
        ]
        large = [flavor for flavor in flavors if not too_many_gpus(pod_set.amounts, flavor)]
        if flavors and not large:
            return per_node(pod_set.name, pod_set.amounts, flavors)
        sizes = [(nodes_needed(pod_set.count, pod_set.amounts, flavor), flavor) for flavor in large]
        if sizes and all(too_many_nodes(nodes, flavor) for nodes, flavor in sizes):
            return per_pool(pod_set.name, min(nodes for nodes, _ in sizes), large)
        if pod_set.pool and sizes:
            pinned.setdefault(pod_set.pool, []).append((pod_set.count, pod_set.amounts))
            needed = fewest_nodes(pinned[pod_set.pool], sizes[0][1])
            if too_many_nodes(needed, sizes[0][1]):
                return per_pool("the gang", needed, large)
    return None
