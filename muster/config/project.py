"""What a project sets for all of its stacks: `value:` and `default:` in the `config:` of its Pulumi.yaml.

Responsible for reading the values that the engine adds to those of a stack file. Not responsible for which
keys exist (the project file declares them) nor for Pulumi's environments, which only the engine reads.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import yaml

from muster.config.document import NAMESPACE, Document, Loader, Marks, load_file, parse_text

PROJECT_FILE: Final = "Pulumi.yaml"
_KEY: Final = "stackConfigDir"
# The value of all stacks goes before the default; Pulumi refuses a key that has both.
_WORDS: Final = ("value", "default")


@dataclass(frozen=True, slots=True)
class ProjectConfig:
    """`values` by `muster:key`, and where each value is written."""

    source: str
    values: Mapping[str, object] = field(default_factory=dict)
    lines: Mapping[str, int] = field(default_factory=dict)


def load_document(path: Path) -> Document:
    """Read a stack file with what its project sets besides. One that cannot be read has one violation."""
    text = load_file(path)
    if isinstance(text, Document):
        return text
    document = parse_text(text, source=str(path))
    project = _project_of(path)
    if project is None or (document.violations and not document.values):
        return document
    added = {key: value for key, value in project.values.items() if key not in document.values}
    lines = {path: line for path, line in project.lines.items() if _root(path) in added}
    return document.with_inherited(added, lines, source=project.source)


def _root(path: str) -> str:
    name = path.removeprefix(NAMESPACE)
    return NAMESPACE + name[: min(index for each in ".[" if (index := f"{name}.[".find(each)) >= 0)]


def _project_of(stack: Path) -> ProjectConfig | None:
    """The project whose stack files are in the folder of this one."""
    folder = stack.resolve().parent
    for candidate in (folder, folder.parent):
        text = load_file(candidate / PROJECT_FILE)
        if isinstance(text, str):
            return _parse(text, candidate / PROJECT_FILE, folder)
    return None


def _parse(text: str, path: Path, folder: Path) -> ProjectConfig | None:
    """None for a file that is no project's, or whose stack files are elsewhere: Pulumi reports the former."""
    loader = Loader(text)
    try:
        root = loader.get_single_node()
        named = _entries(root)
        where = named.get(_KEY)
        if (path.parent / (str(where.value) if where else ".")).resolve() != folder:
            return None
        marks, values = Marks(loader), dict[str, object]()
        for key, node in _entries(named.get("config")).items():
            if (written := _written(node)) is not None and key.startswith(NAMESPACE):
                marks.walk(written, key, written.start_mark.line + 1)
                values[key] = marks.value(written)
        return ProjectConfig(str(path), values, marks.lines)
    except (yaml.YAMLError, ValueError, RecursionError):
        return None
    finally:
        loader.dispose()


def _entries(node: yaml.Node | None) -> dict[str, yaml.Node]:
    return {str(key.value): value for key, value in node.value} if isinstance(node, yaml.MappingNode) else {}


def _written(node: yaml.Node) -> yaml.Node | None:
    """The value of an entry, which may be a declaration with a value or the value alone."""
    if not isinstance(node, yaml.MappingNode):
        return node
    found = _entries(node)
    return next((found[word] for word in _WORDS if word in found), None)
