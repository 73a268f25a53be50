"""What the pinned SDKs say of a resource's inputs: their names, their types, and which are required."""

import functools
import importlib
import inspect
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pulumi import _types

from muster.provider.provider import UNKNOWN
from tests.clouds.standin.refusal import Refusal
from tests.clouds.standin.values import joined

_SCALARS = {str: "a string", bool: "true or false", int: "a whole number", float: "a number"}


@dataclass(frozen=True, slots=True)
class Field:
    """One input: `type` is a scalar type, an Args class, or a Sequence or Mapping of one."""

    type: Any
    required: bool
    deprecated: bool = False


@functools.cache
def arguments(name: str) -> type:
    """`pulumi_gcp.container:NodePoolArgs` -> the class."""
    module, _, cls = name.partition(":")
    found: type = getattr(importlib.import_module(module), cls)
    return found


@functools.cache
def fields(cls: type) -> Mapping[str, Field]:
    """Input name, in the engine's spelling -> what it may be."""
    parameters = inspect.signature(cls).parameters
    names = _types.input_type_py_to_pulumi_names(cls)
    kinds = _types.input_type_types(cls)
    required = {names[key] for key, each in parameters.items() if each.default is inspect.Parameter.empty}
    old = {names[key] for key in parameters if _is_deprecated(getattr(cls, key, None))}
    return {name: Field(bare(kind), name in required, name in old) for name, kind in kinds.items()}


def refusals(cls: type, inputs: Mapping[str, Any], path: str = "") -> Iterator[Refusal]:
    """Unknown names, missing required inputs and wrong types, at any depth."""
    known = fields(cls)
    for name, value in inputs.items():
        below = joined(path, name)
        if name not in known:
            yield Refusal(below, f"{cls.__name__} has no such input; it has {', '.join(sorted(known))}")
        elif value is not None:
            yield from _typed(known[name].type, value, below)
    for name, field in known.items():
        if field.required and inputs.get(name) is None:
            yield Refusal(joined(path, name), f"{cls.__name__} requires it")


def at(cls: type, path: str) -> Any:
    """The type of the input at a dotted path through objects and lists; KeyError where there is none."""
    return _along(cls, path)[-1].type


def is_deprecated(cls: type, path: str) -> bool:
    """Whether the SDK calls the input at a dotted path, or one above it, deprecated."""
    return any(field.deprecated for field in _along(cls, path))


def _along(cls: type, path: str) -> list[Field]:
    kind: Any = cls
    found = []
    for step in path.split("."):
        while _is_sequence(kind):
            (kind,) = map(bare, typing.get_args(kind))
        found.append(fields(kind)[step])
        kind = found[-1].type
    return found


def _is_deprecated(prop: Any) -> bool:
    """The SDKs' generator marks the getter (pulumi_gcp/_utilities.py, `deprecated`)."""
    return hasattr(getattr(prop, "fget", None), "_pulumi_deprecated_callable")


def is_mapping(kind: Any) -> bool:
    return typing.get_origin(kind) in (dict, Mapping)


def is_object(kind: Any) -> bool:
    return isinstance(kind, type) and _types.is_input_type(kind)


def _typed(kind: Any, value: Any, path: str) -> Iterator[Refusal]:
    if value == UNKNOWN:
        return
    if _is_sequence(kind):
        if not isinstance(value, list):
            yield Refusal(path, f"the SDK's type is a list, not {value!r}")
            return
        (item,) = map(bare, typing.get_args(kind))
        for index, each in enumerate(value):
            yield from _typed(item, each, f"{path}[{index}]")
    elif is_mapping(kind) or is_object(kind):
        if not isinstance(value, Mapping):
            yield Refusal(path, f"the SDK's type is an object, not {value!r}")
        elif is_object(kind):
            yield from refusals(kind, value, path)
        else:
            for name, each in value.items():
                yield from _typed(bare(typing.get_args(kind)[1]), each, joined(path, name))
    elif kind in _SCALARS and not _is_scalar(kind, value):
        yield Refusal(path, f"the SDK's type is {_SCALARS[kind]}, not {value!r}")


def _is_scalar(kind: type, value: Any) -> bool:
    if kind is bool or isinstance(value, bool):
        return kind is bool and isinstance(value, bool)
    return isinstance(value, (int, float) if kind is float else kind)


def _is_sequence(kind: Any) -> bool:
    return typing.get_origin(kind) in (list, Sequence)


def bare(kind: Any) -> Any:
    """`Input[Optional[T]]` -> T: the wire carries neither promises nor nothing."""
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        members = [each for each in typing.get_args(kind) if not _is_plumbing(each)]
        scalars = [each for each in members if each in _SCALARS]
        # Where an object and its text are taken (policy documents), the text is what this project sends.
        return (scalars or members or [Any])[0]
    return kind


def _is_plumbing(kind: Any) -> bool:
    origin = typing.get_origin(kind) or kind
    return kind is type(None) or getattr(origin, "__name__", "") in ("Awaitable", "Output")
