"""What adoption changes for anyone, by the comparison that the report of every change uses.

The tree before is read from the cluster's own objects, the tree after from what the stack renders. Quotas are
compared in flavors that have a pool, preemption everywhere.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from muster.adopt.cluster import LiveCluster
from muster.adopt.defaults import completed
from muster.adopt.departments import QueueTree
from muster.live.fields import mapping, text
from muster.model.stack import Stack
from muster.preview.compare.preemption import PreemptionChange, preemption_changes, rules_of
from muster.preview.compare.quota import QuotaChange, quota_changes
from muster.preview.tree import to_tree
from muster.render import kueue
from muster.render.manifest import Manifest


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


def effects_of(stack: Stack, live: LiveCluster, tree: QueueTree) -> Effects:
    """The differences between the cluster as it is and the stack."""
    cohorts, queues = kueue.queues(stack)
    before = to_tree(
        stack,
        (
            {**cohorts, **_live(live, "Cohort", tree.cohorts)},
            {**queues, **_live(live, "ClusterQueue", tree.teams)},
        ),
    )
    after = to_tree(stack)
    preemption, _ = preemption_changes(rules_of(stack, before), rules_of(stack, after))
    return Effects(quota_changes(before, after), preemption, len(queues), len(stack.pools))


def _live(live: LiveCluster, kind: str, names: Mapping[str, str]) -> dict[str, Manifest]:
    """By their names in the stack, with the defaults that they leave out."""
    return {
        names[text(each, "metadata", "name")]: {**each, "spec": completed(kind, mapping(each, "spec"))}
        for each in live.of(kind)
    }
