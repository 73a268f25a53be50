"""Loads what the command line names, and brings it together by stack.

Responsible for which file and which plan belong to one stack, and for the fallback: without a stack file, the
configuration in the plan is used.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, TypeVar

from muster import paths
from muster.config import ConfigError, parse
from muster.config.document import Document
from muster.config.project import load_document
from muster.config.stack import examine
from muster.errors import MusterError
from muster.live.snapshot import Snapshot
from muster.model.prices import BUILT_IN, PriceTable
from muster.model.violations import Violation
from muster.preview.compare.diff import LoadedSide, StackDiff, diff_stack
from muster.preview.compare.replay import Replay
from muster.preview.plan import Plan, load_plan
from muster.validation.tenancy import unowned_rules

Loaded = TypeVar("Loaded")

NONE: Final = "none"


class InputError(MusterError):
    """An option or a file on the command line that cannot be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SideOptions:
    """The option values of one side, as they were written: `[STACK=]PATH`, or `none`."""

    side: str
    files: Sequence[str] = field(default_factory=tuple)
    plans: Sequence[str] = field(default_factory=tuple)

    @property
    def is_given(self) -> bool:
        return bool(self.files or self.plans)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedInputs:
    """What both sides are compared with: prices, and by stack name a snapshot of its cluster and the replay
    of a recording.

    What is under "" belongs to the only stack.
    """

    prices: PriceTable = BUILT_IN
    snapshots: Mapping[str, Snapshot] = field(default_factory=dict)
    replays: Mapping[str, Replay] = field(default_factory=dict)


def load_inputs(
    base: SideOptions, head: SideOptions, shared: SharedInputs = SharedInputs()
) -> list[StackDiff]:
    """Compare every stack, in the order of their names. InputError or PlanError where an input cannot be
    used.
    """
    for named in (base, head):
        if not named.is_given:
            fix = f"add --{named.side} FILE or --{named.side}-plan JSON, or `--{named.side} {NONE}`"
            raise InputError(
                f"No {named.side} is given.", fix=f"{fix} for a stack that does not exist there."
            )
    bases, heads = _load_sides(base), _load_sides(head)
    if len(bases) == len(heads) == 1:
        # One of each is the same stack, whatever the files are called: base is often a temporary file.
        bases = dict(zip(heads, bases.values(), strict=True))
    if not bases and not heads:
        raise InputError(
            "Neither side has a stack, so there is nothing to compare.", fix="name a stack file."
        )
    return compare_sides(bases, heads, shared)


def compare_sides(
    bases: Mapping[str, LoadedSide], heads: Mapping[str, LoadedSide], shared: SharedInputs
) -> list[StackDiff]:
    """Compare every stack, in the order of their names. InputError where a snapshot or a recording belongs to
    none of them.
    """
    names = sorted({*bases, *heads})
    snapshots = _by_stack(shared.snapshots, names)
    replays = _by_stack(shared.replays, names)
    absent = LoadedSide()
    return [
        diff_stack(
            name,
            bases.get(name, absent),
            heads.get(name, absent),
            prices=shared.prices,
            snapshot=snapshots.get(name),
            replay=replays.get(name),
        )
        for name in names
    ]


def _by_stack(given: Mapping[str, Loaded], stacks: list[str]) -> Mapping[str, Loaded]:
    """Each snapshot or recording under the stack that it belongs to."""
    if list(given) == [""] and len(stacks) == 1:
        return {stacks[0]: given[""]}
    for name in given:
        if name not in stacks:
            raise InputError(
                f"A snapshot, kubeconfig or recording belongs to stack {name!r}, which is not compared.",
                fix=f"write STACK=FILE with one of: {', '.join(stacks)}.",
            )
    return given


def _load_sides(named: SideOptions) -> dict[str, LoadedSide]:
    files = _load_by_stack(named.files, _load_stack_file, _stack_of_file, named.side)
    plans = _load_by_stack(named.plans, load_plan, _stack_of_plan, f"{named.side}-plan")
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
                f"--{option} names stack {name!r} twice.", fix="name each stack once, or write STACK=FILE."
            )
        found[name] = read_value
    return found


def parse_stack_option(value: str) -> tuple[str, Path]:
    """The parts of `[STACK=]FILE`; the stack is "" where the option does not name it."""
    name, equals, rest = value.partition("=")
    return (name, Path(rest)) if equals and "/" not in name else ("", Path(value))


def _stack_of_file(path: Path, side: LoadedSide) -> str:
    return paths.stack_name(path)


def _stack_of_plan(path: Path, found: Plan) -> str:
    return found.stack or path.stem


def _load_stack_file(path: Path) -> LoadedSide:
    if not path.is_file():
        raise InputError(f"{path}: no such file.", fix="name a stack file, such as stacks/Pulumi.STACK.yaml.")
    document = load_document(path)
    stack, found = examine(document)
    if stack is not None:
        found += unowned_rules(stack)
    errors = tuple(_with_line(document, each) for each in found if each.level == "error")
    warnings = tuple(each for each in found if each.level == "warning")
    return LoadedSide(True, None if errors else stack, errors, warnings)


def _with_line(document: Document, violation: Violation) -> Violation:
    source, line = document.place(violation.path)
    where = "" if source == document.source else f"{Path(source).name}, "
    return violation if line is None else replace(violation, path=f"{where}line {line}: {violation.path}")


def _load_from_plan(found: Plan) -> LoadedSide:
    config: Mapping[str, object] = found.config
    if not config:
        fix = "add the stack file with --base or --head."
        raise InputError(f"{found.source}: the plan has no `muster:` configuration.", fix=fix)
    try:
        return LoadedSide(True, parse(config, source=found.source))
    except ConfigError as error:
        return LoadedSide(True, None, tuple(error.violations))
