"""What other gangs were promised is worked out once for each version of them."""

from __future__ import annotations

import msgspec
import pytest

from muster.controller.kueue.claim_cache import ClaimCache
from muster.controller.kueue.objects import Workload
from muster.controller.kueue.snapshot import WorkloadSnapshot
from muster.model.gangpolicy import GangPolicy
from tests.unit.gangs.paper import START


def _snapshot(uid: str) -> WorkloadSnapshot:
    workload = msgspec.convert({"metadata": {"name": uid, "uid": uid}}, Workload)
    return WorkloadSnapshot(check="gang", workload=workload, now=START, policy=GangPolicy())


def test_a_snapshot_is_computed_once_per_version() -> None:
    memory, made = ClaimCache(), list[str]()

    def make() -> WorkloadSnapshot:
        made.append("made")
        return _snapshot("one")

    first = memory.get("one", "gang", ("1",), make)
    assert memory.get("one", "gang", ("1",), make) is first
    assert memory.get("one", "gang", ("2",), make) is not first
    assert memory.get("other", "gang", ("2",), make) is not first
    assert len(made) == 3


def test_however_many_gangs_wait_each_is_computed_once_and_forgotten_when_it_is_gone() -> None:
    memory, made = ClaimCache(), list[str]()

    def look(number: int) -> None:
        def make() -> WorkloadSnapshot:
            made.append("made")
            return _snapshot(str(number))

        memory.get(str(number), "gang", ("1",), make)

    for _ in range(2):
        for number in range(5000):
            look(number)
    assert len(made) == 5000
    for number in range(5000):
        memory.changed(_snapshot(str(number)).workload, None)
    assert not memory._cache


def test_a_gang_without_quota_holds_no_claims() -> None:
    assert ClaimCache().get("one", "gang", (), lambda: _snapshot("one")).rank is None


def test_an_unreadable_gang_is_not_cached() -> None:
    def make() -> WorkloadSnapshot:
        raise ValueError("no quantity")

    memory = ClaimCache()
    for _ in range(2):
        with pytest.raises(ValueError, match="no quantity"):
            memory.get("one", "gang", (), make)
