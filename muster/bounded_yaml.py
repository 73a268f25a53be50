"""A YAML reader with bounds: what aliases may add to a text, and how deep it may nest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import yaml
from yaml.composer import Composer, ComposerError
from yaml.constructor import SafeConstructor
from yaml.resolver import Resolver

# libyaml's parser, where PyYAML was built with it: ten times as fast as PyYAML's own.
_PARSER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# Characters that aliases and merge keys may add. Without a bound 351 bytes became values for 16 seconds.
_MOST_ADDED: Final = 1_000_000
# Nesting up to here is read from events; what nests deeper is left to the composer, which has its own bound.
_MOST_NESTED: Final = 100


class AliasError(ComposerError):
    """Aliases or merge keys that expand a text too far, or without end."""


class DuplicateKeyError(ComposerError):
    """A key that a mapping has twice. YAML's readers keep the last; a person has overlooked one."""


class _NotPlainError(Exception):
    """A text that only the composer reads: with anchors, tags, merge keys, deep nesting or a mistake."""


class Loader(Composer, SafeConstructor, Resolver):
    """Plain values of a text.

    The nodes are composed here and not by libyaml's binding, which ends the process where they are too deep;
    here that is a RecursionError.
    """

    def __init__(self, text: str) -> None:
        Composer.__init__(self)
        SafeConstructor.__init__(self)
        Resolver.__init__(self)
        parser = _PARSER(text)
        self.check_event, self.peek_event = parser.check_event, parser.peek_event
        self.get_event, self.dispose = parser.get_event, parser.dispose
        # A value that is written once has at most two characters of counted size for each of the text's.
        self._most = 2 * len(text) + _MOST_ADDED

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        node = super().compose_node(parent, index)
        # Without a parent it is the whole document. Merge keys, which are expanded later, are aliases here.
        if parent is None and node is not None and self.anchors and _size(node, {}) > self._most:
            raise AliasError(
                None, None, f"aliases make more than {_MOST_ADDED} characters of it", node.start_mark
            )
        return node


def load_all(text: str, *, by: type[Loader] = Loader, is_strict: bool = False) -> Iterator[object]:
    """The documents of a text. Raises yaml.YAMLError, or RecursionError where it nests too deeply.
    `is_strict`: also where a mapping has a key twice.
    """
    return (document for _, document in load_with_lines(text, by=by, is_strict=is_strict))


def load_with_lines(
    text: str, *, by: type[Loader] = Loader, is_strict: bool = False
) -> Iterator[tuple[int, object]]:
    """The documents of a text, each with the line on which it begins, from 1. Raises as `load_all` does."""
    done = 0
    if by is Loader:
        try:
            for found in _plain_documents(text):
                yield found
                done += 1
            return
        except (_NotPlainError, yaml.YAMLError, ValueError):
            pass  # The composer reads it, or says what is wrong and where.
    loader = by(text)
    try:
        while loader.check_node():
            node = loader.get_node()
            if node is not None:
                if is_strict:
                    _check_keys(node)
                if not done:
                    yield node.start_mark.line + 1, loader.construct_document(node)
                done = max(0, done - 1)
    finally:
        loader.dispose()


def _plain_documents(text: str) -> Iterator[tuple[int, object]]:
    """The documents straight from the parser's events, without nodes: a third of the time. Scalars become
    what the constructor makes of them, each text once. Raises _NotPlainError.
    """
    loader = Loader(text)
    scalars: dict[str, object] = {}
    try:
        while not isinstance(loader.get_event(), yaml.StreamEndEvent):
            if isinstance(loader.peek_event(), yaml.DocumentStartEvent):
                loader.get_event()
                line = loader.peek_event().start_mark.line + 1
                yield line, _plain_value(loader, scalars)
    finally:
        loader.dispose()


def _plain_value(loader: Loader, scalars: dict[str, object]) -> object:
    """The value that begins with the next event."""
    root: list[object] = []
    # Containers from the outermost to the innermost; for a mapping the key that waits for its value.
    open_: list[tuple[Any, list[object]]] = [(root, [])]
    while True:
        event = loader.get_event()
        if isinstance(event, yaml.ScalarEvent):
            value = _scalar(loader, event, scalars)
        elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            if event.anchor is not None or not event.implicit or len(open_) > _MOST_NESTED:
                raise _NotPlainError
            value = {} if isinstance(event, yaml.MappingStartEvent) else []
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            open_.pop()
            if len(open_) == 1:
                return root[0]
            continue
        else:
            raise _NotPlainError
        container, key = open_[-1]
        if isinstance(container, list):
            container.append(value)
        elif key:
            if key[0] in container:
                raise _NotPlainError
            container[key.pop()] = value
        else:
            if not isinstance(event, yaml.ScalarEvent):
                raise _NotPlainError
            key.append(value)
        if isinstance(event, yaml.ScalarEvent):
            if len(open_) == 1:
                return root[0]
        else:
            open_.append((value, []))


def _scalar(loader: Loader, event: yaml.ScalarEvent, scalars: dict[str, object]) -> object:
    is_plain = event.implicit[0]
    if event.anchor is not None or event.tag is not None or (is_plain and event.value in ("<<", "=")):
        raise _NotPlainError
    if not is_plain:
        return event.value
    if event.value not in scalars:
        resolver: Any = loader  # The stubs give `resolve` no types.
        tag = resolver.resolve(yaml.ScalarNode, event.value, event.implicit)
        scalars[event.value] = loader.construct_object(yaml.ScalarNode(tag, event.value))
    return scalars[event.value]


def explain(error: yaml.YAMLError, text: str) -> tuple[int, str, str]:
    """Line from 1, what is wrong, and the fix."""
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return 1, f"is not YAML: {error}.", "correct the file."
    line, column = _place(error.problem_mark, text)
    fix = "correct the line; two spaces indent a level, and no tab."
    if isinstance(error, AliasError):
        fix = "write the values out."
    if isinstance(error, DuplicateKeyError):
        return line, f"{error.problem}.", "keep one of the two, or begin another object by a line `---`."
    if "{{" in "".join(text.split("\n")[max(0, line - 2) : line]):
        fix = "fill in the template: what stands in {{ }} is no value yet."
    return line, f"is not YAML in line {line}, column {column}: {error.problem}.", fix


def _place(mark: yaml.Mark, text: str) -> tuple[int, int]:
    """Line and column, from 1. The parser counts the end of a text as the beginning of another line."""
    lines = text.split("\n")
    if mark.line >= len(lines):
        return len(lines), len(lines[-1]) + 1
    return mark.line + 1, mark.column + 1


def _check_keys(root: yaml.Node) -> None:
    """Raise DuplicateKeyError where a mapping has a key twice; `<<` may be there again."""
    left, done = [root], set[int]()
    while left:
        node = left.pop()
        if id(node) in done:
            continue
        done.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            left += reversed(node.value)
        elif isinstance(node, yaml.MappingNode):
            lines: dict[tuple[str, str], int] = {}
            for key, value in node.value:
                line, at = key.start_mark.line + 1, (key.tag, str(key.value))
                if at in lines and key.value != "<<":
                    problem = f"{key.value!r} is written twice, in lines {lines[at]} and {line}"
                    raise DuplicateKeyError(None, None, problem, key.start_mark)
                lines[at] = line
                left.append(value)


def _size(node: yaml.Node, sizes: dict[int, int | None]) -> int:
    """Nodes and characters of what a node expands to. `sizes` has None for those that are being counted."""
    if id(node) in sizes:
        size = sizes[id(node)]
        if size is None:
            raise AliasError(None, None, "an alias contains itself", node.start_mark)
        return size
    sizes[id(node)] = None
    match node:
        case yaml.MappingNode():
            size = 1 + sum(_size(key, sizes) + _size(value, sizes) for key, value in node.value)
        case yaml.SequenceNode():
            size = 1 + sum(_size(each, sizes) for each in node.value)
        case _:
            size = 1 + len(node.value)
    sizes[id(node)] = size
    return size
