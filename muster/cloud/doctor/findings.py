"""What a look at one thing found, and the fix.

Decides the shape and the order. Leaves looking to the other modules.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class State(StrEnum):
    """unknown: it could not be looked at, which is no reason to believe that it is well."""

    OK = "ok"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Finding:
    """`fix` is empty when all is well."""

    check: str
    state: State
    message: str
    fix: str = ""

    def document(self) -> dict[str, Any]:
        return asdict(self)


Check = Callable[[], Iterable[Finding]]


def run_checks(checks: Iterable[tuple[str, Check]]) -> Iterator[Finding]:
    """Every finding as it comes; a check that breaks is one that found nothing out."""
    for name, check in checks:
        try:
            yield from check()
        except Exception as error:
            message = f"could not be looked at: {error}"
            yield Finding(name, State.UNKNOWN, message, "put right what it says, and run this again")


def passed(check: str, message: str) -> Finding:
    return Finding(check, State.OK, message)


def failed(check: str, message: str, fix: str) -> Finding:
    return Finding(check, State.FAILED, message, fix)
