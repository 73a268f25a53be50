"""The fault suite knows whether a reservation of quota ends by itself."""

from typing import Any

import pytest

from tests.faults import reservation
from tests.unit.faults.stories import UNTIL, evicted, without_quota, workload


def _without_entry() -> dict[str, Any]:
    found = workload()
    found["status"]["admissionChecks"] = []
    return found


@pytest.mark.parametrize(
    "held",
    [
        workload(message=UNTIL),
        workload(message="0 of 2 l4 nodes (limit 14h); releases at 2026-11-22 01:42:07 UTC"),
        workload("Ready", holds={"Admitted": True}),
        without_quota(message=""),
        workload(message="", holds={"Finished": True}),
        workload(message="", meta={"deletionTimestamp": "10:05:00"}),
    ],
    ids=["says when", "says the day", "runs", "holds none", "finished", "being deleted"],
)
def test_a_reservation_that_ends_by_itself(held: dict[str, Any]) -> None:
    assert not reservation.is_unbounded(held)


@pytest.mark.parametrize(
    "held",
    [
        workload(message=""),
        workload(message="waits; releases at last"),
        workload("Ready"),
        workload("Retry", UNTIL),
        evicted(),
        workload(spec={"active": False}),
        _without_entry(),
    ],
    ids=["silent", "no time", "ready alone", "retried", "evicted", "inactive", "without our entry"],
)
def test_a_reservation_that_nobody_ends(held: dict[str, Any]) -> None:
    assert reservation.is_unbounded(held)
    assert not reservation.says_its_end(held)
