"""Reads the sections of CHANGELOG.md: https://keepachangelog.com/en/1.1.0/."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

UNRELEASED: Final = "Unreleased"
_HEADING: Final = re.compile(r"^## \[(?P<name>[^\]]+)\](?: - (?P<day>\S+))?[ \t]*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Section:
    """What changed in one version. `day` is as written, "" where none is; `text` has no heading."""

    name: str
    day: str
    text: str


def sections(changelog: str) -> list[Section]:
    """In the order of the file: the newest first."""
    headings = list(_HEADING.finditer(changelog))
    starts = [each.start() for each in headings]
    ends = [*starts[1:], len(changelog)]
    return [
        Section(found["name"], found["day"] or "", changelog[found.end() : end].strip())
        for found, end in zip(headings, ends, strict=False)
    ]
