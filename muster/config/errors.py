"""The error for a stack file that cannot be used, and the format of a violation.

A violation is reported with file, line, path, message and fix. All violations are reported at once: errors
first, then warnings, both by line, and of one kind no more than a person reads.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from muster.config.document import Document, nearest_line
from muster.errors import MusterError
from muster.model.violations import Violation

_MOST_OF_A_KIND: Final = 20
# Two lines each: they fit a page of a hundred, whatever the number of kinds up to this.
_MOST: Final = 45
# What is different in violations of the same kind: quoted words, paths, numbers.
_OWN: Final = re.compile(r"'[^']*'|`[^`]*`|muster:\S+|\d+")

_PARTS: Final = re.compile(r"[^.:\[\]]+")


class ConfigError(MusterError):
    """A stack with violations. `line` finds a violation's line, if there is a file."""

    def __init__(self, violations: Sequence[Violation], document: Document) -> None:
        self.violations = in_order(violations, document)
        self.source = document.source
        self._document = document
        super().__init__("\n".join(self.describe(violation) for violation in shortened(self.violations)))

    def line(self, violation: Violation) -> int | None:
        """The line, from 1, of the violation's path or of its nearest parent in the file."""
        return self._document.place(violation.path)[1]

    def describe(self, violation: Violation) -> str:
        source, line = self._document.place(violation.path)
        return describe(violation, source=source, line=line)


def describe(violation: Violation, *, source: str, line: int | None) -> str:
    """`stacks/Pulumi.dev.yaml:14: muster:pools.l4.capacity: message` and, indented below, the fix."""
    place = source if line is None else f"{source}:{line}"
    path = "" if violation.path == source else f"{violation.path}: "
    return f"{place}: {path}{violation.message}\n    fix: {violation.fix}"


def in_order(violations: Iterable[Violation], document: Document) -> list[Violation]:
    """Errors, then warnings, both by line."""
    lines = document.lines
    return sorted(violations, key=lambda each: (each.level != "error", nearest_line(lines, each.path) or 0))


def shortened(violations: Iterable[Violation]) -> list[Violation]:
    """At most 20 of a kind, and fewer of each where that is more than a page. The last of a kind counts the
    others.
    """
    listed = [(each, _kind(each)) for each in violations]
    total, seen = Counter(kind for _, kind in listed), Counter[tuple[str, str, str]]()
    is_page = sum(min(each, _MOST_OF_A_KIND) for each in total.values()) <= _MOST
    most = _MOST_OF_A_KIND if is_page else max(1, min(_MOST_OF_A_KIND, _MOST // len(total)))
    found = []
    for each, kind in listed:
        seen[kind] += 1
        if seen[kind] < most or seen[kind] == total[kind] == most:
            found.append(each)
        elif seen[kind] == most:
            message = f"{each.message} And {total[kind] - most:,} more of this kind."
            found.append(replace(each, message=message, fix=f"{each.fix} `--json` lists them all."))
    return found


def _kind(violation: Violation) -> tuple[str, str, str]:
    """What it is, without the names of this place: those of its path, and what is quoted."""
    names = frozenset(_PARTS.findall(violation.path))

    def plain(text: str) -> str:
        return " ".join(word for word in _OWN.sub("", text).split() if word.rstrip(".,:;") not in names)

    return violation.level, plain(violation.message), plain(violation.fix)
