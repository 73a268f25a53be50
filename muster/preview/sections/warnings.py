"""What is allowed, but worth a look."""

from collections.abc import Iterator
from typing import Final

from muster.preview.compare.diff import StackDiff
from muster.preview.document import Section, Table, UntrustedText

_HEAD: Final = ("Where", "What", "How to change it")


def sections(diff: StackDiff) -> Iterator[Section]:
    if diff.warnings:
        rows = tuple(
            ((UntrustedText(each.path),), (UntrustedText(each.message),), (UntrustedText(each.fix),))
            for each in diff.warnings
        )
        yield Section("Worth a look", 40, (Table(_HEAD, rows),))
