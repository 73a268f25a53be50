"""How many of everything Kueue takes: judged on what is rendered, so that nothing is counted twice here.

The figures are the CRDs' `maxItems` and those of pkg/webhooks/clusterqueue_webhook.go.
"""

from collections.abc import Iterator
from typing import Any, Final

from muster.model.stack import Stack
from muster.model.violations import Violation
from muster.render.kueue.tree import queues
from muster.validation.kueue.config_paths import cohort_path, queue_path

MOST_GROUPS: Final = 16
MOST_FLAVORS: Final = 64
MOST_RESOURCES: Final = 64
MOST_PAIRS: Final = 512
MOST_IN_ALL: Final = 256
_FEWER: Final = "use fewer, or split the team."


def count_rules(stack: Stack) -> list[Violation]:
    """Every limit of counts of Cohorts and ClusterQueues."""
    places = {department.name: cohort_path((*above, department)) for above, department in stack.walk()}
    paths = {team.name: queue_path(chain, team) for chain, team in stack.teams()}
    cohorts, cluster_queues = queues(stack)
    made = [(places[name], each) for name, each in cohorts.items()]
    made += [(paths[name], each) for name, each in cluster_queues.items()]
    return [
        violation
        for path, each in made
        for violation in _counts(path, each["spec"].get("resourceGroups", []))
    ]


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
