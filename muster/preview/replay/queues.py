"""The queues that a stack renders, for the player."""

from muster.model.kueue.tree import to_tree
from muster.model.stack import Stack
from muster.preview.whatif import trees
from muster.render import kueue
from muster.replay.queues import Queues


def queues_of(stack: Stack) -> Queues:
    """Of a stack with Kueue."""
    return Queues(
        objects=[manifest for batch in trees.manifest_batches(stack) for _, manifest in batch],
        config=kueue.deciding_config(stack),
        tree=to_tree(stack),
        teams=stack.teams_by_namespace(),
        priorities={each.name: each.value for each in stack.priorities},
        pools=stack.pools,
    )
