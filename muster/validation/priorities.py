"""Priorities: those that teams name must exist, and no two may be the same."""

from collections.abc import Iterator

from muster.model.stack import Stack
from muster.model.tenancy import Namespaces
from muster.model.violations import Violation, at, suggestion
from muster.validation.identity import bad_object_name
from muster.validation.paths import team_path


def priority_rules(stack: Stack) -> list[Violation]:
    """Every rule about priorities."""
    return [*_values(stack), *_allowed(stack)]


def _values(stack: Stack) -> Iterator[Violation]:
    seen: dict[int, str] = {}
    for priority in stack.priorities:
        path = f"muster:priorities.{priority.name}"
        yield from bad_object_name(path, priority.name, "priority")
        if priority.value in seen:
            message = f"has the value of {seen[priority.value]!r}: neither goes before the other."
            fix = "give each priority a value of its own."
            # The classes of a cluster that was taken over are what they are.
            is_theirs = stack.tenancy.namespaces is Namespaces.EXISTING
            yield Violation(path, message, fix, level="warning" if is_theirs else "error")
        seen.setdefault(priority.value, priority.name)


def _allowed(stack: Stack) -> Iterator[Violation]:
    known = [priority.name for priority in stack.priorities]
    for chain, team in stack.teams():
        for index, name in enumerate(team.priorities):
            path = at(team_path(chain, team), "priorities", index)
            if name not in known:
                yield Violation(
                    path, f"priority {name!r} is unknown.", suggestion(name, known, noun="priority")
                )
            elif name in team.priorities[:index]:
                yield Violation(path, f"priority {name!r} is listed twice.", "list it once.")
