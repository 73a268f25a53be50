"""Base and head compared as KAI decides, and what is known where nothing can be simulated: which queues
hold more than their new figures.
"""

from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any, Final

from muster.live.snapshot import Snapshot
from muster.model.quantities import many
from muster.model.stack import Scheduler, Stack
from muster.preview.compare.kai import QueueOveruse, format_figure, queues_at_limit, queues_over_quota
from muster.preview.document import Items, Report, Section, StackReport, Text, UntrustedText
from muster.preview.whatif import report as comparison_report
from muster.preview.whatif.report import Comparison
from muster.replay.kai_player import VERSION

_VERDICT: Final = "Nothing below is a decision of KAI."
_UNDECIDED: Final = (
    "Which pending gang starts, and when: KAI divides free resources by weight and by past usage.",
    "Which work it preempts, reclaims or moves: that depends on the nodes of the pods.",
    "Whether a gang fits its nodes: KAI packs shares of GPUs and checks nodes, not only quota.",
)


ASSUMPTIONS: Final = (
    f"KAI {VERSION} decided. Stacks install a newer one, which decides some cases differently (docs/kai.md).",
    "Every pool has its largest size, because whether a cloud has capacity cannot be known.",
    "Muster's gate counts as removed. With `overQuota: deny` the quota of GPUs is the limit of a queue.",
    "Owners create evicted pods again, and these wait. No job ends.",
    "All work has run for longer than a minimum runtime protects it.",
    "Past usage, pod affinity, storage, DRA and ports of the host are not played.",
)


def to_report(comparison: Comparison, snapshot: Snapshot) -> Report:
    """The comparison, what the queues hold, and what the simulation assumes."""
    (found,) = comparison_report.to_report(comparison).stacks
    assumed = Section("What this simulation assumes", 1, (Items(tuple((each,) for each in ASSUMPTIONS)),))
    known = _known(comparison.base_stack, comparison.head_stack, snapshot)
    return Report((replace(found, sections=(*found.sections, *known, assumed)),))


def to_json(comparison: Comparison, snapshot: Snapshot) -> dict[str, Any]:
    """The same for programs. `untold` lists what is assumed."""
    return {
        **comparison_report.to_json(comparison),
        "scheduler": "kai",
        "decided": True,
        "untold": list(ASSUMPTIONS),
        **_known_json(comparison.base_stack, comparison.head_stack, snapshot),
    }


def undecided_report(name: str, base: Stack, head: Stack, snapshot: Snapshot, *, why: str) -> Report:
    """Queues that hold more than their new quota or limit, and the questions that remain open. `why`: why
    nothing is simulated.
    """
    sections = [Section("What only KAI could decide", 1, (Items(tuple((each,) for each in _UNDECIDED)),))]
    if snapshot.scheduler is Scheduler.KAI:
        sections = [*_known(base, head, snapshot), *sections]
    verdict: tuple[Text, ...] = ((_VERDICT,), (UntrustedText(why),))
    return Report((StackReport(UntrustedText(name), verdict, tuple(sections)),))


def undecided_json(name: str, base: Stack, head: Stack, snapshot: Snapshot, *, why: str) -> dict[str, Any]:
    """The same for programs. `decided` is False, and `untold` lists the open questions."""
    found = {"stack": name, "scheduler": "kai", "decided": False, "why": why, "untold": list(_UNDECIDED)}
    return {**found, **_known_json(base, head, snapshot)} if snapshot.scheduler is Scheduler.KAI else found


def _known_json(base: Stack, head: Stack, snapshot: Snapshot) -> dict[str, Any]:
    return {
        "beyondQuota": [asdict(each) for each in queues_over_quota(head, snapshot)],
        "beyondQuotaBefore": [asdict(each) for each in queues_over_quota(base, snapshot)],
        "atLimit": [asdict(each) for each in queues_at_limit(head, snapshot)],
    }


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
        f" holds {many(found.used, 'GPU')} and has a quota of {quota}, {since}: {rule}.",
    )


def _full(found: QueueOveruse) -> Text:
    limit = format_figure(found.resource, found.quota)
    return (
        UntrustedText(found.queue),
        f" holds {many(found.used, 'GPU')} and may hold {limit}: no more work starts in it.",
    )
