"""Findings of the preflight checks, each with its fix."""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from muster.distribution import install_command
from muster.errors import MusterError
from muster.model.pools import Pool


class State(StrEnum):
    """unknown: the check could not be made, so the result is neither good nor bad. note: to be known, and
    nothing to correct.
    """

    OK = "ok"
    NOTE = "note"
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


def run_checks(checks: Iterable[tuple[str, Check]], *, extra: str = "program") -> Iterator[Finding]:
    """Yield every finding as soon as it is known. A check that raises an error is reported as unknown.
    `extra`: the one of the wheel that brings what the checks import.
    """
    for name, check in checks:
        try:
            yield from check()
        except ModuleNotFoundError as error:
            what = f"needs the Python package {error.name}, which is not installed"
            yield Finding(name, State.UNKNOWN, what, f"install it: {install_command(extra)}")
        except Exception as error:
            what, fix = (error.message, error.fix) if isinstance(error, MusterError) else (str(error), "")
            again = "correct the error and run the command again"
            yield Finding(name, State.UNKNOWN, f"the check failed: {what}", fix or again)


def passed(check: str, message: str) -> Finding:
    return Finding(check, State.OK, message)


def failed(check: str, message: str, fix: str) -> Finding:
    return Finding(check, State.FAILED, message, fix)


def zones_finding(
    pool: Pool, *, zones: Collection[str], of_region: Collection[str], sold: Collection[str]
) -> Finding:
    """Whether the cloud sells a pool's machine where the pool is. `zones`: those of the pool, empty where
    the cloud chooses among `of_region`. `sold`: the zones of the region that sell it.
    """
    machine = pool.machine.name
    offered = ", ".join(sorted(sold))
    if not sold:
        fix = "choose another region or machine."
        return failed("zones", f"{pool.name}: no zone of the region sells {machine}", fix)
    missing = sorted(set(zones or of_region) - set(sold))
    fix = f"write `zones: [{offered}]` for the pool, or some of them."
    if missing and zones:
        return failed("zones", f"{pool.name}: {machine} is not sold in {', '.join(missing)}", fix)
    if missing:
        message = f"{pool.name}: the cloud chooses zones, and {', '.join(missing)} have no {machine}"
        return failed("zones", message, fix)
    return passed("zones", f"{pool.name}: {machine} is sold in {', '.join(sorted(zones)) or 'every zone'}")
