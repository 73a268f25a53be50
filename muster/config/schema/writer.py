"""The schema of a section of a stack file whose class declares its keys (model/keys.py)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, get_args, get_origin

from muster.config.schema import kinds
from muster.config.schema.kinds import Schema
from muster.model.keys import Key, Parameter, SchemaWriter, Seconds, is_named, is_spec, keys
from muster.model.programs import Version
from muster.model.quantities import Bytes, Quantity, format_memory


class _Writer(SchemaWriter):
    scalars: Mapping[Any, Schema] = {
        bool: kinds.flag(),
        str: kinds.text(),
        int: kinds.integer(),
        float: kinds.number(),
        Bytes: kinds.quantity(),
        Parameter: {"type": ["string", "integer"], "maxLength": 255},
        Quantity: kinds.quantity(),
        Seconds: kinds.duration(),
        Version: kinds.text(),
    }

    def of_class(self, kind: Any) -> Schema:
        short = getattr(kind, "SHORT", "")
        whole = kinds.mapping(
            self.properties(kind),
            required=[name for key in keys(kind) for name in self._required(key)],
        )
        if not short:
            return whole
        key = next(key for key in keys(kind) if key.name == short)
        return kinds.either(self.of_type(key.kind, _numbers(key.bounds)), whole)

    def _required(self, key: Key) -> Sequence[str]:
        if key.metadata["is_inline"]:
            return key.kind.schema().get("required", ()) if is_spec(key.kind) else ()
        return (key.name,) if key.is_required else ()

    def by_name(self, item: Schema) -> Schema:
        return kinds.by_name(item)

    def of_type(self, kind: Any, bounds: Mapping[str, Any] = MappingProxyType({})) -> Schema:
        return kinds.of_definition(kind.schema()) if is_spec(kind) else super().of_type(kind, bounds)

    def of_item(self, kind: Any) -> Schema:
        # An empty text is one that nobody means: a rule says what is wrong with it.
        return {"type": "string"} if kind is str else self.of_type(kind)

    def properties(
        self, kind: Any, default_texts: Mapping[str, str] = MappingProxyType({})
    ) -> dict[str, Schema]:
        """The keys in the order of the fields."""
        properties: dict[str, Schema] = {}
        children: dict[str, dict[str, Schema]] = {}
        for key in keys(kind):
            above, *below = key.path
            if key.metadata["is_inline"]:
                properties |= (
                    self.of_type(key.kind)["properties"]
                    if is_spec(key.kind)
                    else self.properties(key.kind, key.metadata["default_texts"])
                )
            elif below:
                properties.setdefault(above, {})
                children.setdefault(above, {})[key.name] = self.of_key(key)
            else:
                properties[above] = self.of_key(key, default_texts.get(above, ""))
        for above, inner in children.items():
            parent = kind.PARENTS[above]
            section = kinds.mapping(inner, required=parent.required)
            properties[above] = kinds.key(
                parent.description, section, otherwise=parent.default_text, example=parent.example
            )
        return properties

    def of_key(self, key: Key, default_text: str = "") -> Schema:
        """A key: its kind, what it is for, its default, an example."""
        metadata = key.metadata
        default_text = default_text or metadata["default_text"]
        described = self._of_value(key)
        if not metadata["description"]:
            return described
        return kinds.key(
            metadata["description"],
            described,
            default=None if default_text else _shown(key),
            otherwise=default_text,
            example=metadata["example"],
        )

    def _of_value(self, key: Key) -> Schema:
        metadata = key.metadata
        if definition := metadata["definition"]:
            reference = kinds.defined(definition)
            is_mapping = get_origin(key.kind) is Mapping or is_named(next(iter(get_args(key.kind)), None))
            return kinds.by_name(reference) if is_mapping else reference
        if callable(metadata["schema"]):
            written: Schema = metadata["schema"](self)
            return written
        if metadata["schema"] is not None:
            return dict(metadata["schema"])
        return self.of_type(key.kind, _numbers(key.bounds))


def _numbers(bounds: Mapping[str, Any]) -> Mapping[str, Any]:
    """The bounds; a signed number of 32 bits has its own."""
    signed = {"minimum": -(2**31), "maximum": 2**31 - 1}
    return {name: signed[name] if bound is None else bound for name, bound in bounds.items()}


def _shown(key: Key) -> object:
    """The default as a stack file has it; None where there is none to show."""
    default = key.metadata["written_default"] or key.default
    if key.kind in _FORMATS and default is not None:
        return _FORMATS[key.kind](default)
    if isinstance(default, StrEnum):
        return default.value
    if isinstance(default, tuple):
        return [str(item) for item in default] or None
    if default is None or default is MISSING or default == "":
        return None
    return default if isinstance(default, bool | int | float | str) else None


_FORMATS: Final[Mapping[Any, Callable[[Any], str]]] = {
    Bytes: format_memory,
    Seconds: kinds.format_seconds,
    Version: lambda version: f"{version.major}.{version.minor}",
}
_WRITER: Final = _Writer()


def schema(kind: Any) -> Schema:
    """The section as JSON Schema, its keys in the order of the fields."""
    return _WRITER.of_type(kind)


def properties(kind: Any) -> dict[str, Schema]:
    """The keys of the section."""
    return _WRITER.properties(kind)
