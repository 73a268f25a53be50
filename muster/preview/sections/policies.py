"""What the policy pack says."""

from collections.abc import Iterator
from typing import Final

from muster.preview.compare.diff import StackDiff
from muster.preview.document import Section, Table, Text, UntrustedText
from muster.preview.events import PolicyViolation

_HEAD: Final = ("", "Policy", "Resource", "What it says")


def sections(told: StackDiff) -> Iterator[Section]:
    if told.breaches:
        yield Section(
            "Policies that are broken", 97, (Table(_HEAD, tuple(_row(each) for each in told.breaches)),)
        )


def _row(breach: PolicyViolation) -> tuple[Text, ...]:
    level = "stops the update" if breach.is_mandatory else "warning"
    name = breach.urn.rpartition("::")[2]
    return (
        (level,),
        (UntrustedText(breach.policy),),
        (UntrustedText(name),) if name else ("the stack",),
        (UntrustedText(breach.message),),
    )
