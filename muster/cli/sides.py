"""The two sides of a comparison, as `muster diff` and `muster what-if` name them.

The head is what STACK names. The base is what `--base` names: a file, a git revision, or none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from muster.cli.options import existing_stack, stack_path
from muster.cli.revision import check_revision, default_revision, file_at
from muster.config.project import PROJECT_FILE, extended_file
from muster.errors import MusterError
from muster.paths import stack_name
from muster.preview.inputs import NONE, parse_stack_option

_DEFAULT: Final = "Default: the stack's file where this branch left the default branch."
base_option = click.option(
    "--base",
    multiple=True,
    metavar="BASE",
    help=f"The stack before the change: [STACK=]FILE, a git revision, or `none`. {_DEFAULT} May be repeated.",
)
one_base_option = click.option(
    "--base",
    default="",
    metavar="BASE",
    help=f"The stack before the change: a file or a git revision. {_DEFAULT}",
)


@dataclass(frozen=True, slots=True)
class Head:
    """A stack with the change. A change that deletes the stack has no file, or is written `STACK=none`."""

    name: str
    file: Path
    is_deleted: bool = False

    @property
    def value(self) -> str:
        return f"{self.name}={NONE if self.is_deleted or not self.file.is_file() else self.file}"


def heads(stacks: Sequence[str]) -> list[Head]:
    """What the positional arguments name: NAME, FILE, STACK=FILE or STACK=none."""
    return [_head(stack) for stack in stacks]


def _head(stack: str) -> Head:
    name, path = parse_stack_option(stack)
    if not name:
        file = stack_path(stack)
        return Head(stack_name(file), file)
    if str(path) == NONE:
        return Head(name, stack_path(name), is_deleted=True)
    return Head(name, path)


def bases(values: Sequence[str], found: Sequence[Head], *, into: Path) -> list[str]:
    """The base of every head, as [STACK=]FILE or none. Files of a revision are written into a directory.

    MusterError where a head has neither a file nor a base: its name or its file is wrong.
    """
    if values:
        named = [each for value in values for each in _base(value, found, into)]
    else:
        named = [_at(_default(head), head, into) for head in found]
    for head in found:
        if not head.is_deleted and not _is_before(head.name, named):
            existing_stack(str(head.file))
    return named


def _default(head: Head) -> str:
    """The revision to compare with. Outside of git, a stack that does not exist is reported first."""
    try:
        return default_revision(_folder(head))
    except MusterError:
        if not head.is_deleted:
            existing_stack(str(head.file))
        raise


def _is_before(name: str, named: Sequence[str]) -> bool:
    """Whether the stack has a base that says its name."""
    parsed = (parse_stack_option(each) for each in named)
    return any(stack == name and str(path) != NONE for stack, path in parsed)


def _base(value: str, found: Sequence[Head], into: Path) -> Iterator[str]:
    name, path = parse_stack_option(value)
    text = str(path) if name else value
    if text == NONE or path.is_file() or text.endswith((".yaml", ".yml")):
        yield value
        return
    for head in found:
        if name in ("", head.name):
            check_revision(text, _folder(head))
            yield _at(text, head, into)


def _at(revision: str, head: Head, into: Path) -> str:
    """The stack file in a folder of its own, with the project's file where the engine would look for it."""
    folder = head.file.absolute().parent
    inner = into / head.name / folder.name
    for project, place in ((folder, inner), (folder.parent, inner.parent)):
        file_at(revision, project / PROJECT_FILE, into=place)
    file = file_at(revision, head.file, into=inner)
    if file is not None:
        _add_extended(revision, file, folder)
    return f"{head.name}={file or NONE}"


def _add_extended(revision: str, file: Path, folder: Path) -> None:
    """The files that the stack extends at that revision, beside it."""
    below = extended_file(file)
    while below is not None and not below.is_file():
        if file_at(revision, folder / below.name, into=below.parent) is None:
            return
        below = extended_file(below)


def _folder(head: Head) -> Path:
    folder = head.file.parent
    return folder if folder.is_dir() else Path.cwd()
