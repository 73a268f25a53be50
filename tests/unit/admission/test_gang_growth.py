"""An elastic gang that grows: what of it is asked for, how a growth fails, and what stands on what."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

import msgspec
from hypothesis import given
from hypothesis import strategies as st

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
from muster.controller.kueue.identity import attempt
from muster.controller.kueue.objects import EvictionCount, SchedulingStats, Workload
from muster.controller.kueue.slices import REPLACES, RunningBase, base, has_running_successor
from muster.controller.kueue.snapshot import EarlierSlice, WorkloadSnapshot
from muster.model.names import (
    CLAIM_ANNOTATIONS,
    CONSUME_ANNOTATION,
    ELASTIC_JOB,
    GKE_LEASE_LABEL,
    RUNS_ANNOTATION,
    UNCLAIMED_ANNOTATION,
)
from tests.unit.admission.gang_world import World, workload
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


def later(slices: Mapping[Key, Workload], key: Key) -> list[Workload]:
    wanted = f"{key.namespace}/{key.name}"
    return [each for each in slices.values() if each.metadata.annotations.get(REPLACES) == wanted]


def test_what_the_last_admitted_slice_has_is_not_asked_for_again() -> None:
    first = a_slice("one", 1, admitted=True, finished=True)
    given_up = a_slice("two", 2, before="one", finished=True)
    third = a_slice("three", 4, before="two")
    find = among(first, given_up, third).get
    assert base(first, find).runs == {}
    assert base(given_up, find).runs == {"head": 1, "main": 1}
    assert base(third, find).runs == {"head": 1, "main": 1}


def test_what_runs_is_known_once_the_slice_before_is_over_and_all_its_pods_were_seen_free() -> None:
    first, second = a_slice("one", 1, admitted=True), a_slice("two", 2, before="one")
    early = base(second, among(first).get)
    assert (early.is_open, early.is_uncounted) == (True, True)
    over = conditioned(first, "Finished", "True")
    assert (base(second, among(over).get).is_open, base(second, among(over).get).is_uncounted) == (
        False,
        True,
    )
    stood = noted(over, {UNCLAIMED_ANNOTATION: attempt(over)})
    assert base(second, among(stood).get) == RunningBase(runs={"head": 1, "main": 1})
    looked = noted(second, {RUNS_ANNOTATION: "head=1"})
    assert base(looked, among(over).get) == RunningBase(runs={"head": 1})


def test_after_an_eviction_everything_is_asked_for() -> None:
    first = a_slice("one", 1, admitted=True, finished=True)
    second = a_slice("two", 2, before="one")
    stats = SchedulingStats(evictions=(EvictionCount(count=1),))
    evicted = replace(second, status=replace(second.status, scheduling_stats=stats))
    assert base(evicted, among(first, evicted).get).runs == {}
    told = conditioned(second, "Evicted", "False")
    assert base(told, among(first, told).get).runs == {}


def test_a_replaced_slice_is_kept_while_a_later_one_lives() -> None:
    first = a_slice("one", 1, admitted=True, finished=True)
    second = a_slice("two", 2, before="one", finished=True)
    third = a_slice("three", 3, before="two")
    slices = among(first, second, third)
    assert has_running_successor(first, lambda key: later(slices, key))
    assert not has_running_successor(second, lambda key: later(slices, key)), "it never had its capacity"
    evicted = among(first, second, conditioned(third, "Evicted", "True"))
    assert not has_running_successor(first, lambda key: later(evicted, key))
    alone = among(first)
    assert not has_running_successor(first, lambda key: later(alone, key))


@given(st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=3, unique=True))
def test_a_ring_of_slices_ends(ring: list[str]) -> None:
    slices = among(
        *(
            a_slice(name, 1, before=ring[index - 1], finished=True, admitted=name == "a")
            for index, name in enumerate(ring)
        )
    )
    for each in slices.values():
        base(each, slices.get)
        assert not has_running_successor(each, lambda key: later(slices, key))


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
    meta = replace(world.workloads["a"].metadata, annotations=notes)
    world.workloads["a"] = replace(world.workloads["a"], metadata=meta)
    world.kueue()
    return world


def carried_out(world: World) -> Decision:
    decision = decide(world.snapshot("a"))
    for action in decision.actions:
        if not isinstance(action, RemoveClaims):
            world.carry_out("a", action)
    return decision


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
    assert "what runs goes on" in entry.message
    assert [action.reason for action in decision.actions if isinstance(action, EmitEvent)] == [
        "GrowthReleased"
    ]
    past = parse_history(world.workloads["a"])
    assert past.retry_at is not None
    assert decide(world.snapshot("a")).is_noop
    assert decide(world.snapshot("a")).requeue_at == past.retry_at

    world.now = past.retry_at
    while not world.requests:
        assert not carried_out(world).is_noop
    (second,) = world.requests
    assert second != first, "a request that has failed is not waited for again"


def test_a_growth_does_not_wait_for_a_clock_that_was_ahead_nor_stops_when_it_comes_nearer() -> None:
    world = growing()
    carried_out(world)
    (first,) = world.requests
    world.answer(first, "Failed", reason="OutOfStock")
    carried_out(world)
    world.now -= timedelta(hours=1)
    while not world.requests:
        assert not carried_out(world).is_noop
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
    entry = world.workloads["a"].check_state("gang")
    assert entry is not None
    assert "Fix: ask for fewer replicas" in entry.message


def test_a_growth_waits_until_the_slice_before_is_over_and_its_pods_are_counted() -> None:
    world = growing()
    now = world.snapshot("a")
    early = dataclasses.replace(now, base=RunningBase(runs={"main": 1}, is_open=True, is_uncounted=True))
    assert not [
        action for action in decide(early).actions if isinstance(action, CreateRequest | RecordRunningPods)
    ]
    assert decide(early).requeue_at is not None
    unseen = dataclasses.replace(now, base=RunningBase(runs={"main": 1}, is_uncounted=True))
    assert decide(unseen).actions == (RecordRunningPods(),)


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
    assert decide(dataclasses.replace(over, has_running_successor=True)).is_noop


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
