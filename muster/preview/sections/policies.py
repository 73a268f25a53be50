"""What the policy pack says."""

from collections.abc import Iterator
from typing import Final

from muster.preview.compare.diff import Told
from muster.preview.document import Name, Section, Table, Text
from muster.preview.events import Breach

_HEAD: Final = ("", "Policy", "Resource", "What it says")


def sections(told: Told) -> Iterator[Section]:
    if told.breaches:
        yield Section(
            "Policies that are broken", 97, (Table(_HEAD, tuple(_row(each) for each in told.breaches)),)
        )


def _row(breach: Breach) -> tuple[Text, ...]:
    level = "stops the update" if breach.is_mandatory else "warning"
    name = breach.urn.rpartition("::")[2]
    return (
        (level,),
        (Name(breach.policy),),
        (Name(name),) if name else ("the stack",),
        (Name(breach.message),),
    )
