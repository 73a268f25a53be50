"""What differs between two sets of inputs, input by input, and whether the resource survives it."""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tests.clouds.standin.judge import dotted
from tests.clouds.standin.table import Table
from tests.clouds.standin.values import Inputs, leaves


class Change(StrEnum):
    ADD = "add"
    UPDATE = "update"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Changed:
    kind: Change
    replaces: bool


def changes(table: Table, old: Inputs, new: Inputs, *, ignored: Sequence[str] = ()) -> dict[str, Changed]:
    """Path in the engine's notation -> how it changes. Lists that are sets to the cloud are compared as
    such.
    """
    before, after = dict(leaves(dict(old))), dict(leaves(dict(new)))
    found: dict[str, Changed] = {}
    for path in sorted(before.keys() | after.keys()):
        if not path or before.get(path) == after.get(path) or covers(ignored, path):
            continue
        kind = Change.ADD if path not in before else Change.DELETE if path not in after else Change.UPDATE
        if kind is Change.DELETE and table.stays_when_left_out(dotted(path), new):
            continue
        found[path] = Changed(kind, _replaces(table, dotted(path), before.get(path), after.get(path)))
    return found


def covers(patterns: Sequence[str], path: str) -> bool:
    """Whether the path is one of these, or below one."""
    return any(path == each or path.startswith((f"{each}.", f"{each}[")) for each in patterns)


def _replaces(table: Table, path: str, old: Any, new: Any) -> bool:
    if path in table.grows:
        return not ipaddress.IPv4Network(old).subnet_of(ipaddress.IPv4Network(new))
    return table.is_replaced_by(path)
