"""How many of everything Kueue takes: judged on what is rendered, so that nothing is counted twice here.

The figures are the CRDs' `maxItems` and those of pkg/webhooks/clusterqueue_webhook.go.
"""

from collections.abc import Iterator
from typing import Any, Final

from muster.model.stack import Stack
from muster.model.violations import Violation
from muster.render.kueue.groups import other_resources
from muster.render.kueue.queues import Tree, cluster_queue, cohort_name
from muster.render.kueue.tree import cohorts
from muster.validation.kueue.config_paths import cohort_path, queue_path

MOST_GROUPS: Final = 16
MOST_FLAVORS: Final = 64
MOST_RESOURCES: Final = 64
MOST_PAIRS: Final = 512
MOST_IN_ALL: Final = 256
_FEWER: Final = "use fewer, or split the team."


def count_rules(stack: Stack) -> list[Violation]:
    """Every limit of counts of Cohorts and ClusterQueues."""
    places = {
        cohort_name(department): cohort_path((*above, department)) for above, department in stack.walk()
    }
    made = [(places[each["metadata"]["name"]], each["spec"]) for each in cohorts(stack)]
    tree = Tree.of(stack)
    is_bounded = len(stack.pools) <= MOST_FLAVORS and not any(pool.resources for pool in stack.pools)
    made += [
        (queue_path(chain, team), cluster_queue(tree, chain[-1], team))
        for chain, team in stack.owners()
        # Any other has the pools' flavors with two or three resources each: nothing to render.
        if not is_bounded or team.kueue.resource_groups or other_resources(team.allowance)
    ]
    return [violation for path, spec in made for violation in _counts(path, spec.get("resourceGroups", []))]


def _counts(path: str, groups: list[dict[str, Any]]) -> Iterator[Violation]:
    flavors = [len(group["flavors"]) for group in groups]
    resources = [len(group["coveredResources"]) for group in groups]
    pairs = [sum(len(flavor["resources"]) for flavor in group["flavors"]) for group in groups]
    for what, count, most in (
        ("resource groups", len(groups), MOST_GROUPS),
        ("flavors in a resource group", max(flavors, default=0), MOST_FLAVORS),
        ("resources in a resource group", max(resources, default=0), MOST_RESOURCES),
        ("pairs of flavor and resource in a resource group", max(pairs, default=0), MOST_PAIRS),
        ("flavors", sum(flavors), MOST_IN_ALL),
        ("covered resources", sum(resources), MOST_IN_ALL),
    ):
        if count > most:
            yield Violation(path, f"has {count} {what}; Kueue takes {most}.", _FEWER)
