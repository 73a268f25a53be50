"""What a controller that is removed for good leaves of a gang."""

import asyncio
import dataclasses
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

from muster.controller.gangs.actions import Delete, EmitEvent
from muster.controller.gangs.objects import Placeholder, Taint
from muster.controller.gangs.shutdown import ShutdownHandler
from muster.controller.kube.resource import Key, ObjectMeta
from muster.controller.kueue.actions import Reactivate, SetCheckState, State
from muster.controller.kueue.objects import ADMISSION_CHECK
from muster.controller.kueue.shutdown import on_shutdown, shutdown_actions
from muster.model.names import HELD_TAINT_KEY, PLACEHOLDER_NAMESPACE
from tests.unit.admission.gang_world import World
from tests.unit.admission.placed_world import PLACED, PlacedWorld
from tests.unit.admission.views import view_of
from tests.unit.gangs.cached import cached
from tests.unit.gangs.paper import START, node

PAIR = {"main": ("l4", 2)}


def waiting(stock: int = 0) -> World:
    world = World(stock={"l4": stock}, runtime=timedelta(days=30))
    world.submit("a", PAIR)
    world.tick()
    return world


def test_uninstall_releases_a_gang_that_is_being_provisioned_and_reports_it() -> None:
    world = waiting()
    assert world.requests
    actions = shutdown_actions(world.snapshot("a"))
    kinds = {action.kind for action in actions if isinstance(action, Delete)}
    assert kinds == {"ProvisioningRequest", "PodTemplate"}
    entry, *_ = actions
    assert isinstance(entry, SetCheckState), "Kueue starts no gang on what is being released"
    assert entry.state is State.PENDING
    assert "has been removed" in entry.message
    assert "Fix: " in entry.message
    assert [action.reason for action in actions if isinstance(action, EmitEvent)] == ["ControllerRemoved"]


def test_a_gang_that_fails_does_not_delay_the_release_of_others() -> None:
    left = []

    async def close() -> None:
        raise RuntimeError("the check is not to be had")

    async def part(key: Key) -> None:
        if key.name == "poison":
            raise ValueError("no quantity")
        left.append(key.name)

    gangs = [Key("team-a", name) for name in ("one", "poison", "two")]
    asyncio.run(ShutdownHandler(announce=close, gangs=lambda: gangs, release_gang=part)())
    assert left == ["one", "two"]


def test_a_gang_that_runs_is_left_alone() -> None:
    world = waiting(stock=2)
    world.tick()
    world.tick()
    assert "a" in world.started
    assert shutdown_actions(world.snapshot("a")) == ()


def test_placeholders_of_a_gang_that_was_just_admitted_go() -> None:
    world = PlacedWorld(stock={"l4": 2, "h100": 0}, quota=9, policy=PLACED)
    world.submit("a", PAIR)
    while not world.workloads["a"].status.holds("Admitted"):
        world.tick()
    stray = Placeholder(metadata=ObjectMeta(name="muster-1-hold-0", namespace=PLACEHOLDER_NAMESPACE))
    snapshot = dataclasses.replace(world.snapshot("a"), placeholders=(stray,))
    assert snapshot.runs
    (gone,) = shutdown_actions(snapshot)
    assert isinstance(gone, Delete)
    assert (gone.kind, gone.name) == ("Pod", "muster-1-hold-0")


def test_no_node_keeps_our_taint() -> None:
    """Whatever its gang does: no process follows that would take it away."""
    kept = Taint(key=HELD_TAINT_KEY, effect="NoSchedule", value="muster-1-0")
    nodes = [node("kept", "l4", taints=(kept,)), node("other", "l4")]
    view = view_of(PLACED, nodes=nodes)
    released = []

    async def release(where: str, *, held_as: str) -> None:
        released.append((where, held_as))

    ended = on_shutdown(
        cast(Any, None),
        cached(ADMISSION_CHECK, ()),
        view,
        cast(Any, None),
        taints=cast(Any, SimpleNamespace(release=release)),
        clock=lambda: START,
    )
    asyncio.run(ended())
    assert released == [("kept", "muster-1-0")]


def test_uninstall_reactivates_only_gangs_that_the_controller_deactivated() -> None:
    world = waiting()
    (request,) = world.requests
    world.answer(request, "Failed", reason="OutOfStock")
    world.settle()
    outside = world.snapshot("a")
    assert outside.history.retry_at is not None
    (step,) = (action for action in shutdown_actions(outside) if isinstance(action, Reactivate))
    assert step.history.retry_at is None
    assert step.history.tries == outside.history.tries, (
        "it does not begin anew when the controller comes back"
    )
