"""What the command line names, read and brought together by stack.

Decides which file and which plan belong to one stack, and what stands in for a file that was not named: the
description that the plan's engine was given. Leaves reading to muster.config and plan.py.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, TypeVar

from muster.config import ConfigError, parse
from muster.config.document import Document, read
from muster.config.errors import nearest_line
from muster.config.stack import examine
from muster.live.errors import PreviewError
from muster.live.snapshot import Snapshot
from muster.model.prices import BUILT_IN, PriceTable
from muster.model.stack import Stack
from muster.model.violations import Violation
from muster.preview import plan
from muster.preview.compare.changes import compare
from muster.preview.compare.diff import StackDiff
from muster.preview.plan import Plan

Loaded = TypeVar("Loaded")

NONE: Final = "none"


class InputError(PreviewError):
    """The command line names what cannot be used: what, and how to name it."""


@dataclass(frozen=True, slots=True)
class LoadedSide:
    """Base or head of one stack. `is_there` is False for a stack that this side does not have."""

    is_there: bool = False
    stack: Stack | None = None
    mistakes: tuple[str, ...] = ()
    warnings: tuple[Violation, ...] = ()
    plan: Plan | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SideOptions:
    """The values of one side's options, as they were written: `[STACK=]PATH`, or `none`."""

    side: str
    files: Sequence[str] = field(default_factory=tuple)
    plans: Sequence[str] = field(default_factory=tuple)

    @property
    def is_given(self) -> bool:
        return bool(self.files or self.plans)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedInputs:
    """What is held against the change: prices, and what stands in each stack's cluster, by stack.

    A snapshot under "" is the only stack's.
    """

    prices: PriceTable = BUILT_IN
    snapshots: Mapping[str, Snapshot] = field(default_factory=dict)


def load_inputs(
    base: SideOptions, head: SideOptions, beside: SharedInputs = SharedInputs()
) -> list[StackDiff]:
    """Everything about every stack, in the order of their names; InputError or PlanError when that fails."""
    for named in (base, head):
        if not named.is_given:
            fix = f"name --{named.side} FILE or --{named.side}-plan JSON, or write `--{named.side} {NONE}`"
            raise InputError(f"no {named.side} is named. Fix: {fix} for a stack that is not there.")
    befores, afters = _load_sides(base), _load_sides(head)
    if len(befores) == len(afters) == 1:
        # One of each is one stack, whatever the files are called: a base is often a temporary file.
        befores = dict(zip(afters, befores.values(), strict=True))
    if not befores and not afters:
        raise InputError("neither side has a stack: there is nothing to compare. Fix: name a stack file.")
    absent = LoadedSide()
    told = [
        _diff_stack(name, befores.get(name, absent), afters.get(name, absent))
        for name in sorted({*befores, *afters})
    ]
    snapshots = _snapshots_by_stack(beside.snapshots, [each.name for each in told])
    return [replace(each, prices=beside.prices, snapshot=snapshots.get(each.name)) for each in told]


def _snapshots_by_stack(snapshots: Mapping[str, Snapshot], stacks: list[str]) -> Mapping[str, Snapshot]:
    """Each snapshot with the stack that it belongs to."""
    if list(snapshots) == [""] and len(stacks) == 1:
        return {stacks[0]: snapshots[""]}
    for name in snapshots:
        if name not in stacks:
            raise InputError(
                f"a snapshot or kubeconfig is of stack {name!r}, which is not compared. "
                f"Fix: write STACK=FILE with one of: {', '.join(stacks)}."
            )
    return snapshots


def _diff_stack(name: str, before: LoadedSide, after: LoadedSide) -> StackDiff:
    sound = all(side.stack is not None or not side.is_there for side in (before, after))
    return StackDiff(
        name=name,
        changes=compare(before.stack, after.stack) if sound else None,
        mistakes=(*(f"(base) {mistake}" for mistake in before.mistakes), *after.mistakes),
        warnings=after.warnings,
        base_plan=before.plan,
        head_plan=after.plan,
        base=before.stack,
        head=after.stack,
    )


def _load_sides(named: SideOptions) -> dict[str, LoadedSide]:
    files = _load_by_stack(named.files, _load_stack_file, _stack_of_file, named.side)
    plans = _load_by_stack(named.plans, plan.load_plan, _stack_of_plan, f"{named.side}-plan")
    if len(files) == len(plans) == 1:
        plans = dict(zip(files, plans.values(), strict=True))
    sides = {}
    for name in {**files, **plans}:
        found = plans.get(name)
        side = files[name] if name in files else _load_from_plan(plans[name])
        sides[name] = LoadedSide(True, side.stack, side.mistakes, side.warnings, found)
    return sides


def _load_by_stack(
    values: Sequence[str],
    reader: Callable[[Path], Loaded],
    namer: Callable[[Path, Loaded], str],
    option: str,
) -> dict[str, Loaded]:
    found: dict[str, Loaded] = {}
    for value in values:
        name, path = parse_stack_option(value)
        is_named = bool(name)
        if str(path) == NONE:
            continue
        read_value = reader(path)
        name = name if is_named else namer(path, read_value)
        if name in found:
            raise InputError(
                f"--{option} names stack {name!r} twice. Fix: name each once, or write STACK=FILE."
            )
        found[name] = read_value
    return found


def parse_stack_option(value: str) -> tuple[str, Path]:
    """`STACK=FILE` in its parts; the stack is "" where it is not named."""
    name, equals, rest = value.partition("=")
    return (name, Path(rest)) if equals and "/" not in name else ("", Path(value))


def _stack_of_file(path: Path, side: LoadedSide) -> str:
    """`stacks/Pulumi.dev.yaml` is stack `dev`."""
    return path.name.removeprefix("Pulumi.").removesuffix(".yaml").removesuffix(".yml")


def _stack_of_plan(path: Path, found: Plan) -> str:
    return found.stack or path.stem


def _load_stack_file(path: Path) -> LoadedSide:
    if not path.is_file():
        raise InputError(f"{path}: there is no such file. Fix: name a stack file, stacks/Pulumi.STACK.yaml.")
    document = read(path)
    stack, found = examine(document)
    errors = tuple(_format_mistake(document, each) for each in found if each.level == "error")
    warnings = tuple(each for each in found if each.level == "warning")
    return LoadedSide(True, None if errors else stack, errors, warnings)


def _format_mistake(document: Document, violation: Violation) -> str:
    line = nearest_line(document.lines, violation.path)
    return str(violation) if line is None else f"line {line}: {violation}"


def _load_from_plan(found: Plan) -> LoadedSide:
    config: Mapping[str, object] = found.config
    if not config:
        fix = "name the stack file beside it."
        raise InputError(f"{found.source}: holds no configuration of Muster (`muster:` keys). Fix: {fix}")
    try:
        return LoadedSide(True, parse(config, source=found.source))
    except ConfigError as error:
        return LoadedSide(True, None, tuple(str(each) for each in error.violations))
