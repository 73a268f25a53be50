"""Compares a project with the templates of this version of Muster.

Responsible for: telling what the templates changed from what the user changed, by the digests of the record.
A file whose template did not change is left out, however the user edited it.
"""

import difflib
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import yaml

from muster.errors import MusterError
from muster.scaffold.project import Project, Target, examples, files
from muster.validation.identities import is_dns_label

# The record of what `muster init` wrote into a project: `.muster.yaml`.
#
# Responsible for: the choices that were made, and the digest of each file as it was written, by which an
# update distinguishes a change of the user from a change of the templates.

FILE: Final = ".muster.yaml"
_HEAD: Final = "# Written by `muster init`; `muster init --update` reads it. Leave it in version control.\n"


@dataclass(frozen=True, slots=True)
class Record:
    """`written`: path in the project -> digest of the text that `muster init` wrote or proposed last."""

    project: Project
    written: Mapping[str, str]


def digest(text: str) -> str:
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def format_record(record: Record) -> str:
    project = record.project
    content = {
        "version": project.version,
        "provider": project.target.value,
        "stacks": list(project.stacks),
        "files": dict(sorted(record.written.items())),
    }
    return _HEAD + yaml.safe_dump(content, sort_keys=False, default_flow_style=False, width=200)


def read_record(folder: Path) -> Record:
    """MusterError where there is none, or it cannot be read."""
    path = folder / FILE
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
        project = Project(
            target=Target(found["provider"]),
            stacks=tuple(map(str, found["stacks"])),
            version=str(found["version"]),
        )
        if not project.stacks:
            raise ValueError("it lists no stack")
        return Record(project, {str(name): str(value) for name, value in found["files"].items()})
    except FileNotFoundError:
        fix = "name the folder of a project that `muster init` made, or run `muster init` without --update."
        raise MusterError(f"{folder} has no {FILE}.", fix=fix) from None
    except (OSError, yaml.YAMLError, ValueError, KeyError, TypeError, AttributeError) as error:
        fix = f"restore {FILE} from version control."
        raise MusterError(f"{path} cannot be read: {error}", fix=fix) from None


# Writes a new project.


@dataclass(frozen=True, slots=True)
class Written:
    """The paths that were written and those that were there already, each in the project."""

    written: Sequence[str]
    kept: Sequence[str]


def write_project(project: Project, folder: Path, *, force: bool) -> Written:
    """Write all files of the project. A file that exists stays as it is, unless `force`."""
    for name in project.stacks:
        if not is_dns_label(name):
            fix = "use at most 63 of a-z, 0-9 and -."
            raise MusterError(f"{name!r} cannot be the name of a stack.", fix=fix)
    if len(set(project.stacks)) < len(project.stacks):
        raise MusterError(
            f"a stack is named twice: {', '.join(project.stacks)}.", fix="name each stack once."
        )
    templates = files(project)
    everything = {**templates, **examples(project)}
    record = Record(project, {name: digest(text) for name, text in templates.items()})
    everything[FILE] = format_record(record)
    kept = [] if force else [name for name in everything if (folder / name).exists() and name != FILE]
    written = [name for name in everything if name not in kept]
    for name in written:
        write_file(folder / name, everything[name])
    return Written(written, kept)


def write_file(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        fix = "choose a folder that you may write to."
        raise MusterError(f"{path} cannot be written: {error.strerror}.", fix=fix) from None


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
