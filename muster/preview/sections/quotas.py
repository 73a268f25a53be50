"""Quota, borrowing and preemption: which teams gain and lose, and which may preempt which."""

from collections.abc import Iterator
from typing import Final

from muster.preview import figures
from muster.preview.compare.changes import Changes
from muster.preview.compare.preemption import PreemptionChange
from muster.preview.compare.quota import QuotaChange
from muster.preview.document import Items, Section, Table, Text, UntrustedText, join_names
from muster.preview.tree_diagram import to_diagram

# A larger diagram is not readable, and GitHub does not draw a graph with more than 500 edges.
_MAX_NODES: Final = 60


def sections(changes: Changes, *, is_kai: bool) -> Iterator[Section]:
    """KAI has other rules for borrowing and lending, so those columns are left out; see sections/kai.py."""
    columns = 4 if is_kai else 5
    departments = tuple(_department(each)[:columns] for each in changes.quotas if not each.is_team)
    shown = _OWN if is_kai else len(_TEAM)
    teams = tuple(_team(each)[:shown] for each in changes.quotas if each.is_team and not each.is_indirect)
    reached = tuple(_reached(each) for each in changes.quotas if each.is_team and each.is_indirect)
    if teams:
        yield Section("Quota of teams", 80, (Table(_TEAM[:shown], teams),))
    if departments:
        table = Table(_DEPARTMENT[:columns], departments)
        yield Section("Quota of departments, with all below them", 85, (table,))
    if changes.preemption or changes.not_compared:
        blocks = [Table(_PREEMPTION, tuple(_preemption(row) for row in changes.preemption))]
        unknown = [Items(tuple((each,) for each in changes.not_compared))]
        parts = (*(blocks if changes.preemption else ()), *(unknown if changes.not_compared else ()))
        yield Section("Who can preempt whom", 75, parts)
    borrowing = tuple(_borrowing(*each) for each in changes.borrowing())
    if borrowing and not is_kai:
        yield Section("Borrowing that became possible or impossible", 70, (Table(_BORROWING, borrowing),))
    if reached and not is_kai:
        title = "Teams affected by other teams' changes: the most that each could use"
        yield Section(title, 55, (Table(("Team", "Pool", "Could use at most"), reached),), is_folded=True)
    picture = None if changes.is_empty else to_diagram(changes, most=_MAX_NODES)
    if picture is not None:
        yield Section("The queue tree", 60, (picture,))
    if changes.settings:
        settings = tuple(
            ((UntrustedText(each.place),), _value(each.before), _value(each.after))
            for each in changes.settings
        )
        yield Section("Other settings", 50, (Table(("Setting", "Before", "After"), settings),))


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
# The first columns concern the team's own quota, and apply to both schedulers.
_OWN: Final = 5
_DEPARTMENT: Final = ("Department", "Pool", "Own", "With all below", "Could use at most")
_PREEMPTION: Final = ("", "Who", "Can preempt", "On pools", "Why")
_BORROWING: Final = ("Team", "Pool", "Could borrow", "Now")


def _team(change: QuotaChange) -> tuple[Text, ...]:
    before, after = (None if side is None else side.own for side in (change.before, change.after))
    return (
        (UntrustedText(change.name),),
        (UntrustedText(" / ".join(change.path[:-1])),),
        _of(change),
        (figures.format_resources(change.pool, before, after),),
        (figures.format_signed(change.pool, change.difference),),
        (figures.format_limits(change, "borrow"),),
        (figures.format_limits(change, "lend"),),
        (figures.format_reach(change),),
    )


def _of(change: QuotaChange) -> Text:
    return (UntrustedText(change.pool.name), f" {figures.format_unit(change.pool)}")


def _reached(change: QuotaChange) -> tuple[Text, ...]:
    return ((UntrustedText(change.name),), _of(change), (figures.format_reach(change),))


def _department(change: QuotaChange) -> tuple[Text, ...]:
    own = [None if side is None else side.own for side in (change.before, change.after)]
    sums = [None if side is None else side.sums for side in (change.before, change.after)]
    return (
        (UntrustedText(" / ".join(change.path)),),
        _of(change),
        (figures.format_resources(change.pool, own[0], own[1]),),
        (figures.format_resources(change.pool, sums[0], sums[1]),),
        (figures.format_reach(change),),
    )


def _preemption(row: PreemptionChange) -> tuple[Text, ...]:
    word = "new" if row.is_new else "no longer"
    if row.right is None:
        return (
            (word,),
            join_names(row.preemptors, most=20),
            ("its own work of lower rank",),
            ("all",),
            ("priority",),
        )
    victims: Text = join_names(row.victims, most=20)
    if row.preemptors == row.victims:
        victims = ("each other",)
    return (
        (word,),
        join_names(row.preemptors, most=20),
        victims,
        join_names(row.pools, most=20),
        (str(row.right),),
    )


def _borrowing(change: QuotaChange, before: int, after: int) -> tuple[Text, ...]:
    sides = (
        f"up to {figures.format_amount(change.pool, most)}" if most else "nothing" for most in (before, after)
    )
    first, second = sides
    return (
        (UntrustedText(change.name),),
        _of(change),
        (first,),
        (second,),
    )


def _value(text: str | None) -> Text:
    return ("–",) if text is None else (UntrustedText(text),)
