"""Reads fields of untrusted JSON.

A field of an unexpected type counts as missing. Objects of a newer version, or hostile ones, make a snapshot
less complete and never raise an error.
"""

from collections.abc import Mapping
from datetime import datetime

Json = Mapping[str, object]


def mapping(value: object, *path: str) -> Mapping[str, object]:
    """The mapping at a path below a value; empty when missing."""
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def items(value: object, *path: str) -> list[Mapping[str, object]]:
    """The mappings of the list at a path."""
    found = mapping(value, *path[:-1]).get(path[-1]) if path else value
    return [each for each in found if isinstance(each, Mapping)] if isinstance(found, list) else []


def text(value: object, *path: str) -> str:
    """The text at a path; empty when missing."""
    found = mapping(value, *path[:-1]).get(path[-1]) if path else value
    return found if isinstance(found, str) else ""


def number(value: object, *path: str) -> int | None:
    """The integer at a path; None when missing."""
    found = mapping(value, *path[:-1]).get(path[-1]) if path else value
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def texts(value: object, *path: str) -> dict[str, str]:
    """The mapping at a path, without the values that are no text."""
    return {key: each for key, each in mapping(value, *path).items() if isinstance(each, str)}


def moment(value: object, *path: str) -> datetime | None:
    """A time with a zone, as Kubernetes writes it; None when missing."""
    found = text(value, *path)
    try:
        read = datetime.fromisoformat(found)
    except ValueError:
        return None
    return read if read.tzinfo is not None else None
