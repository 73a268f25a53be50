"""Violations that the policy pack reports."""

from collections.abc import Iterator
from typing import Final

from muster.preview.compare.diff import StackDiff
from muster.preview.document import Mark, Section, Table, Text, UntrustedText
from muster.preview.events import PolicyViolation

_HEAD: Final = ("Effect", "Policy", "Resource", "Message")


def sections(diff: StackDiff) -> Iterator[Section]:
    found = diff.policy_violations
    if found:
        marks = tuple(Mark.GONE if each.is_mandatory else Mark.RISK for each in found)
        yield Section("Policy violations", 97, (Table(_HEAD, tuple(map(_row, found)), marks=marks),))


def _row(violation: PolicyViolation) -> tuple[Text, ...]:
    level = "stops the update" if violation.is_mandatory else "warning"
    name = violation.urn.rpartition("::")[2]
    return (
        (level,),
        (UntrustedText(violation.policy),),
        (UntrustedText(name),) if name else ("the stack",),
        (UntrustedText(violation.message),),
    )
