"""What runs and waits now in Kueue, of those whom the change touches; KAI's is told with its queues."""

from collections.abc import Iterator
from typing import Final

from muster.model.stack import Scheduler
from muster.preview.compare.diff import StackDiff
from muster.preview.document import Items, Section, Table, Text, UntrustedText
from muster.preview.figures import format_amount, format_unit
from muster.preview.overuse import QuotaOveruse, queued_work, quota_overuse

_HEAD: Final = (
    "",
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
    "Nothing is ended because a quota shrinks: what is beyond it counts as borrowed, and those to whom it "
    "belongs can take it back by preemption."
)


def sections(told: StackDiff) -> Iterator[Section]:
    if told.snapshot is None or told.changes is None:
        return
    when = f"As of {told.snapshot.taken:%Y-%m-%d %H:%M %Z}."
    if told.snapshot.scheduler is Scheduler.KAI:
        return
    found = quota_overuse(told.changes, told.snapshot)
    if found:
        rows = Table(_HEAD, tuple(_over(each) for each in found))
        yield Section("Who uses more than the new quota now", 93, (rows, Items(((when,), (_MEANING,)))))
    busy = queued_work(told.changes, told.snapshot)
    if busy:
        table = Table(
            _WAITING,
            tuple(((UntrustedText(each.team),), (str(each.holding),), (str(each.pending),)) for each in busy),
        )
        yield Section("Work of the teams that change", 45, (table, Items(((when,),))))


def _over(each: QuotaOveruse) -> tuple[Text, ...]:
    word = "gone" if each.is_gone else "new" if each.is_new else "already"
    figures = (each.used, each.before, each.after, each.used - each.after, each.most)
    return (
        (word,),
        (UntrustedText(each.team),),
        (UntrustedText(each.pool.name), f" {format_unit(each.pool)}"),
        *((format_amount(each.pool, figure),) for figure in figures),
    )
