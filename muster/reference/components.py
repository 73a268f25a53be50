"""The page of components and their arguments, from the declarations in `muster.components`."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from muster.paths import PACKAGE
from muster.reference.docstrings import Documented, documented, one_line
from muster.reference.markdown import WRITTEN, code, slug, table

_FOLDER: Final = PACKAGE / "components"
# A component provider and its host: stack.md has the keys that they take.
_OTHER_LANGUAGES: Final = ("multilanguage", "provider")
_HEAD: Final = f"""\
# Components and their arguments

{WRITTEN}

Every component has one constructor, `Component(name, args, opts)`. [Muster's components in a program of your
own](../library.md) explains how to use them, and what has to be installed before each.
"""


def page() -> str:
    """The whole page."""
    found = list(_modules())
    rows = [
        (f"[`{name}`](#{slug(name)})", code(each.name), each.summary)
        for each in found
        for name in each.components
    ]
    parts = [_HEAD, table(("Component", "Module", ""), rows)]
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
    summary: str
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
            summary = one_line(ast.get_docstring(tree) or "").partition(". ")[0].rstrip(".")
            yield Module(_module(inside), summary, components, arguments)


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
    rows = [
        (code(each.name), code(each.type), code(each.default) or "required", each.meaning)
        for each in found.arguments
    ]
    yield table(("Argument", "Type", "Default", "Meaning"), rows)
