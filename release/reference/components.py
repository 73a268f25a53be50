"""The pages of components and their arguments, from the declarations in `muster.components`, and of a stack's
outputs.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Final

from muster.paths import PACKAGE
from release.reference import outputs
from release.reference.markdown import WRITTEN, code, item, slug

# The arguments of a class, and what its docstring says of each. Read from source: nothing is imported.

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


_FOLDER: Final = PACKAGE / "components"
# A component provider and its host: stack.md has the keys that they take.
_OTHER_LANGUAGES: Final = ("multilanguage", "provider")
_HEAD: Final = f"""\
# Components and their arguments

{WRITTEN}

Every component has one constructor, `Component(name, args, opts)`. [Muster's components in a program of your
own](../library.md) explains how to use them, and what has to be installed before each. An argument without a
default is required.
"""


def page() -> str:
    """The whole page."""
    found = list(_modules())
    names = (f"[`{name}`](#{slug(name)})" for each in found for name in each.components)
    parts = [_HEAD, f"{', '.join(names)}.\n"]
    for each in found:
        for name, text in each.components.items():
            parts += [f"## {name}\n", f"`from {each.name} import {name}`\n", f"{text}\n"]
        for arguments in each.arguments:
            parts += _class(arguments, "###" if each.components else "##")
    return "\n".join(parts)


@dataclass(frozen=True, slots=True)
class Module:
    """A module of components: the docstring of each, and the classes of their arguments."""

    name: str
    components: Mapping[str, str]
    arguments: Sequence[Documented]


def _modules() -> Iterator[Module]:
    for path in sorted(_FOLDER.rglob("*.py")):
        inside = path.relative_to(_FOLDER)
        if inside.parts[0] in _OTHER_LANGUAGES:
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        found = [each for each in tree.body if isinstance(each, ast.ClassDef)]
        arguments = [documented(each) for each in found if _is_of_arguments(each)]
        takes = {f"{each.name}Args" for each in found} & {each.name for each in arguments}
        components = {
            each.name: one_line(ast.get_docstring(each) or "")
            for each in found
            if _is_component(each) or f"{each.name}Args" in takes
        }
        if components or arguments:
            yield Module(_module(inside), components, arguments)


def arguments() -> Iterator[Documented]:
    """Every class of arguments."""
    for module in _modules():
        yield from module.arguments


def _module(path: Path) -> str:
    return ".".join(("muster.components", *path.with_suffix("").parts))


def _is_component(node: ast.ClassDef) -> bool:
    return any(isinstance(base, ast.Name) and base.id == "Component" for base in node.bases)


def _is_of_arguments(node: ast.ClassDef) -> bool:
    """Classes of which a program makes instances: arguments, and the values that arguments take."""
    return node.name.endswith("Args") or node.name in ("ClusterInputs", "PlatformContext", "Sizing", "Size")


def _class(found: Documented, mark: str) -> Iterator[str]:
    yield f"{mark} {found.name}\n"
    if found.text:
        yield f"{found.text}\n"
    lines = []
    for meaning, alike in groupby(found.arguments, lambda each: each.meaning):
        names = ", ".join(f"{code(each.name)} ({_kind(each)})" for each in alike)
        lines.append(item(names, (), meaning))
    yield "\n".join(lines) + "\n"


def _kind(argument: Argument) -> str:
    default = f"; default {code(argument.default)}" if argument.default else ""
    return f"{code(argument.type)}{default}"


_OUTPUTS_HEAD: Final = f"""\
# All outputs of a stack

{WRITTEN}

Read an output with `pulumi stack output -s STACK [NAME] [--json]`, or with a StackReference. Names and shapes
are stable: an output changes only by a new name. [Submit a job](../submit.md) uses `teams`. `→` is a mapping
from the first to the second.
"""


def outputs_page() -> str:
    """The whole page."""
    sections: dict[str, outputs.Outputs] = {
        "Every stack": outputs.STACK,
        "A team in `teams`": outputs.TEAM,
        "Stacks that make their cluster: `gke`, `eks`": outputs.MADE_CLUSTER,
        **{f"`cluster` on `{provider}`": each for provider, each in outputs.CLUSTER.items()},
    }
    parts = [_OUTPUTS_HEAD]
    for title, listed in sections.items():
        lines = (
            item(code(name), ("secret" if each.is_secret else "",), each.meaning)
            for name, each in listed.items()
        )
        parts += [f"## {title}\n", "\n".join(lines), ""]
    return "\n".join(parts)
