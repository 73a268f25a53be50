"""What adoption changes for anyone, by the comparison that the report of every change uses.

The tree before is read from the cluster's own objects, the tree after from what the stack renders. Quotas are
compared in flavors that have a pool, preemption everywhere.
"""

from dataclasses import dataclass, replace

from muster.adopt.cluster import LiveCluster
from muster.adopt.departments import QueueTree
from muster.live.kueue_tree import read_tree
from muster.model.kueue.tree import Node, to_tree
from muster.model.stack import Stack
from muster.preview.compare.preemption import PreemptionChange, preemption_changes, rules_of
from muster.preview.compare.quota import QuotaChange, quota_changes


@dataclass(frozen=True, slots=True)
class Effects:
    """`queues` and `pools`: how many were compared."""

    quotas: tuple[QuotaChange, ...]
    preemption: tuple[PreemptionChange, ...]
    queues: int
    pools: int

    @property
    def is_empty(self) -> bool:
        return not (self.quotas or self.preemption)


def effects_of(stack: Stack, live: LiveCluster, names: QueueTree) -> Effects:
    """The differences between the cluster as it is and the stack."""
    after = to_tree(stack)
    there = read_tree((*live.of("Cohort"), *live.of("ClusterQueue")), stack.pools)
    found = {
        (names.teams if node.is_team else names.cohorts)[node.object_name]: node
        for node in there.nodes.values()
    }
    before = replace(
        after, nodes={name: _as_found(node, found.get(name, node)) for name, node in after.nodes.items()}
    )
    preemption, _ = preemption_changes(rules_of(stack, before), rules_of(stack, after))
    queues = sum(1 for _ in after.teams())
    return Effects(quota_changes(before, after), preemption, queues, len(stack.pools))


def _as_found(node: Node, found: Node) -> Node:
    """The node of the stack with the figures that the cluster has."""
    return replace(node, groups=found.groups, within=found.within, reclaim=found.reclaim)
