"""Whether version, changelog, tag and checkout say the same."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final

from release.changelog import UNRELEASED, Section

# A final release or a candidate for one: https://packaging.python.org/en/latest/specifications/version-specifiers/
_VERSION: Final = re.compile(r"\d+\.\d+\.\d+(?:rc\d+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkout:
    """`commit` and `tagged` are commits in full; `tagged` is "" where the version has no tag. `changed` names
    files that differ from the commit.
    """

    version: str
    commit: str
    tagged: str
    changed: Sequence[str]


def disagreements(checkout: Checkout, sections: Sequence[Section]) -> Iterator[str]:
    """A line for each, with its fix. None: the release may be made."""
    version = checkout.version
    if not _VERSION.fullmatch(version):
        yield (
            f"pyproject.toml: version {version} is no release. "
            "Fix: write MAJOR.MINOR.PATCH, or MAJOR.MINOR.PATCHrcN."
        )
    yield from _of_changelog(version, sections)
    if checkout.tagged not in ("", checkout.commit):
        yield (
            f"tag v{version} is another commit, {checkout.tagged[:12]}. Fix: raise the version in "
            f"pyproject.toml, or check out the tag."
        )
    if checkout.changed:
        shown = ", ".join(checkout.changed[:3]) + (", ..." if len(checkout.changed) > 3 else "")
        yield f"{len(checkout.changed)} files differ from the commit: {shown}. Fix: commit or remove them."


def _of_changelog(version: str, sections: Sequence[Section]) -> Iterator[str]:
    if any(each.name == UNRELEASED and each.text for each in sections):
        yield (
            f"CHANGELOG.md: [{UNRELEASED}] has entries. "
            f"Fix: move them under `## [{version}] - {date.today().isoformat()}`."
        )
    newest = next((each for each in sections if each.name != UNRELEASED), None)
    if newest is None or newest.name != version:
        found = f"its newest version is {newest.name}" if newest else "it has no version"
        yield (
            f"CHANGELOG.md: no section for {version}; {found}. "
            f"Fix: write `## [{version}] - {date.today().isoformat()}` as its first version."
        )
    elif not _is_day(newest.day):
        yield f"CHANGELOG.md: [{version}] has the day {newest.day!r}. Fix: write the day as 2026-01-31."


def _is_day(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True
