"""What can be told of a stack whose scheduler is KAI.

KAI's scheduler is not among the programs that can be built here, so nothing is decided: what is told is
arithmetic over what its queues hold now, and what would need a decision is named.
"""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, Final

from muster.live.snapshot import Snapshot
from muster.model.stack import Scheduler, Stack
from muster.preview.compare.kai import QueueOveruse, format_figure, queues_at_limit, queues_over_quota
from muster.preview.document import Items, Report, Section, StackReport, Text, UntrustedText

_VERDICT: Final = (
    "KAI schedules here, and its scheduler cannot be run here: nothing below is a decision of KAI's."
)
_OTHER: Final = (
    "The snapshot is not of KAI: what its queues hold is unknown, so nobody can be said to hold too much."
)
_UNTOLD: Final = (
    "Which waiting gang starts, and when: KAI divides what is free by weight and by what queues have used.",
    "Whom it preempts, reclaims from or moves: that depends on where pods lie.",
    "Whether a gang fits its nodes: KAI packs shares of GPUs and looks at nodes, not only at quota.",
)


def to_report(name: str, base: Stack, head: Stack, snapshot: Snapshot) -> Report:
    """Queues that hold more than their new quota or limit, and the questions that stay open."""
    sections = [Section("What cannot be told without KAI", 1, (Items(tuple((each,) for each in _UNTOLD)),))]
    verdict: list[Text] = [(_VERDICT,)]
    if snapshot.scheduler is Scheduler.KAI:
        sections = [*_known(base, head, snapshot), *sections]
    else:
        verdict.append((_OTHER,))
    return Report((StackReport(UntrustedText(name), tuple(verdict), tuple(sections)),))


def to_json(name: str, base: Stack, head: Stack, snapshot: Snapshot) -> dict[str, Any]:
    """The same for programs: `decided` is False, and what stays open stands beside it."""
    found: dict[str, Any] = {"stack": name, "scheduler": "kai", "decided": False, "untold": list(_UNTOLD)}
    if snapshot.scheduler is Scheduler.KAI:
        found |= {
            "beyondQuota": [asdict(each) for each in queues_over_quota(head, snapshot)],
            "beyondQuotaBefore": [asdict(each) for each in queues_over_quota(base, snapshot)],
            "atLimit": [asdict(each) for each in queues_at_limit(head, snapshot)],
        }
    return found


def _known(base: Stack, head: Stack, snapshot: Snapshot) -> Iterator[Section]:
    before = {each.queue for each in queues_over_quota(base, snapshot)}
    over = tuple(_over(each, is_new=each.queue not in before) for each in queues_over_quota(head, snapshot))
    yield Section("Who holds more than the new quota", 3, (Items(over or (("Nobody.",),)),))
    full = tuple(_full(each) for each in queues_at_limit(head, snapshot))
    yield Section("Who cannot start anything more", 2, (Items(full or (("Nobody, by the limits.",),)),))


def _over(found: QueueOveruse, *, is_new: bool) -> Text:
    quota = format_figure(found.resource, found.quota)
    since = "with head only" if is_new else "as with base"
    rule = "what is beyond can be reclaimed as soon as a queue within its quota asks"
    return (
        UntrustedText(found.queue),
        f" holds {found.used} GPUs and has a quota of {quota}, {since}: {rule}.",
    )


def _full(found: QueueOveruse) -> Text:
    limit = format_figure(found.resource, found.quota)
    return (
        UntrustedText(found.queue),
        f" holds {found.used} GPUs and may hold {limit}: nothing new starts below it.",
    )
