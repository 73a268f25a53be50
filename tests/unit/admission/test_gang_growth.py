"""An elastic gang that grows: what of it is asked for, how a growth fails, and what stands on what."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

import msgspec
import pytest

from muster.controller.gangs.actions import CreateRequest, Delete, EmitEvent
from muster.controller.gangs.capacity_claims import PodClaim
from muster.controller.gangs.retry import parse_history
from muster.controller.kube.resource import Key
from muster.controller.kueue.actions import (
    Deactivate,
    Decision,
    PatchAnnotations,
    RecordRunningPods,
    RemoveClaims,
    SetCheckState,
    State,
)
from muster.controller.kueue.clusters import without_claims
from muster.controller.kueue.decide import decide
from muster.controller.kueue.objects import EvictionCount, SchedulingStats, Workload
from muster.controller.kueue.slices import (
    NO_BASE,
    REPLACES,
    RunningBase,
    base,
    earlier_slices,
    is_used,
    lets_go,
    record,
    uses,
)
from muster.controller.kueue.snapshot import EarlierSlice, WorkloadSnapshot
from muster.model.names import (
    CLAIM_ANNOTATIONS,
    CONSUME_ANNOTATION,
    ELASTIC_JOB,
    GKE_LEASE_LABEL,
    RUNS_ANNOTATION,
    RUNS_ON_ANNOTATION,
)
from tests.unit.admission.gang_world import World, entry_of, workload
from tests.unit.gangs.paper import START, with_condition

replace = msgspec.structs.replace
PIECES = {"head": ("cpu", 1), "main": ("l4", 3)}


def conditioned(made: Workload, kind: str, status: str) -> Workload:
    conditions = with_condition(made.status.conditions, kind, status, START)
    return replace(made, status=replace(made.status, conditions=conditions))


def a_slice(
    name: str, count: int, *, before: str = "", admitted: bool = False, finished: bool = False
) -> Workload:
    made = workload(name, {"head": ("cpu", 1), "main": ("l4", count)})
    notes = {ELASTIC_JOB: "true", **({REPLACES: f"{made.metadata.namespace}/{before}"} if before else {})}
    made = replace(made, metadata=replace(made.metadata, annotations=notes))
    for kind, holds in (("Admitted", admitted), ("Finished", finished)):
        made = conditioned(made, kind, "True") if holds else made
    return made


def noted(made: Workload, notes: dict[str, str]) -> Workload:
    meta = made.metadata
    return replace(made, metadata=replace(meta, annotations={**meta.annotations, **notes}))


def among(*slices: Workload) -> Mapping[Key, Workload]:
    return {each.key: each for each in slices}


def counted(made: Workload, runs: str, *slices: str) -> Workload:
    return noted(made, {RUNS_ANNOTATION: runs, RUNS_ON_ANNOTATION: ",".join(slices)})


def test_what_runs_is_recorded_once_the_slice_before_is_over() -> None:
    first, second = a_slice("one", 1, admitted=True), a_slice("two", 2, before="one")
    early = base(second, among(first).get)
    assert (early.is_open, early.is_counted) == (True, False)
    over = conditioned(first, "Finished", "True")
    uncounted = base(second, among(over).get)
    assert uncounted == RunningBase(runs={}, is_counted=False, most={"head": 1, "main": 1})
    running = {"head": 1, "main": 3}  # Two are about to be deleted: the slice before has shrunk.
    looked = noted(second, record(second, running, slices=["one"], most=uncounted.most))
    assert base(looked, among(over).get) == RunningBase(runs={"head": 1, "main": 1})
    assert earlier_slices(looked, among(over).get) == [over]


def test_a_slice_that_never_ran_passes_on_what_it_grew_out_of() -> None:
    replaced = counted(a_slice("two", 5, before="one", finished=True), "main=1", "one")
    third = a_slice("three", 6, before="two")
    assert base(third, among(replaced).get).most == {"main": 1}


def test_a_count_from_which_requests_were_made_stays() -> None:
    """An earlier release recorded no slices."""
    older = noted(a_slice("two", 2, before="one"), {RUNS_ANNOTATION: "main=1"})
    seen = base(older, among().get)
    assert (seen.runs, seen.is_counted) == ({"main": 1}, False)
    again = noted(older, record(older, {"main": 2}, slices=["one", "two"], most=None))
    assert base(again, among().get).runs == {"main": 1}
    assert uses(again) == frozenset({"one"})


def test_after_an_eviction_everything_is_asked_for() -> None:
    first = a_slice("one", 1, admitted=True, finished=True)
    second = counted(a_slice("two", 2, before="one"), "main=1", "one")
    stats = SchedulingStats(evictions=(EvictionCount(count=1),))
    evicted = replace(second, status=replace(second.status, scheduling_stats=stats))
    assert base(evicted, among(first, evicted).get) == NO_BASE
    told = conditioned(second, "Evicted", "False")
    assert base(told, among(first, told).get) == NO_BASE
    assert not is_used(first, [told])


def test_a_replaced_slice_is_kept_while_one_that_lives_uses_it() -> None:
    first = a_slice("one", 1, admitted=True, finished=True)
    second = a_slice("two", 2, before="one", finished=True)
    third = a_slice("three", 3, before="two")
    assert is_used(first, [third]), "until what runs is counted, any may be"
    assert not is_used(second, [third]), "it never had its capacity"
    assert is_used(first, [counted(third, "main=1", "one")])
    assert not is_used(first, [counted(third, "main=1", "zero")])
    assert not is_used(first, [])
    assert not is_used(first, [conditioned(third, "Finished", "True")])


@pytest.mark.parametrize(("after", "is_let_go"), [("one", False), ("", True), ("one,two", False)])
def test_a_slice_lets_go_what_no_pod_uses_any_more(after: str, is_let_go: bool) -> None:
    third = a_slice("three", 3, before="two")
    before = counted(third, "main=1", "one")
    assert lets_go(before, counted(third, "main=1", after)) is is_let_go
    assert lets_go(before, None)
    assert lets_go(third, counted(third, "main=1", after)), "it may have been any"
    assert not lets_go(None, third)


@dataclass
class Growing(World):
    """Every slice comes upon a head and `has` workers."""

    has: int = 1

    def _plain(self, name: str) -> WorkloadSnapshot:
        return dataclasses.replace(super()._plain(name), base=RunningBase(runs={"head": 1, "main": self.has}))


def growing(count: int = 3, has: int = 1, stock: int = 0) -> World:
    """A slice with quota whose gang has some of its pods."""
    world = Growing(stock={"l4": stock}, runtime=timedelta(days=30), has=has)
    world.submit("a", {"head": ("cpu", 1), "main": ("l4", count)})
    notes = {ELASTIC_JOB: "true"}
    world._metadata("a", annotations=notes)
    world.kueue()
    return world


def carried_out(world: World) -> Decision:
    decision = decide(world.snapshot("a"))
    for action in decision.actions:
        if not isinstance(action, RemoveClaims):
            world.carry_out("a", action)
    return decision


def failed_growth() -> tuple[World, str]:
    """It has given back what it asked for; and its request, that has failed."""
    world = growing()
    carried_out(world)
    (first,) = world.requests
    world.answer(first, "Failed", reason="OutOfStock")
    carried_out(world)
    return world, first


def test_a_growth_asks_for_what_it_lacks() -> None:
    world = growing(count=3, has=1)
    (asked,) = (action for action in carried_out(world).actions if isinstance(action, CreateRequest))
    assert asked.spec.count == 2


def test_a_growth_that_fails_gives_back_its_own_and_never_leaves_the_quota() -> None:
    world = growing()
    carried_out(world)
    (first,) = world.requests
    world.answer(first, "Failed", reason="OutOfStock")
    decision = carried_out(world)
    assert not [action for action in decision.actions if isinstance(action, Deactivate)]
    assert {action.kind for action in decision.actions if isinstance(action, Delete)} >= {
        "ProvisioningRequest"
    }
    (entry,) = (action for action in decision.actions if isinstance(action, SetCheckState))
    assert entry.state is State.PENDING
    assert "running pods continue" in entry.message
    assert [action.reason for action in decision.actions if isinstance(action, EmitEvent)] == [
        "GrowthReleased"
    ]
    past = parse_history(world.workloads["a"])
    assert past.retry_at is not None
    assert not decide(world.snapshot("a")).actions
    assert decide(world.snapshot("a")).requeue_at == past.retry_at

    world.now = past.retry_at
    while not world.requests:
        assert carried_out(world).actions
    (second,) = world.requests
    assert second != first, "a request that has failed is not waited for again"


def test_a_growth_does_not_wait_for_a_clock_that_was_ahead_nor_stops_when_it_comes_nearer() -> None:
    world, _ = failed_growth()
    world.now -= timedelta(hours=1)
    while not world.requests:
        assert carried_out(world).actions
    for _ in range(60):
        world.now += timedelta(minutes=1)
        carried_out(world)
        assert world.requests, "what is asked for stays asked for"


def test_a_growth_that_can_never_be_had_stays_and_says_what_helps() -> None:
    world = growing(count=3)
    carried_out(world)
    assert world.requests
    for _ in range(2000):
        past = parse_history(world.workloads["a"])
        if past.refused:
            break
        for name in list(world.requests):
            world.answer(name, "Failed", reason="OutOfStock")
        carried_out(world)
        world.now = max(world.now, past.retry_at or world.now) + timedelta(seconds=1)
    decision = decide(world.snapshot("a"))
    assert not world.requests
    assert not [action for action in decision.actions if isinstance(action, Deactivate | PatchAnnotations)]
    assert world.workloads["a"].spec.active
    assert "Fix: ask for fewer replicas" in entry_of(world).message


def test_a_growth_waits_until_the_slice_before_is_over_and_its_pods_are_counted() -> None:
    world = growing()
    now = world.snapshot("a")
    early = dataclasses.replace(now, base=RunningBase(runs={}, is_open=True, is_counted=False))
    assert not [
        action for action in decide(early).actions if isinstance(action, CreateRequest | RecordRunningPods)
    ]
    assert decide(early).requeue_at is not None
    unseen = dataclasses.replace(now, base=RunningBase(runs={}, is_counted=False, most={"main": 1}))
    assert decide(unseen).actions == (RecordRunningPods(most={"main": 1}),)


def test_pods_that_do_not_grow_keep_their_claim_and_are_made_anew_with_it() -> None:
    world = growing(count=1, has=1)
    claim = PodClaim(
        pod_set="main", annotations={CONSUME_ANNOTATION: "first"}, node_selector={"lease": "one"}
    )
    stands = dataclasses.replace(world.snapshot("a"), earlier_slices=(EarlierSlice(claims={"main": claim}),))
    (entry,) = (action for action in decide(stands).actions if isinstance(action, SetCheckState))
    assert entry.state is State.READY
    (update,) = entry.updates
    assert (update.name, update.annotations, update.node_selector) == (
        "main",
        {CONSUME_ANNOTATION: "first"},
        {"lease": "one"},
    )


def test_a_growth_that_is_taken_back_is_ready_at_once() -> None:
    world = growing(count=1, has=1)
    (entry,) = (action for action in carried_out(world).actions if isinstance(action, SetCheckState))
    assert (entry.state, entry.message) == (State.READY, "nothing to provision")


def test_a_replaced_slice_that_runs_on_is_not_given_back() -> None:
    world = growing()
    carried_out(world)
    world.workloads["a"] = conditioned(world.workloads["a"], "Finished", "True")
    over = world.snapshot("a")
    assert [action for action in decide(over).actions if isinstance(action, Delete)]
    assert not decide(dataclasses.replace(over, has_running_successor=True)).actions


def test_claims_come_off_the_templates_and_nothing_else() -> None:
    notes = dict.fromkeys(CLAIM_ANNOTATIONS, "x")
    template = {
        "metadata": {"annotations": {**notes, "own": "1"}, "labels": {"a": "b"}},
        "spec": {"nodeSelector": {GKE_LEASE_LABEL: "x", "pool": "l4"}, "containers": [{"name": "ray"}]},
    }
    group = {"groupName": "main", "replicas": 3, "template": template}
    spec = {"headGroupSpec": {"template": template}, "workerGroupSpecs": [group]}
    patch = without_claims(spec, [GKE_LEASE_LABEL])
    assert patch is not None
    (clean,) = patch["workerGroupSpecs"]
    assert clean["replicas"] == 3
    assert clean["template"]["metadata"] == {"annotations": {"own": "1"}, "labels": {"a": "b"}}
    assert clean["template"]["spec"]["nodeSelector"] == {"pool": "l4"}
    head = patch["headGroupSpec"]["template"]
    assert head["metadata"]["annotations"][CONSUME_ANNOTATION] is None
    assert head["spec"] == {"nodeSelector": {GKE_LEASE_LABEL: None}}
    assert without_claims({**spec, **patch, "headGroupSpec": {}}, [GKE_LEASE_LABEL]) is None
