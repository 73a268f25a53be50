"""The two sides of a comparison, as `muster diff` and `muster what-if` name them.

The head is what STACK names. The base is what `--base` names: a file, a git revision, or none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from muster.cli.options import existing_stack, stack_name, stack_path
from muster.cli.revision import check_revision, default_revision, file_at
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
    """A stack with the change. Its file is missing where the change deletes the stack."""

    name: str
    file: Path

    @property
    def value(self) -> str:
        return f"{self.name}={self.file if self.file.is_file() else NONE}"


def heads(stacks: Sequence[str]) -> list[Head]:
    """What the positional arguments name: NAME, FILE, STACK=FILE or STACK=none."""
    return [_head(stack) for stack in stacks]


def _head(stack: str) -> Head:
    name, path = parse_stack_option(stack)
    if name:
        return Head(name, Path(NONE) if str(path) == NONE else path)
    file = stack_path(stack)
    return Head(stack_name(file), file)


def bases(values: Sequence[str], found: Sequence[Head], *, into: Path) -> list[str]:
    """The base of every head, as [STACK=]FILE or none. Files of a revision are written into a directory."""
    if not values:
        return [_at(default_revision(_folder(head)), head, into) for head in found]
    return [each for value in values for each in _base(value, found, into)]


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
    before = file_at(revision, head.file, into=into / head.name)
    if before is None and not head.file.is_file() and str(head.file) != NONE:
        existing_stack(str(head.file))  # On neither side: the name or the file is wrong.
    return f"{head.name}={before or NONE}"


def _folder(head: Head) -> Path:
    folder = head.file.parent
    return folder if folder.is_dir() else Path.cwd()
