"""Base beside head: what happens to whose work, in words and figures.

Decides what is worth a sentence. Every name is foreign text and stays text (parts.py).
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from muster.model.stack import Stack
from muster.preview.document import (
    Items,
    Report,
    Section,
    StackReport,
    Table,
    Text,
    UntrustedText,
    join_names,
)
from muster.preview.whatif.outcome import Decision, Outcome, WorkloadState

_MAX_LISTED: Final = 20
# Of Workloads of this run alone, which nobody can look up.
_UIDS: Final = re.compile(r" \(UID: [^)]*\)")
_REASONS: Final = {
    "InClusterQueue": "goes first in the same queue",
    "InCohortReclamation": "takes its own quota back",
    "InCohortFairSharing": "has less than its share",
    "InCohortReclaimWhileBorrowing": "takes its own quota back while it borrows",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Both sides. `compression`: how many seconds of the jobs' time went into one, None where none were
    played.
    """

    name: str
    base: Outcome
    head: Outcome
    base_stack: Stack
    head_stack: Stack
    compression: float | None = None


def to_report(answer: Comparison) -> Report:
    """The answer as a report: Markdown, HTML."""
    sections = (
        *_teams(answer),
        Section("GPUs in use", 3, (_gpus(answer),)),
        *_preempted(answer),
        *_waiting(answer),
    )
    return Report((StackReport(UntrustedText(answer.name), tuple(_summary(answer)), sections),))


def to_json(answer: Comparison) -> dict[str, Any]:
    """The answer for programs: every decision of both sides."""
    return {
        "stack": answer.name,
        "compression": answer.compression,
        **{side: _side_to_json(outcome) for side, outcome in (("base", answer.base), ("head", answer.head))},
    }


def _side_to_json(outcome: Outcome) -> dict[str, Any]:
    return {
        "settled": outcome.is_settled,
        "gpus": dict(sorted(outcome.gpus.items())),
        "decisions": {label: asdict(each) for label, each in sorted(outcome.decisions.items())},
    }


def _summary(answer: Comparison) -> Iterable[Text]:
    base, head = _count_states(answer.base), _count_states(answer.head)
    holding = [side[WorkloadState.RUNNING] + side[WorkloadState.ADMITTED] for side in (head, base)]
    waiting = [side[WorkloadState.PENDING] for side in (head, base)]
    yield (
        f"With head {holding[0]} Workloads hold quota (base: {holding[1]}), {waiting[0]} wait "
        f"(base: {waiting[1]}).",
    )
    lost = [each for label, each in answer.head.decisions.items() if _is_new_victim(answer, label, each)]
    if lost:
        yield (
            "Head preempts ",
            *join_names(tuple(sorted(each.label for each in lost))),
            ", which base does not.",
        )
    for side, outcome in (("base", answer.base), ("head", answer.head)):
        if not outcome.is_settled:
            yield (f"Kueue was not done with {side} after {outcome.seconds:.0f} s: this is how far it came.",)
        elif outcome.unseen:
            yield (
                f"Of {outcome.unseen} Workloads of {side} that wait Kueue says nothing: they stand behind "
                "others in a strict queue, or are just like one that it looked at.",
            )
    if answer.compression is not None:
        yield (
            f"Jobs were played {answer.compression:g} times as fast as they run; each second that Kueue "
            f"itself took counts as {answer.compression:g} s of waiting.",
        )


def _is_new_victim(answer: Comparison, label: str, decision: Decision) -> bool:
    before = answer.base.decisions.get(label)
    return decision.is_preempted and not (before and before.is_preempted)


def _count_states(outcome: Outcome) -> Counter[WorkloadState]:
    return Counter(each.fate for each in outcome.decisions.values())


def _teams(answer: Comparison) -> Iterable[Section]:
    """Those whose figures differ, and, less important, the others."""
    base, head = _by_team(answer.base), _by_team(answer.head)
    titles = ["Team", "keep running", "start", "preempted", "wait"]
    if answer.compression is not None:
        titles.append("median wait to start")
    changed: list[tuple[Text, ...]] = []
    same: list[tuple[Text, ...]] = []
    for team in sorted(base.keys() | head.keys()):
        before, after = (_figures(side.get(team, ()), answer.compression) for side in (base, head))
        row: tuple[Text, ...] = (
            (UntrustedText(team),),
            *((_arrow(*pair),) for pair in zip(before, after, strict=True)),
        )
        (same if before == after else changed).append(row)
    if changed:
        yield Section("Teams that fare differently", 4, (Table(tuple(titles), tuple(changed)),))
    if same:
        yield Section("Teams that fare the same", 1, (Table(tuple(titles), tuple(same)),))


def _by_team(outcome: Outcome) -> Mapping[str, list[Decision]]:
    found: dict[str, list[Decision]] = {}
    for each in outcome.decisions.values():
        found.setdefault(each.namespace, []).append(each)
    return found


def _figures(decisions: Iterable[Decision], compression: float | None) -> tuple[str, ...]:
    """Of one team on one side, in the order of the table's titles."""
    every = [*decisions]
    fates = Counter(each.fate for each in every)
    preempted = sum(each.is_preempted for each in every)
    counts = (
        fates[WorkloadState.RUNNING],
        fates[WorkloadState.ADMITTED],
        preempted,
        fates[WorkloadState.PENDING],
    )
    waits = () if compression is None else (_wait(every),)
    return (*map(str, counts), *waits)


def _arrow(base: str, head: str) -> str:
    return head if base == head else f"{base} → {head}"


def _wait(decisions: Iterable[Decision]) -> str:
    waits = sorted(each.waited for each in decisions if each.waited is not None)
    return f"{waits[len(waits) // 2] / 60:.0f} min" if waits else "none started"


def _gpus(answer: Comparison) -> Table:
    base, head = _totals(answer.base_stack), _totals(answer.head_stack)
    rows: list[tuple[Text, ...]] = []
    for flavor in sorted({*base, *head}):
        cells = [
            _share(outcome.gpus.get(flavor, 0), totals.get(flavor, 0))
            for outcome, totals in ((answer.base, base), (answer.head, head))
        ]
        rows.append(((UntrustedText(flavor),), (cells[0],), (cells[1],)))
    return Table(("Pool", "base", "head"), tuple(rows))


def _totals(stack: Stack) -> Mapping[str, int]:
    return {pool.flavor: int(pool.max_gpus) for pool in stack.pools if pool.is_gpu}


def _share(used: int, total: int) -> str:
    return f"{used} of {total} ({used / total:.0%})" if total else f"{used} of none"


def _preempted(answer: Comparison) -> Iterable[Section]:
    victims = [each for _, each in sorted(answer.head.decisions.items()) if each.is_preempted]
    if not victims:
        return
    texts: list[Text] = []
    for each in victims[:_MAX_LISTED]:
        reason = _REASONS.get(each.how, each.how)
        by: Text = ("by ", UntrustedText(each.preemptor), ", which ", reason) if each.preemptor else (reason,)
        then = "runs again" if each.fate is WorkloadState.ADMITTED else "waits"
        texts.append((UntrustedText(each.label), " is preempted ", *by, f"; it {then}."))
    if len(victims) > _MAX_LISTED:
        texts.append((f"{len(victims) - _MAX_LISTED} more.",))
    yield Section("Preempted with head", 2, (Items(tuple(texts)),))


def _waiting(answer: Comparison) -> Iterable[Section]:
    """Why, and whose work: the reasons of most Workloads first."""
    waiting = [
        each for each in answer.head.decisions.values() if each.fate is WorkloadState.PENDING and each.why
    ]
    reasons: dict[str, list[Decision]] = {}
    for each in waiting:
        reasons.setdefault(each.why, []).append(each)
    if not reasons:
        return
    ordered = sorted(reasons.items(), key=lambda item: (-len(item[1]), item[0]))
    rows = tuple(
        (
            (str(len(found)),),
            join_names(tuple(sorted({each.namespace for each in found}))),
            (UntrustedText(why),),
        )
        for why, found in ordered[:_MAX_LISTED]
    )
    yield Section("Why work waits with head", 1, (Table(("Workloads", "Of", "Kueue says"), rows),))
