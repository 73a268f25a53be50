"""Violations that the policy pack reports."""

from collections.abc import Iterator
from typing import Final

from muster.preview.compare.diff import StackDiff
from muster.preview.document import Section, Table, Text, UntrustedText
from muster.preview.events import PolicyViolation

_HEAD: Final = ("Effect", "Policy", "Resource", "Message")


def sections(diff: StackDiff) -> Iterator[Section]:
    if diff.policy_violations:
        yield Section(
            "Policy violations", 97, (Table(_HEAD, tuple(_row(each) for each in diff.policy_violations)),)
        )


def _row(violation: PolicyViolation) -> tuple[Text, ...]:
    level = "stops the update" if violation.is_mandatory else "warning"
    name = violation.urn.rpartition("::")[2]
    return (
        (level,),
        (UntrustedText(violation.policy),),
        (UntrustedText(name),) if name else ("the stack",),
        (UntrustedText(violation.message),),
    )
