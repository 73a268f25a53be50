"""What a recording does in the queues of base and of head."""

from collections.abc import Iterator, Mapping
from typing import Final

from muster.model.quantities import many
from muster.preview import figures
from muster.preview.compare.diff import StackDiff
from muster.preview.compare.replay import MonthlyBill, ReplayDiff, format_seconds
from muster.preview.document import Chart, Items, Line, Section, Table, Text, UntrustedText, row
from muster.replay.figures import Figures, GpuHours, Waits, WorstJob

_WAITS: Final = ("Jobs", "Median wait", "95th percentile", "Never start")
_ABSENT: Final = "–"
_MOST_ROWS: Final = 20


def lead(diff: StackDiff) -> Iterator[Section]:
    """The sentence, and the waits of each team."""
    if (replay := diff.replay) is None:
        if diff.lacks_replay:
            side = "base" if diff.has_head else "head"
            yield Section("Replay", 97, (Items(((f"The recording was not played: there is no {side}.",),)),))
        return
    said = Items((replay.sentence,))
    table = _waits("Team", replay.base.teams, replay.head.teams)
    yield Section(f"Replay of {replay.window}", 97, (said, table))


def sections(diff: StackDiff) -> Iterator[Section]:
    if (replay := diff.replay) is None:
        return
    sizes = (
        {many(size, "GPU"): each for size, each in side.sizes.items()} for side in (replay.base, replay.head)
    )
    yield Section(
        "Replay: waits by priority and size",
        72,
        (
            _waits("Priority", replay.base.priorities, replay.head.priorities),
            _waits("Size", *sizes),
        ),
    )
    yield Section("Replay: GPU-hours", 71, (_hours(replay), _chart(replay)))
    if any(replay.bills):
        yield Section("Replay: the month's bill by team", 71, (_bills(replay),))
    if replay.base.preemptions or replay.head.preemptions:
        yield Section("Replay: preemptions", 70, (_preemptions(replay),))
    yield Section("Replay: the jobs that fare worst", 60, (_worst(replay),))
    yield Section("Replay: what was assumed", 58, (_assumed(replay),))


def _waits(what: str, base: Mapping[str, Waits], head: Mapping[str, Waits]) -> Table:
    rows = ((name, _cells(base.get(name)), _cells(head.get(name))) for name in dict.fromkeys((*base, *head)))
    return Table(
        (what, *_WAITS),
        tuple(
            (
                (UntrustedText(name),),
                *((figures.format_change(*pair),) for pair in zip(before, after, strict=True)),
            )
            for name, before, after in rows
        ),
        _WAITS,
    )


def _cells(waits: Waits | None) -> tuple[str, ...]:
    if waits is None:
        return (_ABSENT,) * len(_WAITS)
    return (str(waits.jobs), format_seconds(waits.p50), format_seconds(waits.p95), str(waits.never))


def _hours(replay: ReplayDiff) -> Table:
    head = ("Team", "Guaranteed", "Borrowed", "Lost to preemption")
    base, after = replay.base.hours, replay.head.hours
    rows: tuple[tuple[Text, ...], ...] = tuple(
        (
            (UntrustedText(team),),
            *(
                (figures.format_change(*pair),)
                for pair in zip(_hour_cells(base.get(team)), _hour_cells(after.get(team)), strict=True)
            ),
        )
        for team in dict.fromkeys((*base, *after))
    )
    return Table(head, rows, head[1:])


def _bills(replay: ReplayDiff) -> Table:
    head = ("Team", "GPU-hours", "Cost", "Budget")
    base, after = replay.bills
    rows: tuple[tuple[Text, ...], ...] = tuple(
        (
            (UntrustedText(team),),
            *(
                (figures.format_change(*pair),)
                for pair in zip(_bill_cells(base.get(team)), _bill_cells(after.get(team)), strict=True)
            ),
        )
        for team in dict.fromkeys((*base, *after))
    )
    return Table(head, rows, head[1:])


def _bill_cells(bill: MonthlyBill | None) -> tuple[str, ...]:
    """In 30 days. The share of the budget tells whether the team would be kept from starting more."""
    if bill is None:
        return (_ABSENT,) * 3
    costs = " + ".join(f"{currency} {cost:,.0f}" for currency, cost in sorted(bill.costs.items()))
    budget = f"{bill.hours / bill.budget:.0%} of {bill.budget:,}" if bill.budget else _ABSENT
    return f"{bill.hours:,.0f}", costs or _ABSENT, budget


def _hour_cells(hours: GpuHours | None) -> tuple[str, ...]:
    if hours is None:
        return (_ABSENT,) * 3
    return tuple(f"{each:,.0f}" for each in (hours.guaranteed, hours.borrowed, hours.lost))


def _chart(replay: ReplayDiff) -> Chart:
    sides = (("base", replay.base), ("head", replay.head))
    peak = max((value for _, side in sides for value in side.utilisation.used), default=0.0)
    curve = replay.base.utilisation
    shares = " and ".join(f"{_share(side, replay)} in {name}" for name, side in sides)
    return Chart(
        caption=f"Of the GPUs in quota, {shares} were in use on average while the recording lasted.",
        start="first job" if curve.start > replay.start else "start of the recording",
        end=f"{format_seconds(curve.step * len(curve.used))} later",
        top=max(replay.base.quota, replay.head.quota, round(peak)),
        lines=tuple(Line(name, side.utilisation.used) for name, side in sides),
    )


def _share(side: Figures, replay: ReplayDiff) -> str:
    curve = side.utilisation
    steps = max(min(round((replay.end - curve.start) / curve.step), len(curve.used)), 1)
    return f"{sum(curve.used[:steps]) / steps / max(side.quota, 1):.0%}"


def _preemptions(replay: ReplayDiff) -> Table:
    head = ("Preempted by", "Preempted", "Priority", "Why", "Runs")
    base, after = replay.base.preemptions, replay.head.preemptions
    every = sorted({*base, *after}, key=lambda each: (-max(base.get(each, 0), after.get(each, 0)), each))
    rows: list[tuple[Text, ...]] = [
        row(
            UntrustedText(each.by),
            UntrustedText(each.of),
            UntrustedText(each.priority),
            UntrustedText(each.reason),
            figures.format_change(str(base.get(each, 0)), str(after.get(each, 0))),
        )
        for each in every[:_MOST_ROWS]
    ]
    if rest := every[_MOST_ROWS:]:
        sums = [str(sum(side.get(each, 0) for each in rest)) for side in (base, after)]
        rows.append(((f"{len(rest)} other pairs",), ("",), ("",), ("",), (figures.format_change(*sums),)))
    return Table(head, tuple(rows), head[-1:])


def _worst(replay: ReplayDiff) -> Table:
    head = ("Job", "Team", "GPUs", "Waited in base", "Waited in head")
    sides = [{each.job: each for each in side.worst} for side in (replay.base, replay.head)]
    rows: tuple[tuple[Text, ...], ...] = tuple(
        row(
            UntrustedText(each.job),
            UntrustedText(each.team),
            str(each.gpus),
            *(_fate(side.get(each.job)) for side in sides),
        )
        for each in {**sides[1], **sides[0]}.values()
    )
    return Table(head, rows, head[2:])


def _fate(job: WorstJob | None) -> str:
    if job is None:
        return "not among the ten"
    waited = format_seconds(job.wait)
    return f"{waited}, preempted {many(job.preemptions, 'time')}" if job.preemptions else waited


def _assumed(replay: ReplayDiff) -> Items:
    own: tuple[Text, ...] = tuple((each,) for each in (*replay.left_out, *replay.assumptions))
    return Items((*own, *((UntrustedText(each),) for each in replay.gaps)))
