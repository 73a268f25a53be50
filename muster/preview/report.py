"""Puts the report of a StackDiff together.

Responsible for the order of the sections and their weights. Not responsible for their contents (sections/),
for the first lines (summary.py) and for the output format (markdown.py, html.py).
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from muster.preview.compare.diff import StackDiff
from muster.preview.document import Items, Report, Section, StackReport, Table, Text, UntrustedText
from muster.preview.sections import kai, live, policies, pools, quotas, replay, resources, versions
from muster.preview.summary import summarize


def to_report(stacks: Sequence[StackDiff]) -> Report:
    """The report of all stacks. With several stacks, the first line is how many change."""
    return Report(
        tuple(to_stack_report(each) for each in stacks), _headline(stacks) if len(stacks) > 1 else ()
    )


def to_stack_report(diff: StackDiff) -> StackReport:
    """The report of one stack."""
    sections = (*_lead(diff), *(replace(each, is_detail=True) for each in _details(diff)))
    return StackReport(UntrustedText(diff.name), tuple(summarize(diff)), sections)


def _headline(stacks: Sequence[StackDiff]) -> Text:
    refused = sum(each.is_refused for each in stacks)
    quiet = sum(each.is_empty for each in stacks)
    changing = len(stacks) - refused - quiet
    counts = ((refused, "refused or failed"), (changing, "change"), (quiet, "do not change"))
    return (f"{len(stacks)} stacks: {', '.join(f'{count} {what}' for count, what in counts if count)}.",)


def _lead(diff: StackDiff) -> Iterator[Section]:
    """What a comment shows below its first lines: why the change is refused, and the quota of teams."""
    if diff.mistakes:
        yield Section("Mistakes in the description", 100, (_list(diff.mistakes),))
    if diff.failures:
        yield Section("Errors of the preview", 98, (_list(diff.failures),))
    yield from policies.sections(diff)
    if diff.changes is not None:
        yield from quotas.teams(diff.changes, is_kai=diff.kai is not None)
    yield from replay.lead(diff)


def _details(diff: StackDiff) -> Iterator[Section]:
    yield from versions.sections(diff)
    yield from live.sections(diff)
    if diff.changes is not None:
        yield from quotas.sections(diff.changes, is_kai=diff.kai is not None)
    yield from kai.sections(diff)
    yield from replay.sections(diff)
    yield from pools.sections(diff)
    yield from resources.sections(diff)
    if diff.warnings:
        rows = tuple(
            ((UntrustedText(each.path),), (UntrustedText(each.message),), (UntrustedText(each.fix),))
            for each in diff.warnings
        )
        yield Section("Worth a look", 40, (Table(("Where", "What", "How to change it"), rows),))


def _list(texts: tuple[str, ...]) -> Items:
    return Items(tuple((UntrustedText(text),) for text in texts))
