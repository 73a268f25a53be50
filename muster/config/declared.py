"""Reads a section whose class declares its keys (model/keys.py)."""

from collections.abc import Callable, Mapping
from dataclasses import MISSING
from types import MappingProxyType
from typing import Any, TypeVar, get_args, get_origin

from muster.config.schema.declared import Key, is_named, keys
from muster.config.section import Section, describe_value
from muster.model.keys import REFUSED, Seconds, Word, is_declared
from muster.model.quantities import Bytes, parse_memory
from muster.model.violations import at

Kind = TypeVar("Kind")


def read(kind: Callable[..., Kind], section: Section, **given: Any) -> Kind | None:
    """The section's object; None where a required key is missing, which is noted. `given`: fields that are no
    keys, such as its name.
    """
    values = dict(given)
    parents: dict[str, Section] = {}
    for key in keys(kind):
        parent, *below = key.path
        holder = parents.setdefault(parent, section.section(parent)) if below else section
        values[key.attribute] = _read(key, holder)
    for name, (message, fix) in getattr(kind, REFUSED, {}).items():
        if section.get(name) is not None:
            section.note(name, message, fix)
    for holder in (*parents.values(), section):
        holder.close()
    is_whole = all(values[key.attribute] is not None for key in keys(kind) if key.is_required)
    return kind(**values) if is_whole else None


def _read(key: Key, section: Section) -> Any:
    kind, bounds = key.kind, key.metadata["bounds"]
    if is_declared(kind):
        below = section.section(key.name)
        return None if key.default is None and not section.has(key.name) else read(kind, below)
    if get_origin(kind) is tuple:
        return _items(get_args(kind)[0], section, key)
    if get_origin(kind) is Mapping:
        return _by_name(get_args(kind)[1], section.section(key.name), bounds)
    if section.get(key.name) is None and not key.is_required:
        return key.default
    return _scalar(kind, section, key.name, key.default, bounds)


def _items(kind: type[Any], section: Section, key: Key) -> tuple[Any, ...]:
    if is_named(kind):
        return section.each(key.name, lambda entry, name: read(kind, entry, name=name))
    value = section.get(key.name)
    items = value if isinstance(value, list) else []
    if not items:
        message = f"must be a list of {key.name}, is {describe_value(value)}."
        section.note(key.name, message, key.metadata["fix"])
    path = at(section.path, key.name)
    objects = [read(kind, Section(item, at(path, index), section.found)) for index, item in enumerate(items)]
    return tuple(item for item in objects if item is not None)


def _by_name(kind: Any, section: Section, bounds: Mapping[str, Any]) -> Mapping[str, Any]:
    values = {
        name: read(kind, Section(value, at(section.path, name), section.found))
        if is_declared(kind)
        else _scalar(kind, section, name, None, bounds)
        for name, value in section.items()
    }
    return MappingProxyType({name: value for name, value in values.items() if value is not None})


def _scalar(kind: Any, section: Section, name: str, default: Any, bounds: Mapping[str, Any]) -> Any:
    if kind is Word:
        return _word(section, name)
    if kind is Bytes:
        return _memory(section, name)
    if kind is Seconds:
        return section.duration(name, 0)
    if kind is str:
        return section.text(name, required=default is MISSING)
    if kind is bool:
        return section.flag(name, default is not False)
    if kind is float:
        return section.number(name, **bounds)
    if kind is int:
        return section.integer(name, bounds.get("least", 0) if default is None else default, **bounds)
    return section.choice(name, kind, default or next(iter(kind)))


def _word(section: Section, name: str) -> str | None:
    value = section.get(name)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    section.note(name, f"must be a text, is {describe_value(value)}.", "put it in quotes.")
    return None


def _memory(section: Section, name: str) -> Bytes | None:
    try:
        return parse_memory(str(section.get(name)))
    except ValueError as error:
        section.note(name, f"must be an amount of memory: {error}.", "write it like 512Mi or 6Gi.")
        return None
