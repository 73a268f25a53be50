"""KAI's queues: quota, limit, over-quota weight, and whose work is never evicted."""

from collections.abc import Iterator
from typing import Final

from muster.model.kai.priorities import NON_PREEMPTIBLE
from muster.preview.compare.diff import StackDiff
from muster.preview.document import Items, Section, Table, Text, UntrustedText
from muster.preview.figures import format_change
from muster.preview.kai import (
    QueueChange,
    eviction_changes,
    format_figure,
    is_kai,
    queue_changes,
    queue_priority_changes,
    queues_over_quota,
)

_HEAD: Final = ("Queue", "Of", "Resource", "Quota", "Limit", "Over-quota weight")
_RESOURCES: Final = {"gpu": "GPU", "cpu": "CPU", "memory": "memory"}
_RULE: Final = (
    f"Work of priority {NON_PREEMPTIBLE} and more stays within its queue's quota and is never evicted. "
    "Below, it may go over the quota, and is reclaimed from when a queue within its own quota asks; what is "
    "free is divided by queue priority first, then by over-quota weight."
)


def sections(told: StackDiff) -> Iterator[Section]:
    if not is_kai(told.base, told.head):
        return
    found = queue_changes(told.base, told.head)
    changed = [*_ranks(told), *_protected(told)]
    if found:
        rows = tuple(_row(each) for each in found)
        yield Section("KAI queues", 82, (Table(_HEAD, rows), Items(((_RULE,),))))
    if changed:
        title = "Whose work goes first with KAI, and whose is never evicted"
        yield Section(title, 76, (Items(tuple(changed)),))
    yield from _over(told)


def _row(change: QueueChange) -> tuple[Text, ...]:
    sides = (change.before, change.after)
    quota, limit = (
        format_change(
            *("–" if side is None else format_figure(change.resource, getattr(side, key)) for side in sides)
        )
        for key in ("quota", "limit")
    )
    weight = format_change(*("–" if side is None else str(side.weight) for side in sides))
    return (
        (UntrustedText(change.queue),),
        (UntrustedText(" / ".join(change.path)),),
        (_RESOURCES[change.resource],),
        (quota,),
        (limit,),
        (weight,),
    )


def _ranks(told: StackDiff) -> Iterator[Text]:
    for each in queue_priority_changes(told.base, told.head):
        yield (
            "Queue ",
            UntrustedText(each.name),
            f": priority {format_change(str(each.before), str(each.after))}.",
        )


def _protected(told: StackDiff) -> Iterator[Text]:
    for priority, is_protected in eviction_changes(told.base, told.head):
        now = "keeps to the quota and is never evicted now" if is_protected else "may be evicted now"
        yield ("Work of priority ", UntrustedText(priority.name), f" ({priority.value}) {now}.")


def _over(told: StackDiff) -> Iterator[Section]:
    if told.snapshot is None:
        return
    found = tuple(queues_over_quota(told.head, told.snapshot))
    if found:
        rows = tuple(
            (
                (UntrustedText(each.queue),),
                (_RESOURCES[each.resource],),
                (str(each.used),),
                (format_figure(each.resource, each.quota),),
            )
            for each in found
        )
        table = Table(("Queue", "Resource", "Holds now", "New quota"), rows)
        when = f"As of {told.snapshot.taken:%Y-%m-%d %H:%M %Z}."
        yield Section("Who holds more than the new quota now", 93, (table, Items(((when,),))))
