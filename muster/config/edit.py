"""Changes single values in the text of a stack file, and leaves every other byte: comments, order, style.

Responsible for where a value stands in the text. Not responsible for which values make sense: read the new
text again. What stands in more than one place, by an alias or a merge key, is not changed.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

import yaml

from muster.config.document import Loader
from muster.errors import MusterError

_MERGE = "tag:yaml.org,2002:merge"


class EditError(MusterError):
    """A value that cannot be changed in place."""


class StackText:
    """The text of a stack file with the places of its values. Paths begin below `config:`."""

    def __init__(self, text: str) -> None:
        self.text = text
        loader = Loader(text)
        try:
            self._root = loader.get_single_node()
        finally:
            loader.dispose()
        self._uses = Counter(map(id, _walk(self._root, set())))

    def has(self, path: Sequence[str]) -> bool:
        """Whether the file itself has this value, in a place of its own."""
        try:
            node, rest = self._find(path)
        except EditError:
            return False
        return node is not None and not rest

    def can_write(self, path: Sequence[str]) -> bool:
        """Whether `with_value` takes the path."""
        try:
            self.with_value(path, 0)
        except EditError:
            return False
        return True

    def with_value(self, path: Sequence[str], value: int) -> str:
        """The text with this number at the path. Mappings that are missing are added."""
        node, rest = self._find(path)
        if isinstance(node, yaml.ScalarNode) and not rest and node.value:
            return f"{self.text[: node.start_mark.index]}{value}{self.text[node.end_mark.index :]}"
        # A word, such as `all`, says something about every pool.
        if not (rest and isinstance(node, yaml.MappingNode)):
            raise _no_place(path)
        return self._added(node, f"{rest[0]}: {_written(rest[1:], value)}")

    def _find(self, path: Sequence[str]) -> tuple[yaml.Node | None, Sequence[str]]:
        """The deepest node on the path, and the keys below it that are missing."""
        node: yaml.Node | None = self._root
        for index, key in enumerate(("config", *path)):
            if not isinstance(node, yaml.MappingNode):
                return node, path[max(index - 1, 0) :]
            if any(each.tag == _MERGE for each, _ in node.value):
                raise _no_place(path)
            found = next((below for each, below in node.value if each.value == key), None)
            if found is None:
                return node, path[max(index - 1, 0) :]
            if self._uses[id(found)] > 1:
                raise _no_place(path)
            node = found
        return node, ()

    def _added(self, node: yaml.MappingNode, entry: str) -> str:
        if not node.value:
            place = node.end_mark.index - 1
            return f"{self.text[:place]}{entry}{self.text[place:]}"
        last = node.value[-1][1]
        end = _end(last)
        if node.flow_style:
            return f"{self.text[:end]}, {entry}{self.text[end:]}"
        stop = self.text.find("\n", end)
        stop = len(self.text) if stop < 0 else stop
        newline = "\n"
        if self.text[stop - 1] == "\r":
            stop, newline = stop - 1, "\r\n"
        indent = " " * node.value[0][0].start_mark.column
        return f"{self.text[:stop]}{newline}{indent}{entry}{self.text[stop:]}"


def _written(keys: Sequence[str], value: int) -> str:
    """`16`, or `{h100: 16}` below a key that is missing."""
    text = str(value)
    for key in reversed(keys):
        text = f"{{{key}: {text}}}"
    return text


def _end(node: yaml.Node) -> int:
    """Where its text ends. The mark of a mapping in lines stands at what follows, after comments."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _end(last[1] if isinstance(last, tuple) else last)
    end: int = node.end_mark.index
    return end


def _walk(node: yaml.Node | None, seen: set[int]) -> Iterator[yaml.Node]:
    """Every node as often as it is used; what is below an alias is walked once."""
    if node is None:
        return
    yield node
    if id(node) in seen or not isinstance(node, yaml.CollectionNode):
        return
    seen.add(id(node))
    for each in node.value:
        for below in each if isinstance(each, tuple) else (each,):
            yield from _walk(below, seen)


def _no_place(path: Sequence[str]) -> EditError:
    return EditError(
        f"{'.'.join(path)}: cannot be changed in place, because the file writes it as a word, by an alias or "
        "by a merge key.",
        fix="write it as an amount by pool in this file.",
    )
