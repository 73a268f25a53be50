"""A stack file on top of the file that it extends: `muster:extends: base` is `base.yaml` beside it.

Responsible for which files a stack consists of, and for how two files become one: mappings are merged, lists
and single values replace, an empty value removes.
"""

import io
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import yaml

from muster.config.document import NAMESPACE, Document, load_file, parent_path, parse_text
from muster.model.violations import Violation, at

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
