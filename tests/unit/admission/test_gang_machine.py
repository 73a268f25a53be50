"""The gang's state machine on virtual time: what it promises, whatever Kueue and the cloud do."""

import dataclasses
import random
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.controller.gangs.actions import CreatePlaceholders, Delete
from muster.controller.gangs.identity import NEEDS, request_of_placeholder
from muster.controller.gangs.objects import (
    Container,
    PlaceholderStatus,
    PodSpec,
    PodStatus,
    ResourceNeeds,
)
from muster.controller.gangs.placeholders import named, pod
from muster.controller.gangs.retry import FIRST_TRY, REFUSED, RETRY_AT, TRIES, parse_history
from muster.controller.kueue.actions import Deactivate, Reactivate, SetCheckState, State
from muster.controller.kueue.decide import decide
from muster.controller.kueue.gang_state import observe
from muster.controller.kueue.identity import WORKLOADS
from muster.controller.kueue.objects import CheckState
from muster.controller.kueue.shutdown import shutdown_actions
from muster.model.gangpolicy import GangPolicy, OnStaggered, RetryPolicy
from muster.model.names import (
    CONSUME_ANNOTATION,
    GKE_LEASE_DETAIL,
    GKE_LEASE_LABEL,
    IN_TURN_ANNOTATION,
    POOL_LABEL,
    STOP_ANNOTATION,
)
from tests.length import examples
from tests.unit.admission.gang_world import (
    CHECK,
    FLAVORS,
    PLAIN,
    POLICY,
    World,
    assert_invariants,
    assignment,
    entry_of,
    entry_state,
    ready,
    replace,
)
from tests.unit.gangs.paper import START, among, flavor_policy, node

SPLIT = {"head": ("cpu", 1), "big": ("h100", 1), "small": ("l4", 1)}
MINUTE = timedelta(minutes=1)
HOLDING = dataclasses.replace(POLICY, on_staggered=OnStaggered.HOLD, placeholder_image="pause")


def run(world: World, minutes: int) -> None:
    for _ in range(minutes):
        world.tick()
        assert_invariants(world)


def after(minutes: int, pieces: dict[str, tuple[str, int]], **settings: Any) -> World:
    """A world in which gang `a` was submitted so long ago."""
    world = World(**settings)
    world.submit("a", pieces)
    run(world, minutes)
    return world


def assert_refused(world: World, why: str) -> None:
    held = world.workloads["a"]
    assert not held.spec.active
    assert why in held.metadata.annotations[REFUSED]


# Stories


def test_a_gang_becomes_ready_when_every_piece_stands_and_its_pods_are_sent_there() -> None:
    world = after(6, SPLIT)
    assert "a" in world.started
    updates = {update.name: update for update in entry_of(world).pod_set_updates}
    assert set(updates) == {"big", "small"}
    for update in updates.values():
        request = update.annotations["autoscaling.x-k8s.io/consume-provisioning-request"]
        assert update.node_selector == {"autoscaling.gke.io/provisioning-request": f"lease-{request}"}


def test_the_scarcest_pool_is_asked_first_and_the_next_only_when_that_is_accepted() -> None:
    world = World()
    world.begin("a", SPLIT)
    assert [request.metadata.annotations["pool"] for request in world.requests.values()] == ["h100"]
    world.cloud()
    world.settle()
    pools = [request.metadata.annotations["pool"] for request in world.requests.values()]
    assert pools == ["h100", "l4"]


def test_two_split_gangs_with_room_for_one_run_one_after_the_other_and_never_hold_half_each() -> None:
    world = World()
    for name in ("a", "b"):
        world.submit(name, SPLIT)
    for _ in range(180):
        world.tick()
        assert_invariants(world)
        assert len(world.holds_half()) <= 1
    assert sorted(world.ended) == ["a", "b"]


def test_split_gangs_whose_asking_crossed_make_no_circle_and_both_run() -> None:
    world = World()
    for name in ("a", "b"):
        world.submit(name, SPLIT)
    world.kueue()
    world.reconcile_blind()
    conflicting_gang = [request.metadata.annotations["pool"] for request in world.requests.values()]
    assert conflicting_gang == ["h100", "h100"], "the test must make them cross"
    for _ in range(180):
        world.tick()
        assert_invariants(world)
        assert world.circles() == []
    assert sorted(world.ended) == ["a", "b"]
    assert not any(TRIES in workload.metadata.annotations for workload in world.workloads.values())


def test_a_stock_out_frees_the_quota_at_once_and_lets_another_gang_run_meanwhile() -> None:
    world = World(stock={"l4": 1, "h100": 0}, quota=1)
    world.begin("a", {"big": ("h100", 1)})
    world.submit("b", PLAIN)
    (request,) = world.requests
    world.answer(request, "Failed", "CapacityIsNotFound", "no stock")
    world.settle()
    assert not world.requests
    assert not world.templates
    run(world, 4)
    assert "b" in world.started
    assert world.workloads["a"].metadata.annotations[TRIES] == "1"


def test_a_sibling_that_comes_early_is_given_back_and_asked_for_again_when_the_late_one_stands() -> None:
    world = after(4, SPLIT, delay={"h100": 25 * MINUTE})
    shapes = {request.metadata.annotations["pool"]: name for name, request in world.requests.items()}
    assert world.requests[shapes["l4"]].status.holds("Provisioned")
    asked = world.requests[shapes["h100"]].metadata.uid
    run(world, 10)
    assert [request.metadata.uid for request in world.requests.values()] == [asked], (
        "its place in the queue is kept"
    )
    assert [told.reason for told in world.told][-1] == "GangStaggered"
    run(world, 8)
    assert len(world.requests) == 1, "and the other is not bought once more meanwhile"
    run(world, 8)
    assert "a" in world.started
    assert TRIES not in world.workloads["a"].metadata.annotations
    run(world, 1)
    assert IN_TURN_ANNOTATION not in world.workloads["a"].metadata.annotations


def test_nodes_verified_when_a_booking_has_seconds_left_start_nothing() -> None:
    """As when the controller was away: the pods would start while nodes of the first part may go."""
    world = World()
    world.submit("a", SPLIT)
    world.kueue()
    for _ in range(2):
        world.settle()
        world.answer(next(reversed(world.requests)), "Accepted")
    world.settle()
    first, *rest = sorted(world.requests, key=lambda name: world.requests[name].metadata.annotations["pool"])
    world.provision(first)
    world.now += timedelta(minutes=9, seconds=59)
    for name in rest:
        world.provision(name)
    before = world.requests[first].metadata.uid
    world.settle()
    assert entry_state(world, "a") is State.PENDING
    assert world.requests[first].metadata.uid != before, "it is asked for anew"
    assert TRIES not in world.workloads["a"].metadata.annotations
    for released in [name for name in world.nodes if first in name]:
        world.take_away(released)
    run(world, 6)
    assert "a" in world.started


def test_a_gang_that_is_ready_stays_so_while_its_booking_runs_out() -> None:
    world = ready(World())
    world.now += timedelta(minutes=9, seconds=30)
    kept = dict(world.requests)
    world.kueue()
    world.settle()
    assert world.requests == kept
    assert "a" in world.started


def test_a_late_sibling_that_was_asked_for_last_releases_the_gang_before_the_booking_ends() -> None:
    world = after(11, SPLIT, delay={"l4": timedelta(hours=1)})
    assert world.requests
    run(world, 1)
    assert not world.requests
    assert world.workloads["a"].metadata.annotations[TRIES] == "1"


@pytest.mark.parametrize(
    ("forged", "why"),
    [
        ({"ghost": ("l4", 1)}, "status.admission has no assignment for PodSet main"),
        ({"main": ("nobodys", 1)}, "there is no ResourceFlavor nobodys"),
        (None, "status.admission names no flavors"),
    ],
)
def test_an_admission_that_does_not_say_where_lets_nothing_start_and_says_so(
    forged: dict[str, tuple[str, int]] | None, why: str
) -> None:
    """As somebody may write it: a PodSet that is left out, or a flavor that is not there (any more)."""
    world = World()
    world.submit("a", PLAIN)
    world.kueue()
    world._status("a", admission=assignment(forged) if forged else None)
    world.settle()
    assert not world.everything_made
    entry = entry_of(world)
    assert entry.state == State.PENDING
    assert why in entry.message
    assert not decide(world.snapshot("a")).actions
    world.now += MINUTE
    world.settle()
    assert not world.workloads["a"].spec.active, (
        "its quota is for somebody else, and the next may be elsewhere"
    )
    assert why in world.told[-1].message


def test_a_gathering_gang_whose_flavor_vanishes_gives_back_and_goes_on_when_it_is_there() -> None:
    world = ready(World(stock={"l4": 2}))
    known, policy = world.flavors, world.policy
    world.flavors, world.policy = {}, dataclasses.replace(POLICY, flavors=())
    world.settle()
    assert not world.requests
    assert entry_state(world, "a") is State.PENDING
    world.flavors, world.policy = known, policy
    run(world, 3)
    assert "a" in world.started


def test_a_moment_ahead_of_our_clock_counts_as_now() -> None:
    world = World()
    world.begin("a", PLAIN)
    world.now -= 10 * MINUTE
    assert decide(world.snapshot("a")).requeue_at == world.now + POLICY.queue_timeout


def test_a_next_try_that_a_clock_ahead_of_ours_has_put_off_is_not_waited_for() -> None:
    world = World(stock={"l4": 0, "h100": 0})
    world.begin("a", PLAIN)
    (request,) = world.requests
    world.answer(request, "Failed", "CapacityIsNotFound")
    world.now += 20 * MINUTE
    world.settle()
    world.kueue()
    pause = POLICY.retry.base * (1 + POLICY.retry.jitter_percent / 100)
    retry_at = world.snapshot("a").history.retry_at
    assert retry_at is not None
    assert world.now < retry_at <= world.now + pause
    world.now -= 5 * MINUTE
    world.settle()
    assert RETRY_AT in world.workloads["a"].metadata.annotations, "no longer than the longest pause"
    world.now -= 30 * MINUTE
    world.settle()
    assert world.workloads["a"].spec.active
    assert RETRY_AT not in world.workloads["a"].metadata.annotations


def test_nodes_that_never_become_ready_release_the_gang_and_no_pod_starts() -> None:
    world = World()
    world.begin("a", PLAIN)
    (request,) = world.requests
    world.answer(request, "Accepted")
    world.provision(request, ready=False)
    world.still()
    assert entry_of(world).message.startswith("0 of 1 l4 nodes for main (limit 9m); releases at 10:09")
    world.now += 9 * MINUTE
    world.settle()
    assert not world.requests
    assert not world.started


def ready_after(world: World, since: timedelta) -> None:
    """Provisioned for so long when somebody looks at last; Kueue does not admit it."""
    world.begin("a", PLAIN)
    (request,) = world.requests
    world.answer(request, "Accepted")
    world.provision(request)
    world.now += since
    world.settle()
    assert entry_state(world, "a") is State.READY


def test_a_gang_that_stands_when_its_time_is_over_may_start_before_it_is_taken_back() -> None:
    """As after an outage of ours: Kueue gets the time to act on our word."""
    world = World()
    ready_after(world, 20 * MINUTE)
    assert world.requests
    world.kueue()
    assert "a" in world.started


@pytest.mark.parametrize(("since", "after"), [(0 * MINUTE, 9), (5 * MINUTE, 4), (20 * MINUTE, 1)])
def test_a_ready_gang_that_other_checks_hold_up_has_its_booking_and_a_margin_at_least(
    since: timedelta, after: int
) -> None:
    """Not what is left of provisionTimeout: that was for its nodes, and they stand."""
    world = World(policy=dataclasses.replace(POLICY, provision_timeout=since + MINUTE / 2))
    ready_after(world, since)
    assert not decide(world.snapshot("a")).waits_for_nodes, "Kueue starts it at once"
    held = world.workloads["a"]
    entry = held.check_state(CHECK)
    assert entry is not None
    entry = replace(entry, last_transition_time=world.now)
    entries = (entry, CheckState(name="budget"))
    world._status("a", admission_checks=entries)
    decision = decide(world.snapshot("a"))
    assert decision.requeue_at == world.now + after * MINUTE
    assert decision.waits_for_nodes, "another one may be needed before it starts"
    world.now += after * MINUTE
    world.settle()
    assert not world.requests
    past = parse_history(world.workloads["a"])
    assert past.tries == 1
    assert past.last_failure.endswith("has passed: it was Ready, but not budget")


def write_now(world: World, **words: str) -> None:
    """Our answer, with its time as the executor writes it."""
    held = world.workloads["a"]
    entry = held.check_state(CHECK)
    assert entry is not None
    entry = replace(entry, last_transition_time=world.now, **words)
    world._status("a", admission_checks=(entry,))


def test_the_nodes_of_a_ready_gang_are_looked_at_while_kueue_is_away() -> None:
    """A taint in these minutes, and Kueue would start it in part when it comes back."""
    world = World()
    ready_after(world, 0 * MINUTE)
    write_now(world)
    wake = decide(world.snapshot("a")).requeue_at
    assert wake is not None
    assert wake <= world.now + MINUTE
    world.now = wake
    assert decide(world.snapshot("a")).waits_for_nodes
    world.now -= 10 * MINUTE
    assert decide(world.snapshot("a")).waits_for_nodes, "the clock of whoever answered was ahead"


def test_without_an_accepted_policy_a_gang_says_so_and_gives_its_quota_back_in_the_end() -> None:
    """A day after the policy was missed, however long the gang has waited in a cloud's queue before."""
    world = World()
    world.begin("a", PLAIN)
    world.now += timedelta(days=2)
    (said,) = decide(dataclasses.replace(world.snapshot("a"), policy=None)).actions
    assert isinstance(said, SetCheckState)
    assert said.message.startswith("waits for an accepted GangPolicy (see its conditions) (limit 24h)")
    write_now(world, message=said.message)
    world.now += timedelta(days=1)
    late = decide(dataclasses.replace(world.snapshot("a"), policy=None)).actions
    assert isinstance(late[0], Deactivate)
    assert {action.name for action in late if isinstance(action, Delete)} >= set(world.requests)


def test_pods_that_share_nodes_are_not_counted_as_nodes() -> None:
    world = World(policy=GangPolicy(flavors=(flavor_policy("h100", 100, gpus_per_node=8),)))
    world.submit("a", {"main": ("h100", 16)})
    world.kueue()
    said = []
    for step in ("", "Accepted", "Provisioned", "nodes"):
        (request,) = world.requests or ("",)
        if step == "nodes":
            world.nodes |= {f"n{n}": node(f"n{n}", "h100", f"lease-{request}", cpus=8) for n in range(15)}
        elif step == "Provisioned":
            world.answer(request, step, details={GKE_LEASE_DETAIL: f"lease-{request}"})
        elif step:
            world.answer(request, step)
        world.settle()
        world.still()
        said.append(entry_of(world).message.partition(" (limit")[0])
    assert said == [
        "asked for room for 16 pods on h100",
        "room for 0 of 16 pods on h100 for main",
        "room for 0 of 16 pods on h100 for main",
        "room for 15 of 16 pods on h100 for main",
    ]
    world.nodes["last"] = node("last", "h100", f"lease-{request}", cpus=8)
    world.settle()
    assert world.told[-1].message == "room for all 16 pods is provisioned"


def test_a_consumed_booking_and_a_late_failure_leave_a_running_gang_alone() -> None:
    world = after(3, PLAIN)
    (request,) = world.requests
    world.answer(request, "BookingExpired", "CapacityBookingConsumed")
    world.answer(request, "Failed", "Expired")
    before = world.writes
    run(world, 3)
    assert world.writes == before


def test_an_eviction_clears_what_the_old_lease_told_the_pods() -> None:
    world = after(3, PLAIN)
    world.evict("a", "Preempted")
    world.settle()
    assert entry_of(world).pod_set_updates == ()
    assert not world.requests


def test_what_somebody_else_deactivated_stays_inactive_and_starts_afresh_when_they_activate_it() -> None:
    world = World(stock={"l4": 0, "h100": 0})
    world.begin("a", PLAIN)
    (request,) = world.requests
    world.answer(request, "Failed", "CapacityIsNotFound")
    world.settle()
    held = world.workloads["a"]
    without_note = {key: value for key, value in held.metadata.annotations.items() if key != RETRY_AT}
    world._metadata("a", annotations=without_note)
    run(world, 90)
    assert not world.workloads["a"].spec.active
    assert TRIES not in world.workloads["a"].metadata.annotations


def test_a_request_that_can_never_be_served_is_refused_with_the_reason() -> None:
    world = World()
    world.begin("a", PLAIN)
    (request,) = world.requests
    world.answer(request, "Failed", "InvalidRequest", "only single PodSet per request")
    world.settle()
    assert_refused(world, "only single PodSet per request")
    assert not world.requests
    world.kueue()
    world.settle()
    assert "only single PodSet per request" in entry_of(world).message


def test_a_gang_larger_than_its_pool_is_refused_before_anything_is_asked_for() -> None:
    world = World()
    world.begin("a", {"main": ("l4", 9)})
    assert_refused(world, "needs 9 nodes")
    assert not world.everything_made


def test_a_pool_that_shrinks_below_a_waiting_gang_refuses_it_and_one_that_grows_leaves_it_alone() -> None:
    world = after(2, {"main": ("l4", 2)}, stock={"l4": 0, "h100": 0})
    (request,) = world.requests
    world.policy = GangPolicy(flavors=(flavor_policy("l4", 10, max_nodes=99),))
    world.settle()
    assert set(world.requests) == {request}
    world.policy = GangPolicy(flavors=(flavor_policy("l4", 10, max_nodes=1),))
    world.settle()
    assert_refused(world, "needs 2 nodes")
    assert not world.requests


@pytest.mark.parametrize("has_asked", [True, False])
@pytest.mark.parametrize("pieces", [SPLIT, {"main": ("h100", 1)}])
def test_a_pool_that_leaves_the_policy_starts_no_gang_without_its_nodes_there(
    pieces: dict[str, tuple[str, int]], has_asked: bool
) -> None:
    """An `up` that takes out a pool changes the policy before the queues."""
    world = World(stock={"l4": 1, "h100": 0})
    rest = tuple(flavor for flavor in world.policy.flavors if flavor.name != "h100")
    world.submit("a", pieces)
    if has_asked:
        run(world, 4)
    world.policy = dataclasses.replace(world.policy, flavors=rest)
    run(world, 1)
    assert not world.requests
    world.now += MINUTE
    world.settle()
    assert not world.workloads["a"].spec.active, "and its quota is free for who can use it"
    assert "the GangPolicy has no flavor h100" in world.told[-1].message
    world.kueue()
    assert "a" not in world.started


def test_a_refused_gang_that_a_person_activates_starts_afresh() -> None:
    world = World()
    world.begin("a", {"main": ("l4", 9)})
    run(world, 2)
    world.pieces["a"] = {"main": ("l4", 1)}
    world._spec("a", active=True)
    run(world, 4)
    assert "a" in world.started
    assert not {REFUSED, FIRST_TRY, TRIES} & set(world.workloads["a"].metadata.annotations)


@pytest.mark.parametrize(
    ("policy", "says"),
    [
        (GangPolicy(), ()),
        (GangPolicy(provision_timeout=timedelta(hours=48)), ("Accepted",)),
        (GangPolicy(queue_timeout=timedelta(hours=1), retry=RetryPolicy(deadline=MINUTE)), ()),
    ],
    ids=["the defaults", "provisionTimeout of two days", "a deadline shorter than a try"],
)
def test_a_timeout_as_long_as_the_deadline_leaves_several_tries(
    policy: GangPolicy, says: tuple[str, ...]
) -> None:
    world = World(policy=dataclasses.replace(policy, flavors=POLICY.flavors))
    world.submit("a", PLAIN)
    for _ in range(14 * 24):
        world.kueue()
        world.settle()
        for request in list(world.requests):
            for word in says:
                world.answer(request, word)
        world.settle()
        world.kueue()
        world.settle()
        world.now += timedelta(hours=1)
    assert len(world.everything_made) == 3
    assert_refused(world, "gave up after 3 tries")
    assert RETRY_AT not in world.workloads["a"].metadata.annotations


def test_who_got_quota_while_no_controller_ran_for_days_is_not_given_up_untried() -> None:
    world = World(policy=dataclasses.replace(POLICY, retry=RetryPolicy()))
    world.submit("a", PLAIN)
    world.kueue()
    world.now += timedelta(days=3)
    run(world, 5)
    assert "a" in world.started


def test_a_gang_that_asks_for_nothing_of_ours_is_ready_at_once() -> None:
    world = after(2, {"main": ("cpu", 3)})
    assert "a" in world.started
    assert not world.everything_made


def test_a_gang_that_waited_a_day_for_an_accepted_policy_comes_back_when_there_is_one() -> None:
    world = after(2, PLAIN, stock={"l4": 0})
    assert world.requests
    known = world.policy
    world.policy = None  # type: ignore[assignment]  # a policy that is deleted
    world.now += GangPolicy().queue_timeout
    world.settle()
    assert not world.requests
    assert not parse_history(world.workloads["a"]).refused, "nothing could be tried"
    world.policy, world.stock["l4"] = known, 1
    run(world, 10)
    assert "a" in world.started


def test_a_policy_that_is_gone_takes_nothing_from_a_running_gang() -> None:
    world = after(4, SPLIT)
    held = set(world.requests)
    world.policy = GangPolicy()
    run(world, 2)
    assert set(world.requests) == held


def test_a_class_that_changes_while_a_gang_waits_is_asked_anew() -> None:
    world = after(2, PLAIN, stock={"l4": 0, "h100": 0})
    (old,) = world.requests.values()
    flavor = flavor_policy("l4", 10, provisioning_class_name="check-capacity.autoscaling.x-k8s.io")
    world.policy = GangPolicy(flavors=(flavor,))
    world.settle()
    (new,) = world.requests.values()
    assert old.metadata.uid != new.metadata.uid
    assert new.spec.provisioning_class_name == flavor.provisioning_class_name


@pytest.mark.parametrize("condition", ["Evicted", "DeactivationTarget"])
def test_nothing_but_clean_up_is_done_while_kueue_takes_the_quota_back(condition: str) -> None:
    world = after(1, PLAIN, stock={"l4": 0, "h100": 0})
    world.set_condition("a", condition, "True")
    (request,) = world.requests
    world.answer(request, "Failed", "CapacityIsNotFound")
    world.settle()
    assert entry_state(world, "a") is State.PENDING
    assert world.workloads["a"].spec.active
    assert not world.requests


# Properties

gangs = st.dictionaries(
    st.sampled_from(["a", "b", "c", "d"]),
    st.dictionaries(
        st.sampled_from(["head", "x", "y", "z"]),
        st.tuples(st.sampled_from(["cpu", "l4", "h100"]), st.integers(min_value=1, max_value=2)),
        min_size=1,
        max_size=3,
    ),
    min_size=1,
    max_size=4,
)
steps = st.lists(
    st.tuples(
        st.sampled_from(
            ["tick", "tick", "tick", "fail", "revoke", "preempt", "lose", "slow", "delete", "leap"]
        ),
        st.integers(min_value=0, max_value=7),
    ),
    max_size=25,
)


def disturb(world: World, kind: str, number: int) -> None:
    names = sorted(world.requests)
    request = names[number % len(names)] if names else ""
    running = sorted(world.started)
    match kind:
        case "fail" if request and not world.requests[request].status.holds("Provisioned"):
            world.answer(request, "Failed", "CapacityIsNotFound")
        case "revoke" if request:
            world.answer(request, "CapacityRevoked", "Revoked")
        case "preempt" if running:
            world.evict(running[number % len(running)], "Preempted")
        case "lose" if world.nodes:
            del world.nodes[sorted(world.nodes)[number % len(world.nodes)]]
        case "slow":
            world.delay = {"l4": number * 3 * MINUTE, "h100": number * MINUTE}
        case "delete" if request:
            del world.requests[request]
        case "leap":
            world.now += number * 5 * MINUTE
    world.settle()
    world.tick()


def calm(world: World) -> None:
    """No more disturbance and room for everybody: every gang has to run to its end."""
    world.delay = {}
    world.stock = {"l4": 99, "h100": 99}
    for _ in range(600):
        world.tick(2 * MINUTE)
        assert_invariants(world)
        if len(world.ended) == len(world.workloads):
            return
    raise AssertionError(f"only {sorted(world.ended)} of {sorted(world.workloads)} ended")


@settings(max_examples=examples(40), deadline=None)
@given(gangs, steps, st.booleans())
def test_whatever_happens_nothing_starts_half_nothing_is_left_over_and_everybody_ends(
    wanted: dict[str, dict[str, tuple[str, int]]], disturbances: list[tuple[str, int]], holds: bool
) -> None:
    world = World(stock={"l4": 2, "h100": 2}, quota=3, policy=HOLDING if holds else POLICY)
    for name, pieces in wanted.items():
        world.submit(name, pieces)
    for kind, number in disturbances:
        disturb(world, kind, number)
        assert_invariants(world)
        assert len(world.holds_half()) <= 2
    calm(world)
    assert not world.requests
    assert not world.templates
    assert not world.placeholders


@settings(max_examples=examples(40), deadline=None)
@given(gangs, steps, st.lists(st.integers(min_value=0, max_value=12), min_size=1, max_size=12), st.booleans())
def test_a_crash_after_any_write_converges_to_the_same_end(
    wanted: dict[str, dict[str, tuple[str, int]]],
    disturbances: list[tuple[str, int]],
    crashes: list[int],
    holds: bool,
) -> None:
    world = World(stock={"l4": 2, "h100": 2}, quota=3, policy=HOLDING if holds else POLICY)
    for name, pieces in wanted.items():
        world.submit(name, pieces)
    for number, (kind, which) in enumerate(disturbances):
        world.crash_after = world.writes + crashes[number % len(crashes)]
        disturb(world, kind, which)
        world.crash_after = None
        world.settle()
        assert_invariants(world)
    calm(world)
    assert not world.requests


@settings(max_examples=examples(25), deadline=None)
@given(gangs, steps)
def test_where_nothing_has_changed_nothing_is_done(
    wanted: dict[str, dict[str, tuple[str, int]]], disturbances: list[tuple[str, int]]
) -> None:
    world = World(stock={"l4": 1, "h100": 1}, quota=3)
    for name, pieces in wanted.items():
        world.submit(name, pieces)
    for kind, number in disturbances:
        disturb(world, kind, number)
        world.now += timedelta(seconds=1)
        for name in world.workloads:
            snapshot = world.snapshot(name)
            decision = decide(snapshot)
            due = decision.requeue_at is not None and decision.requeue_at <= world.now
            assert not decision.actions or due or snapshot.history.retry_at is not None


@settings(max_examples=examples(25), deadline=None)
@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["x", "y", "z"]),
            st.tuples(st.sampled_from(["l4", "h100"]), st.just(1)),
            min_size=2,
            max_size=3,
        ),
        min_size=2,
        max_size=4,
    ),
    st.integers(min_value=0, max_value=4),
    st.integers(min_value=0, max_value=4),
    st.one_of(st.none(), st.integers(min_value=0, max_value=10**6)),
    st.booleans(),
)
def test_split_gangs_over_shared_pools_never_hold_half_each_for_ever(
    wanted: list[dict[str, tuple[str, int]]], slow_l4: int, slow_h100: int, seed: int | None, blind: bool
) -> None:
    """Stock for the largest gang alone, so that every pair competes; all of them end, also where the cloud
    serves whom it likes, and where all have begun without seeing each other (`blind`). No circle outlives one
    reconcile: none has a next tick in which to be seen.
    """
    world = World(
        stock={
            pool: max(sum(place[0] == pool for place in gang.values()) for gang in wanted)
            for pool in ("l4", "h100")
        },
        delay={"l4": slow_l4 * MINUTE, "h100": slow_h100 * MINUTE},
        order=in_order if seed is None else at_random(seed),
    )
    for number, pieces in enumerate(wanted):
        world.submit(f"gang-{number}", pieces)
    if blind:
        world.kueue()
        world.reconcile_blind()
    for _ in range(1500):
        world.tick()
        assert_invariants(world)
        assert world.circles() == []
        if len(world.ended) == len(wanted):
            return
    raise AssertionError(f"only {world.ended} ended by {world.now - START}")


def in_order(names: list[str]) -> list[str]:
    return names


def at_random(seed: int) -> Callable[[list[str]], list[str]]:
    """A cloud that serves its requests in any order, and leaves some for later."""
    chance = random.Random(seed)
    return lambda names: chance.sample(names, chance.randint(0, len(names)))


def test_a_gang_outside_the_quota_is_let_back_in_before_our_check_goes() -> None:
    """Whoever takes over knows nothing of our note: without us it would wait for ever."""
    world = World(stock={"l4": 0, "h100": 0})
    world.submit("a", PLAIN)
    while RETRY_AT not in world.workloads["a"].metadata.annotations:
        world.now += MINUTE
        world.kueue()
        world.settle()
    world.kueue()
    staying = world.snapshot("a")
    assert not any(isinstance(action, Reactivate) for action in decide(staying).actions)
    (stepping_in,) = decide(
        dataclasses.replace(staying, check_is_being_removed=True, check_is_gone=True)
    ).actions
    assert isinstance(stepping_in, Reactivate)
    assert stepping_in.history.retry_at is None


def test_a_gang_under_a_check_that_is_being_deleted_gives_its_quota_back_and_waits_outside() -> None:
    """Kueue keeps such a check for as long as a queue names it, gives quota under it, and admits a gang that
    is Ready.
    """
    world = ready(World())
    leaving = dataclasses.replace(world.snapshot("a"), check_is_being_removed=True)
    first, second, *rest = decide(leaving).actions
    assert isinstance(first, SetCheckState)
    assert (first.state, first.updates) == (State.PENDING, ())
    assert "AdmissionCheck gang is being deleted: nothing is requested" in first.message
    assert isinstance(second, Deactivate)
    assert second.history.retry_at is not None
    assert {action.name for action in rest if isinstance(action, Delete)} >= set(world.requests)
    for action in (first, second, *rest):
        world.carry_out("a", action)
    world.kueue()
    again = dataclasses.replace(world.snapshot("a"), check_is_being_removed=True)
    assert not any(isinstance(action, Reactivate) for action in decide(again).actions)


def test_a_gang_under_a_check_that_is_gone_gives_its_quota_back_and_queues() -> None:
    """Its queue is inactive, so that no quota follows."""
    world = ready(World())
    leaving = dataclasses.replace(world.snapshot("a"), check_is_being_removed=True, check_is_gone=True)
    first, *rest = decide(leaving).actions
    assert isinstance(first, SetCheckState)
    assert (first.state, first.updates) == (State.RETRY, ())
    assert "AdmissionCheck gang does not exist" in first.message
    assert {action.name for action in rest if isinstance(action, Delete)} >= set(world.requests)
    for action in (first, *rest):
        world.carry_out("a", action)
    again = dataclasses.replace(world.snapshot("a"), check_is_being_removed=True, check_is_gone=True)
    assert not decide(again).actions


def test_what_runs_when_its_queue_gets_our_check_is_not_bought_again() -> None:
    world = after(6, {"main": ("l4", 1)})
    running = world.snapshot("a")
    assert running.is_admitted
    entry = running.check_state
    assert entry is not None
    fresh = replace(entry, state=State.PENDING, message="", pod_set_updates=())
    status = replace(running.workload.status, admission_checks=(fresh,))
    met = dataclasses.replace(
        running, workload=replace(running.workload, status=status), requests=(), templates=()
    )
    (ready,) = decide(among(met, own_pods=())).actions
    assert isinstance(ready, SetCheckState)
    assert (ready.state, ready.updates) == (State.READY, ())


def test_a_gang_whose_pause_is_over_waits_for_its_token() -> None:
    world = World(stock={"l4": 0, "h100": 0})
    world.begin("a", PLAIN)
    world.answer(next(iter(world.requests)), "Failed", "CapacityIsNotFound")
    world.settle()
    world.kueue()
    world.now += timedelta(hours=1)
    due = world.snapshot("a")
    assert due.wants_retry
    waiting = decide(dataclasses.replace(due, retry_delay=timedelta(seconds=7)))
    assert waiting.requeue_at == world.now + timedelta(seconds=7)
    assert not any(isinstance(action, Reactivate) for action in waiting.actions)
    assert any(isinstance(action, Reactivate) for action in decide(due).actions)


def test_a_flavor_that_changes_while_a_gang_waits_is_asked_for_anew() -> None:
    world = after(2, PLAIN, stock={"l4": 0, "h100": 0})
    (old,) = world.requests.values()
    moved = replace(FLAVORS["l4"].spec, node_labels={POOL_LABEL: "l4", "zone": "b"})
    world.flavors = {**FLAVORS, "l4": replace(FLAVORS["l4"], spec=moved)}
    world.settle()
    (new,), (template,) = world.requests.values(), world.templates.values()
    assert old.metadata.uid != new.metadata.uid
    # Nodes are made for the template: what it said of the flavor is as old as the request was.
    assert template.metadata.labels[NEEDS] == new.metadata.labels[NEEDS]
    before = world.writes
    world.settle()
    assert world.writes == before


def test_who_waits_in_line_goes_by_priority_and_whoever_has_asked_goes_first() -> None:
    world = after(1, SPLIT, delay={"h100": timedelta(hours=1)})
    for name in ("b", "c"):
        world.submit(name, SPLIT)
    world._spec("c", priority=9)
    world.kueue()
    world.still()

    def words(name: str) -> str:
        entry = world.workloads[name].check_state(CHECK)
        return entry.message if entry else ""

    (first,) = world.requests
    assert words("b") == words("c")
    assert words("b").startswith("waits for its turn at pool h100")
    before = words("b")
    world.answer(first, "Accepted")
    world.settle()
    assert not world.snapshot("c").requests, "the pool that a lacks would have two orders"
    (_, second) = world.requests
    world.answer(second, "Accepted")
    world.still()
    asked = [held.metadata.labels["muster.dev/workload-uid"] for held in world.requests.values()]
    assert asked == ["uid-a", "uid-a", "uid-c"], "in its place, although its nodes are not there yet"
    assert words("b") == before, "who is first has changed, and no word has"


def test_what_comes_early_is_held_by_placeholders_that_go_when_the_gang_is_whole() -> None:
    world = after(12, SPLIT, delay={"h100": 25 * MINUTE}, policy=HOLDING)
    assert not world.placeholders, "nodes that are booked need nobody to keep them"
    run(world, 2)
    (held,) = world.placeholders
    assert world.pods[held].spec.node_name in world.nodes
    asked = set(world.requests)
    run(world, 11)
    assert any(request.status.holds("BookingExpired") for request in world.requests.values())
    run(world, 4)
    assert "a" in world.started
    assert not world.placeholders
    assert set(world.requests) == asked, "nothing was asked for twice"
    assert [told.reason for told in world.told].count("GangHeld") == 1


def test_a_placeholder_that_was_evicted_is_made_anew() -> None:
    world = after(14, SPLIT, delay={"h100": 25 * MINUTE}, policy=HOLDING)
    (name,) = world.placeholders
    evicted = world.placeholders[name]
    world.placeholders[name] = replace(evicted, status=PodStatus(phase="Failed"))
    run(world, 1)
    assert world.placeholders[name].status.phase != "Failed"


def test_a_kubelet_that_rejects_what_holds_a_node_is_asked_more_and_more_rarely() -> None:
    world = after(14, SPLIT, delay={"h100": 25 * MINUTE}, policy=HOLDING)
    (name,) = world.placeholders
    began, made = world.now, set[datetime]()
    while world.now < began + 10 * MINUTE:
        held = world.placeholders.get(name)
        if held is not None and not held.status.has_ended:
            born = replace(held.metadata, creation_timestamp=world.now)
            made.add(world.now)
            ended = PlaceholderStatus(phase="Failed", reason="UnexpectedAdmissionError")
            world.placeholders[name] = replace(held, metadata=born, status=ended)
        world.settle()
        world.now += timedelta(seconds=1)
    assert 3 <= len(made) <= 8


def assert_unready_first(world: World) -> None:
    first, *_ = world.decided("a").actions
    assert isinstance(first, SetCheckState)
    assert (first.state, first.updates) == (State.PENDING, ())
    world.crash_after = world.writes + 1
    world.quietly("a")
    assert entry_state(world, "a") is State.PENDING, "whatever becomes of the rest"


def test_a_ready_gang_that_loses_a_node_is_not_ready_while_its_nodes_are_held() -> None:
    world = ready(World(policy=HOLDING))
    world.now += 9 * MINUTE
    world.take_away(sorted(world.nodes)[0])
    assert_unready_first(world)


def test_a_ready_gang_whose_request_has_vanished_is_not_ready_while_it_asks_again() -> None:
    world = ready(World())
    world.requests.clear()
    assert_unready_first(world)


def test_a_ready_gang_whose_request_is_outdated_is_not_ready_when_that_goes() -> None:
    world = ready(World())
    flavors = tuple(dataclasses.replace(each, parameters={"a": "b"}) for each in POLICY.flavors)
    world.policy = dataclasses.replace(POLICY, flavors=flavors)
    assert_unready_first(world)


def test_what_is_held_is_given_back_when_the_late_piece_has_no_time_left() -> None:
    world = after(20, SPLIT, delay={"h100": timedelta(hours=9)}, policy=HOLDING)
    assert world.placeholders
    run(world, 12)
    assert not world.placeholders
    assert not world.requests
    assert "provisionTimeout" in world.workloads["a"].metadata.annotations["muster.dev/last-failure"]


def test_a_placeholder_is_restricted_and_as_large_as_the_pod_that_it_stands_for() -> None:
    world = World(delay={"h100": timedelta(hours=1)}, policy=HOLDING)
    world.submit("a", SPLIT)
    needs = {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1", "hugepages-2Mi": "64Mi"}
    container = Container(resources=ResourceNeeds(limits={**needs}))
    world._pods("a", PodSpec(containers=(container,)), pod_set="small")
    run(world, 4)
    world.now += 10 * MINUTE
    (hold,) = [
        action for action in decide(world.snapshot("a")).actions if isinstance(action, CreatePlaceholders)
    ]
    ((name, index),) = named(hold.request, hold.spec)
    made = pod(WORKLOADS.of(world.workloads["a"]), hold, name=name, index=index)
    spec = made["spec"]
    assert made["metadata"]["annotations"][CONSUME_ANNOTATION] == hold.request
    assert spec["nodeSelector"] == {POOL_LABEL: "l4", GKE_LEASE_LABEL: f"lease-{hold.request}"}
    (container,) = spec["containers"]
    # As the standard `restricted` wants, with `runAsNonRoot` and the seccomp profile of the pod.
    security = container["securityContext"]
    assert not security["allowPrivilegeEscalation"]
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert container["resources"] == {
        "requests": {
            "cpu": "1000m",
            "hugepages-2Mi": "67108864",
            "memory": "1073741824",
            "nvidia.com/gpu": "1",
        },
        "limits": {"hugepages-2Mi": "67108864", "nvidia.com/gpu": "1"},
    }
    assert spec["terminationGracePeriodSeconds"] == 0
    two_pieces = 2 * POLICY.provision_timeout
    assert spec["activeDeadlineSeconds"] == two_pieces.total_seconds(), "it ends without us, and not before"
    assert request_of_placeholder(name) == hold.request


def annotate(world: World, key: str, value: str | None) -> None:
    held = world.workloads["a"]
    notes = {**held.metadata.annotations, key: value or ""}
    if value is None:
        del notes[key]
    world._metadata("a", annotations=notes)


def backing_off() -> World:
    world = World()
    world.begin("a", PLAIN)
    (request,) = world.requests
    world.answer(request, "Failed")
    world.settle()
    world.kueue()
    world.settle()
    assert RETRY_AT in world.workloads["a"].metadata.annotations
    return world


def test_a_gang_that_is_stopped_in_its_pause_comes_back_when_it_is_let_go_and_costs_nothing() -> None:
    world = backing_off()
    annotate(world, STOP_ANNOTATION, "true")
    run(world, 3 * 60)
    assert not world.workloads["a"].spec.active
    assert not world.snapshot("a").wants_retry, "it keeps no other gang from its retry"
    assert observe(world.workloads["a"], (CHECK,)) is None, "no alert speaks of it"
    stopped = parse_history(world.workloads["a"])
    assert (stopped.tries, stopped.first_try) == (1, None), "retry.deadline begins again"
    writes = world.writes
    run(world, 60)
    assert world.writes == writes
    annotate(world, STOP_ANNOTATION, None)
    run(world, 5)
    assert "a" in world.started


def test_a_stop_that_is_false_is_none() -> None:
    world = backing_off()
    annotate(world, STOP_ANNOTATION, "false")
    run(world, 10)
    assert "a" in world.started


def test_a_running_gang_that_is_stopped_is_evicted_and_counts_no_try() -> None:
    world = after(4, PLAIN)
    annotate(world, STOP_ANNOTATION, "true")
    run(world, 60)
    assert "a" not in world.started
    assert not world.requests
    assert [told.reason for told in world.told].count("GangStopped") == 1
    annotate(world, STOP_ANNOTATION, None)
    run(world, 5)
    assert "a" in world.started
    assert TRIES not in world.workloads["a"].metadata.annotations


def test_a_stopped_gang_is_not_let_in_when_the_controller_is_removed() -> None:
    world = backing_off()
    assert any(isinstance(each, Reactivate) for each in shutdown_actions(world.snapshot("a")))
    annotate(world, STOP_ANNOTATION, "true")
    assert not any(isinstance(each, Reactivate) for each in shutdown_actions(world.snapshot("a")))
