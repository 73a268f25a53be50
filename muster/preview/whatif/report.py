"""Compares the outcomes of base and head: what happens to the work of which team.

Responsible for the wording. Every name is untrusted text and stays text (document.py).
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from muster.model.stack import Scheduler, Stack
from muster.preview.document import (
    Items,
    Report,
    Section,
    StackReport,
    Table,
    Text,
    UntrustedText,
    join_names,
    row,
)
from muster.preview.figures import format_change
from muster.preview.whatif.scenario import Decision, Outcome, WorkloadState

_MAX_LISTED: Final = 20
# A gang of KAI may lose only the pods above its minimum.
_AFTER_EVICTION: Final = {
    WorkloadState.ADMITTED: "runs again",
    WorkloadState.RUNNING: "keeps its other pods",
}
_UNDECIDED: Final[Mapping[Scheduler, tuple[str, ...]]] = {
    Scheduler.KUEUE: (
        "Which pending Workload is admitted, and when.",
        "Which Workloads are preempted, and by which.",
    ),
    Scheduler.KAI: (
        "Which pending gang starts, and when: KAI divides free resources by weight and by past usage.",
        "Which work it preempts, reclaims or moves: that depends on the nodes of the pods.",
        "Whether a gang fits its nodes: KAI packs shares of GPUs and checks nodes, not only quota.",
    ),
}
_REASONS: Final = {
    "InClusterQueue": "has priority in the same queue",
    "InCohortReclamation": "reclaims its own quota",
    "InCohortFairSharing": "has less than its share",
    "InCohortReclaimWhileBorrowing": "reclaims its own quota while it borrows",
    # Actions of KAI.
    "preempt": "has priority in the same queue",
    "reclaim": "reclaims the share of its queue",
    "consolidation": "needs the place on a node",
    "stalegangeviction": "lacks pods of its minimum",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Both outcomes. `is_timed`: jobs ended after a duration. `scheduler` decided."""

    name: str
    base: Outcome
    head: Outcome
    base_stack: Stack
    head_stack: Stack
    is_timed: bool = False
    scheduler: Scheduler = Scheduler.KUEUE


@dataclass(frozen=True, slots=True)
class Undecided:
    """Nothing is simulated, because of `why`, a full sentence."""

    name: str
    scheduler: Scheduler
    why: str

    def to_report(self, known: Iterable[Section] = ()) -> Report:
        """What is known of the work, and the questions that remain open."""
        who = self.scheduler.proper_name
        texts = tuple((each,) for each in _UNDECIDED[self.scheduler])
        verdict: tuple[Text, ...] = (
            (f"Nothing below is a decision of {who}.",),
            (UntrustedText(self.why),),
        )
        sections = (*known, Section(f"What only {who} could decide", 1, (Items(texts),)))
        return Report((StackReport(UntrustedText(self.name), verdict, sections),))

    def to_json(self) -> dict[str, Any]:
        """The same for programs. `decided` is False, and `untold` lists the open questions."""
        return {
            "stack": self.name,
            "scheduler": self.scheduler.value,
            "decided": False,
            "why": self.why,
            "untold": list(_UNDECIDED[self.scheduler]),
        }


def to_report(comparison: Comparison) -> Report:
    """The comparison as a report, for Markdown and HTML."""
    sections = (
        *_teams(comparison),
        Section("GPUs in use", 3, (_gpus(comparison),)),
        *_preempted(comparison),
        *_waiting(comparison),
    )
    return Report((StackReport(UntrustedText(comparison.name), tuple(_summary(comparison)), sections),))


def to_json(comparison: Comparison) -> dict[str, Any]:
    """The comparison for programs: every decision of both sides."""
    return {
        "stack": comparison.name,
        **{
            side: _side_to_json(outcome)
            for side, outcome in (("base", comparison.base), ("head", comparison.head))
        },
    }


def _side_to_json(outcome: Outcome) -> dict[str, Any]:
    return {
        "settled": outcome.is_settled,
        "gpus": dict(sorted(outcome.gpus.items())),
        "decisions": {label: _decision_to_json(each) for label, each in sorted(outcome.decisions.items())},
    }


def _decision_to_json(decision: Decision) -> dict[str, Any]:
    """Field names are stable: `fate` is the state."""
    found = asdict(decision)
    return {"fate": found.pop("state"), **found}


def _summary(comparison: Comparison) -> Iterable[Text]:
    base, head = _count_states(comparison.base), _count_states(comparison.head)
    holding = [side[WorkloadState.RUNNING] + side[WorkloadState.ADMITTED] for side in (head, base)]
    waiting = [side[WorkloadState.PENDING] for side in (head, base)]
    held = "with quota" if comparison.scheduler.traits.admits_jobs else "that run"
    yield (
        f"{comparison.scheduler.traits.units} {held}: {holding[0]} with head, {holding[1]} with base. "
        f"Pending: {waiting[0]} with head, {waiting[1]} with base.",
    )
    lost = [
        each for label, each in comparison.head.decisions.items() if _is_new_victim(comparison, label, each)
    ]
    if lost:
        yield (
            "Head preempts ",
            *join_names(tuple(sorted(each.label for each in lost))),
            ", which base does not.",
        )
    for side, outcome in (("base", comparison.base), ("head", comparison.head)):
        if not outcome.is_settled:
            yield (
                f"{comparison.scheduler.proper_name} was not done with {side} after {outcome.seconds:.0f} s: "
                "the figures are incomplete.",
            )
        elif outcome.unexplained and comparison.scheduler.traits.admits_jobs:
            yield (
                f"Kueue gives no reason for {outcome.unexplained} pending Workloads of {side}: they are "
                "behind others in a strict queue, or equivalent to one that it considered.",
            )


def _is_new_victim(comparison: Comparison, label: str, decision: Decision) -> bool:
    before = comparison.base.decisions.get(label)
    return decision.is_preempted and not (before and before.is_preempted)


def _count_states(outcome: Outcome) -> Counter[WorkloadState]:
    return Counter(each.state for each in outcome.decisions.values())


def _teams(comparison: Comparison) -> Iterable[Section]:
    """Teams whose figures differ, and the others, which are less important."""
    base, head = _by_team(comparison.base), _by_team(comparison.head)
    titles = ["Team", "keep running", "start", "preempted", "wait"]
    if comparison.is_timed:
        titles.append("median wait to start")
    changed: list[tuple[Text, ...]] = []
    same: list[tuple[Text, ...]] = []
    for team in sorted(base.keys() | head.keys()):
        before, after = (_figures(side.get(team, ()), is_timed=comparison.is_timed) for side in (base, head))
        row: tuple[Text, ...] = (
            (UntrustedText(team),),
            *((format_change(*pair),) for pair in zip(before, after, strict=True)),
        )
        (same if before == after else changed).append(row)
    if changed:
        yield Section(
            "Teams with a different outcome", 4, (Table(tuple(titles), tuple(changed), tuple(titles[1:])),)
        )
    if same:
        yield Section(
            "Teams with the same outcome", 1, (Table(tuple(titles), tuple(same), tuple(titles[1:])),)
        )


def _by_team(outcome: Outcome) -> Mapping[str, list[Decision]]:
    found: dict[str, list[Decision]] = {}
    for each in outcome.decisions.values():
        found.setdefault(each.namespace, []).append(each)
    return found


def _figures(decisions: Iterable[Decision], *, is_timed: bool) -> tuple[str, ...]:
    """The figures of one team on one side, in the order of the table's columns."""
    every = [*decisions]
    states = Counter(each.state for each in every)
    preempted = sum(each.is_preempted for each in every)
    counts = (
        states[WorkloadState.RUNNING],
        states[WorkloadState.ADMITTED],
        preempted,
        states[WorkloadState.PENDING],
    )
    waits = (_wait(every),) if is_timed else ()
    return (*map(str, counts), *waits)


def _wait(decisions: Iterable[Decision]) -> str:
    waits = sorted(each.waited for each in decisions if each.waited is not None)
    return f"{waits[len(waits) // 2] / 60:.0f} min" if waits else "none started"


def _gpus(comparison: Comparison) -> Table:
    base, head = _totals(comparison.base_stack), _totals(comparison.head_stack)
    rows: list[tuple[Text, ...]] = []
    for flavor in sorted({*base, *head}):
        cells = [
            _share(outcome.gpus.get(flavor, 0), totals.get(flavor, 0))
            for outcome, totals in ((comparison.base, base), (comparison.head, head))
        ]
        rows.append(((UntrustedText(flavor),), (cells[0],), (cells[1],)))
    return Table(("Pool", "base", "head"), tuple(rows), ("base", "head"))


def _totals(stack: Stack) -> Mapping[str, int]:
    return {pool.flavor: int(pool.max_gpus) for pool in stack.pools if pool.is_gpu}


def _share(used: int, total: int) -> str:
    return f"{used} of {total} ({used / total:.0%})" if total else f"{used} of none"


def _preempted(comparison: Comparison) -> Iterable[Section]:
    victims = [each for _, each in sorted(comparison.head.decisions.items()) if each.is_preempted]
    if not victims:
        return
    texts: list[Text] = []
    for each in victims[:_MAX_LISTED]:
        reason = _REASONS.get(each.how, each.how)
        by: Text = ("by ", UntrustedText(each.preemptor), ", which ", reason) if each.preemptor else (reason,)
        then = _AFTER_EVICTION.get(each.state, "waits")
        texts.append((UntrustedText(each.label), " is preempted ", *by, f"; it {then}."))
    if len(victims) > _MAX_LISTED:
        texts.append((f"{len(victims) - _MAX_LISTED} more.",))
    yield Section("Preempted with head", 2, (Items(tuple(texts)),))


def _waiting(comparison: Comparison) -> Iterable[Section]:
    """The reasons, and the teams that they concern. The most frequent reason comes first."""
    waiting = [
        each
        for each in comparison.head.decisions.values()
        if each.state is WorkloadState.PENDING and each.why
    ]
    reasons: dict[str, list[Decision]] = {}
    for each in waiting:
        reasons.setdefault(each.why, []).append(each)
    if not reasons:
        return
    ordered = sorted(reasons.items(), key=lambda item: (-len(item[1]), item[0]))
    rows = tuple(
        row(
            str(len(found)), join_names(tuple(sorted({each.namespace for each in found}))), UntrustedText(why)
        )
        for why, found in ordered[:_MAX_LISTED]
    )
    yield Section(
        "Why work is pending with head",
        1,
        (
            Table(
                (
                    comparison.scheduler.traits.units,
                    "Of",
                    f"Reason given by {comparison.scheduler.proper_name}",
                ),
                rows,
                (comparison.scheduler.traits.units,),
            ),
        ),
    )
