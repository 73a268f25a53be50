"""The queue objects of a stack, whichever scheduler it has.

    priority_classes(stack)  what work names as its priority
    by_department(stack)     department -> team (or "" for its own) -> objects, parents first
    objects(stack)           every one of them, in the order in which they can be applied
    names_by_team(stack)     team -> its queue, or pool -> its queue where each pool has its own

Leaves what they are to render/kueue and render/kai, which have the same functions.
"""

from muster.model.stack import Scheduler, Stack
from muster.render import kai, kueue
from muster.render.manifest import Manifest


def priority_classes(stack: Stack) -> list[Manifest]:
    if stack.scheduler is Scheduler.KAI:
        return kai.priority_classes(stack)
    return kueue.priority_classes(stack)


def by_department(stack: Stack) -> dict[str, dict[str, list[Manifest]]]:
    if stack.scheduler is Scheduler.KAI:
        return kai.by_department(stack)
    return kueue.by_department(stack)


def names_by_team(stack: Stack) -> dict[str, str | dict[str, str]]:
    if stack.scheduler is Scheduler.KUEUE:
        return {team.name: team.kueue.cluster_queue or team.name for _, team in stack.teams()}
    found: dict[str, str | dict[str, str]] = {}
    for team, leaves in kai.leaf_queues(stack).items():
        by_pool = {pool: queue for pool, queue in leaves.items() if pool is not None}
        found[team] = leaves.get(None, by_pool)
    return found


def objects(stack: Stack) -> list[Manifest]:
    before = (
        [*kai.priority_classes(stack), *kai.topologies(stack), *kai.shards(stack)]
        if stack.scheduler is Scheduler.KAI
        else [
            *kueue.priority_classes(stack),
            *kueue.topologies(stack),
            *kueue.flavors(stack),
            *kueue.admission_check(stack),
        ]
    )
    tree = by_department(stack).values()
    departments = [each for teams in tree for each in teams[""]]
    return [
        *before,
        *departments,
        *(each for teams in tree for name in teams if name for each in teams[name]),
    ]
