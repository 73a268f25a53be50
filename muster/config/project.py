"""A whole stack: its file, the files that it extends, and what its project sets for all of its stacks.

Responsible for the order: the stack file, then what it extends (extends.py), then `value:` and `default:` in
the `config:` of Pulumi.yaml.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import yaml

from muster.config.document import NAMESPACE, Document, Loader, Marks, load_file, parse_text
from muster.config.extends import EXTENDS, base_path, extend
from muster.validation.clusters import ClusterIdentity

PROJECT_FILE: Final = "Pulumi.yaml"
_KEY: Final = "stackConfigDir"
# The one mapping whose order means something: it breaks ties (Pool.order).
_POOLS: Final = f"{NAMESPACE}pools"
# The value of all stacks goes before the default; Pulumi refuses a key that has both.
_WORDS: Final = ("value", "default")


@dataclass(frozen=True, slots=True)
class ProjectConfig:
    """`values` by `muster:key`, and where each value is written. Without a key of `required` in its file, the
    engine refuses a stack.
    """

    source: str
    values: Mapping[str, object] = field(default_factory=dict)
    lines: Mapping[str, int] = field(default_factory=dict)
    required: frozenset[str] = frozenset()


def load_document(path: Path) -> Document:
    """Read a stack file with what it extends and what its project sets besides. One that cannot be read has
    one violation.
    """
    text = load_file(path)
    return text if isinstance(text, Document) else parse_document(text, path)


def parse_document(text: str, path: Path) -> Document:
    """The document of the file at `path` if it had this text."""
    return _complete(parse_text(text, source=str(path)), _project_of(path))


def load_handed_over(path: Path, values: Mapping[str, object]) -> Document:
    """The stack of which the engine handed over `values`: those of its file and of its project alone.

    The files that it extends are read here, in the same order as by `load_document`. The engine sorts every
    mapping, so the order of pools is read from the file; without one it is that of their names.
    """
    if not values.get(EXTENDS):
        marks = load_document(path) if path.is_file() else Document(str(path))
        return replace(marks, values=_as_ordered(values, marks.values), violations=())
    text = load_file(path)
    own = parse_text(text, source=str(path)) if isinstance(text, str) else Document(str(path))
    project = _project_of(path)
    general = {} if project is None else project.values
    stated = {
        key: value
        for key, value in values.items()
        if key in own.values or key not in general or value != general[key] or key == EXTENDS
    }
    written = {**general, **own.values}
    return _complete(replace(own, values=_as_ordered(stated, written), violations=()), project)


def _as_ordered(values: Mapping[str, object], written: Mapping[str, object]) -> dict[str, object]:
    """The values with the pools in the order in which they are written, the others after them by name."""
    pools, names = values.get(_POOLS), written.get(_POOLS)
    if not isinstance(pools, Mapping):
        return dict(values)
    places = {str(name): place for place, name in enumerate(names if isinstance(names, Mapping) else ())}
    ordered = sorted(pools.items(), key=lambda each: (places.get(str(each[0]), len(places)), str(each[0])))
    return {**values, _POOLS: dict(ordered)}


def extended_file(path: Path) -> Path | None:
    """The file that the file at `path` extends, whether it exists or not."""
    text, project = load_file(path), _project_of(path)
    own = parse_text(text, source=str(path)) if isinstance(text, str) else Document(str(path))
    name = _extends(own, project)
    return base_path(path, name) if isinstance(name, str) and name else None


def _extends(document: Document, project: ProjectConfig | None) -> object:
    return document.values.get(EXTENDS) or (None if project is None else project.values.get(EXTENDS))


def _complete(document: Document, project: ProjectConfig | None) -> Document:
    if document.violations and not document.values:
        return document
    if name := _extends(document, project):
        document = extend(document, name, required=project.required if project else ())
        if document.violations and not document.values:
            return document
    if project is None:
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
        marks, values, required = Marks(loader), dict[str, object](), set[str]()
        project = str(named["name"].value) if "name" in named else ""
        for written_as, node in _entries(named.get("config")).items():
            key = _ours(written_as, project)
            if key is None or key in values:
                continue
            if (written := _written(node)) is None:
                required.add(key)
                continue
            marks.walk(written, key, written.start_mark.line + 1)
            values[key] = marks.value(written)
        return ProjectConfig(str(path), values, marks.lines, frozenset(required))
    except (yaml.YAMLError, ValueError, RecursionError):
        return None
    finally:
        loader.dispose()


def _ours(key: str, project: str) -> str | None:
    """The key as a stack has it; None for another program's. The engine puts the name of the project before a
    key without a prefix.
    """
    if ":" not in key:
        key = f"{project}:{key}"
    return (
        NAMESPACE + key.removeprefix(NAMESPACE).removeprefix("config:") if key.startswith(NAMESPACE) else None
    )


def _entries(node: yaml.Node | None) -> dict[str, yaml.Node]:
    return {str(key.value): value for key, value in node.value} if isinstance(node, yaml.MappingNode) else {}


def _written(node: yaml.Node) -> yaml.Node | None:
    """The value of an entry, which may be a declaration with a value or the value alone."""
    if not isinstance(node, yaml.MappingNode):
        return node
    found = _entries(node)
    return next((found[word] for word in _WORDS if word in found), None)


# Reads which clusters the other stack files of a folder describe.
# A file that cannot be read is skipped: the check of that stack reports it.

_PREFIX: Final = "Pulumi."
_ENDING: Final = ".yaml"


def load_adjacent_clusters(source: str, *, naming: str) -> Mapping[str, ClusterIdentity]:
    """Stack name -> cluster, for the stack files beside `source` that may name a cluster `naming`."""
    path = Path(source)
    if not (path.name.startswith(_PREFIX) and path.name.endswith(_ENDING) and path.is_file()):
        return {}
    found: dict[str, ClusterIdentity] = {}
    for other in sorted(path.parent.glob(f"{_PREFIX}*{_ENDING}")):
        text = _text(other)
        # A stack that extends another file may have its cluster from there.
        may_name = other.name != path.name and (naming in text or EXTENDS in text)
        if may_name and (identity := _identity(other)) is not None:
            found[other.name.removeprefix(_PREFIX).removesuffix(_ENDING)] = identity
    return found


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def _identity(path: Path) -> ClusterIdentity | None:
    cluster = load_document(path).values.get(f"{NAMESPACE}cluster")
    if not isinstance(cluster, Mapping):
        return None
    fields = {key: cluster.get(key) for key in ("provider", "region", "name", "project")}
    return ClusterIdentity(**{key: value if isinstance(value, str) else "" for key, value in fields.items()})
