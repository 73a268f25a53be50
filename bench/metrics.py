"""What it costs to count gangs: memory, a look at one, and a scrape, by number of gangs.

    python -m bench.metrics --gangs 1000 10000 50000 --runs 5 2> /dev/null > table.md

No cluster: the Workloads are decoded from JSON as a watch brings them, as many in each state. Times are
of this process alone, and of an idle machine if they are to be compared; memory is what Python allocates. A
gang that moves writes its log line too, to stderr.
"""

import argparse
import statistics
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

import msgspec
from prometheus_client import CollectorRegistry, generate_latest

from muster.controller.gangs.gang_state import GangObserver
from muster.controller.gangs.metrics import GangMetrics
from muster.controller.kube.resource import Key
from muster.controller.kueue.gang_state import observe
from muster.controller.kueue.objects import Workload
from muster.controller.runtime import logs
from muster.model.names import RETRY_AT_ANNOTATION

CHECK: Final = "gang"
_SINCE: Final = "2026-01-01T10:00:00Z"


@dataclass(frozen=True, slots=True)
class Cost:
    """`first`, `same`, `moved`: microseconds for one look at a gang that is new, as it was, or elsewhere."""

    first: float
    same: float
    moved: float
    scrape_ms: float
    mib: float


def main() -> None:
    arguments = _arguments()
    logs.configure("info")
    print("| gangs | MiB | µs a look: new | as it was | moved | ms a scrape | runs |")
    print("|---:|---:|---:|---:|---:|---:|---:|")
    for gangs in arguments.gangs:
        costs = [measure(gangs) for _ in range(arguments.runs)]
        figures = [
            _spread([getattr(cost, column) for cost in costs])
            for column in ("mib", "first", "same", "moved", "scrape_ms")
        ]
        print(f"| {gangs} | {' | '.join(figures)} | {len(costs)} |", flush=True)


def measure(gangs: int) -> Cost:
    """One run; memory is taken in a second pass, because watching allocations slows what is timed."""
    first, same, moved, scrape = _timed(gangs)
    return Cost(first, same, moved, scrape, _memory(gangs))


def _timed(gangs: int) -> tuple[float, float, float, float]:
    fleet = _Fleet(gangs)
    micros = [_seconds(fleet.observe) / gangs * 1e6 for _ in range(2)]
    fleet.move()
    micros.append(_seconds(fleet.observe) / gangs * 1e6)
    return micros[0], micros[1], micros[2], _seconds(partial(generate_latest, fleet.registry)) * 1e3


def _memory(gangs: int) -> float:
    fleet = _Fleet(gangs)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        fleet.observe()
        return (tracemalloc.get_traced_memory()[0] - before) / 2**20
    finally:
        tracemalloc.stop()


class _Fleet:
    """Gangs in every state, and the observer that the controller has."""

    def __init__(self, gangs: int) -> None:
        self.registry = CollectorRegistry()
        self._gangs = {Key("team", f"gang-{number}"): _workload(number, number) for number in range(gangs)}
        self._observer = GangObserver(
            GangMetrics(self.registry),
            lambda key: observe(self._gangs[key], [CHECK]),
            clock=partial(datetime.now, UTC),
        )

    def observe(self) -> None:
        for key in self._gangs:
            self._observer.observe(key)

    def move(self) -> None:
        """Each to the next state."""
        self._gangs = {key: _workload(number, number + 1) for number, key in enumerate(self._gangs)}


def _workload(number: int, state: int) -> Workload:
    metadata: dict[str, Any] = {
        "name": f"gang-{number}",
        "namespace": "team",
        "uid": f"00000000-0000-4000-8000-{number:012}",
        "creationTimestamp": _SINCE,
    }
    spec, status = _STATES[state % len(_STATES)]
    if not spec.get("active", True):
        metadata["annotations"] = {RETRY_AT_ANNOTATION: "2026-01-01T11:00:00Z"}
    body = msgspec.json.encode({"metadata": metadata, "spec": spec, "status": status})
    return msgspec.json.decode(body, type=Workload)


def _status(*conditions: str, check: str = "Pending") -> dict[str, Any]:
    return {
        "conditions": [
            {"type": condition, "status": "True", "lastTransitionTime": _SINCE} for condition in conditions
        ],
        "admissionChecks": [{"name": CHECK, "state": check, "lastTransitionTime": _SINCE}],
    }


_STATES: Final[tuple[tuple[dict[str, Any], dict[str, Any]], ...]] = (
    ({}, _status()),
    ({}, _status("QuotaReserved")),
    ({}, _status("QuotaReserved", check="Ready")),
    ({}, _status("QuotaReserved", "Admitted", check="Ready")),
    ({}, _status("QuotaReserved", "Evicted", check="Retry")),
    ({"active": False}, _status("Evicted")),
)


def _seconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def _spread(found: list[float]) -> str:
    return f"{statistics.median(found):.1f} ({min(found):.1f} to {max(found):.1f})"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gangs", type=int, nargs="+", default=[1_000, 10_000, 50_000])
    parser.add_argument("--runs", type=int, default=5)
    return parser.parse_args()


if __name__ == "__main__":
    main()
