"""Findings of the preflight checks, each with its fix."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class State(StrEnum):
    """unknown: the check could not be made, so the result is neither good nor bad."""

    OK = "ok"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check. `fix` is empty when it passed."""

    check: str
    state: State
    message: str
    fix: str = ""

    def document(self) -> dict[str, Any]:
        return asdict(self)


Check = Callable[[], Iterable[Finding]]


def run_checks(checks: Iterable[tuple[str, Check]]) -> Iterator[Finding]:
    """Yield every finding as soon as it is known. A check that raises an error is reported as unknown."""
    for name, check in checks:
        try:
            yield from check()
        except Exception as error:
            message = f"the check failed: {error}"
            yield Finding(name, State.UNKNOWN, message, "correct the error and run the command again")


def passed(check: str, message: str) -> Finding:
    return Finding(check, State.OK, message)


def failed(check: str, message: str, fix: str) -> Finding:
    return Finding(check, State.FAILED, message, fix)
