"""A stack file as values and line numbers.

Responsible for which keys belong to Muster (`config:` keys of the namespace `muster`) and for the line of
each value.
"""

import json
import re
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import yaml

from muster import bounded_yaml
from muster.errors import MusterError
from muster.model.violations import Violation, at

NAMESPACE: Final = "muster:"
# A stack file holds a few hundred teams at most. A larger file is something else and is not read into memory.
_MOST_BYTES: Final = 8 * 1024 * 1024
# Aliases can make a short file expand exponentially. 1,000 teams with every key are about 20,000 values.
_MOST_VALUES: Final = 500_000


class Loader(bounded_yaml.Loader):
    """YAML as the Pulumi engine reads it: only true and false are booleans, so `off` and `no` are strings."""


Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:bool"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
Loader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")
)


_PREFIX_MESSAGE: Final = f"is written without `{NAMESPACE}`, or with another prefix in its place."


def _unprefixed(key: str) -> str | None:
    """The name of a key that is probably Muster's. Pulumi takes one without a prefix as the project's own."""
    prefix, colon, name = key.rpartition(":")
    if not colon:
        return key.removeprefix(f"{NAMESPACE[:-1]}.")
    return name if all(each.lower() in (NAMESPACE[:-1], "config") for each in prefix.split(":")) else None


@dataclass(frozen=True, slots=True)
class Document:
    """`values` by `muster:key`, `lines` (from 1) by config path, `violations` of the file itself. `inherited`
    are file and line of what is not in this file.
    """

    source: str
    values: Mapping[str, object] = field(default_factory=dict)
    lines: Mapping[str, int] = field(default_factory=dict)
    violations: tuple[Violation, ...] = ()
    inherited: Mapping[str, tuple[str, int]] = field(default_factory=dict)

    def with_inherited(
        self, values: Mapping[str, object], lines: Mapping[str, int], *, source: str
    ) -> "Document":
        return replace(
            self,
            values={**self.values, **values},
            inherited={**self.inherited, **{path: (source, line) for path, line in lines.items()}},
        )

    def place(self, path: str) -> tuple[str, int | None]:
        """The file and the line of a path, or of its nearest parent."""
        while path:
            if path in self.lines:
                return self.source, self.lines[path]
            if path in self.inherited:
                return self.inherited[path]
            path = parent_path(path)
        return self.source, None


def parent_path(path: str) -> str:
    """`muster:pools.l4` of `muster:pools.l4.machine`; "" at the top."""
    cut = max(path.rfind("."), path.rfind("["))
    return path[:cut] if cut > 0 else ""


def nearest_line(lines: Mapping[str, int], path: str) -> int | None:
    """The line of `path` or of its nearest parent in the file."""
    while path:
        if path in lines:
            return lines[path]
        path = parent_path(path)
    return None


def load_file(path: Path) -> str | Document:
    """The text of a file, or a document with one violation where it cannot be read."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            return _unreadable(path, f"is larger than {_MOST_BYTES // 2**20} MiB", "name a stack file")
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        name = "name a stack file, stacks/Pulumi.<stack>.yaml"
        if isinstance(error, OSError):
            return _unreadable(path, f"cannot be read: {error.strerror}", name)
        line = error.object.count(b"\n", 0, error.start) + 1
        return _unreadable(path, "is not UTF-8 text", f"save it as UTF-8, or {name}", line=line)


def parse_text(text: str, *, source: str) -> Document:
    try:
        loader = Loader(text)
        try:
            root = loader.get_single_node()
            return Document(source) if root is None else Marks(loader).document(root, source)
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        line, message, fix = bounded_yaml.explain(error, text)
        return Document(source, lines={source: line}, violations=(Violation(source, message, fix),))
    except RecursionError:
        problem = Violation(
            source, "is not YAML that can be read: it nests too deeply.", "name a stack file."
        )
        return Document(source, violations=(problem,))
    except ValueError as error:
        return Document(
            source, violations=(Violation(source, f"is not YAML: {error}.", "correct the file."),)
        )


def _unreadable(path: Path, message: str, fix: str, *, line: int = 1) -> Document:
    violation = Violation(str(path), message + ".", fix + ".")
    return Document(str(path), lines={str(path): line}, violations=(violation,))


class Marks:
    """Walks the nodes once, for the line of each value and for duplicate keys. YAML would keep the last."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader
        self.lines: dict[str, int] = {}
        self._found: list[Violation] = []
        self._nodes = 0

    def document(self, root: yaml.Node, source: str) -> Document:
        config = self._config(root)
        if config is None:
            fix = "put the stack's keys under `config:`, each beginning with `muster:`."
            problem = Violation(source, "has no mapping `config:`.", fix)
            return Document(source, lines={source: root.start_mark.line + 1}, violations=(problem,))
        values: dict[str, object] = {}
        for key_node, value_node in config.value:
            key = str(key_node.value)
            if not key.startswith(NAMESPACE) or key.count(":") > 1:
                if (name := _unprefixed(key)) is None:
                    continue  # another program's key: gcp:project, kubernetes:context
                self.lines[key] = key_node.start_mark.line + 1
                self._found.append(Violation(key, _PREFIX_MESSAGE, f"write `{NAMESPACE}{name}:`."))
                key = f"{NAMESPACE}{name}"  # Read all the same, for the mistakes in it.
            if key in values:
                self._twice(key, key_node)
            self.walk(value_node, key, key_node.start_mark.line + 1)
            values[key] = self.value(value_node)
        return Document(source, values, self.lines, tuple(self._found))

    def _config(self, root: yaml.Node) -> yaml.MappingNode | None:
        if not isinstance(root, yaml.MappingNode):
            return None
        for key, value in root.value:
            if key.value == "config" and isinstance(value, yaml.MappingNode):
                return value
        return None

    def value(self, node: yaml.Node) -> object:
        value: object = self._loader.construct_object(node, deep=True)
        return value

    def walk(self, node: yaml.Node, path: str, line: int) -> None:
        self.lines[path] = line
        self._nodes += 1
        if self._nodes > _MOST_VALUES:
            raise ValueError(f"it has more than {_MOST_VALUES} values, aliases included")
        if isinstance(node, yaml.MappingNode):
            seen: set[Hashable] = set()
            for key_node, value_node in node.value:
                if key_node.tag == "tag:yaml.org,2002:merge":
                    # Merged values are defined elsewhere. Their mistakes are reported at this mapping.
                    continue
                below = at(path, str(key_node.value))
                if key_node.value in seen:
                    self._twice(below, key_node)
                seen.add(str(key_node.value))
                self.walk(value_node, below, key_node.start_mark.line + 1)
        elif isinstance(node, yaml.SequenceNode):
            for index, item in enumerate(node.value):
                self.walk(item, at(path, index), item.start_mark.line + 1)

    def _twice(self, path: str, node: yaml.Node) -> None:
        line = node.start_mark.line + 1
        self._found.append(
            Violation(
                path, f"is written twice, in lines {self.lines.get(path)} and {line}.", "keep one of the two."
            )
        )


def decode_value(value: object) -> object:
    """A value as the engine passes it: an object may be its JSON text."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


# The error for a stack file that cannot be used, and the format of a violation.
#
# A violation is reported with file, line, path, message and fix. All violations are reported at once: errors
# first, then warnings, both by line, and of one kind no more than a person reads.


_MOST_OF_A_KIND: Final = 20
# Two lines each: they fit a page of a hundred, whatever the number of kinds up to this.
_MOST: Final = 45
# What is different in violations of the same kind: quoted words, paths, numbers.
_OWN: Final = re.compile(r"'[^']*'|`[^`]*`|muster:\S+|\d+")

_PARTS: Final = re.compile(r"[^.:\[\]]+")


class ConfigError(MusterError):
    """A stack with violations. `line` finds a violation's line, if there is a file."""

    def __init__(self, violations: Sequence[Violation], document: Document) -> None:
        self.violations = in_order(violations, document)
        self.source = document.source
        self._document = document
        super().__init__("\n".join(self.describe(violation) for violation in shortened(self.violations)))

    def line(self, violation: Violation) -> int | None:
        """The line, from 1, of the violation's path or of its nearest parent in the file."""
        return self._document.place(violation.path)[1]

    def describe(self, violation: Violation) -> str:
        source, line = self._document.place(violation.path)
        return describe(violation, source=source, line=line)


def describe(violation: Violation, *, source: str, line: int | None) -> str:
    """`stacks/Pulumi.dev.yaml:14: muster:pools.l4.capacity: message` and, indented below, the fix."""
    place = source if line is None else f"{source}:{line}"
    path = "" if violation.path == source else f"{violation.path}: "
    return f"{place}: {path}{violation.message}\n    fix: {violation.fix}"


def in_order(violations: Iterable[Violation], document: Document) -> list[Violation]:
    """Errors, then warnings, both by line."""
    lines = document.lines
    return sorted(violations, key=lambda each: (each.level != "error", nearest_line(lines, each.path) or 0))


def shortened(violations: Iterable[Violation]) -> list[Violation]:
    """At most 20 of a kind, and fewer of each where that is more than a page. The last of a kind counts the
    others.
    """
    listed = [(each, _kind(each)) for each in violations]
    total, seen = Counter(kind for _, kind in listed), Counter[tuple[str, str, str]]()
    is_page = sum(min(each, _MOST_OF_A_KIND) for each in total.values()) <= _MOST
    most = _MOST_OF_A_KIND if is_page else max(1, min(_MOST_OF_A_KIND, _MOST // len(total)))
    found = []
    for each, kind in listed:
        seen[kind] += 1
        if seen[kind] < most or seen[kind] == total[kind] == most:
            found.append(each)
        elif seen[kind] == most:
            message = f"{each.message} And {total[kind] - most:,} more of this kind."
            found.append(replace(each, message=message, fix=f"{each.fix} `--json` lists them all."))
    return found


def _kind(violation: Violation) -> tuple[str, str, str]:
    """What it is, without the names of this place: those of its path, and what is quoted."""
    names = frozenset(_PARTS.findall(violation.path))

    def plain(text: str) -> str:
        return " ".join(word for word in _OWN.sub("", text).split() if word.rstrip(".,:;") not in names)

    return violation.level, plain(violation.message), plain(violation.fix)
