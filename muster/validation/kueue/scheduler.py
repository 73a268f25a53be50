"""Fields that only Kueue knows, in a stack that another scheduler runs."""

from muster.model.stack import Scheduler, Stack
from muster.model.violations import Violation
from muster.validation.kueue.queues import fields_of


def scheduler_rules(stack: Stack) -> list[Violation]:
    """One violation for each field, so that none is ignored silently."""
    if stack.scheduler is Scheduler.KUEUE:
        return []
    message = f"is a field of Kueue, which {stack.scheduler} cannot express."
    fix = "remove it, or write `muster:scheduler: kueue`."
    return [Violation(path, message, fix) for path in fields_of(stack)]
