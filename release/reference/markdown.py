"""Markdown of the reference pages."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

WRITTEN: Final = "<!-- Written by `make reference`; do not edit it. -->"


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in lines) + "\n"


def item(name: str, remarks: Iterable[str], meaning: str) -> str:
    """An entry of a list: a name, remarks about it in brackets (empty ones are left out), its meaning."""
    brackets = "; ".join(filter(None, remarks))
    return " ".join(filter(None, (f"- {name}{f' ({brackets})' if brackets else ''}:", meaning)))


def slug(heading: str) -> str:
    """The anchor of a heading, the same on GitHub and on the site."""
    kept = heading.lower().replace(" ", "-")
    return "".join(letter for letter in kept if letter.isalnum() or letter in "-_")


def code(value: object) -> str:
    """A value in code type; nothing where it is empty."""
    return f"`{value}`" if str(value) else ""


def escape(text: str) -> str:
    """Text in which Markdown's marks are meant as they are."""
    return re.sub(r"([*_`<>\[\]{}])", r"\\\1", text)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
