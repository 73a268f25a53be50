"""Checks that each measured figure of the documentation is in a record: `python -m release.evidence`.

bench/results/evidence.toml has the records: the file, its digest, the command, the commit that ran, the
machine and the day, and the pages that take figures from it. A figure that a report in Markdown does not
have, such as a median of trials, is named there with the way to it, and so is one that is a setting.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, Self

from release.errors import ReleaseError

ROOT: Final = Path(__file__).resolve().parents[1]
RECORDS: Final = "bench/results/evidence.toml"
# Pages that say how they were measured. What decisions measured is a record of their own day.
_IS_MEASURED: Final = re.compile(r"python -m bench\.|make bench|bench/results|bench/(?:index|replay)\.md")
_DECISIONS: Final = "decisions"
# Code, and what an example prints, is no claim.
_CODE: Final = re.compile(r"^ *```.*?^ *```$|`[^`\n]*`|^>.*?$", re.MULTILINE | re.DOTALL)
_FIGURE: Final = re.compile(
    r"(?<![\w.,/-])(?P<number>\d[\d,]*(?:\.\d+)?) ?"
    r"(?:ms|µs|s|min|minutes|hours|h|MiB|GiB|%|a second|a minute|API calls)(?![\w-])"
)
_NUMBER: Final = re.compile(r"\d[\d,]*(?:\.\d+)?")
_COMMIT: Final = re.compile(r"[0-9a-f]{7,40}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """`commits`: those that ran. `days`: the first and the last. `pages`: page -> figures that the file has
    only in another form, each with the way to it.
    """

    file: str
    sha256: str
    command: str
    commits: tuple[str, ...]
    machine: str
    days: tuple[str, ...]
    pages: dict[str, dict[str, str]]

    @classmethod
    def read(cls, table: dict[str, Any]) -> Self:
        names = {each.name for each in fields(cls)}
        if table.keys() != names:
            differing = ", ".join(sorted(table.keys() ^ names))
            raise ReleaseError(
                f"{RECORDS}: {table.get('file', '?')}: {differing}. Fix: write {sorted(names)}."
            )
        values: dict[str, Any] = {
            key: tuple(each) if isinstance(each, list) else each for key, each in table.items()
        }
        return cls(**values)


def load_records(root: Path = ROOT) -> tuple[list[Record], dict[str, dict[str, str]]]:
    """The records, and by page the figures that are settings and no measurements."""
    document = tomllib.loads((root / RECORDS).read_text(encoding="utf-8"))
    return [Record.read(each) for each in document["record"]], document["settings"]


def missing_evidence(root: Path = ROOT) -> Iterator[str]:
    """A line, with its fix, for each record that is not as it was, and each figure without a record."""
    numbers: defaultdict[str, set[str]] = defaultdict(set)
    derived: defaultdict[str, set[str]] = defaultdict(set)
    records, settings = load_records(root)
    for page, figures in settings.items():
        derived[page] |= figures.keys()
    for record in records:
        yield from _broken(record, root)
        file = root / record.file
        # A table of raw trials has nearly every number somewhere.
        is_report = file.is_file() and file.suffix == ".md"
        known = set(_NUMBER.findall(file.read_text(encoding="utf-8"))) if is_report else set()
        for page, figures in record.pages.items():
            numbers[page] |= known
            derived[page] |= figures.keys()
    for path in measured_pages(root):
        name, text = path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")
        found = {each.group(): each["number"] for each in _FIGURE.finditer(_CODE.sub("", text))}
        for figure, number in found.items():
            if number not in numbers[name] and figure not in derived[name]:
                yield f"{name}: {figure} is in no record. Fix: name the file that has it in {RECORDS}."
        for figure in derived[name] - found.keys():
            yield f"{name}: {figure} is not there any more. Fix: remove it from {RECORDS}."


def measured_pages(root: Path = ROOT) -> list[Path]:
    """The README and the pages of the documentation that say how figures were measured."""
    pages = [root / "README.md", *sorted((root / "docs").rglob("*.md"))]
    return [
        page
        for page in pages
        if _DECISIONS not in page.parts and _IS_MEASURED.search(page.read_text(encoding="utf-8"))
    ]


def _broken(record: Record, root: Path) -> Iterator[str]:
    file = root / record.file
    if not file.is_file():
        yield f"{record.file}: is not there. Fix: restore it, or remove its record and the figures."
        return
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    if digest != record.sha256:
        yield f"{record.file}: has changed. Fix: if it was measured anew, write days, commits and {digest}."
    if not all(_COMMIT.fullmatch(each) for each in record.commits) or not record.commits:
        yield f"{record.file}: names no commit. Fix: write the commits that ran."
    if not (record.command and record.machine and record.days):
        yield f"{record.file}: lacks command, machine or days. Fix: write them."


def main() -> int:
    argparse.ArgumentParser(prog="python -m release.evidence", description=__doc__).parse_args()
    missing = list(missing_evidence())
    for line in missing:
        print(line, file=sys.stderr)
    pages = len(measured_pages())
    print(
        f"{len(load_records()[0])} records, {pages} pages: {len(missing) or 'no'} figures or records missing"
    )
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
