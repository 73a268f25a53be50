"""Puts the report of a StackDiff together.

Responsible for the order of the sections and their weights. Not responsible for their contents (sections/),
for the first line (banner.py, status.py), the sentences behind it (facts.py) and the output format
(markdown.py, html.py). A new section is a module in sections/ and its line in _DETAILS.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from muster.preview.banner import to_banner
from muster.preview.compare.diff import StackDiff
from muster.preview.document import Items, Report, Section, StackReport, Text, UntrustedText
from muster.preview.facts import facts
from muster.preview.sections import (
    kai,
    live,
    nodes,
    policies,
    pools,
    quotas,
    replay,
    resources,
    versions,
    warnings,
)
from muster.preview.status import to_status

# What is folded, in this order.
_DETAILS: Final[tuple[Callable[[StackDiff], Iterator[Section]], ...]] = (
    versions.sections,
    live.sections,
    quotas.sections,
    kai.sections,
    replay.sections,
    pools.sections,
    nodes.sections,
    resources.sections,
    warnings.sections,
)


def to_report(stacks: Sequence[StackDiff]) -> Report:
    """The report of all stacks. With several stacks, the first line is how many change."""
    return Report(
        tuple(to_stack_report(each) for each in stacks), _headline(stacks) if len(stacks) > 1 else ()
    )


def to_stack_report(diff: StackDiff) -> StackReport:
    """The report of one stack."""
    banner = to_banner(diff)
    details = (replace(each, is_folded=True) for sections in _DETAILS for each in sections(diff))
    return StackReport(
        name=UntrustedText(diff.name),
        summary=(banner.text,),
        sections=(*_lead(diff), *details),
        status=to_status(diff, banner),
        banner=banner.phrases,
        facts=tuple(facts(diff)),
    )


def _headline(stacks: Sequence[StackDiff]) -> Text:
    refused = sum(each.is_refused for each in stacks)
    quiet = sum(each.is_empty for each in stacks)
    changing = len(stacks) - refused - quiet
    counts = ((refused, "refused or failed"), (changing, "change"), (quiet, "do not change"))
    return (f"{len(stacks)} stacks: {', '.join(f'{count} {what}' for count, what in counts if count)}.",)


def _lead(diff: StackDiff) -> Iterator[Section]:
    """What is not folded: why the change is refused, and the quota of teams."""
    if diff.mistakes:
        yield Section("Mistakes in the description", 100, (_list(diff.mistakes),))
    if diff.failures:
        yield Section("Errors of the preview", 98, (_list(diff.failures),))
    yield from policies.sections(diff)
    yield from quotas.teams(diff)
    yield from replay.lead(diff)


def _list(texts: tuple[str, ...]) -> Items:
    return Items(tuple((UntrustedText(text),) for text in texts))
