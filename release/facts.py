"""What this repository states of the world outside it, the oldest first: `python -m release.facts`.

A fact is a row of a table with `source` and `read` (the day on which the source was read), or a text of the
form `Source: PLACE, read DAY` in a comment, a docstring or a page. A table joins by a line in `TABLES`, a
text by its form. A page that a comment, a docstring or the documentation links to outside such a text has
its day in `facts.toml`. The day of a citation that is older than these forms is the day on which it was
written. `make release` refuses facts that are older than `OLD_AFTER`, unless each is named, and links
without a day.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Final, Protocol

from muster.config.stack import today
from muster.model.prices import BUILT_IN
from muster.model.transitions import TRANSITIONS
from muster.model.versions import CALENDAR, MINIMUM_VERSIONS, READINGS
from muster.paths import IMPORT_ROOT

OLD_AFTER: Final = timedelta(days=90)
_FOLDERS: Final = ("muster", "components", "policies", "docs")
_SUFFIXES: Final = frozenset({".py", ".toml", ".yaml", ".md"})
# Written from the tables by `make reference`.
_GENERATED: Final = Path("docs", "reference")
_TEXT: Final = re.compile(
    r"\bSources?: (?P<place>(?:(?!\bSources?: |\n\s*\n).){1,600}?),"
    r"[\s#]+read[\s#]+(?P<day>\d{4}-\d\d-\d\d)\b",
    re.DOTALL,
)
# Where code is prose: comments and docstrings.
_PROSE: Final = re.compile(r'(?:^|(?<=\s))#[^\n]*|""".*?"""', re.DOTALL | re.MULTILINE)
_LINK: Final = re.compile(r"https://(?!docs\.example\.|example\.|[\d{])[^\s`\"'<>|)\]]+")
_LINE_START: Final = re.compile(r"\n[ \t]*(?:#[ \t]?)?")


class Row(Protocol):
    """What a table's row has."""

    @property
    def source(self) -> str:
        """A URL, or a project's path at a tag."""

    @property
    def read(self) -> date:
        """The day on which the source was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """`subject` names the table's facts, `again` how they are read again."""

    subject: str
    rows: Iterable[Row]
    again: str


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Fact:
    """What was read in one source on one day. `subject`: the table, or the file with the text."""

    read: date
    subject: str
    source: str
    again: str

    def age(self, day: date) -> timedelta:
        return day - self.read


@dataclass(frozen=True, slots=True)
class Page:
    """A page that is linked to without more words: its URL, and the day on which it was read."""

    source: str
    read: date


_DAYS: Final = tomllib.loads(Path(__file__).with_name("facts.toml").read_text(encoding="utf-8"))
PAGES: Final = tuple(Page(url, day) for url, day in _DAYS.items())
TABLES: Final = (
    Table(
        subject="linked pages",
        rows=PAGES,
        again="compare the page with what `git grep` finds of its URL, and set its day in release/facts.toml",
    ),
    Table(
        subject="how long clouds support Kubernetes",
        rows=CALENDAR,
        again="compare the page with muster/model/support_calendar.toml",
    ),
    Table(
        subject="minimum versions",
        rows=MINIMUM_VERSIONS.values(),
        again="compare the page with muster/model/minimum_versions.toml",
    ),
    Table(
        subject="versions that were read",
        rows=READINGS,
        again="read the notes of newer patches, and add them in muster/model/versions.py",
    ),
    Table(
        subject="steps between versions",
        rows=[row for row in TRANSITIONS if not row.is_tested],
        again="compare the page with muster/model/transitions.toml",
    ),
    Table(
        subject="prices",
        rows=BUILT_IN.prices,
        again="`muster doctor STACK --prices prices.yaml` reads the clouds' lists",
    ),
)


def facts(root: Path = IMPORT_ROOT) -> list[Fact]:
    """Every fact of the tables and of the texts under `root`, the oldest first."""
    return sorted({*_of_tables(TABLES), *_of_texts(root)})


def _of_tables(tables: Iterable[Table]) -> Iterator[Fact]:
    for table in tables:
        for row in table.rows:
            yield Fact(read=row.read, subject=table.subject, source=row.source, again=table.again)


def undated_links(root: Path = IMPORT_ROOT) -> Iterator[str]:
    """A line, with its fix, for each link of the files under `root` that has no day."""
    known = {page.source for page in PAGES}
    for link, name in links(root).items():
        if link not in known:
            yield f'{name}: {link} has no day. Fix: read it, and add `"{link}" = DAY` to release/facts.toml.'


def links(root: Path) -> dict[str, str]:
    """Each URL that a text without a day links to, and the first file that does."""
    found: dict[str, str] = {}
    for name, text in _files(root):
        undated = _TEXT.sub("", text)
        for part in [undated] if name.endswith(".md") else _PROSE.findall(undated):
            for link in _LINK.findall(part):
                found.setdefault(link.rstrip(".,;:"), name)
    return found


def _of_texts(root: Path) -> Iterator[Fact]:
    for name, text in _files(root):
        yield from _facts_of(text, name)


def _files(root: Path) -> Iterator[tuple[str, str]]:
    """The name and the text of each file that states facts."""
    for folder in _FOLDERS:
        for file in sorted((root / folder).rglob("*")):
            name = file.relative_to(root)
            if file.suffix in _SUFFIXES and _GENERATED not in name.parents:
                yield name.as_posix(), file.read_text(encoding="utf-8")


def _facts_of(text: str, name: str) -> Iterator[Fact]:
    for found in _TEXT.finditer(text):
        place = _LINE_START.sub(" ", found["place"]).strip()
        again = f"compare it with {name}"
        yield Fact(read=date.fromisoformat(found["day"]), subject=name, source=place, again=again)


def old_facts(known: Iterable[Fact], *, day: date, accepted: Iterable[str] = ()) -> Iterator[str]:
    """A line, with its fix, for each subject that has facts older than `OLD_AFTER` and is not `accepted`."""
    named = set(accepted)
    old: dict[str, list[Fact]] = {}
    for fact in sorted(known):
        if fact.age(day) > OLD_AFTER and fact.subject not in named:
            old.setdefault(fact.subject, []).append(fact)
    for subject, (oldest, *others) in old.items():
        more = f" and {len(others)} more" if others else ""
        yield (
            f"{subject}: read {oldest.age(day).days} days ago in {oldest.source}{more}. Fix: read it again "
            f"({oldest.again}) and set its day, or name it: --old-fact {subject!r}."
        )


def main() -> None:
    """Prints every fact with its age in days, and how it is read again."""
    day = today()
    for fact in facts():
        print(f"{fact.read}  {fact.age(day).days:4} days  {fact.subject}: {fact.source}")
        print(f"{'':23}again: {fact.again}")


if __name__ == "__main__":
    main()
