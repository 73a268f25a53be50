"""The running and pending work of the teams that change, with Kueue. For KAI see kai.py."""

from collections.abc import Iterator
from typing import Final

from muster.preview.compare.diff import StackDiff
from muster.preview.compare.overuse import QuotaOveruse
from muster.preview.document import Items, Mark, Section, Table, Text, UntrustedText
from muster.preview.figures import format_amount, format_unit

_HEAD: Final = (
    "Change",
    "Team",
    "Pool",
    "Uses now",
    "Quota before",
    "Quota after",
    "Over by",
    "Could hold at most",
)
_WAITING: Final = ("Team", "Workloads that hold quota", "Workloads that wait")
_MEANING: Final = (
    "A smaller quota ends no work. What exceeds it counts as borrowed, and its owners can reclaim it by "
    "preemption."
)


def sections(diff: StackDiff) -> Iterator[Section]:
    if diff.taken is None:
        return
    when = f"As of {diff.taken:%Y-%m-%d %H:%M %Z}."
    if diff.overuse:
        # A column has one unit.
        tables = (
            _overuse([each for each in diff.overuse if each.pool.is_gpu is is_gpu])
            for is_gpu in (True, False)
        )
        shown = tuple(each for each in tables if each.rows)
        yield Section("Who uses more than the new quota now", 93, (*shown, Items(((when,), (_MEANING,)))))
    if diff.queued:
        table = Table(
            _WAITING,
            tuple(
                ((UntrustedText(each.team),), (str(each.holding),), (str(each.pending),))
                for each in diff.queued
            ),
            _WAITING[1:],
        )
        yield Section("Work of the teams that change", 45, (table, Items(((when,),))))


def _overuse(found: list[QuotaOveruse]) -> Table:
    marks = tuple(Mark.RISK if each.is_new or each.is_gone else Mark.SAME for each in found)
    return Table(_HEAD, tuple(map(_over, found)), _HEAD[3:], marks)


def _over(each: QuotaOveruse) -> tuple[Text, ...]:
    word = "gone" if each.is_gone else "new" if each.is_new else "already"
    figures = (each.used, each.before, each.after, each.used - each.after, each.most)
    return (
        (word,),
        (UntrustedText(each.team),),
        (UntrustedText(each.pool.name), f" {format_unit(each.pool)}"),
        *((format_amount(each.pool, figure),) for figure in figures),
    )
