"""Fields that are keys of a stack file: one declaration for the model, the reader and the schema.

topology: str | None = stack_key("How the chips are connected.", None, default_text="that of one node")
"""

from collections.abc import Mapping
from dataclasses import MISSING, field, is_dataclass
from types import MappingProxyType
from typing import Any, Final, NewType, TypeGuard, get_args

Seconds = NewType("Seconds", int)
"""Written as a duration: 45s, 30m, 1h30m."""
Word = NewType("Word", str)
"""A text for another program: numbers and booleans of YAML are converted."""
PARENTS: Final = "parents"
"""Class attribute: descriptions of the keys above dotted names, as `minRuntime` in `minRuntime.preempt`."""
REFUSED: Final = "refused"
"""Class attribute: keys that are refused, each with its message and its fix."""


def stack_key(
    description: str,
    default: Any = MISSING,
    *,
    key: str = "",
    default_text: str = "",
    example: object = None,
    definition: str = "",
    fix: str = "",
    **bounds: Any,
) -> Any:
    """Declare a key. Without a `default` it is required; an empty mapping is `{}`.

    `key`: where it is not the field's name in camel case, with a dot for a key below another.
    `default_text`: where only words can express the default. `definition`: the name of its schema, where
    other keys refer to the same. `fix`: what to write in place of a list that is missing or none. `bounds`:
    `least` and `most` of a number.
    """
    metadata: Mapping[str, Any] = {
        "description": description,
        "default_text": default_text,
        "example": example,
        "definition": definition,
        "fix": fix,
        "bounds": bounds,
        # Without one it is the field's name in camel case (validation/explicit_fields.py).
        **({"key": key} if key else {}),
    }
    if default == {}:
        return field(default_factory=lambda: MappingProxyType({}), metadata=metadata)
    return field(default=default, metadata=metadata)


def camel_case(name: str) -> str:
    """The key of a field that has no other: `max_nodes` is `maxNodes`."""
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def is_declared(kind: object) -> TypeGuard[type[Any]]:
    """Whether a type is a dataclass, whose fields are declared."""
    return is_dataclass(kind)


def without_none(hint: Any) -> tuple[Any, bool]:
    """The type of a field without None, and whether it may be None."""
    kinds = [kind for kind in get_args(hint) if kind is not type(None)]
    return (kinds[0], True) if type(None) in get_args(hint) else (hint, False)
