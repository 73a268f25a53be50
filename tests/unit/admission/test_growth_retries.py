"""A growth that failed or was refused tries again: when what it asks for or what it met is another, and not
before its turn among all that try again.
"""

import dataclasses
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, cast

import msgspec
import pytest

from muster.controller.gangs.actions import CreateRequest, EmitEvent
from muster.controller.gangs.limits import unsatisfiable_reason
from muster.controller.gangs.objects import Container, ContainerPort, PodSpec, ResourceNeeds
from muster.controller.gangs.rate_limit import RetryLimiter
from muster.controller.gangs.reconciler import GangReconciler
from muster.controller.gangs.retry import parse_history
from muster.controller.kube.resource import Key
from muster.controller.kueue.actions import Deactivate, PatchAnnotations
from muster.controller.kueue.decide import decide
from muster.controller.kueue.executor import Executor
from muster.controller.kueue.hooks import WorkloadHooks
from muster.controller.kueue.snapshot import WorkloadSnapshot
from muster.controller.kueue.view import View
from muster.model.gangpolicy import GangPolicy, RetryPolicy
from muster.model.names import ELASTIC_JOB
from tests.unit.admission.elastic_world import STEPS, Elastic
from tests.unit.admission.gang_world import POLICY, World, assignment, pod_spec
from tests.unit.admission.reconciled import Caches
from tests.unit.admission.test_gang_growth import Growing, carried_out, failed_growth, growing
from tests.unit.gangs.paper import START, flavor_policy

replace = msgspec.structs.replace
SHORT = timedelta(hours=2)
IMPATIENT = dataclasses.replace(POLICY, retry=RetryPolicy(deadline=SHORT))


def policy_of(most: int) -> GangPolicy:
    """With a pool of so many nodes."""
    return dataclasses.replace(POLICY, flavors=(flavor_policy("l4", 10, max_nodes=most),))


def shrunk(world: World, count: int) -> None:
    """As Kueue does it: the same slice, in place."""
    pieces = {"head": ("cpu", 1), "main": ("l4", count)}
    held = world.workloads["a"]
    pod_sets = tuple(replace(each, count=pieces[each.name][1]) for each in held.spec.pod_sets)
    world._spec("a", pod_sets=pod_sets)
    world._status("a", admission=assignment(pieces))


def calmly(world: Elastic, turns: int = 30) -> None:
    for _ in range(turns):
        for step in STEPS:
            getattr(world, step)()
            world.check()
        world.now += timedelta(minutes=1)


def refused(world: World) -> str:
    return next((said for each in world.workloads.values() if (said := parse_history(each).refused)), "")


# What is refused


def test_a_refused_growth_of_a_running_cluster_is_had_once_it_asks_for_less() -> None:
    world = Elastic(stock={"l4": 20}, capacity=200, policy=policy_of(8))
    calmly(world)
    assert world.free_pods() == 1
    world.scale(100)
    calmly(world)
    assert "the gang needs 100 nodes" in refused(world)
    assert world.free_pods() == 1
    world.scale(5)
    calmly(world)
    assert world.free_pods() == 5
    assert not refused(world)


def test_a_refused_growth_is_had_once_its_pool_may_be_as_large() -> None:
    world = Elastic(stock={"l4": 20}, capacity=200, policy=policy_of(8))
    calmly(world)
    world.scale(9)
    calmly(world)
    assert "the gang needs 9 nodes" in refused(world)
    assert [each.reason for each in world.told].count("GrowthRefused") == 1
    world.policy = policy_of(12)
    calmly(world)
    assert world.free_pods() == 9


def test_a_refused_growth_that_asks_for_what_cannot_be_had_either_is_refused_anew() -> None:
    world = growing(count=20, has=1)
    carried_out(world)
    assert "20 nodes" in refused(world)
    shrunk(world, 15)
    carried_out(world)
    carried_out(world)
    assert "15 nodes" in refused(world)
    assert not decide(world.snapshot("a")).actions


def given_up(world: World) -> None:
    world.policy = IMPATIENT
    while world.now < START + 2 * SHORT:
        carried_out(world)
        if refused(world):
            return
        for name in world.requests:
            world.answer(name, "Failed", reason="OutOfStock")
        world.now += timedelta(minutes=1)
    raise AssertionError("it never gives up")


def test_a_growth_that_gave_up_begins_anew_with_what_is_asked_instead() -> None:
    world = growing(count=6, has=1)
    given_up(world)
    carried_out(world)
    assert not world.requests
    before = {name for _, name in world.everything_made}
    world.now += timedelta(days=1)
    shrunk(world, 3)
    carried_out(world)
    carried_out(world)
    (again,) = world.requests
    assert again not in before, "a request that has failed is not waited for again"
    assert sum(each.count for each in world.requests[again].spec.pod_sets) == 2
    world.answer(again, "Failed", reason="OutOfStock")
    carried_out(world)
    assert not refused(world), "its time runs from when it began anew"
    assert not [each for each in carried_out(world).actions if isinstance(each, Deactivate)]


def test_a_growth_that_gave_up_begins_anew_once_it_may_try_for_longer() -> None:
    world = growing(count=6, has=1)
    given_up(world)
    world.policy = POLICY
    carried_out(world)
    carried_out(world)
    assert world.requests


def test_a_growth_that_cannot_be_read_is_refused_once() -> None:
    world = growing(count=3, has=1)
    world._pods("a", PodSpec(containers=(Container(resources=ResourceNeeds(requests={"cpu": "x"})),)))
    decision = decide(world._plain("a"))
    assert [each for each in decision.actions if isinstance(each, EmitEvent)]
    for action in decision.actions:
        world.carry_out("a", action)
    assert not decide(world._plain("a")).actions


# What can never be had


@pytest.mark.parametrize(("most", "runs", "wants", "fits"), [(10, 8, 10, True), (10, 8, 11, False)])
def test_what_runs_counts_when_a_growth_can_never_fit(most: int, runs: int, wants: int, fits: bool) -> None:
    world = growing(count=wants, has=runs)
    world.policy = policy_of(most)
    asked = [each for each in carried_out(world).actions if isinstance(each, CreateRequest)]
    assert bool(asked) is fits
    assert bool(refused(world)) is not fits


def test_pods_that_run_and_pods_that_come_may_share_a_node_but_for_its_ports() -> None:
    def of(most: int) -> WorkloadSnapshot:
        two = flavor_policy("l4", 10, max_nodes=most, gpus_per_node=2)
        world.policy = dataclasses.replace(POLICY, flavors=(two,))
        return world.snapshot("a")

    world = growing(count=6, has=3)
    assert unsatisfiable_reason(of(3).gang) is None
    assert "needs 3 nodes" in (unsatisfiable_reason(of(2).gang) or "")
    spec = pod_spec(1)
    ports = (ContainerPort(host_port=80),)
    world._pods("a", replace(spec, containers=(replace(spec.containers[0], ports=ports),)))
    assert unsatisfiable_reason(of(6).gang) is None
    assert "needs 6 nodes" in (unsatisfiable_reason(of(5).gang) or "")


@pytest.mark.parametrize(
    ("lease", "one_each", "needed"), [(True, True, 2), (True, False, 1), (False, True, 1), (False, False, 1)]
)
def test_pod_sets_share_nodes_but_where_each_has_a_lease_of_its_own(
    lease: bool, one_each: bool, needed: int
) -> None:
    pins = flavor_policy("l4", 10).node_selector_from_details if lease else ()
    four = flavor_policy(
        "l4",
        10,
        max_nodes=1,
        gpus_per_node=4,
        node_selector_from_details=pins,
        one_pod_set_per_request=one_each,
    )
    world = World(policy=dataclasses.replace(POLICY, flavors=(four,)))
    world.submit("a", {"head": ("l4", 1), "main": ("l4", 3)})
    world.kueue()
    refusal = unsatisfiable_reason(world.snapshot("a").gang)
    assert refusal is None if needed == 1 else refusal and f"needs {needed} nodes" in refusal


# Whose turn it is


def test_a_growth_that_rests_is_in_nobodys_way() -> None:
    world = growing(count=6, has=1)
    pieces = {"head": ("l4", 2), "main": ("h100", 4)}
    world.submit("a", pieces)
    world._metadata("a", annotations={ELASTIC_JOB: "true"})
    world.kueue()
    carried_out(world)
    assert world.snapshot("a").turn_position() is not None
    for name in world.requests:
        world.answer(name, "Failed", reason="OutOfStock")
    carried_out(world)
    past = parse_history(world.workloads["a"])
    assert past.retry_at is not None
    assert world.snapshot("a").turn_position() is None
    world.now = past.retry_at
    assert world.snapshot("a").turn_position() is not None


GROWTHS = 8
PER_MINUTE = 6
STEP = timedelta(seconds=10)


def failed_together() -> World:
    policy = dataclasses.replace(POLICY, retry=RetryPolicy(per_minute=PER_MINUTE, deadline=timedelta(days=1)))
    world = Growing(stock={"l4": 0}, policy=policy)
    for number in range(GROWTHS):
        name = f"gang-{number:02}"
        world.submit(name, {"head": ("cpu", 1), "main": ("l4", 3)})
        world._metadata(name, annotations={ELASTIC_JOB: "true"})
    world.kueue()
    world.settle()
    assert len(world.requests) == GROWTHS, "the first request of each is not bounded"
    fail(world)
    return world


def fail(world: World) -> None:
    for name in world.requests:
        world.answer(name, "Failed", "OUT_OF_RESOURCES")
    world.settle()
    assert world.requests == {}


def paced(world: World, wake: Callable[[Key], None] = lambda _: None) -> GangReconciler[Any, Any, Any]:
    caches = Caches(world)
    view, hands = cast(View, caches), cast(Executor, caches)
    reconciler = GangReconciler(WorkloadHooks(view, hands), enqueue=wake, clock=lambda: world.now)
    reconciler._limiter = RetryLimiter(lambda: (world.now - START).total_seconds())
    return reconciler


async def come_back(world: World, reconciler: GangReconciler[Any, Any, Any]) -> list[datetime]:
    """When each of them asked again."""
    end = world.now + timedelta(minutes=6)
    came: list[datetime] = []
    while world.now < end:
        before = len(world.requests)
        for name in world.workloads:
            await reconciler.reconcile(Key("team-a", name))
        came.extend([world.now] * (len(world.requests) - before))
        world.now += STEP
    return came


async def test_growths_that_failed_together_ask_again_at_the_rate_of_the_policy() -> None:
    world = failed_together()
    reconciler = paced(world)
    for _ in range(2):
        came = await come_back(world, reconciler)
        assert len(came) == GROWTHS, "and all of them do"
        assert len(world.requests) == GROWTHS, "and go on waiting for what they have asked"
        for first, moment in enumerate(came):
            in_time = sum(other < moment + timedelta(minutes=1) for other in came[first:])
            assert in_time <= PER_MINUTE + 1, f"{in_time} within a minute of {moment}"
        fail(world)


@pytest.mark.parametrize("is_deleted", [True, False])
async def test_who_gives_up_is_in_nobodys_way(is_deleted: bool) -> None:
    world, woken = failed_together(), list[Key]()
    reconciler = paced(world, woken.append)
    pauses = (parse_history(each).retry_at for each in world.workloads.values())
    world.now = max(pause for pause in pauses if pause) + timedelta(seconds=1)
    everybody = [Key("team-a", name) for name in world.workloads]
    first, *leaving = everybody[:-2]
    for key in everybody:
        await reconciler.reconcile(key)
    for key in leaving:
        if is_deleted:
            del world.workloads[key.name]
        else:
            world.set_condition(key.name, "Finished", "True")
        await reconciler.reconcile(key)
    assert len(world.requests) == 1, f"{first} alone had its token at once"
    assert everybody[-2] in woken, "the next looks again before its old token comes"
    for key in leaving:
        world.workloads.pop(key.name, None)
    since = world.now
    came = await come_back(world, reconciler)
    assert max(came) - since <= 2 * timedelta(minutes=1) / PER_MINUTE


def test_a_growth_that_waits_for_its_turn_says_so_and_writes_nothing() -> None:
    world, _ = failed_growth()
    past = parse_history(world.workloads["a"])
    assert past.retry_at is not None
    world.now = past.retry_at
    behind = dataclasses.replace(world.snapshot("a"), retry_delay=timedelta(seconds=30))
    assert behind.wants_retry
    waits = decide(behind)
    assert not waits.actions
    assert waits.requeue_at == world.now + timedelta(seconds=30)
    assert not [each for each in carried_out(world).actions if isinstance(each, PatchAnnotations)]
    assert not world.snapshot("a").wants_retry, "it has asked, and needs no turn any more"
