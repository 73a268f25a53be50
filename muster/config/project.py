"""A whole stack: its file, the files that it extends, and what its project sets for all of its stacks.

`muster:extends: base` is `base.yaml` beside the file. Mappings are merged, lists and single values replace,
an empty value removes. The order is the stack file, then what it extends, then `value:` and `default:` in the
`config:` of Pulumi.yaml.
"""

import io
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import yaml

from muster.config.document import NAMESPACE, Document, Loader, Marks, load_file, parent_path, parse_text
from muster.model.violations import Violation, at
from muster.validation.clusters import ClusterIdentity

EXTENDS: Final = f"{NAMESPACE}extends"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
# More levels than a reader can follow.
_MOST_FILES: Final = 8

Origins = dict[str, tuple[str, int]]


def base_path(file: Path, name: str) -> Path:
    """The file that `name` means in `file`."""
    return file.parent / f"{name}.yaml"


def extend(document: Document, name: object, *, required: Collection[str] = ()) -> Document:
    """The document on top of the files that it extends, `name` first.

    Where they cannot be read or merged, the document has the reason as its violation, and no values. The
    engine refuses a stack file without the keys of `required`, wherever else they are set.
    """
    layers, broken = _layers(document, name)
    if broken is not None:
        return broken
    below: dict[str, object] = {}
    origins: Origins = {}
    for layer in reversed(layers):
        below, origins = _merged(below, origins, layer)
    own = _without_extends(document)
    values, origins = _merged(below, origins, own)
    inherited = {path: origin for path, origin in origins.items() if path not in document.lines}
    merged = replace(document, values=values, inherited=inherited)
    found = (
        *(_secret(path) for path in _secrets(values, "") if merged.place(path)[0] != document.source),
        *(_absent(key, document.source) for key in required if key in below and key not in own.values),
        *(_empty(key) for key, value in own.values.items() if value is None and key in below),
    )
    return replace(merged, values={}, violations=found) if found else merged


def _without_extends(document: Document) -> Document:
    return replace(document, values={key: each for key, each in document.values.items() if key != EXTENDS})


def _layers(document: Document, name: object) -> tuple[list[Document], Document | None]:
    """The extended files, nearest first; or the document to report where one of them cannot be used."""
    layers: list[Document] = []
    upper, stack = document, Path(document.source)
    while name not in (None, ""):
        files = [stack.name, *(Path(layer.source).name for layer in layers)]
        problem = _problem(name, files, stack)
        if problem is not None:
            return layers, _broken(document, replace(upper, violations=(problem,)))
        path = base_path(stack, str(name))
        text = load_file(path)
        upper = text if isinstance(text, Document) else parse_text(text, source=str(path))
        if upper.violations:
            return layers, _broken(document, upper)
        name = upper.values.get(EXTENDS)
        layers.append(_without_extends(upper))
    return layers, None


def _problem(name: object, files: list[str], stack: Path) -> Violation | None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        message = "must be the name of a file in the same folder, without `.yaml`."
        return Violation(EXTENDS, message, "write `muster:extends: base` for base.yaml beside this file.")
    path = base_path(stack, name)
    if path.name in files:
        circle = " -> ".join([*files[files.index(path.name) :], path.name])
        return Violation(EXTENDS, f"goes in a circle: {circle}.", "remove one of these `muster:extends`.")
    if len(files) > _MOST_FILES:
        message = f"has more than {_MOST_FILES} files below the stack: {' -> '.join([*files, path.name])}."
        return Violation(EXTENDS, message, "merge some of them into one file.")
    if not path.is_file():
        here = sorted(each.stem for each in stack.parent.glob("*.yaml") if each.name not in files)
        fix = f"write it, or name one of: {', '.join(here)}." if here else "write it."
        return Violation(EXTENDS, f"names {path.name}, and there is no such file beside {files[-1]}.", fix)
    return None


def _broken(document: Document, cause: Document) -> Document:
    """The violations of `cause`, at the lines of that file."""
    places = {path: (cause.source, line) for path, line in cause.lines.items()}
    return Document(document.source, violations=cause.violations, inherited=places)


def _merged(
    below: Mapping[str, object], origins: Origins, layer: Document
) -> tuple[dict[str, object], Origins]:
    merge = _Merge(set())
    values = merge.mappings(below, layer.values, "")
    kept = {path: origin for path, origin in origins.items() if not merge.is_replaced(path)}
    return values, kept | {path: (layer.source, line) for path, line in layer.lines.items()}


@dataclass(frozen=True, slots=True)
class _Merge:
    """One merge of two files. `replaced` are the paths whose value below is gone, with all beneath it."""

    replaced: set[str]

    def mappings(
        self, below: Mapping[str, object], above: Mapping[str, object], path: str
    ) -> dict[str, object]:
        result = {str(key): value for key, value in below.items()}
        for key, value in ((str(key), value) for key, value in above.items()):
            place = at(path, key)
            if key in result and value is None:
                del result[key]
                self.replaced.add(place)
            else:
                result[key] = self._value(result[key], value, place) if key in result else value
        return result

    def _value(self, below: object, above: object, path: str) -> object:
        both = isinstance(below, Mapping) and isinstance(above, Mapping)
        if both and not (_is_secret(below) or _is_secret(above)):
            assert isinstance(below, Mapping)
            assert isinstance(above, Mapping)
            return self.mappings(below, above, path)
        self.replaced.add(path)
        return above

    def is_replaced(self, path: str) -> bool:
        while path:
            if path in self.replaced:
                return True
            path = parent_path(path)
        return False


def _is_secret(value: object) -> bool:
    """As Pulumi writes an encrypted value."""
    return isinstance(value, Mapping) and set(value) == {"secure"} and isinstance(value["secure"], str)


def _secrets(value: object, path: str) -> Iterator[str]:
    """The paths of encrypted values."""
    if _is_secret(value):
        yield path
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from _secrets(each, at(path, str(key)))
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from _secrets(each, at(path, index))


def _secret(path: str) -> Violation:
    message = "is a secret. Pulumi decrypts those of the stack's own file only, with that file's key."
    return Violation(
        path, message, "set it in each stack, `pulumi config set --secret`, or keep it in Pulumi ESC."
    )


def _absent(key: str, stack: str) -> Violation:
    file = Path(stack).name
    message = f"takes {key} from another file, and Pulumi requires that key in {file} itself."
    return Violation(EXTENDS, message, f"add `{key}: {{}}` to {file}: nothing inherited is lost by it.")


def _empty(key: str) -> Violation:
    message = "is empty. Pulumi takes no empty key in a stack file, so a whole key cannot be removed."
    return Violation(key, message, "write the value that this stack has, or remove its entries one by one.")


# A stack with what it extends, as the text of one stack file.
#
# Responsible for the text and for where each value of it is written.

_LONGEST_LINE: Final = 2**31 - 1


def plain_values(document: Document) -> dict[str, object]:
    """The values, without the key by which they were merged."""
    return {key: value for key, value in document.values.items() if key != EXTENDS}


def to_text(document: Document, *, origins: bool = False) -> str:
    """A stack file with the values; with `origins`, a comment names the file and the line of each."""
    text = _dumped(document)
    if not origins:
        return text
    # Of two paths in one line, such as an item of a list and its first key, the inner one comes last.
    paths = {line: path for path, line in parse_text(text, source="").lines.items()}
    lines = text.splitlines()
    return "".join(
        f"{_with_origin(line, paths.get(number), document)}\n" for number, line in enumerate(lines, 1)
    )


def origin_records(document: Document) -> dict[str, dict[str, object]]:
    """Path -> file and line, of every value."""
    places = ((path, document.place(path)) for path in parse_text(_dumped(document), source="").lines)
    return {path: {"file": Path(file).as_posix(), "line": line} for path, (file, line) in places}


def _dumped(document: Document) -> str:
    out = io.StringIO()
    dumper = _Dumper(out, sort_keys=False, allow_unicode=True, width=_LONGEST_LINE)
    dumper.open()
    dumper.represent({"config": plain_values(document)})
    dumper.close()
    return out.getvalue()


class _Dumper(yaml.SafeDumper):
    """Repeats a value rather than to write an alias, and writes each text in one line."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = '"' if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def _with_origin(line: str, path: str | None, document: Document) -> str:
    if path is None:
        return line
    file, number = document.place(path)
    place = Path(file).name
    return f"{line}  # {place}" if number is None else f"{line}  # {place}:{number}"


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
            key = _stack_key(written_as, project)
            if key is None or key in values:
                continue
            if (written := _value_node(node)) is None:
                required.add(key)
                continue
            marks.walk(written, key, written.start_mark.line + 1)
            values[key] = marks.value(written)
        return ProjectConfig(str(path), values, marks.lines, frozenset(required))
    except (yaml.YAMLError, ValueError, RecursionError):
        return None
    finally:
        loader.dispose()


def _stack_key(key: str, project: str) -> str | None:
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


def _value_node(node: yaml.Node) -> yaml.Node | None:
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
