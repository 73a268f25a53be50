"""A person stops a gang, with the real Kueue: an annotation works in its pause too, where `active: false` is
there already.
"""

from functools import partial

from muster.model import names
from tests.integration.kueue_api.world import WORKLOADS, Object, World, is_outside
from tests.waiting import eventually


def test_a_gang_that_is_stopped_in_its_pause_stays_out_until_it_is_let_go(world: World) -> None:
    with world.manager():
        world.submit("stopped", "l4")
        _fail(world, "stopped")
        _patch(world, "stopped", {"spec": {"active": False}})  # The API server sees no change.
        _stop(world, "stopped", "true")
        returns = _note(world, "stopped", names.RETRY_AT_ANNOTATION)
        world.submit("other", "l4")
        while _note(world, "other", names.RETRY_AT_ANNOTATION) <= returns:
            _fail(world, "other")
        eventually("another comes back, which was to wait longer", partial(world.asked, "other"))
        assert is_outside(world.workload("stopped"))
        assert not world.asked("stopped")

        _stop(world, "stopped", None)
        (asked,) = eventually("it tries again", partial(world.asked, "stopped"))
        assert _note(world, "stopped", names.TRIES_ANNOTATION) == "1"
        world.provision(asked)
        world.wait_until_runs("stopped")


def test_a_gang_that_is_stopped_while_it_waits_for_nodes_or_runs_gives_everything_back(world: World) -> None:
    with world.manager():
        world.submit("gang", "l4")
        (first,) = eventually("it has asked", partial(world.asked, "gang"))
        _stop(world, "gang", "true")
        eventually("it has given back everything", lambda: _holds_nothing(world))
        _stop(world, "gang", None)
        (second,) = eventually("it has asked anew", partial(world.asked, "gang", first))
        world.provision(second)
        world.wait_until_runs("gang")
        _stop(world, "gang", "true")
        eventually("it runs no more", lambda: _holds_nothing(world))
        assert not _note(world, "gang", names.TRIES_ANNOTATION), "a person's word is no failed try"


def _holds_nothing(world: World) -> bool:
    return (
        is_outside(world.workload("gang"))
        and not world.holds("gang", "QuotaReserved")
        and not world.asked("gang")
    )


def _fail(world: World, name: str) -> None:
    """Its try fails, and it waits outside the quota."""
    (request,) = eventually(f"{name} has asked", partial(world.asked, name))
    world.answer(request, "Failed")
    eventually(f"{name} waits", lambda: is_outside(world.workload(name)))


def _stop(world: World, name: str, value: str | None) -> None:
    _patch(world, name, {"metadata": {"annotations": {names.STOP_ANNOTATION: value}}})


def _patch(world: World, name: str, body: Object) -> None:
    """As `kubectl annotate` and `kubectl patch` do it."""
    workload = world.workload(name) or {}
    world.patch(f"{WORKLOADS}/{workload['metadata']['name']}", body)


def _note(world: World, name: str, key: str) -> str:
    """An annotation of the Workload; empty where it has none."""
    return world.notes(name).get(key, "")
