"""A snapshot as JSON, as `muster snapshot` writes it.

Unlike an object of a cluster, a file is the user's input: a field of an unexpected type is an error that
names it.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Final, get_args, get_origin, get_type_hints

from muster.live.errors import PreviewError
from muster.live.sanitize import sanitize_line
from muster.live.snapshot.snapshot import Snapshot

_VERSION: Final = 1
_HOW: Final = "Fix: record it again with `muster snapshot --kubeconfig FILE > SNAPSHOT`."


class SnapshotError(PreviewError):
    """A file that is not a snapshot."""


def format_snapshot(snapshot: Snapshot) -> str:
    """The text of the file. Equal snapshots give equal bytes."""
    return json.dumps({"version": _VERSION, **_to_json(snapshot)}, indent=1) + "\n"


def load_snapshot(path: Path) -> Snapshot:
    """The snapshot in a file; SnapshotError when it is not one."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise SnapshotError(f"{path}: cannot be read: {error.strerror}. {_HOW}") from None
    except UnicodeDecodeError:
        raise SnapshotError(f"{path}: not UTF-8 text. {_HOW}") from None
    return parse_snapshot(text, source=str(path))


def parse_snapshot(text: str, *, source: str) -> Snapshot:
    """The snapshot in a text; SnapshotError when it is not one."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise SnapshotError(f"{source}: not JSON, or incomplete. {_HOW}") from None
    if not isinstance(found, dict) or found.get("version") != _VERSION:
        raise SnapshotError(f"{source}: not a snapshot of version {_VERSION}. {_HOW}")
    try:
        read = _parse_value(
            Snapshot, {key: value for key, value in found.items() if key != "version"}, "snapshot"
        )
    except _MisfitError as error:
        raise SnapshotError(f"{source}: {sanitize_line(str(error))} {_HOW}") from None
    assert isinstance(read, Snapshot)
    return read


# Both directions follow the dataclasses, so a new field needs no change here.


def _to_json(value: object) -> Any:
    if is_dataclass(value):
        return {each.name: _to_json(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _to_json(each) for key, each in sorted(value.items())}
    if isinstance(value, tuple):
        return [_to_json(each) for each in value]
    return value.isoformat() if isinstance(value, datetime) else value


class _MisfitError(Exception):
    """A value whose type does not fit its field."""


def _parse_value(kind: Any, value: object, place: str) -> object:
    if isinstance(kind, type) and is_dataclass(kind):
        return _parse_record(kind, value, place)
    origin, inner = get_origin(kind), get_args(kind)
    if origin is tuple and isinstance(value, list):
        return tuple(_parse_value(inner[0], each, f"{place}[{index}]") for index, each in enumerate(value))
    if origin is Mapping and isinstance(value, dict):
        return {key: _parse_value(inner[1], each, f"{place}.{key}") for key, each in value.items()}
    if origin is UnionType:
        if value is None and NoneType in inner:
            return None
        return _parse_value(next(each for each in inner if each is not NoneType), value, place)
    return _parse_scalar(kind, value, place)


def _parse_record(kind: Callable[..., object], value: object, place: str) -> object:
    hints = get_type_hints(kind)
    if not isinstance(value, dict) or not value.keys() <= hints.keys():
        raise _MisfitError(f"{place}: expected {_type_name(kind)}.")
    try:
        return kind(**{key: _parse_value(hints[key], each, f"{place}.{key}") for key, each in value.items()})
    except TypeError:
        raise _MisfitError(f"{place}: a required field of {_type_name(kind)} is missing.") from None


def _parse_scalar(kind: Any, value: object, place: str) -> object:
    try:
        if kind is datetime and isinstance(value, str) and (read := datetime.fromisoformat(value)).tzinfo:
            return read
        if type(value) in (kind, str) and type(value) in kind.__mro__:
            return kind(value)
    except ValueError:
        pass
    raise _MisfitError(f"{place}: expected {_type_name(kind)}.")


def _type_name(kind: object) -> str:
    return getattr(kind, "__name__", str(kind))
