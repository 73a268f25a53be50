"""How many of everything Kueue takes: judged on what is rendered, so that nothing is counted twice.

The figures are the CRDs' `maxItems` and those of pkg/webhooks/clusterqueue_webhook.go.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from muster.model.kueue import Group
from muster.model.kueue.queue_groups import other_resources
from muster.model.kueue.tree import TreeBuilder
from muster.model.stack import Stack
from muster.model.violations import Violation
from muster.validation.kueue.config_paths import cohort_path, queue_path

MOST_GROUPS: Final = 16
MOST_FLAVORS: Final = 64
MOST_RESOURCES: Final = 64
MOST_PAIRS: Final = 512
MOST_IN_ALL: Final = 256
_FEWER: Final = "use fewer, or split the team."


def count_rules(stack: Stack) -> list[Violation]:
    """Every limit of counts of Cohorts and ClusterQueues."""
    builder, found = TreeBuilder(stack), list[Violation]()
    for above, department in stack.walk():
        cohort = builder.department(above, department)
        found += _counts(cohort_path((*above, department)), cohort.groups if cohort else ())
    is_bounded = len(stack.pools) <= MOST_FLAVORS and not any(pool.resources for pool in stack.pools)
    for chain, team in stack.owners():
        # Any other has the pools' flavors with two or three resources each: nothing to count.
        if not is_bounded or team.kueue.resource_groups or other_resources(team.allowance):
            found += _counts(queue_path(chain, team), builder.team(chain[-1], team).groups)
    return found


def _counts(path: str, groups: Sequence[Group]) -> Iterator[Violation]:
    flavors = [len(group.flavors) for group in groups]
    resources = [len(group.covered_resources) for group in groups]
    pairs = [sum(len(flavor.resources) for flavor in group.flavors) for group in groups]
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
