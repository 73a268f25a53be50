"""Versions that change, with the verdict on each step."""

from collections.abc import Iterator
from typing import Final

from muster.model.transitions import Judgement, Verdict
from muster.preview.compare.diff import StackDiff
from muster.preview.document import Mark, Section, Table, Text, UntrustedText

_HEAD: Final = ("Component", "Before", "After", "Verdict", "Why, and in which order", "Source")


def sections(diff: StackDiff) -> Iterator[Section]:
    steps = () if diff.changes is None else diff.changes.versions
    if steps:
        weight = 96 if any(each.verdict is not Verdict.SAFE for each in steps) else 60
        table = Table(_HEAD, tuple(map(_row, steps)), marks=tuple(map(_mark, steps)))
        yield Section("Versions", weight, (table,))


def _mark(step: Judgement) -> Mark:
    marks = {Verdict.REFUSED: Mark.GONE, Verdict.SAFE: Mark.SAME}
    return marks.get(step.verdict, Mark.RISK)


def _row(step: Judgement) -> tuple[Text, ...]:
    return (
        (step.component,),
        (UntrustedText(step.before),),
        (UntrustedText(step.after),),
        (step.verdict.value,),
        (UntrustedText(step.reason),),
        (UntrustedText(step.source or "none"),),
    )
