"""One stack's changes as a report.

Decides what is told, in which order and how much each part weighs. Leaves how it looks to markdown.py and
page.py.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from model.violations import Violation
from preview import figures
from preview.changes import Changes, PoolChange, PreemptionChange, QuotaChange
from preview.parts import Items, Name, Section, Span, StackReport, Table, Text, names
from preview.picture import draw
from preview.plan import Plan, Resource

# A Markdown picture with more nodes is no picture any more; GitHub stops drawing a graph at 500 edges.
_MOST_DRAWN: Final = 60
_MOST_PLACES: Final = 6
_GRAVE: Final = ("replaced", "deleted")


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """Everything that is known about one stack. `changes` is None when a side is no stack."""

    name: str
    changes: Changes | None
    mistakes: tuple[str, ...] = ()
    warnings: tuple[Violation, ...] = ()
    base_plan: Plan | None = None
    head_plan: Plan | None = None

    @property
    def failures(self) -> tuple[str, ...]:
        return () if self.head_plan is None else self.head_plan.errors

    def resources(self, *, pending: bool) -> tuple[Resource, ...]:
        """What head would do to the cluster; with `pending`, the part that base would do just the same."""
        if self.head_plan is None:
            return ()
        same = frozenset() if self.base_plan is None else frozenset(self.base_plan.resources)
        return tuple(each for each in self.head_plan.resources if (each in same) is pending)

    @property
    def is_empty(self) -> bool:
        quiet = self.changes is not None and self.changes.is_empty
        return quiet and not (self.mistakes or self.failures or self.resources(pending=False))


def write(told: Told) -> StackReport:
    """The report of one stack."""
    return StackReport(Name(told.name), tuple(_verdict(told)), tuple(_sections(told)))


# The verdict


def _verdict(told: Told) -> Iterator[Text]:
    if told.mistakes:
        yield (f"Refused: {_many(len(told.mistakes), 'mistake')} in the stack's description.",)
    if told.failures:
        yield ("The preview failed: the engine stopped, and what it had not reached is not told here.",)
    if told.is_empty:
        yield ("Nothing changes.",)
    if told.changes is not None:
        yield from _for_whom(told.changes)
    counts = [
        f"{len(found)} {verb}"
        for verb in _GRAVE
        if (found := [each for each in told.resources(pending=False) if each.verb == verb])
    ]
    if counts:
        yield (f"Resources: {', '.join(counts)}.",)


def _for_whom(changes: Changes) -> Iterator[Text]:
    for total in changes.sums:
        pool = changes.after.pools.get(total.name) or changes.before.pools[total.name]
        yield (
            "Guaranteed ",
            Name(total.name),
            f" {figures.unit(pool)} in sum: {figures.resources(pool, total.before, total.after)}.",
        )
    gone = [name for name, node in changes.before.nodes.items() if _is_gone(changes, name) and node.is_team]
    if gone:
        yield (*names(tuple(sorted(gone))), " removed, with namespace and all that is in it.")
    for verb, sign in (("gains", 1), ("loses", -1)):
        found = sorted({each.name for each in changes.quotas if _moves(each, sign)})
        if found:
            yield (
                f"{_many(len(found), 'team')} {verb if len(found) == 1 else verb[:-1]} quota: ",
                *names(tuple(found)),
                ".",
            )
    new, old = (_pairs(changes, is_new=is_new) for is_new in (True, False))
    if new:
        yield (f"New: {_many(new, 'pair')} of teams of which one can preempt the other.",)
    if old:
        yield (f"No longer: {_many(old, 'pair')} of teams of which one could preempt the other.",)


def _is_gone(changes: Changes, name: str) -> bool:
    return name not in changes.after.nodes


def _moves(change: QuotaChange, sign: int) -> bool:
    return change.is_team and figures.difference(change) * sign > 0


def _pairs(changes: Changes, *, is_new: bool) -> int:
    """Teams that stand in one row's first place do so together in every row: no pair is counted twice."""
    victims: dict[tuple[str, ...], set[str]] = {}
    for row in changes.preemption:
        if row.is_new is is_new and row.right is not None:
            victims.setdefault(row.preemptors, set()).update(row.victims)
    return sum(len(who) * len(whom) - len(whom.intersection(who)) for who, whom in victims.items())


# The parts


def _sections(told: Told) -> Iterator[Section]:
    if told.mistakes:
        yield Section("Mistakes in the description", 100, (_list(told.mistakes),))
    if told.failures:
        yield Section("Errors of the preview", 98, (_list(told.failures),))
    if told.changes is not None:
        yield from _change_sections(told.changes)
    yield from _resource_sections(told)
    if told.warnings:
        rows = tuple(((Name(each.path),), (Name(each.message),), (Name(each.fix),)) for each in told.warnings)
        yield Section("Worth a look", 40, (Table(("Where", "What", "How to change it"), rows),))


def _change_sections(changes: Changes) -> Iterator[Section]:
    departments = tuple(_department(each) for each in changes.quotas if not each.is_team)
    teams = tuple(_team(each) for each in changes.quotas if each.is_team and not each.is_indirect)
    reached = tuple(_reached(each) for each in changes.quotas if each.is_team and each.is_indirect)
    if teams:
        yield Section("Quota of teams", 80, (Table(_TEAM, teams),))
    if departments:
        yield Section("Quota of departments, with all below them", 85, (Table(_DEPARTMENT, departments),))
    if changes.preemption or changes.unsaid:
        blocks = [Table(_PREEMPTION, tuple(_preemption(row) for row in changes.preemption))]
        said = [Items(tuple((each,) for each in changes.unsaid))]
        shown = (*(blocks if changes.preemption else ()), *(said if changes.unsaid else ()))
        yield Section("Who can preempt whom", 75, shown)
    borrowing = tuple(_borrowing(*each) for each in changes.borrowing())
    if borrowing:
        yield Section("Borrowing that became possible or impossible", 70, (Table(_BORROWING, borrowing),))
    if changes.pools:
        rows = tuple(_pool(each) for each in changes.pools)
        yield Section("Pools, nodes and GPU-hours", 90, (Table(_POOL, rows),))
    if reached:
        title = "Teams that others' changes reach: the most that each could use"
        yield Section(title, 55, (Table(("Team", "Pool", "Could use at most"), reached),), is_folded=True)
    picture = None if changes.is_empty else draw(changes, most=_MOST_DRAWN)
    if picture is not None:
        yield Section("The queue tree", 60, (picture,))
    if changes.settings:
        settings = tuple(
            ((Name(each.place),), _value(each.before), _value(each.after)) for each in changes.settings
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
_DEPARTMENT: Final = ("Department", "Pool", "Own", "With all below", "Could use at most")
_PREEMPTION: Final = ("", "Who", "Can preempt", "On pools", "Why")
_BORROWING: Final = ("Team", "Pool", "Could borrow", "Now")
_POOL: Final = ("Pool", "Nodes", "GPUs at most", "GPU-hours a day", "Machine", "Capacity", "Money")


def _team(change: QuotaChange) -> tuple[Text, ...]:
    before, after = (None if side is None else side.own for side in (change.before, change.after))
    return (
        (Name(change.name),),
        (Name(" / ".join(change.path[:-1])),),
        _of(change),
        (figures.resources(change.pool, before, after),),
        (figures.signed(change.pool, figures.difference(change)),),
        (figures.limits(change, "borrow"),),
        (figures.limits(change, "lend"),),
        (figures.reach(change),),
    )


def _of(change: QuotaChange) -> Text:
    return (Name(change.pool.name), f" {figures.unit(change.pool)}")


def _reached(change: QuotaChange) -> tuple[Text, ...]:
    return ((Name(change.name),), _of(change), (figures.reach(change),))


def _department(change: QuotaChange) -> tuple[Text, ...]:
    own = [None if side is None else side.own for side in (change.before, change.after)]
    sums = [None if side is None else side.sums for side in (change.before, change.after)]
    return (
        (Name(" / ".join(change.path)),),
        _of(change),
        (figures.resources(change.pool, own[0], own[1]),),
        (figures.resources(change.pool, sums[0], sums[1]),),
        (figures.reach(change),),
    )


def _preemption(row: PreemptionChange) -> tuple[Text, ...]:
    word = "new" if row.is_new else "no longer"
    if row.right is None:
        return (
            (word,),
            names(row.preemptors, most=20),
            ("its own work of lower rank",),
            ("all",),
            ("priority",),
        )
    victims: Text = names(row.victims, most=20)
    if row.preemptors == row.victims:
        victims = ("each other",)
    return ((word,), names(row.preemptors, most=20), victims, names(row.pools, most=20), (str(row.right),))


def _borrowing(change: QuotaChange, before: int, after: int) -> tuple[Text, ...]:
    sides = (f"up to {figures.amount(change.pool, most)}" if most else "nothing" for most in (before, after))
    first, second = sides
    return (
        (Name(change.name),),
        _of(change),
        (first,),
        (second,),
    )


def _pool(change: PoolChange) -> tuple[Text, ...]:
    sides = (change.before, change.after)
    nodes = ["–" if pool is None else f"{pool.min_nodes} to {pool.max_nodes}" for pool in sides]
    gpus = ["–" if pool is None else str(pool.max_gpus) for pool in sides]
    machines = ["–" if pool is None else pool.machine.name for pool in sides]
    capacity = ["–" if pool is None else pool.capacity.value for pool in sides]
    return (
        (Name(change.name),),
        (figures.arrow(*nodes),),
        (figures.arrow(*gpus),),
        (figures.arrow(*(figures.gpu_hours(pool) for pool in sides)),),
        (figures.arrow(*machines),),
        (figures.arrow(*capacity),),
        (figures.NOT_PRICED,),
    )


# Resources


def _resource_sections(told: Told) -> Iterator[Section]:
    found = told.resources(pending=False)
    grave = tuple(_resource(each) for each in found if each.verb in _GRAVE)
    light = tuple(_resource(each) for each in found if each.verb not in _GRAVE)
    pending = tuple(_resource(each) for each in told.resources(pending=True))
    if grave:
        yield Section("Resources replaced or deleted", 95, (Table(_RESOURCE, grave),))
    if light:
        yield Section("Resources created or updated", 30, (Table(_RESOURCE, light),), is_folded=True)
    if pending:
        title = "Resources that change without this pull request"
        yield Section(title, 20, (Table(_RESOURCE, pending),), is_folded=True)


_RESOURCE: Final = ("", "Type", "Name", "What")


def _resource(resource: Resource) -> tuple[Text, ...]:
    return ((resource.verb,), (Name(resource.type),), (Name(resource.name),), _what(resource))


def _what(resource: Resource) -> Text:
    """Objects and places, never values."""
    spans: list[Span] = []
    if resource.replaced_for:
        spans += ["because of ", *names(resource.replaced_for, most=_MOST_PLACES), "; "]
    if resource.objects:
        for each in resource.objects[:_MOST_PLACES]:
            spans += [Name(each.name or each.key), f" {each.verb}"]
            spans += [": ", *names(each.places, most=_MOST_PLACES), "; "] if each.places else ["; "]
        if len(resource.objects) > _MOST_PLACES:
            spans.append(f"and {len(resource.objects) - _MOST_PLACES} more objects; ")
    elif resource.fields and not resource.replaced_for:
        spans += [*names(resource.fields, most=_MOST_PLACES), "; "]
    if spans and isinstance(spans[-1], str):
        spans[-1] = spans[-1].removesuffix("; ")
    return tuple(span for span in spans if span != "")


def _value(text: str | None) -> Text:
    return ("–",) if text is None else (Name(text),)


def _list(texts: tuple[str, ...]) -> Items:
    return Items(tuple((Name(text),) for text in texts))


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
