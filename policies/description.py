"""The description itself: where it breaks a rule of the model, no other policy can judge it."""

from collections.abc import Iterator
from typing import Final

from pulumi_policy import Severity

from muster.policies.rule import Case, Finding, Rule


def valid(case: Case) -> Iterator[Finding]:
    """Every broken rule of a description that Muster's program would have refused."""
    yield from (Finding(str(violation)) for violation in case.broken)


RULES: Final = (
    Rule(
        name="description-valid",
        description="The stack's description follows the rules of the model.",
        why="Muster's own program refuses such a stack by itself; a program of yours may not.",
        judge=valid,
        severity=Severity.CRITICAL,
        remediation="`muster validate FILE` names the lines.",
        url="https://www.pulumi.com/docs/iac/concepts/config/",
    ),
)
