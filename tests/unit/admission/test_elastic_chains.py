"""What a cluster of many growths costs, and that no slice holds up another gang."""

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from muster.controller.gangs.actions import EmitEvent
from muster.controller.kube.resource import Key, OwnerReference
from muster.controller.kueue.actions import RecordRunningPods, RemoveClaims, SetCheckState
from muster.controller.kueue.decide import decide
from muster.controller.kueue.objects import CheckState, PodSetUpdate, Workload
from muster.controller.kueue.scale_up import REPLACED_WITHIN
from muster.controller.kueue.slices import REPLACES
from muster.controller.kueue.view import View
from muster.controller.runtime.store import Store
from muster.model.names import CONSUME_ANNOTATION, ELASTIC_JOB, RUNS_ANNOTATION, RUNS_ON_ANNOTATION
from tests.unit.admission.fleet import ONE_SHAPE, SPACE, TWO_SHAPES, Fleet
from tests.unit.admission.gang_world import CHECK, POLICY, World, assignment, workload
from tests.unit.admission.views import view_of
from tests.unit.controller_runtime.virtual import on_virtual_time
from tests.unit.gangs.paper import START, with_condition

CLUSTER = (OwnerReference(kind="RayCluster", name="train", uid="cluster", controller=True),)


def conditioned(made: Workload, *kinds: str) -> Workload:
    conditions = made.status.conditions
    for kind in kinds:
        conditions = with_condition(conditions, kind, "True", START)
    return replace(made, status=replace(made.status, conditions=conditions))


def a_slice(number: int, *, finished: bool, counted: bool = True) -> Workload:
    """The n-th of a cluster, of two workers; pods of the first and of the one before it run."""
    pieces = {"main": ("l4", 2)}
    made = workload(f"slice-{number}", pieces)
    notes = {ELASTIC_JOB: "true", REPLACES: f"team-a/slice-{number - 1}"}
    notes |= {RUNS_ANNOTATION: "main=1", RUNS_ON_ANNOTATION: f"slice-0,slice-{number - 1}"} if counted else {}
    created = START + timedelta(seconds=number)
    meta = replace(
        made.metadata,
        annotations=notes if number else {ELASTIC_JOB: "true"},
        creation_timestamp=created,
        owner_references=CLUSTER,
    )
    update = PodSetUpdate(name="main", annotations={CONSUME_ANNOTATION: f"of-{number}"})
    entry = CheckState(name=CHECK, state="Ready" if finished else "Pending", pod_set_updates=(update,))
    status = replace(made.status, admission=assignment(pieces), admission_checks=(entry,))
    kinds = ("QuotaReserved", "Admitted", "Finished") if finished else ("QuotaReserved",)
    return conditioned(replace(made, metadata=meta, status=status), *kinds)


def changed(before: Workload) -> Workload:
    return replace(before, metadata=replace(before.metadata, resource_version="2"))


def looks(view: View, event: tuple[Workload, Workload], monkeypatch: pytest.MonkeyPatch) -> int:
    """How many Workloads are read for one change of a slice, by all that it reconciles."""
    seen, get, by_index = [0], Store.get, Store.by_index

    def counted_get(store: Store[Any], key: Key) -> Any:
        seen[0] += store is view.workloads.store
        return get(store, key)

    def counted_index(store: Store[Any], index: str, value: Any) -> Any:
        found = by_index(store, index, value)
        seen[0] += len(found) if store is view.workloads.store else 0
        return found

    monkeypatch.setattr(Store, "get", counted_get)
    monkeypatch.setattr(Store, "by_index", counted_index)
    for key in {event[1].key, *view.slices_affected_by(*event)}:
        held = view.workloads.get(key)
        assert held is not None
        view.snapshot(held, CHECK, now=START)
    monkeypatch.undo()
    return seen[0]


@pytest.mark.parametrize("counted", [True, False])
def test_an_event_of_a_slice_costs_the_same_after_ten_growths_and_after_four_hundred(
    counted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for count in (10, 400):
        live = a_slice(count, finished=False, counted=counted)
        over = [a_slice(number, finished=True) for number in range(count)]
        view = view_of(POLICY, workloads=[*over, live])
        found.append(looks(view, (live, changed(live)), monkeypatch))
        found.append(looks(view, (over[5], changed(over[5])), monkeypatch))
    assert found[:2] == found[2:]
    assert max(found) < 20


def test_the_earlier_slices_that_a_slice_uses_are_read_and_no_others() -> None:
    live = a_slice(9, finished=False)
    view = view_of(POLICY, workloads=[*(a_slice(number, finished=True) for number in range(9)), live])
    seen = view.snapshot(live, CHECK, now=START)
    claims = [claim.request for each in seen.earlier_slices for claim in each.claims.values()]
    assert claims == ["of-8", "of-0"], "the newest first: a pod that is made anew gets its claim"


def test_what_a_gang_leaves_to_others_follows_what_it_grows_out_of() -> None:
    """What it grows out of is written on the Workload."""
    live = a_slice(1, finished=False, counted=False)
    view = view_of(POLICY, workloads=[a_slice(0, finished=True), live])
    assert not view.known.of(live, CHECK, START).base.is_counted
    counted = changed(a_slice(1, finished=False))
    view.workloads.store.put(counted)
    seen = view.known.of(counted, CHECK, START)
    assert (seen.base.runs, seen.gang.request_specs[0].count) == ({"main": 1}, 1)


# A slice before it that Kueue does not finish


def waiting(now: timedelta, *, finished: bool = False) -> Any:
    before, live = a_slice(0, finished=False), a_slice(1, finished=False, counted=False)
    before = conditioned(before, "Admitted", *(["Finished"] if finished else []))
    return decide(view_of(POLICY, workloads=[before, live]).snapshot(live, CHECK, now=START + now))


def test_a_growth_whose_predecessor_is_never_finished_is_given_up_with_the_reason() -> None:
    early = waiting(timedelta(seconds=1))
    assert early.requeue_at == START + REPLACED_WITHIN, "nothing is polled"
    (said,) = (each for each in early.actions if isinstance(each, SetCheckState))
    assert "waits until Kueue finishes the Workload team-a/slice-0" in said.message
    late = waiting(REPLACED_WITHIN)
    assert late.requeue_at is None
    (told,) = (each for each in late.actions if isinstance(each, EmitEvent))
    assert told.reason == "GrowthRefused"
    assert "has not finished the Workload team-a/slice-0" in told.message
    assert "Running pods continue" in told.message
    ended = waiting(2 * REPLACED_WITHIN, finished=True)
    assert ended.actions == (RecordRunningPods(most={"main": 2}),), "its end is what it waits for"


def test_the_end_of_a_slice_brings_back_the_one_that_replaces_it() -> None:
    before, live = a_slice(0, finished=False), a_slice(1, finished=False, counted=False)
    view = view_of(POLICY, workloads=[before, live])
    assert live.key in view.slices_affected_by(before, conditioned(before, "Finished"))
    assert live.key in view.slices_affected_by(before, None)
    assert not view.slices_affected_by(before, changed(before))


@on_virtual_time
async def test_a_slice_that_waits_for_its_predecessor_delays_no_gang_in_line() -> None:
    fleet = Fleet()
    fleet.submit("before", ONE_SHAPE)
    fleet.submit("stuck", TWO_SHAPES)
    fleet.submit("other", TWO_SHAPES)
    held = fleet.view.workloads.get(Key(SPACE, "stuck"))
    assert held is not None
    notes = {ELASTIC_JOB: "true", REPLACES: f"{SPACE}/before"}
    fleet.api.change(held, metadata=replace(held.metadata, annotations=notes))
    await fleet.run(lambda: {"before", "other"} <= fleet.ready.keys(), limit=60.0)
    assert "stuck" not in fleet.ready


def test_a_cluster_that_never_starts_is_read_more_and_more_rarely() -> None:
    """Each look is a GET of the cluster and a LIST of its pods."""
    world = World(stock={"l4": 2}, runtime=timedelta(days=30))
    world.submit("a", {"main": ("l4", 2)})
    world.ticks(5)
    held = world.workloads["a"]
    notes = {**held.metadata.annotations, ELASTIC_JOB: "true"}
    world._metadata("a", annotations=notes, owner_references=CLUSTER)
    looks = list[float]()
    began = held.status.since("Admitted")
    assert began is not None
    world.now = began
    while (passed := (world.now - began).total_seconds()) < 3 * 3600:
        decision = decide(world.snapshot("a"))
        looks += [passed for action in decision.actions if isinstance(action, RemoveClaims)]
        assert decision.requeue_at is not None
        world.now = decision.requeue_at
    assert sum(passed < 60 for passed in looks) > 6, "most clusters start within a minute"
    assert sum(3600 <= passed < 7200 for passed in looks) <= 7
