"""Writes digests into a stack file: of our image, of others' images, and of charts.

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
_CHARTS: Final = re.compile(r"^(?P<indent>[ \t]+)muster:charts:[ \t]*(?:#[^\n]*)?$", re.MULTILINE)
_CONFIG: Final = re.compile(r"^config:[ \t]*(?:#[^\n]*)?$", re.MULTILINE)


class Unwritable(Exception):
    """A stack file in which there is no place for the digest."""


def write_image(path: Path, reference: str) -> None:
    """Replaces the file in one step."""
    _replace(path, with_image(path.read_text(encoding="utf-8"), reference, source=str(path)))


def write_pins(path: Path, references: Mapping[str, str]) -> None:
    """Replaces the file in one step."""
    _replace(path, with_pins(path.read_text(encoding="utf-8"), references, source=str(path)))


def write_charts(path: Path, digests: Mapping[str, str]) -> None:
    """Replaces the file in one step."""
    _replace(path, with_charts(path.read_text(encoding="utf-8"), digests, source=str(path)))


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
    return _inserted(text, section, before, references, indent=indent)


def with_charts(text: str, digests: Mapping[str, str], *, source: str) -> str:
    """The text of a stack file with these digests, by chart, in its `muster:charts.digests`."""
    section = _CHARTS.search(text)
    if section is None and "muster:charts:" in text:
        lines = ", ".join(f"{name}: {digest}" for name, digest in digests.items())
        raise Unwritable(f"{source} has its charts in braces; write these as their `digests`: {lines}")
    if section is None:
        section = _CONFIG.search(text)
        if section is None:
            raise Unwritable(f"{source} has no line `config:`; its charts belong below one.")
        begun = f"{section[0]}\n  muster:charts:\n    digests:"
        return _inserted(text, section, begun, digests, indent=" " * 6)
    indent = section["indent"]
    own = re.compile(rf"^{indent * 2}digests:[ \t]*(?:#[^\n]*)?$", re.MULTILINE)
    if (there := own.search(text, section.end())) is not None:
        return _inserted(text, there, there[0], digests, indent=indent * 3)
    return _inserted(text, section, f"{section[0]}\n{indent * 2}digests:", digests, indent=indent * 3)


def _inserted(
    text: str, place: re.Match[str], before: str, entries: Mapping[str, str], *, indent: str
) -> str:
    """The text with `before` in the place of what was found there, and the entries below it."""
    added = "".join(f"\n{indent}{name}: {value}" for name, value in entries.items())
    return text[: place.start()] + before + added + text[place.end() :]


def _replace(path: Path, text: str) -> None:
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(path)
