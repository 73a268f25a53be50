"""The arguments of a class, and what its docstring says of each. Read from source: nothing is imported."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

# "`name`: ...", "`name` (GKE): ..." or "`name`, `other`: ..." where a line or a sentence begins.
_NAME: Final = r"`\w+`(?: \([^)]*\))?"
_ENTRY: Final = re.compile(rf"(?:^|(?<=[.;] ))(?P<names>{_NAME}(?:(?:,| and) {_NAME})*): ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Argument:
    """`default`: source of the default; empty where the argument is required."""

    name: str
    type: str
    default: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Documented:
    """A class: what its docstring says of it as a whole, and its fields."""

    name: str
    text: str
    arguments: tuple[Argument, ...]


def documented(node: ast.ClassDef) -> Documented:
    """The docstring and the annotated fields of a class."""
    text, meanings = _split(ast.get_docstring(node) or "")
    return Documented(node.name, text, tuple(_arguments(node, meanings)))


def _split(docstring: str) -> tuple[str, Mapping[str, str]]:
    """The paragraphs about the class as a whole, and the entries by name."""
    paragraphs: list[str] = []
    meanings: dict[str, str] = {}
    for paragraph in inspect.cleandoc(docstring).split("\n\n"):
        found = list(_ENTRY.finditer(paragraph))
        before = paragraph[: found[0].start()] if found else paragraph
        if before.strip():
            paragraphs.append(one_line(before))
        ends = [*(each.start() for each in found[1:]), len(paragraph)]
        for entry, end in zip(found, ends[len(ends) - len(found) :], strict=True):
            text = one_line(paragraph[entry.end() : end]).rstrip(";")
            meanings |= dict.fromkeys(re.findall(r"`(\w+)`", entry["names"]), text)
    return "\n\n".join(paragraphs), meanings


def _arguments(node: ast.ClassDef, meanings: Mapping[str, str]) -> Iterator[Argument]:
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            name = statement.target.id
            if not name.startswith("_"):
                default = "" if statement.value is None else _default(statement.value)
                kind = ast.unparse(statement.annotation).strip("'\"")
                yield Argument(name, kind, default, _sentence(meanings.get(name, "")))


def _default(value: ast.expr) -> str:
    """`field(default_factory=...)` is shown as what the factory makes."""
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "field":
        (factory,) = (each.value for each in value.keywords if each.arg == "default_factory")
        made = factory.body if isinstance(factory, ast.Lambda) else ast.Call(factory, [], [])
        return ast.unparse(made).replace("MappingProxyType({})", "{}")
    return ast.unparse(value)


def _sentence(text: str) -> str:
    text = text[:1].upper() + text[1:]
    return f"{text}." if text and not text.endswith(".") else text


def one_line(text: str) -> str:
    """A paragraph without its line breaks."""
    return " ".join(text.split())
