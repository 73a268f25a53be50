"""Two things that happen to one gang at once: each alone is told elsewhere."""

import dataclasses
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from muster.controller.gangs.capacity_claims import PodClaim
from muster.controller.gangs.lease import format_time
from muster.controller.gangs.retry import RetryHistory, parse_history, to_annotations
from muster.controller.kueue.actions import PatchAnnotations, Reactivate, RemoveClaims, State
from muster.controller.kueue.decide import decide
from muster.controller.kueue.flavor_fallback import avoided_pools
from muster.controller.kueue.gang_state import observe
from muster.controller.kueue.objects import Flavors, ReclaimablePod
from muster.controller.kueue.scale_up import remove_claims
from muster.controller.kueue.shutdown import shutdown_actions
from muster.controller.kueue.snapshot import EarlierSlice, WorkloadSnapshot
from muster.model.gangpolicy import GangPolicy
from muster.model.names import AVOID_ANNOTATION, LEASE_ENDS_ANNOTATION
from tests.unit.admission.gang_world import CHECK, FLAVORS, PLAIN, POLICY, World, entry_state, ready
from tests.unit.admission.test_gang_flavors import MOVING, a_world, stocked_out
from tests.unit.admission.test_gang_growth import carried_out, failed_growth, growing
from tests.unit.admission.test_gang_running import lose_a_node, reasons, running
from tests.unit.gangs.paper import START, flavor_policy

replace = msgspec.structs.replace
PRESENT = flavor_policy("cpu", 0, provisioning_class_name="", node_selector_from_details=(), gpus_per_node=0)


def activated(world: World, is_active: bool) -> None:
    """By somebody else than us."""
    world._spec("a", active=is_active)


def noted(world: World, past: RetryHistory) -> None:
    held = world.workloads["a"]
    notes = {key: value for key, value in to_annotations(past).items() if value is not None}
    world._metadata("a", annotations={**held.metadata.annotations, **notes})


def quota_gone(world: World) -> None:
    """Everybody acts until Kueue has taken the quota back and the entries off."""
    for _ in range(3):
        world.kueue()
        world.settle()


def failed(world: World, reason: str, message: str = "") -> None:
    (request,) = world.requests
    world.answer(request, "Failed", reason, message)
    world.settle()


# A next try is noted


@pytest.mark.parametrize("is_seen", [True, False])
def test_a_growth_between_two_tries_that_somebody_deactivates_stays_inactive(is_seen: bool) -> None:
    world, _ = failed_growth()
    assert parse_history(world.workloads["a"]).retry_at
    activated(world, False)
    world.kueue()  # evicts it, so nothing of it runs any more
    over = World(now=world.now, workloads=world.workloads, pieces=world.pieces)
    assert not [each for each in shutdown_actions(over.snapshot("a")) if isinstance(each, Reactivate)]
    assert observe(over.workloads["a"], (CHECK,)) is None, "it backs off from nothing"
    if not is_seen:
        over.now += timedelta(hours=2)
    over.ticks(90)
    assert not over.workloads["a"].spec.active
    assert parse_history(over.workloads["a"]) == RetryHistory()


def test_who_is_activated_early_and_stopped_again_before_it_has_quota_stays_inactive() -> None:
    """Without quota Kueue gives it no entry of a check that stands on some flavors alone."""
    world = World(stock={"l4": 0})
    world.begin("a", PLAIN)
    failed(world, "CapacityIsNotFound")
    quota_gone(world)
    assert not world.workloads["a"].status.admission_checks
    world.quota = 0
    activated(world, True)
    world.settle()
    activated(world, False)
    world.ticks(90)
    assert not world.workloads["a"].spec.active


def test_a_growth_that_waits_without_a_policy_tries_once_and_rests() -> None:
    world = growing()
    noted(
        world,
        RetryHistory(tries=1, first_try=START + timedelta(hours=30), retry_at=START + timedelta(hours=30)),
    )
    world.policy = None  # type: ignore[assignment]  # a policy that is deleted
    world.now += timedelta(hours=31)
    written_to = 0
    for _ in range(20):
        written_to += any(isinstance(action, PatchAnnotations) for action in carried_out(world).actions)
        world.now += timedelta(minutes=1)
    assert written_to == 0
    world.now += timedelta(hours=24)
    for _ in range(20):
        written_to += any(isinstance(action, PatchAnnotations) for action in carried_out(world).actions)
    assert written_to == 1


# It keeps away from flavors


def test_a_refused_gang_keeps_away_from_no_flavor_any_more() -> None:
    world = a_world()
    stocked_out(world)
    world.kueue()
    world.settle()
    failed(world, "InvalidRequest")
    assert parse_history(world.workloads["a"]).refused
    quota_gone(world)
    assert avoided_pools(world.workloads["a"], world.policy) == ()
    assert AVOID_ANNOTATION not in world.workloads["a"].metadata.annotations
    assert not decide(world.snapshot("a")).actions


@pytest.mark.parametrize("has_quota", [True, False])
def test_a_refused_gang_that_is_activated_at_once_keeps_away_from_no_flavor_for_ever(has_quota: bool) -> None:
    world = a_world()
    stocked_out(world)
    world.kueue()
    world.settle()
    failed(world, "InvalidRequest")
    world.kueue()
    world.quota = int(has_quota)
    activated(world, True)
    world.kueue()
    world.settle()
    world.quota = 0
    if has_quota:
        world.evict("a", "Preempted")
    world.settle()
    world.now += MOVING.retry.max
    world.settle()
    assert avoided_pools(world.workloads["a"], world.policy) == ()


def test_a_gang_in_another_flavor_that_somebody_stops_may_have_any_when_it_comes_back() -> None:
    world = a_world()
    stocked_out(world)
    world.ticks(5)
    assert "a" in world.started
    activated(world, False)
    quota_gone(world)
    assert avoided_pools(world.workloads["a"], world.policy) == ()
    assert parse_history(world.workloads["a"]) == RetryHistory()
    assert not decide(world.snapshot("a")).actions


class HeadElsewhere(World):
    """A head that tolerates no GPU nodes: Kueue gives it the flavor without."""

    def _flavor(self, held: Any, pool: str) -> str:
        return pool if pool == "cpu" else super()._flavor(held, pool)


def test_a_head_without_room_makes_no_gang_try_other_pools_for_its_workers() -> None:
    policy = dataclasses.replace(MOVING, flavors=(*MOVING.flavors, PRESENT))
    world = HeadElsewhere(policy=policy, queue_flavors=(("l4", "h100", "cpu"),))
    world.submit("a", {"head": ("cpu", 1), "main": ("l4", 1)})
    world.ticks(90)
    assert "GangMoves" not in reasons(world)
    assert parse_history(world.workloads["a"]).tries, "it pauses between its tries"


# It is Ready, or runs


def test_who_was_ready_is_so_no_more_when_a_stopped_queue_takes_its_quota_without_an_eviction() -> None:
    world = ready(World())
    world._status("a", admission=None)
    world.set_condition("a", "QuotaReserved", "False")
    world.settle()
    assert not world.requests
    assert entry_state(world, "a") is State.PENDING, "Kueue would start it with its next quota"


def test_a_running_gang_whose_flavor_is_renamed_keeps_what_it_has() -> None:
    world = running()
    (request,) = world.requests
    world.flavors, world.policy = {}, dataclasses.replace(POLICY, flavors=())
    world.settle()
    assert list(world.requests) == [request]
    assert entry_state(world, "a") is State.READY
    assert shutdown_actions(world.snapshot("a")) == ()
    world.answer(request, "CapacityRevoked", "Revoked")
    world.settle()
    assert entry_state(world, "a") is State.RETRY, "it is looked after all the same"


@pytest.mark.parametrize("flavors", [FLAVORS, {}])
def test_lost_nodes_are_not_said_to_be_back_while_nobody_can_tell(flavors: Flavors) -> None:
    world = running()
    lose_a_node(world)
    since = parse_history(world.workloads["a"]).nodes_missing
    assert since
    policy, world.policy = world.policy, GangPolicy()
    world.flavors = dict(flavors)
    if flavors:
        world.policy = None  # type: ignore[assignment]  # a policy that is deleted
    world.settle()
    assert reasons(world)[-1] == "NodesMissing"
    world.flavors, world.policy = FLAVORS, policy
    world.now = since + POLICY.node_loss_grace
    world.settle()
    assert reasons(world)[-1] == "NodesLost"


def test_pods_that_were_done_before_it_was_admitted_again_hide_no_lost_node() -> None:
    """Kueue leaves `reclaimablePods` through an eviction and reserves for the rest alone."""
    world = World(stock={"l4": 2}, runtime=timedelta(days=30))
    world.submit("a", {"main": ("l4", 4)})
    world._status("a", reclaimable_pods=(ReclaimablePod(name="main", count=2),))
    world.pieces["a"] = {"main": ("l4", 2)}
    world.kueue()
    held = world.workloads["a"]
    (main,) = held.spec.pod_sets
    assert held.status.admission is not None
    assert (main.count, held.status.admission.pod_set_assignments[0].count) == (4, 2)
    assert world.snapshot("a").ended == {"main": 0}
    in_part = replace(held, spec=replace(held.spec, pod_sets=(replace(main, min_count=1),)))
    assert dataclasses.replace(world.snapshot("a"), workload=in_part).ended == {"main": 2}


# An elastic gang


def test_the_end_of_its_lease_is_told_to_a_gang_that_cannot_grow() -> None:
    world = growing()
    ends = START + timedelta(hours=1)
    claim = PodClaim(pod_set="main", annotations={LEASE_ENDS_ANNOTATION: format_time(ends)}, node_selector={})

    def act(*, times: int) -> None:
        for _ in range(times):
            for action in decide(leased()).actions:
                world.carry_out("a", action)

    def leased() -> WorkloadSnapshot:
        return dataclasses.replace(
            world.snapshot("a"), earlier_slices=(EarlierSlice(claims={"main": claim}),)
        )

    act(times=2)
    (first,) = world.requests
    world.now += timedelta(seconds=10)
    act(times=1)
    assert decide(leased()).requeue_at == ends - POLICY.lease_notice
    world.now = ends - POLICY.lease_notice
    act(times=2)
    assert reasons(world).count("LeaseEnds") == 1
    assert parse_history(world.workloads["a"]).lease_ends == ends
    world.answer(first, "Failed", reason="OutOfStock")
    act(times=3)
    assert reasons(world)[-1] == "GrowthReleased", "it is told once, however often it tries to grow"
    assert not decide(leased()).actions


def test_templates_are_freed_of_a_lease_also_while_no_policy_is_accepted() -> None:
    world = growing()
    claim = PodClaim(pod_set="main", annotations={}, node_selector={"lease": "one"})
    seen = dataclasses.replace(
        world.snapshot("a"), policy=None, earlier_slices=(EarlierSlice(claims={"main": claim}),)
    )
    assert remove_claims(seen) == (RemoveClaims(selectors=("lease",)),)
