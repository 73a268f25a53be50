"""What is allowed, but worth a look: what this change brings, and apart from it what the base has as well."""

from collections.abc import Iterator
from typing import Final

from muster.model.quantities import many
from muster.model.violations import Violation
from muster.preview.compare.diff import StackDiff
from muster.preview.document import Section, Table, UntrustedText

TITLE: Final = "Worth a look"
_HEAD: Final = ("Where", "What", "How to change it")


def sections(diff: StackDiff) -> Iterator[Section]:
    new = [each for each in diff.warnings if each not in diff.old_warnings]
    old = [each for each in diff.warnings if each in diff.old_warnings]
    if new:
        yield Section(TITLE, 40, (_table(new),))
    if old:
        yield Section(many(len(old), "older note"), 20, (_table(old),))


def _table(found: list[Violation]) -> Table:
    rows = (
        ((UntrustedText(each.path),), (UntrustedText(each.message),), (UntrustedText(each.fix),))
        for each in found
    )
    return Table(_HEAD, tuple(rows))
