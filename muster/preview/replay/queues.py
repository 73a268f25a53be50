"""The queues that a stack renders, for the player."""

from muster.model.kueue.tree import to_tree
from muster.model.queues import Team
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
        teams=teams_by_namespace(stack),
        priorities={each.name: each.value for each in stack.priorities},
        pools=stack.pools,
    )


def teams_by_namespace(stack: Stack) -> dict[str, Team]:
    """By namespace, and by name for lists that know no namespaces."""
    teams = [team for _, team in stack.teams()]
    by_name = {team.name: team for team in teams}
    return by_name | {space: team for team in teams for space in team.namespaces}
