"""A field as a cloud's own API definition has it, and whether a value is one."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

Kind = Literal["string", "integer", "number", "boolean", "map", "object", "any"]
_SPOKEN: Final = {"true": True, "false": False}


class NoSuchField(Exception):
    """The definition has no field of this name: the API would refuse it, or has dropped it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiField:
    """`source` names the definition. Limits are None where the definition has none. `deprecated`: the field
    is, or one above it; `deprecated_choices`: of `choices`, those that are.
    """

    source: str
    kind: Kind
    choices: frozenset[str] = frozenset()
    least: float | None = None
    most: float | None = None
    pattern: str | None = None
    deprecated: bool = False
    deprecated_choices: frozenset[str] = frozenset()


def complaints(field: ApiField, value: Any) -> Iterator[str]:
    """What the API would say against the value; nothing when it would take it."""
    value = _as_sent(field, value)
    if not _is_of(field.kind, value):
        yield f"{field.source} is {field.kind}, not {value!r}"
        return
    if field.choices and value not in field.choices:
        yield f"{field.source} is one of {', '.join(sorted(field.choices))}, not {value!r}"
    size = len(value) if isinstance(value, str) else value
    if isinstance(size, (int, float)) and not isinstance(size, bool):
        if field.least is not None and size < field.least:
            yield f"{field.source} is at least {field.least:g}, not {value!r}"
        if field.most is not None and size > field.most:
            yield f"{field.source} is at most {field.most:g}, not {value!r}"
    if field.pattern and isinstance(value, str) and not re.search(field.pattern, value):
        yield f"{field.source} matches {field.pattern}, and {value!r} does not"


def deprecation(field: ApiField, value: Any) -> str | None:
    """What the definition calls deprecated of the field or of this value."""
    if field.deprecated:
        return f"{field.source} is deprecated"
    if isinstance(value, str) and value in field.deprecated_choices:
        return f"{value} of {field.source} is deprecated"
    return None


def _as_sent(field: ApiField, value: Any) -> Any:
    """The providers take some booleans and numbers as text, to tell false from nothing."""
    if isinstance(value, str):
        if field.kind == "boolean":
            return _SPOKEN.get(value, value)
        if field.kind == "integer" and re.fullmatch(r"-?\d+", value):
            return int(value)
    return value


def _is_of(kind: Kind, value: Any) -> bool:
    if kind in ("any", "object"):
        return True
    if kind == "map":
        return isinstance(value, dict)
    if kind == "boolean" or isinstance(value, bool):
        return kind == "boolean" and isinstance(value, bool)
    wanted: dict[Kind, type | tuple[type, ...]] = {"string": str, "integer": int, "number": (int, float)}
    return isinstance(value, wanted[kind])
