"""KAI's queues: quota, limit, over-quota weight, and which work is never evicted."""

from collections.abc import Iterator
from typing import Final

from muster.model.kai.shard import NON_PREEMPTIBLE
from muster.preview.compare.diff import StackDiff
from muster.preview.compare.kai import KaiDiff, QueueChange, format_figure
from muster.preview.document import Items, Section, Table, Text, UntrustedText
from muster.preview.figures import format_change

_HEAD: Final = ("Queue", "Of", "Resource", "Quota", "Limit", "Over-quota weight")
_OVER: Final = ("Queue", "Resource", "Holds now", "New quota")
_RESOURCES: Final = {"gpu": "GPU", "cpu": "CPU", "memory": "memory"}
_RULE: Final = (
    f"Work of priority {NON_PREEMPTIBLE} and more stays within its queue's quota and is never evicted. "
    "Work below may exceed the quota, and is reclaimed when a queue within its own quota needs the "
    "resources. Free resources are divided by queue priority first, then by over-quota weight."
)


def sections(diff: StackDiff) -> Iterator[Section]:
    if diff.kai is None:
        return
    changed = [*_priorities(diff.kai), *_evictions(diff.kai)]
    if diff.kai.queues:
        of_gpus = _table([each for each in diff.kai.queues if each.resource == "gpu"])
        # A column has one unit.
        of_others = tuple(
            _table(found)
            for resource in ("cpu", "memory")
            if (found := [each for each in diff.kai.queues if each.resource == resource])
        )
        if of_gpus.rows:
            yield Section("KAI queues", 82, (of_gpus, Items(((_RULE,),))))
        if of_others:
            yield Section("KAI queues: CPU and memory", 52, of_others)
    if changed:
        title = "Priorities and eviction with KAI"
        yield Section(title, 76, (Items(tuple(changed)),))
    yield from _over(diff)


def _table(found: list[QueueChange]) -> Table:
    return Table(_HEAD, tuple(_row(each) for each in found), _HEAD[3:])


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


def _priorities(kai: KaiDiff) -> Iterator[Text]:
    for each in kai.priorities:
        yield (
            "Queue ",
            UntrustedText(each.name),
            f": priority {format_change(str(each.before), str(each.after))}.",
        )


def _evictions(kai: KaiDiff) -> Iterator[Text]:
    for each in kai.evictions:
        now = "stays within the quota and is never evicted now" if each.is_protected else "may be evicted now"
        yield ("Work of priority ", UntrustedText(each.priority.name), f" ({each.priority.value}) {now}.")


def _over(diff: StackDiff) -> Iterator[Section]:
    if diff.kai is not None and diff.kai.over_quota and diff.taken is not None:
        rows = tuple(
            (
                (UntrustedText(each.queue),),
                (_RESOURCES[each.resource],),
                (str(each.used),),
                (format_figure(each.resource, each.quota),),
            )
            for each in diff.kai.over_quota
        )
        table = Table(_OVER, rows, _OVER[2:])
        when = f"As of {diff.taken:%Y-%m-%d %H:%M %Z}."
        yield Section("Who holds more than the new quota now", 93, (table, Items(((when,),))))
