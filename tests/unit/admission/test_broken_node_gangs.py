"""Gangs of Kueue and nodes that turn out to be broken, on paper."""

import dataclasses
import random
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import msgspec
import pytest

from muster.controller.gangs.actions import EmitEvent
from muster.controller.gangs.broken_nodes import NodeSigns, format_closed
from muster.controller.gangs.objects import Taint
from muster.controller.gangs.retry import parse_history
from muster.controller.gangs.taints import closed_for
from muster.controller.kube.resource import Key
from muster.controller.kueue.actions import State
from muster.controller.kueue.decide import decide
from muster.controller.kueue.identity import OWNING_WORKLOAD
from muster.model.gangpolicy import BrokenNodes, RetryPolicy, WhileRunning
from muster.model.names import BROKEN_TAINT_KEY, OWNER_NAMESPACE_ANNOTATION
from tests.length import examples
from tests.unit.admission.gang_world import CHECK, entry_state
from tests.unit.admission.placed_world import PLACED, PlacedWorld
from tests.unit.admission.views import view_of, view_over
from tests.unit.gangs.paper import START, node
from tests.unit.gangs.placed_paper import SIGNS, Harm

replace = msgspec.structs.replace
SECONDS = timedelta(seconds=30)


def world_of(**stock: int) -> PlacedWorld:
    retry = RetryPolicy(base=timedelta(minutes=1), max=timedelta(minutes=2), deadline=timedelta(days=3))
    policy = dataclasses.replace(PLACED, retry=retry)
    return PlacedWorld(stock={"l4": 0, "h100": 0, **stock}, quota=9, policy=policy)


def tick(world: PlacedWorld, seen: dict[str, datetime], *, times: int = 1) -> None:
    for _ in range(times):
        world.tick(SECONDS)
        world.sweep()
        world.close_broken(seen)


def kept_nodes(world: PlacedWorld) -> set[str]:
    return {pod.spec.node_name for pod in world.placeholders.values()} - {""}


@pytest.mark.parametrize("harm", SIGNS.values(), ids=SIGNS)
def test_a_gang_that_waits_gets_one_other_node_for_a_broken_one_and_keeps_its_quota(harm: Harm) -> None:
    world, seen = world_of(l4=3), dict[str, datetime]()
    world.submit("a", {"main": ("l4", 4)})
    tick(world, seen, times=3)
    before = {key: pod.metadata.uid for key, pod in world.placeholders.items()}
    broken = sorted(kept_nodes(world))[0]
    harm(world, broken)
    world.stock["l4"] = 5
    for _ in range(3):
        tick(world, seen)
        assert world.workloads["a"].status.holds("QuotaReserved")
    tick(world, seen, times=8)
    after = {key: pod.metadata.uid for key, pod in world.placeholders.items()}
    assert "a" in world.started or sum(before[key] != after.get(key) for key in before) == 1
    tick(world, seen, times=60)
    assert world.ended == ["a"]


def test_nodes_that_are_neither_used_nor_closed_are_not_paid_for_until_the_deadline() -> None:
    """Of many at once, or with `most: 0`, such a node keeps its placeholder."""
    world, ended = world_of(l4=3), 0
    world.submit("a", {"main": ("l4", 3)})
    for part in (world.kueue, world.settle, world.cloud):
        part()
    SIGNS["label"](world, sorted(kept_nodes(world))[0])
    while world.workloads["a"].spec.active and ended < 60:
        world.tick(SECONDS)
        world.sweep()
        ended += 1
    assert 10 <= ended < 20
    assert "2 of 3 l4 nodes" in parse_history(world.workloads["a"]).last_failure


@pytest.mark.parametrize("sign", ["condition", "taint", "label"])
def test_a_request_with_a_broken_node_is_released_whole_and_made_again_within_the_quota(sign: str) -> None:
    """New nodes have the old names here: a black hole, which is known by its name, would stay one."""
    world, seen = world_of(h100=2), dict[str, datetime]()
    world.begin("a", {"main": ("h100", 2)})
    world.cloud()
    world.settle()
    world.cloud()
    broken = sorted(world.nodes)[0]
    (first,) = (request.metadata.uid for request in world.requests.values())
    SIGNS[sign](world, broken)
    world.stock["h100"] = 4
    world.settle()
    assert entry_state(world, "a") is State.PENDING
    for _ in range(8):
        tick(world, seen)
        assert world.workloads["a"].status.holds("QuotaReserved")
    (second,) = (request.metadata.uid for request in world.requests.values())
    assert first != second
    assert "a" in world.started
    assert len(world.pods) == 2


@pytest.mark.parametrize("crashes", [False, True])
def test_a_cloud_that_sells_broken_machines_again_and_again_costs_the_gang_a_try(crashes: bool) -> None:
    """Once it asks again within its quota; a crash between the note and the deletion counts nothing twice."""
    world, seen, bought = world_of(h100=2), dict[str, datetime](), set[str]()
    world.submit("a", {"main": ("h100", 2)})
    while world.workloads["a"].spec.active:
        world.now += SECONDS
        world.stock["h100"] = 2 * len(bought | {""})
        world.cloud()
        for name in sorted(world.nodes)[:1]:
            SIGNS["condition"](world, name)
        world.close_broken(seen)
        world.crash_after = world.writes + 1 if crashes else None
        world.settle()
        world.kueue()
        world.sweep()
        bought.update(request.metadata.uid for request in world.requests.values())
        assert world.now < START + timedelta(hours=1)
    history = parse_history(world.workloads["a"])
    assert len(bought) == 2
    assert history.tries == 1
    assert "broken nodes again: 1 of 2 h100 nodes" in history.last_failure
    assert not history.replaced
    assert crashes or [each.reason for each in world.told].count("NodesBroken") == 1


@pytest.mark.parametrize("running", WhileRunning)
def test_a_gang_that_runs_is_left_alone_or_queued_again(running: WhileRunning) -> None:
    """As the view sees it; node_loss_grace later it queues again."""
    world, seen = world_of(h100=2), dict[str, datetime]()
    world.policy = dataclasses.replace(world.policy, broken_nodes=BrokenNodes(running=running))
    world.submit("a", {"main": ("h100", 2)})
    while "a" not in world.started:
        tick(world, seen)
    SIGNS["condition"](world, sorted(world.nodes)[0])
    view = view_over(world)
    view.signs = NodeSigns(policy=lambda: world.policy)
    decision = decide(view.snapshot(world.workloads["a"], CHECK, now=world.now))
    reasons = {each.reason: each.message for each in decision.actions if isinstance(each, EmitEvent)}
    assert ("NodesMissing" in reasons) is (running is WhileRunning.REQUEUE)
    tick(world, seen, times=10)
    assert any(each.reason == "NodesLost" for each in world.told) is (running is WhileRunning.REQUEUE)


@pytest.mark.parametrize("sign", SIGNS)
@pytest.mark.parametrize("starts", [False, True], ids=["by placeholders", "that runs"])
def test_a_gang_is_looked_at_when_a_node_of_it_turns_out_to_be_broken(sign: str, starts: bool) -> None:
    """Whichever object shows it: Kueue may start the gang at any moment, or it runs and is to queue again."""
    world = world_of(l4=1, h100=1)
    world.submit("a", {"main": ("h100" if starts else "l4", 1)})
    for part in (world.kueue, world.settle, world.cloud, world.settle):
        part()
    world.ticks(3 * starts)
    assert ("a" in world.started) is starts
    owner = {OWNING_WORKLOAD: "a", OWNER_NAMESPACE_ANNOTATION: "team-a"}
    tables: tuple[dict[str, Any], ...] = (world.requests, world.templates, world.placeholders)
    for made in tables:
        for name, held in made.items():
            notes = {**held.metadata.annotations, **owner}
            made[name] = replace(held, metadata=replace(held.metadata, annotations=notes))
    (name,) = world.nodes
    view = view_over(world, signs=world.signs)
    found = set[Key]()
    view.nodes.store.listen(lambda before, after: found.update(view.placed_on(before, after)))
    view.nodes.store.listen(lambda before, after: found.update(view.workloads_affected_by(before, after)))
    SIGNS[sign](world, name)
    changed = world.nodes[name]
    view.nodes.store.put(replace(changed, metadata=replace(changed.metadata, resource_version="2")))
    assert found == {Key("team-a", "a")}


def test_a_gang_that_waits_names_the_node_the_sign_and_who_repairs_it() -> None:
    held = node("gpu-7", "l4")
    taint = Taint(key=BROKEN_TAINT_KEY, effect="NoSchedule", value="condition-SysLogsXIDError-True")
    closed = replace(held, spec=replace(held.spec, taints=(taint,)))
    assert format_closed([]) == ""
    assert format_closed([closed]) == (
        "node gpu-7 is set aside (condition-SysLogsXIDError-True; its cloud or NVSentinel has to repair it)"
    )
    view = view_of(PLACED, nodes=[closed, node("gpu-8", "l4")])
    world = world_of()
    world.submit("a", {"main": ("l4", 1)})
    world.kueue()
    assert "gpu-7" in view.set_aside(world.snapshot("a").gang)


def test_no_gang_starts_on_a_broken_node_whenever_the_controller_dies() -> None:
    """`check_ready` looks at each start."""
    started = 0
    for seed in range(examples(400)):
        chance, world, seen = random.Random(seed), world_of(l4=5, h100=3), dict[str, datetime]()
        world.submit("a", {"main": ("l4", chance.choice([1, 2, 3]))})
        world.submit("b", {"big": ("h100", 1), "small": ("l4", chance.choice([1, 2]))})
        for _ in range(14):
            if chance.random() < 0.3:
                world.crash_after = world.writes + chance.randrange(4)
            if chance.random() < 0.2:
                seen.clear()
            if world.nodes and chance.random() < 0.25:
                chance.choice([*SIGNS.values()])(world, chance.choice(sorted(world.nodes)))
            world.now += SECONDS
            parts: list[Callable[[], None]] = [
                world.jobs,
                world.settle,
                world.cloud,
                world.kueue,
                partial(world.close_broken, seen),
            ]
            chance.shuffle(parts)
            for part in parts:
                if part == world.kueue:
                    world.settle()
                part()
            world.sweep()
            assert sum(bool(closed_for(each)) for each in world.nodes.values()) <= 2
        started += len(world.started) + len(world.ended)
    assert started, "or nothing was tried"
    assert world.now > START
