"""What-if for a stack that KAI schedules.

KAI's scheduler is not among the programs that Muster can run, so nothing is simulated. The report compares
what the queues hold now with their new figures, and lists the questions that only KAI could answer.
"""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, Final

from muster.live.snapshot import Snapshot
from muster.model.stack import Scheduler, Stack
from muster.preview.compare.kai import QueueOveruse, format_figure, queues_at_limit, queues_over_quota
from muster.preview.document import Items, Report, Section, StackReport, Text, UntrustedText

_VERDICT: Final = (
    "KAI schedules this stack, and Muster cannot run its scheduler: nothing below is a decision of KAI."
)
_OTHER: Final = "The snapshot is not from KAI, so what its queues hold is unknown."
_UNDECIDED: Final = (
    "Which pending gang starts, and when: KAI divides free resources by weight and by past usage.",
    "Which work it preempts, reclaims or moves: that depends on the nodes of the pods.",
    "Whether a gang fits its nodes: KAI packs shares of GPUs and checks nodes, not only quota.",
)


def to_report(name: str, base: Stack, head: Stack, snapshot: Snapshot) -> Report:
    """Queues that hold more than their new quota or limit, and the questions that remain open."""
    sections = [Section("What only KAI could decide", 1, (Items(tuple((each,) for each in _UNDECIDED)),))]
    verdict: list[Text] = [(_VERDICT,)]
    if snapshot.scheduler is Scheduler.KAI:
        sections = [*_known(base, head, snapshot), *sections]
    else:
        verdict.append((_OTHER,))
    return Report((StackReport(UntrustedText(name), tuple(verdict), tuple(sections)),))


def to_json(name: str, base: Stack, head: Stack, snapshot: Snapshot) -> dict[str, Any]:
    """The same for programs. `decided` is False, and `untold` lists the open questions."""
    found: dict[str, Any] = {"stack": name, "scheduler": "kai", "decided": False, "untold": list(_UNDECIDED)}
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
    yield Section("Queues that hold more than their new quota", 3, (Items(over or (("None.",),)),))
    full = tuple(_full(each) for each in queues_at_limit(head, snapshot))
    yield Section("Queues that cannot start more work", 2, (Items(full or (("None.",),)),))


def _over(found: QueueOveruse, *, is_new: bool) -> Text:
    quota = format_figure(found.resource, found.quota)
    since = "only with head" if is_new else "with base as well"
    rule = "the excess can be reclaimed as soon as a queue within its quota needs it"
    return (
        UntrustedText(found.queue),
        f" holds {found.used} GPUs and has a quota of {quota}, {since}: {rule}.",
    )


def _full(found: QueueOveruse) -> Text:
    limit = format_figure(found.resource, found.quota)
    return (
        UntrustedText(found.queue),
        f" holds {found.used} GPUs and may hold {limit}: no more work starts in it.",
    )
