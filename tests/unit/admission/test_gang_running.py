"""A gang that runs: its nodes, its lease, and when it queues again as a whole."""

import dataclasses
from datetime import timedelta

import msgspec
import pytest

from muster.controller.gangs.identity import ATTEMPT
from muster.controller.gangs.lease import first_end, lease_end
from muster.controller.gangs.objects import Condition, PodTemplate
from muster.controller.kueue.actions import State
from muster.controller.kueue.decide import decide
from muster.controller.kueue.objects import ReclaimablePod
from muster.controller.kueue.snapshot import START_WATCH_LIMIT
from muster.model.gangpolicy import GangPolicy
from muster.model.names import CHECK_CAPACITY_CLASS, LEASE_ENDS_ANNOTATION, NODES_MISSING_ANNOTATION
from tests.unit.admission.gang_world import POLICY, World, entry_of, entry_state
from tests.unit.gangs.paper import among, flavor_policy

replace = msgspec.structs.replace
MINUTE = timedelta(minutes=1)
PAIR = {"main": ("l4", 2)}


def running(pieces: dict[str, tuple[str, int]] = PAIR, *, policy: GangPolicy = POLICY) -> World:
    """For so long that its end is no failed try."""
    world = World(stock={"l4": 4, "h100": 4}, runtime=timedelta(days=30), policy=policy)
    world.submit("a", pieces)
    world.ticks(3)
    assert "a" in world.started
    world.now += policy.retry.max
    world.settle()
    return world


def reasons(world: World) -> list[str]:
    return [each.reason for each in world.told]


def lose_a_node(world: World) -> None:
    del world.nodes[sorted(world.nodes)[0]]
    world.jobs()
    world.settle()


def test_what_comes_late_from_an_earlier_attempt_goes_and_the_running_one_keeps_its_own() -> None:
    world = running()
    (request,), (template,) = world.requests, world.templates
    late = world.templates[template].metadata
    labels = {**late.labels, ATTEMPT: "an-earlier-one"}
    world.templates["late"] = PodTemplate(metadata=replace(late, name="late", labels=labels))
    world.settle()
    assert (list(world.requests), list(world.templates)) == ([request], [template])


def test_a_gang_that_loses_a_node_queues_again_as_a_whole_with_the_reason() -> None:
    world = running()
    (request,) = world.requests
    began = world.now
    lose_a_node(world)
    assert reasons(world)[-1] == "NodesMissing"
    assert world.told[-1].message.startswith("lacks 1 l4 node for main; unless they come back")
    assert "queues again at 10:35 UTC" in world.told[-1].message
    assert entry_state(world, "a") is State.READY, "a node may come back"
    wake = decide(world.snapshot("a")).requeue_at
    assert wake is not None
    assert wake <= began + POLICY.node_loss_grace
    world.now += POLICY.node_loss_grace
    world.settle()
    entry = entry_of(world)
    assert (entry.state, entry.message) == (
        State.RETRY,
        "lacks 1 l4 node for main for 2m; the gang queues again",
    )
    assert reasons(world)[-1] == "NodesLost"
    world.ticks(4)
    assert "a" in world.started
    assert request not in world.requests, "a consumed request buys no node: another attempt, another request"
    assert world.workloads["a"].spec.active
    assert NODES_MISSING_ANNOTATION not in world.workloads["a"].metadata.annotations


def test_a_node_that_comes_back_within_the_grace_leaves_the_gang_alone() -> None:
    world = running()
    name = sorted(world.nodes)[0]
    held = world.nodes[name]
    lose_a_node(world)
    world.now += MINUTE
    world.nodes[name] = held
    world.settle()
    assert reasons(world)[-2:] == ["NodesMissing", "NodesBack"]
    assert NODES_MISSING_ANNOTATION not in world.workloads["a"].metadata.annotations
    world.now += timedelta(hours=1)
    world.jobs()
    world.settle()
    assert entry_state(world, "a") is State.READY


@pytest.mark.parametrize("is_empty", [True, False])
def test_a_cordoned_node_keeps_its_pods_and_takes_none_anew(is_empty: bool) -> None:
    world = running()
    name = sorted(world.nodes)[0]
    held = world.nodes[name]
    world.nodes[name] = replace(held, spec=replace(held.spec, unschedulable=True))
    if is_empty:
        del world.pods[next(key for key, pod in world.pods.items() if pod.spec.node_name == name)]
    world.settle()
    assert ("NodesMissing" in reasons(world)) is is_empty


def test_pods_that_are_done_miss_no_node() -> None:
    world = running()
    world._status("a", reclaimable_pods=(ReclaimablePod(name="main", count=1),))
    lose_a_node(world)
    assert "NodesMissing" not in reasons(world)


def test_a_lost_node_counts_even_when_the_request_is_long_gone() -> None:
    world = running()
    world.requests.clear()
    lose_a_node(world)
    world.now += POLICY.node_loss_grace
    world.settle()
    assert entry_state(world, "a") is State.RETRY


def test_without_a_grace_lost_nodes_are_left_to_others() -> None:
    world = running(policy=GangPolicy(flavors=POLICY.flavors, node_loss_grace=timedelta(0)))
    before = world.writes
    lose_a_node(world)
    world.now += timedelta(hours=1)
    world.settle()
    assert world.writes == before


def silence(world: World, *names: str) -> None:
    """The node controller has heard nothing of them."""
    for name in names:
        held = world.nodes[name]
        status = replace(held.status, conditions=(Condition(type="Ready", status="Unknown"),))
        world.nodes[name] = replace(held, status=status)
    world.jobs()
    world.settle()


def test_a_silent_node_has_a_grace_of_its_own() -> None:
    world = running()
    silence(world, sorted(world.nodes)[0])
    assert reasons(world)[-1] == "NodesMissing"
    assert "no report from 1 l4 node for main" in world.told[-1].message
    assert "5m after" in world.told[-1].message
    world.now += POLICY.unreachable_grace - MINUTE
    world.settle()
    assert entry_state(world, "a") is State.READY
    world.now += MINUTE
    world.settle()
    assert entry_state(world, "a") is State.RETRY
    assert reasons(world)[-1] == "NodesLost"


def test_a_silent_node_that_is_deleted_counts_as_lost_by_the_time_it_has_been_silent() -> None:
    world = running()
    name = sorted(world.nodes)[0]
    silence(world, name)
    world.now += POLICY.node_loss_grace
    world.settle()
    assert entry_state(world, "a") is State.READY
    del world.nodes[name]
    world.settle()
    assert entry_state(world, "a") is State.RETRY


def test_a_network_partition_evicts_nothing() -> None:
    world = World(stock={"l4": 20}, runtime=timedelta(days=30))
    gangs = [f"gang-{number}" for number in range(10)]
    for name in gangs:
        world.submit(name, PAIR)
    world.ticks(4)
    assert sorted(world.started) == gangs
    held = dict(world.nodes)
    silence(world, *sorted(world.nodes))
    for _ in range(6):
        world.now += timedelta(minutes=10)
        world.jobs()
        world.settle()
    assert {entry_state(world, name) for name in gangs} == {State.READY}
    _, *heard_again = sorted(world.nodes)
    world.nodes.update({name: held[name] for name in heard_again})
    world.settle()
    assert {entry_state(world, name) for name in gangs} == {State.READY}, "its own grace begins now"
    world.now += POLICY.unreachable_grace
    world.settle()
    assert [entry_state(world, name) for name in gangs].count(State.RETRY) == 1


def test_a_gang_on_shared_nodes_that_nobody_has_seen_is_looked_at_after_the_grace_and_for_a_while() -> None:
    world = running()
    world.now -= POLICY.retry.max
    unseen = among(world.snapshot("a"), is_unseen=True, lacks_pods=False)
    admitted = unseen.workload.status.since("Admitted")
    assert admitted is not None
    due = admitted + POLICY.node_loss_grace
    assert not unseen.is_overdue
    assert decide(unseen).requeue_at == due
    assert dataclasses.replace(unseen, now=due).is_overdue
    missed = dataclasses.replace(unseen, now=due + START_WATCH_LIMIT)
    assert not missed.is_overdue, "later it is Kueue's to end"
    wake = decide(missed).requeue_at
    assert wake is None or wake > missed.now, "a moment that has passed would come at once, again and again"


def leased(seconds: int) -> GangPolicy:
    return GangPolicy(flavors=(flavor_policy("l4", 1, parameters={"maxRunDurationSeconds": str(seconds)}),))


def test_the_end_of_a_lease_is_on_the_pods_from_the_start_and_told_ahead_once() -> None:
    world = running(policy=leased(7200))
    (request,) = world.requests.values()
    provisioned = request.status.since("Provisioned")
    assert provisioned is not None
    ends = provisioned + timedelta(hours=2)
    assert first_end(update.annotations for update in entry_of(world).pod_set_updates) == ends
    assert decide(world.snapshot("a")).requeue_at == ends - timedelta(minutes=30)
    world.now = ends - timedelta(minutes=30)
    world.settle()
    world.settle()
    assert reasons(world).count("LeaseEnds") == 1
    assert world.workloads["a"].metadata.annotations[LEASE_ENDS_ANNOTATION] == ends.isoformat().replace(
        "+00:00", "Z"
    )
    world.answer(next(iter(world.requests)), "CapacityRevoked", "CapacityRevoked")
    world.settle()
    assert entry_state(world, "a") is State.RETRY
    world.ticks(4)
    assert "a" in world.started, "it queues again and is not deactivated"
    assert LEASE_ENDS_ANNOTATION not in world.workloads["a"].metadata.annotations


def test_a_lease_lasts_seven_days_unless_the_request_says_less() -> None:
    world = running()
    (request,) = world.requests.values()
    began = request.status.since("Provisioned")
    assert began is not None

    def ends(**parameters: str) -> timedelta | None:
        spec = replace(request.spec, parameters=parameters)
        end = lease_end(replace(request, spec=spec))
        return end - began if end else None

    assert ends() == timedelta(days=7)
    assert ends(maxRunDurationSeconds="600") == timedelta(minutes=10)
    assert ends(maxRunDurationSeconds="99999999") == timedelta(days=7)
    assert ends(maxRunDurationSeconds="soon") == timedelta(days=7)
    other = replace(request, spec=replace(request.spec, provisioning_class_name=CHECK_CAPACITY_CLASS))
    assert lease_end(other) is None
