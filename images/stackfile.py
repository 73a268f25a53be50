"""Writes our image's digest into a stack file.

Decides where it goes: over the line that is there, or as the first key. Every other byte stays: a stack file
is a person's, comments and all.
"""

import os
import re
from pathlib import Path
from typing import Final

KEY: Final = "muster:image"
_LINE: Final = re.compile(rf"^(?P<indent>[ \t]+){KEY}:[^\n]*$", re.MULTILINE)
_CONFIG: Final = re.compile(r"^config:[ \t]*(?:#[^\n]*)?$", re.MULTILINE)


class Unwritable(Exception):
    """A stack file in which there is no place for the digest."""


def write_image(path: Path, reference: str) -> None:
    """Replaces the file in one step."""
    text = path.read_text(encoding="utf-8")
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.write_text(with_image(text, reference, source=str(path)), encoding="utf-8")
    fresh.replace(path)


def with_image(text: str, reference: str, *, source: str) -> str:
    """The text of a stack file with this image in it."""
    line = f"{KEY}: {reference}"
    if _LINE.search(text):
        return _LINE.sub(lambda found: f"{found['indent']}{line}", text, count=1)
    if not _CONFIG.search(text):
        raise Unwritable(f"{source} has no line `config:`; write `  {line}` below it yourself.")
    return _CONFIG.sub(lambda found: f"{found[0]}\n  {line}", text, count=1)
