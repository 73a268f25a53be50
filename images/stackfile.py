"""Writes images' digests into a stack file: ours, and those of others.

Decides where it goes: over the line that is there, or as the first key. Every other byte stays: a stack file
is a person's, comments and all.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

KEY: Final = "muster:image"
_LINE: Final = re.compile(rf"^(?P<indent>[ \t]+){KEY}:[^\n]*$", re.MULTILINE)
# A mapping in block style: one in braces is left to its writer.
_IMAGES: Final = re.compile(r"^(?P<indent>[ \t]+)muster:images:[ \t]*(?:#[^\n]*)?$", re.MULTILINE)
_CONFIG: Final = re.compile(r"^config:[ \t]*(?:#[^\n]*)?$", re.MULTILINE)


class Unwritable(Exception):
    """A stack file in which there is no place for the digest."""


def write_image(path: Path, reference: str) -> None:
    """Replaces the file in one step."""
    _replace(path, with_image(path.read_text(encoding="utf-8"), reference, source=str(path)))


def write_pins(path: Path, references: Mapping[str, str]) -> None:
    """Replaces the file in one step."""
    _replace(path, with_pins(path.read_text(encoding="utf-8"), references, source=str(path)))


def with_image(text: str, reference: str, *, source: str) -> str:
    """The text of a stack file with this image in it."""
    line = f"{KEY}: {reference}"
    if _LINE.search(text):
        return _LINE.sub(lambda found: f"{found['indent']}{line}", text, count=1)
    if not _CONFIG.search(text):
        raise Unwritable(f"{source} has no line `config:`; write `  {line}` below it yourself.")
    return _CONFIG.sub(lambda found: f"{found[0]}\n  {line}", text, count=1)


def with_pins(text: str, references: Mapping[str, str], *, source: str) -> str:
    """The text of a stack file with these images, by name, in its `muster:images`."""
    section = _IMAGES.search(text)
    if section is None and "muster:images:" in text:
        lines = ", ".join(f"{name}: {reference}" for name, reference in references.items())
        raise Unwritable(f"{source} has its images in braces; write these among them yourself: {lines}")
    if section is None:
        section = _CONFIG.search(text)
        if section is None:
            raise Unwritable(f"{source} has no line `config:`; its images belong below one.")
        indent, before = "    ", f"{section[0]}\n  muster:images:"
    else:
        indent, before = section["indent"] * 2, section[0]
    added = "".join(f"\n{indent}{name}: {reference}" for name, reference in references.items())
    return text[: section.start()] + before + added + text[section.end() :]


def _replace(path: Path, text: str) -> None:
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(path)
