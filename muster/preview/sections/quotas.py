"""What changes for teams: quota, borrowing and preemption, KAI's queues, and the work that runs now."""

from collections.abc import Iterator
from typing import Final

from muster.model.kai import NON_PREEMPTIBLE
from muster.preview import figures
from muster.preview.banner import new_evictions
from muster.preview.compare.diff import Changes, QuotaOveruse, StackDiff
from muster.preview.compare.kai import KaiDiff, QueueChange, format_figure
from muster.preview.compare.preemption import PreemptionChange
from muster.preview.compare.quota import QuotaChange
from muster.preview.document import Items, Mark, Section, Table, Text, UntrustedText, join_names, row
from muster.preview.figures import format_amount, format_change, format_unit
from muster.preview.tree_diagram import to_bars, to_diagram

# A larger diagram is not readable, and GitHub does not draw a graph with more than 500 edges.
_MAX_NODES: Final = 60


def teams(diff: StackDiff) -> Iterator[Section]:
    """The quotas that the stack file names: GPUs, and then CPUs of pools without GPUs, each in a table of its
    own, so that a column has one unit. The largest loss comes first, as in the banner.

    KAI has other rules for borrowing and lending, so those columns are left out; see `kai_queues`.
    """
    found = [] if diff.changes is None else [each for each in _of_teams(diff.changes) if not each.is_derived]
    for title, weight, rows in (
        ("Quota of teams", 80, [each for each in found if each.pool.is_gpu]),
        ("CPU quota of teams", 79, [each for each in found if not each.pool.is_gpu]),
    ):
        if rows and diff.changes is not None:
            ordered = sorted(rows, key=lambda each: -each.loss)
            yield Section(title, weight, (_team_table(diff, diff.changes, ordered, is_derived=False),))


def sections(diff: StackDiff) -> Iterator[Section]:
    """What the quotas mean for departments, and for borrowing and preemption."""
    changes = diff.changes
    if changes is None:
        return
    yield from _departments(changes)
    derived = [each for each in _of_teams(changes) if each.is_derived]
    if derived:
        table = _team_table(diff, changes, derived, is_derived=True)
        yield Section("CPU and memory that follow from other figures", 51, (table,))
    yield from _preemptions(changes)
    if changes.has_flavors:
        yield from _possibilities(changes)
    picture = to_diagram(changes, most=_MAX_NODES)
    if picture is not None:
        yield Section("The queue tree", 60, (picture,))
    if changes.settings:
        settings = tuple(
            ((UntrustedText(each.place),), _value(each.before), _value(each.after))
            for each in changes.settings
        )
        yield Section("Other settings", 50, (Table(("Setting", "Before", "After"), settings),))


def _departments(changes: Changes) -> Iterator[Section]:
    found = [each for each in changes.quotas if not each.is_team]
    head = _DEPARTMENT[: 5 if changes.has_flavors else 4]
    of_gpus = _department_table([each for each in found if each.pool.is_gpu], head)
    of_cpus = _department_table([each for each in found if not each.pool.is_gpu], head)
    if of_gpus.rows:
        yield Section("Quota of departments, with all below them", 85, (of_gpus,))
    if of_cpus.rows:
        yield Section("CPU of departments, with all below them", 52, (of_cpus,))


def _department_table(found: list[QuotaChange], head: tuple[str, ...]) -> Table:
    return Table(head, tuple(_department(each)[: len(head)] for each in found), head[2:])


def _preemptions(changes: Changes) -> Iterator[Section]:
    sentences = tuple((*each, ".") for each in new_evictions(changes))
    unknown = tuple((each,) for each in changes.not_compared)
    rows = tuple(_preemption(row) for row in changes.preemption)
    marks = tuple(Mark.RISK if row.is_new else Mark.SAME for row in changes.preemption)
    table = Table(_PREEMPTION, rows, marks=marks)
    lists = tuple(Items(texts) for texts in (sentences, unknown) if texts)
    if lists or rows:
        yield Section("Who can preempt whom", 75, (*lists, *((table,) if rows else ())))


def _possibilities(changes: Changes) -> Iterator[Section]:
    """What teams can borrow and reach because other teams change."""
    borrowing = [*changes.borrowing()]
    if borrowing:
        tables = (
            Table(_BORROWING, tuple(_borrowing(*each) for each in found), _BORROWING[2:])
            for is_gpu in (True, False)
            if (found := [each for each in borrowing if each[0].pool.is_gpu is is_gpu])
        )
        yield Section("Borrowing that became possible or impossible", 70, tuple(tables))
    reached = [each for each in changes.quotas if each.is_team and each.is_indirect]
    if reached:
        title = "Teams affected by other teams' changes: the most that each could use"
        tables = (
            Table(_REACHED, tuple(_reached(each) for each in rows), _REACHED[2:])
            for is_gpu in (True, False)
            if (rows := [each for each in reached if each.pool.is_gpu is is_gpu])
        )
        yield Section(title, 55, tuple(tables))


_TEAM: Final = (
    "Team",
    "Department",
    "Pool",
    "Quota",
    "Change",
    "May borrow",
    "May lend",
    "Could use at most",
)
_MINOR: Final = ("May lend", "May borrow", "Department")
# The first columns concern the team's own quota, and apply to both schedulers.
_OWN: Final = 5
_DEPARTMENT: Final = ("Department", "Pool", "Own", "With all below", "Could use at most")
_REACHED: Final = ("Team", "Pool", "Could use at most")
_PREEMPTION: Final = ("Change", "Who", "Can preempt", "On pools", "Why")
_BORROWING: Final = ("Team", "Pool", "Could borrow", "Now")


def _of_teams(changes: Changes) -> list[QuotaChange]:
    """Quotas of teams that change in themselves."""
    return [each for each in changes.quotas if each.is_team and not each.is_indirect]


def _team_table(diff: StackDiff, changes: Changes, rows: list[QuotaChange], *, is_derived: bool) -> Table:
    """Without pictures and marks where only derived figures change, and without pictures for KAI, whose
    Queues borrow without a bound.
    """
    shown = _OWN if diff.kai is not None else len(_TEAM)
    return Table(
        _TEAM[:shown],
        tuple(_team(changes, each)[:shown] for each in rows),
        _TEAM[3:shown],
        marks=() if is_derived else tuple(mark_of(changes, each) for each in rows),
        bars=() if is_derived or diff.kai is not None else to_bars(rows, diff.used),
        minor=_MINOR,
    )


def mark_of(changes: Changes, change: QuotaChange) -> Mark:
    """What a team's change of quota is for the team."""
    if change.name not in changes.after.nodes:
        return Mark.GONE
    if change.name not in changes.before.nodes:
        return Mark.NEW
    if not change.difference:
        return Mark.OTHER
    return Mark.MORE if change.difference > 0 else Mark.LESS


def _team(changes: Changes, change: QuotaChange) -> tuple[Text, ...]:
    before, after = (None if side is None else side.own for side in (change.before, change.after))
    return row(
        UntrustedText(change.name),
        _above(changes, change),
        _pool_and_unit(change),
        figures.format_resources(change.pool, before, after),
        figures.format_signed(change.pool, change.difference),
        figures.format_limits(change, "borrow"),
        figures.format_limits(change, "lend"),
        figures.format_reach(change),
    )


def _above(changes: Changes, change: QuotaChange) -> Text:
    """The departments above a team, and that the team shares with no other where there is no Cohort."""
    node = changes.after.nodes.get(change.name) or changes.before.nodes[change.name]
    if node.is_alone:
        return (UntrustedText(node.department), " (cohort: none)")
    return (UntrustedText(" / ".join(change.path[:-1])),)


def _pool_and_unit(change: QuotaChange) -> Text:
    return (UntrustedText(change.pool.name), f" {figures.format_unit(change.pool)}")


def _reached(change: QuotaChange) -> tuple[Text, ...]:
    return row(UntrustedText(change.name), _pool_and_unit(change), figures.format_reach(change))


def _department(change: QuotaChange) -> tuple[Text, ...]:
    own = [None if side is None else side.own for side in (change.before, change.after)]
    sums = [None if side is None else side.sums for side in (change.before, change.after)]
    return row(
        UntrustedText(" / ".join(change.path)),
        _pool_and_unit(change),
        figures.format_resources(change.pool, *own),
        figures.format_resources(change.pool, *sums),
        figures.format_reach(change),
    )


def _preemption(change: PreemptionChange) -> tuple[Text, ...]:
    word, who = "new" if change.is_new else "no longer", join_names(change.preemptors, most=20)
    if change.right is None:
        return row(word, who, "its own work of lower rank", "all", "priority")
    each_other = change.preemptors == change.victims
    whom = "each other" if each_other else join_names(change.victims, most=20)
    return row(word, who, whom, join_names(change.pools, most=20), str(change.right))


def _borrowing(change: QuotaChange, before: int, after: int) -> tuple[Text, ...]:
    sides = (
        f"up to {figures.format_amount(change.pool, most)}" if most else "nothing" for most in (before, after)
    )
    return row(UntrustedText(change.name), _pool_and_unit(change), *sides)


def _value(text: str | None) -> Text:
    return ("–",) if text is None else (UntrustedText(text),)


# KAI's queues: quota, limit, over-quota weight, and which work is never evicted.

_KAI: Final = ("Queue", "Of", "Resource", "Quota", "Limit", "Over-quota weight")
_KAI_OVER: Final = ("Queue", "Resource", "Holds now", "New quota")
_RESOURCES: Final = {"gpu": "GPU", "cpu": "CPU", "memory": "memory"}
_RULE: Final = (
    f"Work of priority {NON_PREEMPTIBLE} and more stays within its queue's quota and is never evicted. "
    "Work below may exceed the quota, and is reclaimed when a queue within its own quota needs the "
    "resources. Free resources are divided by queue priority first, then by over-quota weight."
)


def kai_queues(diff: StackDiff) -> Iterator[Section]:
    if diff.kai is None:
        return
    changed = [*_queue_priorities(diff.kai), *_protected_work(diff.kai)]
    if diff.kai.queues:
        of_gpus = _kai_table([each for each in diff.kai.queues if each.resource == "gpu"])
        # A column has one unit.
        of_others = tuple(
            _kai_table(found)
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
    yield from _over_kai_quota(diff)


def _kai_table(found: list[QueueChange]) -> Table:
    return Table(_KAI, tuple(_kai_row(each) for each in found), _KAI[3:])


def _kai_row(change: QueueChange) -> tuple[Text, ...]:
    sides = (change.before, change.after)
    quota, limit = (
        format_change(
            *("–" if side is None else format_figure(change.resource, getattr(side, key)) for side in sides)
        )
        for key in ("quota", "limit")
    )
    weight = format_change(*("–" if side is None else str(side.weight) for side in sides))
    return row(
        UntrustedText(change.queue),
        UntrustedText(" / ".join(change.path)),
        _RESOURCES[change.resource],
        quota,
        limit,
        weight,
    )


def _queue_priorities(kai: KaiDiff) -> Iterator[Text]:
    for each in kai.priorities:
        yield (
            "Queue ",
            UntrustedText(each.name),
            f": priority {format_change(str(each.before), str(each.after))}.",
        )


def _protected_work(kai: KaiDiff) -> Iterator[Text]:
    for each in kai.evictions:
        now = "stays within the quota and is never evicted now" if each.is_protected else "may be evicted now"
        yield ("Work of priority ", UntrustedText(each.priority.name), f" ({each.priority.value}) {now}.")


def _over_kai_quota(diff: StackDiff) -> Iterator[Section]:
    if diff.kai is not None and diff.kai.over_quota and diff.taken is not None:
        rows = tuple(
            row(
                UntrustedText(each.queue),
                _RESOURCES[each.resource],
                str(each.used),
                format_figure(each.resource, each.quota),
            )
            for each in diff.kai.over_quota
        )
        table = Table(_KAI_OVER, rows, _KAI_OVER[2:])
        when = f"As of {diff.taken:%Y-%m-%d %H:%M %Z}."
        yield Section("Who holds more than the new quota now", 93, (table, Items(((when,),))))


# The running and pending work of the teams that change, with Kueue.

_OVERUSE: Final = (
    "Change",
    "Team",
    "Pool",
    "Uses now",
    "Quota before",
    "Quota after",
    "Over by",
    "Could hold at most",
)
_QUEUED: Final = ("Team", "Workloads that hold quota", "Workloads that wait")
_MEANING: Final = (
    "A smaller quota ends no work. What exceeds it counts as borrowed, and its owners can reclaim it by "
    "preemption."
)


def running_work(diff: StackDiff) -> Iterator[Section]:
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
            _QUEUED,
            tuple(
                ((UntrustedText(each.team),), (str(each.holding),), (str(each.pending),))
                for each in diff.queued
            ),
            _QUEUED[1:],
        )
        yield Section("Work of the teams that change", 45, (table, Items(((when,),))))


def _overuse(found: list[QuotaOveruse]) -> Table:
    marks = tuple(Mark.RISK if each.is_new or each.is_gone else Mark.SAME for each in found)
    return Table(_OVERUSE, tuple(map(_overuse_row, found)), _OVERUSE[3:], marks)


def _overuse_row(each: QuotaOveruse) -> tuple[Text, ...]:
    word = "gone" if each.is_gone else "new" if each.is_new else "already"
    figures = (each.used, each.before, each.after, each.used - each.after, each.most)
    return row(
        word,
        UntrustedText(each.team),
        (UntrustedText(each.pool.name), f" {format_unit(each.pool)}"),
        *(format_amount(each.pool, figure) for figure in figures),
    )
