"""Rules of Kueue's API, webhooks and scheduler for the `kueue:` sections of a stack.

Kueue itself would refuse some of these mistakes when the objects are applied, leave a queue inactive for
others, and not report the rest. Here all of them are reported at once, before anything is applied. Read from
Kueue 0.19.2: config/components/crd/bases, pkg/webhooks, pkg/cache/scheduler/clusterqueue.go.
"""

from muster.model.stack import Stack
from muster.model.violations import Violation
from muster.validation.kueue.flavors import check_rules, flavor_rules, object_name_rules
from muster.validation.kueue.queues import (
    claim_rules,
    count_rules,
    fields_of,
    group_rules,
    queue_rules,
    sharing_rules,
)


def kueue_rules(stack: Stack) -> list[Violation]:
    if stack.scheduler.is_kai:
        return _foreign_fields(stack)
    rules = (
        object_name_rules,
        flavor_rules,
        group_rules,
        queue_rules,
        check_rules,
        sharing_rules,
        count_rules,
        claim_rules,
    )
    return [violation for rule in rules for violation in rule(stack)]


def _foreign_fields(stack: Stack) -> list[Violation]:
    """Fields that only Kueue knows, in a stack that another scheduler runs: none is ignored silently."""
    message = f"is a field of Kueue, which {stack.scheduler} cannot express."
    fix = "remove it, or write `muster:scheduler: kueue`."
    return [Violation(path, message, fix) for path in fields_of(stack)]
