"""Writes a new project."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from muster.errors import MusterError
from muster.scaffold.project import Project, examples, files
from muster.scaffold.record import FILE, Record, digest, format_record
from muster.validation.identities import is_dns_label


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
