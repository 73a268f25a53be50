"""Compares a project with the templates of this version of Muster.

Responsible for: telling what the templates changed from what the user changed, by the digests of the record.
A file whose template did not change is left out, however the user edited it.
"""

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from muster.errors import MusterError
from muster.scaffold.project import files
from muster.scaffold.record import FILE, Record, digest, format_record, read_record
from muster.scaffold.write import write_file

BESIDE: Final = ".new"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A file that a newer template would change. `found` is None where there is no such file yet."""

    path: str
    found: str | None
    proposed: str
    is_edited: bool
    """The user edited the file: it is not replaced; the new text goes into a file beside it."""

    @property
    def target(self) -> str:
        return self.path + BESIDE if self.is_edited else self.path

    def diff(self) -> Iterator[str]:
        """The lines of a unified diff."""
        before = [] if self.found is None else self.found.splitlines(keepends=True)
        old = "/dev/null" if self.found is None else f"a/{self.path}"
        yield from difflib.unified_diff(
            before, self.proposed.splitlines(keepends=True), fromfile=old, tofile=f"b/{self.path}"
        )


@dataclass(frozen=True, slots=True)
class Update:
    """What this version changes in a project."""

    folder: Path
    record: Record
    """As it is once the update is applied."""

    changes: Sequence[Change]

    def apply(self) -> None:
        for change in self.changes:
            write_file(self.folder / change.target, change.proposed)
        write_file(self.folder / FILE, format_record(self.record))


def compare(folder: Path, *, version: str, wheel_digest: str = "") -> Update:
    """Compare the project in `folder` with the templates; MusterError where none is there."""
    record = read_record(folder)
    project = replace(record.project, version=version, wheel_digest=wheel_digest)
    proposed = files(project)
    changes = [
        change
        for path, text in proposed.items()
        if (change := _change(folder, path, text, written=record.written.get(path))) is not None
    ]
    return Update(folder, Record(project, {path: digest(text) for path, text in proposed.items()}), changes)


def _change(folder: Path, path: str, proposed: str, *, written: str | None) -> Change | None:
    try:
        found = (folder / path).read_text(encoding="utf-8")
    except FileNotFoundError:
        # A file that was written and is gone was deleted by the user.
        is_new = written is None
        return Change(path=path, found=None, proposed=proposed, is_edited=False) if is_new else None
    except (OSError, UnicodeDecodeError) as error:
        fix = "make it a readable text file, or delete it."
        raise MusterError(f"{folder / path} cannot be read: {error}", fix=fix) from None
    if found == proposed or digest(proposed) == written:
        return None
    return Change(path=path, found=found, proposed=proposed, is_edited=digest(found) != written)
