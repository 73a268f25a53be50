"""A stack with what it extends, as the text of one stack file.

Responsible for the text and for where each value of it is written.
"""

import io
from pathlib import Path
from typing import Final

import yaml

from muster.config.document import Document, parse_text
from muster.config.extends import EXTENDS

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
