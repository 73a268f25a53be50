"""What the refusal of a gang depends on.

A refusal ends when its cause, or what a person can change about it, has changed. Each scheduler decides which
refusals end that way.
"""

from muster.controller.gangs.identity import digest
from muster.controller.gangs.split import Gang
from muster.model.gangpolicy import GangPolicy


def subject_of(gang: Gang, policy: GangPolicy) -> str:
    """How many pods go where, with what their pools can have, and how long is tried."""
    found: list[object] = [policy.retry.deadline.total_seconds()]
    found += [(each.pod_set, each.flavor.name, each.count) for each in gang.running]
    for spec in gang.request_specs:
        counts = [(demand.pod_set, demand.count) for demand in spec.demands]
        flavor = spec.flavor
        limits = (
            flavor.max_nodes,
            flavor.gpus_per_node,
            sorted(flavor.per_node.items()),
            flavor.provisioning_class_name,
        )
        found.append((spec.pool, counts, limits, sorted(spec.parameters.items()), spec.needs_digest))
    return digest(repr(found))
