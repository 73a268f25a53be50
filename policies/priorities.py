"""Priorities: one order for the organisation, below the values that Kubernetes reserves."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from pulumi_policy import EnforcementLevel, Severity

from muster.model import names
from muster.policies.rule import Case, Finding, Rule, Threshold

_KINDS: Final = ("WorkloadPriorityClass", "PriorityClass")
_DOCS: Final = "https://kueue.sigs.k8s.io/docs/concepts/workload_priority_class/"


def order(case: Case) -> Iterator[Finding]:
    """Values are distinct, in the order that the organisation set, and below the ceiling."""
    for kind in _KINDS:
        values = {str(item.body["metadata"]["name"]): item for item in case.registered.items(kind)}
        if kind == "PriorityClass":
            for own in (names.OWN_PRIORITY_CLASS, names.PLACEHOLDER_PRIORITY_CLASS):
                values.pop(own, None)  # No work has them.
        by_value: dict[int, list[str]] = defaultdict(list)
        for name, item in values.items():
            value = int(item.body.get("value", 0))
            by_value[value].append(name)
            if value > case.settings["ceiling"]:
                yield Finding(
                    f"{item.label} has the value {value}, above {case.settings['ceiling']}.", item.urn
                )
        for value, same in by_value.items():
            if len(same) > 1:
                yield Finding(
                    f"{kind} {', '.join(sorted(same))} have the same value {value}: neither starts first."
                )
        known = [name for name in case.settings["order"] if name in values]
        for above, below in pairwise(known):
            if int(values[above].body["value"]) <= int(values[below].body["value"]):
                yield Finding(f"{kind} {above} has to be above {below}.", values[above].urn)


def top(case: Case) -> Iterator[Finding]:
    """How many teams may use the highest priority. If all may, it has no meaning."""
    if case.stack is None or not case.stack.priorities:
        return
    highest = case.stack.priorities[0].name
    may = [team.name for _, team in case.stack.teams() if not team.priorities or highest in team.priorities]
    total = sum(1 for _ in case.stack.teams())
    if total > 1 and len(may) > total * case.settings["maxShare"]:
        yield Finding(f"{len(may)} of {total} teams may use the highest priority {highest}.")


RULES: Final = (
    Rule(
        name="priority-order",
        description="Priorities have different values, in the organisation's order, below the ceiling.",
        why=(
            "Priorities with the same value do not preempt each other. Values above the ceiling are for "
            "the pods of "
            "the cluster itself."
        ),
        judge=order,
        severity=Severity.HIGH,
        remediation="change the values under muster:priorities.",
        url=_DOCS,
        thresholds={
            "order": Threshold([], {"type": "array", "items": {"type": "string"}}),
            "ceiling": Threshold(1_000_000, {"type": "integer", "maximum": 1_000_000_000}),
        },
    ),
    Rule(
        name="priority-top",
        description="Not every team may use the highest priority.",
        why="If every team may use the highest priority, it has no meaning.",
        judge=top,
        severity=Severity.LOW,
        level=EnforcementLevel.ADVISORY,
        remediation="list `priorities:` of the teams that need only lower ones.",
        url=_DOCS,
        thresholds={"maxShare": Threshold(0.5, {"type": "number", "minimum": 0, "maximum": 1})},
    ),
)
