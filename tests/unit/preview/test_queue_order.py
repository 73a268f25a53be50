"""The position in a queue follows Kueue's order."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from muster.live.fields import text
from muster.live.snapshot import Condition, State, Workload
from muster.live.why.job_status import current, queued_before

T0 = datetime(2026, 11, 21, 10, tzinfo=UTC)


def _workload(name: str, *, priority: int = 0, minute: int = 0, state: State = State.PENDING) -> Workload:
    return Workload(
        namespace="a",
        name=name,
        queue="default",
        created=T0 + timedelta(minutes=minute),
        pod_sets=(),
        state=state,
        priority=priority,
    )


def _sent_back(workload: Workload, kind: str, reason: str, *, minute: int) -> Workload:
    return replace(workload, conditions=(Condition(kind, "True", reason, T0 + timedelta(minutes=minute)),))


def test_priority_comes_before_age() -> None:
    old, high = _workload("old"), _workload("high", priority=1, minute=5)
    assert queued_before(old, [old, high]) == (high,)
    assert queued_before(high, [old, high]) == ()


def test_a_workload_requeued_by_its_check_is_behind_older_ones() -> None:
    other = _workload("other", minute=5)
    again = _sent_back(_workload("again"), "Evicted", "AdmissionCheck", minute=9)
    assert queued_before(again, [again, other]) == (other,)
    preempted = _sent_back(_workload("preempted"), "Evicted", "Preempted", minute=9)
    assert queued_before(preempted, [preempted, other]) == ()


def test_who_gave_borrowed_quota_back_waits_from_then_on() -> None:
    taker = _workload("taker", minute=9)
    giver = _sent_back(_workload("giver"), "Preempted", "InCohortReclaimWhileBorrowing", minute=9)
    assert queued_before(giver, [giver, taker]) == (taker,)


def test_only_pending_workloads_are_in_the_queue() -> None:
    me = _workload("me", minute=5)
    others = [_workload(state.value, state=state) for state in State]
    assert [each.state for each in queued_before(me, others)] == [State.PENDING]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=8))
def test_every_place_is_held_by_one(ranks: list[tuple[int, int]]) -> None:
    everybody = [_workload(f"w{index}", priority=one, minute=two) for index, (one, two) in enumerate(ranks)]
    places = sorted(len(queued_before(each, everybody)) for each in everybody)
    assert places == list(range(len(everybody)))


def test_of_a_set_of_groups_the_first_that_waits_is_shown() -> None:
    def of(name: str, minute: int, *, admitted: bool, **notes: str) -> dict[str, Any]:
        meta = {"name": name, "creationTimestamp": f"2026-11-21T10:0{minute}:00Z", "annotations": notes}
        condition = {"type": "Admitted", "status": "True" if admitted else "False"}
        return {"metadata": meta, "status": {"conditions": [condition]}}

    index = "kueue.x-k8s.io/component-workload-index"
    runs = of("set-0", 5, admitted=True, **{index: "0"})
    waits = [of(f"set-{number}", 3, admitted=False, **{index: str(number)}) for number in (10, 2)]
    assert text(current([runs, *waits]), "metadata", "name") == "set-2"
    assert current([runs, of("set-1", 1, admitted=True, **{index: "1"})]) is runs
    older, newer = of("slice-1", 1, admitted=False), of("slice-2", 2, admitted=True)
    assert current([older, newer]) is newer
