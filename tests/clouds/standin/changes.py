"""What differs between two sets of inputs, input by input, and whether the resource survives it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

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
        if not path or before.get(path) == after.get(path) or _is_ignored(path, ignored):
            continue
        kind = Change.ADD if path not in before else Change.DELETE if path not in after else Change.UPDATE
        found[path] = Changed(kind, table.is_replaced_by(dotted(path)))
    return found


def _is_ignored(path: str, ignored: Sequence[str]) -> bool:
    return any(path == each or path.startswith((f"{each}.", f"{each}[")) for each in ignored)
