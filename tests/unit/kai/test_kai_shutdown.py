"""What a controller that is removed for good leaves of a KAI gang."""

import contextlib
from datetime import timedelta

from muster.controller.gangs.actions import Delete, EmitEvent
from muster.controller.kai.actions import PatchAnnotations, Ungate
from muster.controller.kai.labels import is_gated
from muster.controller.kai.shutdown import shutdown_actions
from muster.model.names import GANG_GATE
from tests.unit.gangs.paper import Crash
from tests.unit.kai.kai_world import Group, World, queue

PAIR = {"headgroup": Group("l4"), "workers": Group("l4", 2)}


def waiting() -> World:
    here = World(delay=timedelta(hours=1))
    here.queues = {"team-a": queue("team-a", quota=4)}
    here.submit("a", PAIR)
    here.tick()
    return here


def leave(here: World) -> None:
    for action in shutdown_actions(here.snapshot("a")):
        here.carry_out("a", action)


def test_uninstall_releases_a_waiting_gang_keeps_its_gates_and_reports_it() -> None:
    here = waiting()
    assert here.requests
    actions = shutdown_actions(here.snapshot("a"))
    assert {each.kind for each in actions if isinstance(each, Delete)} == {
        "ProvisioningRequest",
        "PodTemplate",
    }
    assert not [each for each in actions if isinstance(each, Ungate)], (
        "KAI would show its pods to autoscalers"
    )
    (note,) = (each for each in actions if isinstance(each, PatchAnnotations))
    assert "has been removed" in note.status
    assert f"remove the scheduling gate {GANG_GATE}" in note.status
    assert [each.reason for each in actions if isinstance(each, EmitEvent)] == ["ControllerRemoved"]
    leave(here)
    assert here.requests == {}
    assert here.gated("a") == 3


def test_it_goes_on_where_it_was_when_the_controller_comes_back() -> None:
    here = waiting()
    leave(here)
    here.delay = timedelta(minutes=1)
    here.ticks(6)
    assert here.running("a") == 3


def test_a_gang_that_runs_is_left_alone() -> None:
    here = waiting()
    here.delay = timedelta(0)
    here.ticks(6)
    assert here.running("a") == 3
    assert shutdown_actions(here.snapshot("a")) == ()


def test_a_gang_that_has_begun_to_pass_passes_whole() -> None:
    here = waiting()
    here.delay = timedelta(0)
    here.schedules = False
    here.settle()
    here.cloud()
    here.cloud()
    here.crash_after = here.writes + 1
    with contextlib.suppress(Crash):
        here.reconcile("a")
    assert 0 < sum(is_gated(pod) for pod in here.of("a")) < 3
    leave(here)
    assert here.gated("a") == 0
    assert here.requests, "what its pods consume stays"
