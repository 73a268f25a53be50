"""What changes in the cluster: versions, pools, nodes and resources, and what policies and notes say."""

from collections.abc import Iterator
from typing import Final

from muster.model.quantities import many
from muster.model.transitions import Judgement, Verdict
from muster.model.violations import Violation
from muster.preview import figures
from muster.preview.compare.diff import StackDiff
from muster.preview.compare.pools import PoolCost, lost_nodes
from muster.preview.document import Items, Mark, Section, Span, Table, Text, UntrustedText, join_names, row
from muster.preview.plan import GRAVE, PolicyViolation, Resource

_MAX_PLACES: Final = 6


def changed_resources(diff: StackDiff) -> Iterator[Section]:
    found = diff.resources(pending=False)
    grave = tuple(_resource(each) for each in found if each.verb in GRAVE)
    light = tuple(_resource(each) for each in found if each.verb not in GRAVE)
    pending = tuple(_resource(each) for each in diff.resources(pending=True))
    if grave:
        marks = (Mark.GONE,) * len(grave)
        yield Section("Resources replaced or deleted", 95, (Table(_RESOURCE, grave, marks=marks),))
    if light:
        yield Section("Resources created or updated", 30, (Table(_RESOURCE, light),))
    if pending:
        title = "Resources that change without this pull request"
        yield Section(title, 20, (Table(_RESOURCE, pending),))


_RESOURCE: Final = ("Change", "Type", "Name", "What")


def _resource(resource: Resource) -> tuple[Text, ...]:
    return row(
        resource.verb, UntrustedText(resource.type), UntrustedText(resource.name), _changed_fields(resource)
    )


def _changed_fields(resource: Resource) -> Text:
    """Objects and the paths of fields, never values."""
    spans: list[Span] = []
    if resource.replaced_for:
        spans += ["because of ", *join_names(resource.replaced_for, most=_MAX_PLACES), "; "]
    if resource.objects:
        for each in resource.objects[:_MAX_PLACES]:
            spans += [UntrustedText(each.name or each.key), f" {each.verb}"]
            spans += [": ", *join_names(each.places, most=_MAX_PLACES), "; "] if each.places else ["; "]
        if len(resource.objects) > _MAX_PLACES:
            spans.append(f"and {len(resource.objects) - _MAX_PLACES} more objects; ")
    elif resource.fields and not resource.replaced_for:
        spans += [*join_names(resource.fields, most=_MAX_PLACES), "; "]
    if spans and isinstance(spans[-1], str):
        spans[-1] = spans[-1].removesuffix("; ")
    return tuple(span for span in spans if span != "")


# The pools that lose their nodes, with what happens to the work on them.

_NODES: Final = ("Nodes of", "What happens", "Because of")


def nodes(diff: StackDiff) -> Iterator[Section]:
    rows = tuple(
        ((UntrustedText(each.name),), (each.effect,), tuple(join_names(each.because, most=6)))
        for each in lost_nodes(diff.resources(pending=False))
    )
    if rows:
        yield Section("Nodes replaced", 94, (Table(_NODES, rows, marks=(Mark.GONE,) * len(rows)),))


# Violations that the policy pack reports.

_POLICIES: Final = ("Effect", "Policy", "Resource", "Message")


def policies(diff: StackDiff) -> Iterator[Section]:
    found = diff.policy_violations
    if found:
        marks = tuple(Mark.GONE if each.is_mandatory else Mark.RISK for each in found)
        yield Section(
            "Policy violations", 97, (Table(_POLICIES, tuple(map(_violation, found)), marks=marks),)
        )


def _violation(violation: PolicyViolation) -> tuple[Text, ...]:
    level = "stops the update" if violation.is_mandatory else "warning"
    name = violation.urn.rpartition("::")[2]
    return row(
        level,
        UntrustedText(violation.policy),
        (UntrustedText(name),) if name else ("the stack",),
        UntrustedText(violation.message),
    )


# Versions that change, with the verdict on each step.

_VERSIONS: Final = ("Component", "Before", "After", "Verdict", "Why, and in which order", "Source")


def versions(diff: StackDiff) -> Iterator[Section]:
    steps = () if diff.changes is None else diff.changes.versions
    if steps:
        weight = 96 if any(each.verdict is not Verdict.SAFE for each in steps) else 60
        table = Table(_VERSIONS, tuple(map(_version, steps)), marks=tuple(map(_version_mark, steps)))
        yield Section("Versions", weight, (table,))


def _version_mark(step: Judgement) -> Mark:
    marks = {Verdict.REFUSED: Mark.GONE, Verdict.SAFE: Mark.SAME}
    return marks.get(step.verdict, Mark.RISK)


def _version(step: Judgement) -> tuple[Text, ...]:
    return row(
        step.component,
        UntrustedText(step.before),
        UntrustedText(step.after),
        step.verdict.value,
        UntrustedText(step.reason),
        UntrustedText(step.source or "none"),
    )


# Pools: their order, nodes, GPUs, GPU-hours and cost.

_MOST_ORDERED: Final = 40
_OLD: Final = " (more than 90 days ago: `muster doctor --prices` reads it again)"
_POOLS: Final = (
    "Pool",
    "Nodes",
    "GPUs at most",
    "GPU-hours a day",
    "Machine",
    "Capacity",
    "Money an hour",
)


def pools(diff: StackDiff) -> Iterator[Section]:
    if diff.changes is not None and diff.changes.order is not None:
        order = diff.changes.order
        lines = tuple(
            (f"{word}: ", *join_names(names, most=_MOST_ORDERED), ".")
            for word, names in (("Before", order.before), ("After", order.after))
        )
        yield Section("Which pool gets work first", 91, (Items(lines),))
    if not diff.pools:
        return
    rows = tuple(_pool(each) for each in diff.pools)
    sources = tuple(_sources(diff.pools))
    blocks = (Table(_POOLS, rows, _POOLS[1:4]), *((Items(sources),) if sources else ()))
    yield Section("Pools, nodes, GPU-hours and money", 90, blocks)


def _pool(cost: PoolCost) -> tuple[Text, ...]:
    sides = (cost.pool.before, cost.pool.after)
    nodes = ["–" if pool is None else f"{pool.min_nodes} to {pool.max_nodes}" for pool in sides]
    gpus = ["–" if pool is None else str(pool.max_gpus) for pool in sides]
    machines = ["–" if pool is None else pool.machine.description for pool in sides]
    capacity = ["–" if pool is None else pool.bought for pool in sides]
    return row(
        UntrustedText(cost.pool.name),
        figures.format_change(*nodes),
        figures.format_change(*gpus),
        figures.format_change(*(figures.format_gpu_hours(pool) for pool in sides)),
        figures.format_change(*machines),
        figures.format_change(*capacity),
        figures.format_cost(cost),
    )


def _sources(costs: tuple[PoolCost, ...]) -> Iterator[Text]:
    """The source of each price in use, once."""
    sides = (side for each in costs for side in (each.before, each.after))
    found = {(side.price, side.is_old) for side in sides if side is not None and side.price is not None}
    known = sorted(found, key=lambda each: (each[0].machine, each[0].region))
    for price, is_old in known:
        yield (
            UntrustedText(price.machine),
            " in ",
            UntrustedText(price.region),
            f", {price.capacity.value}: {price.currency} {price.hourly} a node and hour, ",
            f"read {price.read}{_OLD if is_old else ''} in ",
            UntrustedText(price.source),
            ".",
        )


# What is allowed, but worth a look: what this change brings, and apart from it what the base has as well.

WARNINGS: Final = "Worth a look"
_WARNINGS: Final = ("Where", "What", "How to change it")


def warnings(diff: StackDiff) -> Iterator[Section]:
    new = [each for each in diff.warnings if each not in diff.old_warnings]
    old = [each for each in diff.warnings if each in diff.old_warnings]
    if new:
        yield Section(WARNINGS, 40, (_warnings(new),))
    if old:
        yield Section(many(len(old), "older note"), 20, (_warnings(old),))


def _warnings(found: list[Violation]) -> Table:
    rows = (
        ((UntrustedText(each.path),), (UntrustedText(each.message),), (UntrustedText(each.fix),))
        for each in found
    )
    return Table(_WARNINGS, tuple(rows))
