"""Reads fields of untrusted JSON.

A field of an unexpected type counts as missing. Objects of a newer version, or hostile ones, make a snapshot
less complete and never raise an error.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

from muster.printable import sanitize_line


def format_columns(
    head: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[str] = ()
) -> Iterator[str]:
    """The lines of a table, from untrusted text; columns whose heads are in `right` end at the right."""
    table = [head, *([sanitize_line(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        cells = (
            cell.rjust(width) if name in right else cell.ljust(width)
            for cell, width, name in zip(row, widths, head, strict=True)
        )
        yield "  ".join(cells).rstrip()


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


def strings(value: object, *path: str) -> tuple[str, ...]:
    """The texts of the list at a path."""
    found = mapping(value, *path[:-1]).get(path[-1]) if path else value
    return tuple(each for each in found if isinstance(each, str)) if isinstance(found, list) else ()


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


# Conditions of an untrusted object, and what Kueue writes into them.

# Kueue writes the preemptor's uid into the victim's condition (pkg/scheduler/preemption of 0.19).
_PREEMPTOR: Final = re.compile(r"\(UID: ([0-9a-f-]{36})")


def find_condition(workload: object, kind: str) -> Mapping[str, object]:
    """A condition, empty where there is none."""
    return next((each for each in items(workload, "status", "conditions") if text(each, "type") == kind), {})


def is_true(workload: object, kind: str) -> bool:
    """Whether a condition is True."""
    return text(find_condition(workload, kind), "status") == "True"


def parse_preemptor(workload: object) -> tuple[str, str]:
    """(uid, reason) of the preemption in the Workload's conditions; ("", "") without one."""
    preempted = find_condition(workload, "Preempted")
    if text(preempted, "status") != "True":
        return "", ""
    found = _PREEMPTOR.search(text(preempted, "message"))
    return (found[1] if found else ""), text(preempted, "reason")
