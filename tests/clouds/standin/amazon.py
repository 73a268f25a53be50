"""AWS's service models, as botocore ships them.

Format: https://smithy.io and botocore.model
"""

import functools
import re
from typing import Any, Final

from botocore.loaders import Loader
from botocore.model import ServiceModel

from tests.clouds.standin.definition import ApiField, Kind, NoSuchField

_KINDS: Final[dict[str, Kind]] = {
    "string": "string",
    "character": "string",
    "blob": "string",
    "timestamp": "string",
    "integer": "integer",
    "long": "integer",
    "float": "number",
    "double": "number",
    "boolean": "boolean",
    "map": "map",
    "structure": "object",
}


@functools.cache
def _description(name: str) -> Any:
    return Loader().load_service_model(name, "service-2")


@functools.cache
def service(name: str) -> Any:
    return ServiceModel(_description(name), name)


def operations(name: str) -> frozenset[str]:
    return frozenset(service(name).operation_names)


def required(name: str, operation: str) -> frozenset[str]:
    """The members that a request must have."""
    return frozenset(_request(name, operation).required_members)


def field(name: str, operation: str, path: str) -> ApiField:
    """The field at a dotted path of an operation's request; lists are stepped through."""
    shape = _request(name, operation)
    deprecated = False
    for step in path.split("."):
        shape = _item(shape)
        if shape.type_name != "structure" or step not in shape.members:
            raise NoSuchField(f"{name} {operation} has no field {step} ({path}), only {_names(shape)}")
        # botocore's classes leave `deprecated` out.
        described = _description(name)["shapes"]
        member = described[shape.name]["members"][step]
        deprecated |= any(each.get("deprecated", False) for each in (member, described[member["shape"]]))
        shape = shape.members[step]
    return _field(f"{name} {operation}.{path}", _item(shape), deprecated)


def _request(name: str, operation: str) -> Any:
    if operation not in operations(name):
        raise NoSuchField(f"{name} has no operation {operation}")
    return service(name).operation_model(operation).input_shape


def _item(shape: Any) -> Any:
    while shape.type_name == "list":
        shape = shape.member
    return shape


def _names(shape: Any) -> str:
    return ", ".join(shape.members) if shape.type_name == "structure" else shape.type_name


def _field(source: str, shape: Any, deprecated: bool) -> ApiField:
    kind = _KINDS[shape.type_name]
    limits = shape.metadata
    return ApiField(
        source=source,
        kind=kind,
        choices=frozenset(getattr(shape, "enum", ()) or ()),
        least=limits.get("min") if kind != "map" else None,
        most=limits.get("max") if kind != "map" else None,
        pattern=_anchored(limits.get("pattern")),
        deprecated=deprecated,
    )


@functools.cache
def _anchored(pattern: str | None) -> str | None:
    """The models' patterns are of the whole value; one that Python cannot read limits nothing here."""
    try:
        return None if pattern is None else re.compile(f"^(?:{pattern})$").pattern
    except re.error:
        return None
