"""Kueue force-applies the answers of all checks, ours among them, as it last saw them; ours stands.

What Kueue writes late is written here: its field manager, its force, and no resourceVersion, as
pkg/workload/patching of Kueue 0.19.2 does where it is loose.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import pytest

from muster.model import names
from tests.envtest import path_of
from tests.integration.kueue_api.objects import apply
from tests.integration.kueue_api.world import KUEUE, WORKLOADS, World
from tests.waiting import eventually

_OTHER: Final = "another"
_QUEUE: Final = f"{KUEUE}/clusterqueues/team-b"
_APPLY: Final = "application/apply-patch+yaml"


@pytest.fixture
def held(world: World) -> Iterator[World]:
    """A second check stands beside ours and answers when the test does: whole gangs wait before they run."""
    check = {
        "apiVersion": names.KUEUE_API_VERSION,
        "kind": "AdmissionCheck",
        "metadata": {"name": _OTHER},
        "spec": {"controllerName": "example.com/another"},
    }
    apply(world.plane, check)
    active = {"type": "Active", "status": "True", "reason": "Test", "message": "said by a test"}
    active["lastTransitionTime"] = "2026-01-01T00:00:00Z"
    status = {"status": {"conditions": [active]}}
    at = f"{path_of(check)}/status"
    world.patch(at, status)
    asked = world.plane.call("GET", _QUEUE)["spec"]["admissionChecksStrategy"]["admissionChecks"]
    _checks(world, [*asked, {"name": _OTHER}])
    yield world
    world.clear()
    _checks(world, asked)
    world.delete(path_of(check))


def test_an_answer_that_kueue_sets_back_is_given_again_whole(held: World) -> None:
    with held.manager():
        held.submit("gang", "l4")
        stale = eventually("Kueue has written its entries", lambda: _entries(held, 2))
        (request,) = eventually("we have asked", partial(held.asked, "gang"))
        held.provision(request)
        ready = eventually("we are ready", lambda: _answer(held, "Ready"))

        for _ in range(5):
            _force(held, stale)
            again = eventually("we are ready again", lambda: _answer(held, "Ready"))
            assert again["podSetUpdates"] == ready["podSetUpdates"]
        assert [one["metadata"]["uid"] for one in held.asked("gang")] == [request["metadata"]["uid"]]
        _say(held, "Ready")
        held.wait_until_runs("gang")
        assert _pod_annotation(held) == request["metadata"]["name"]


def test_a_storm_of_them_costs_neither_a_second_request_nor_the_answer(held: World) -> None:
    """While the gang asks, waits and becomes whole, what Kueue saw first is written over and over."""
    with held.manager():
        held.submit("gang", "l4")
        stale = eventually("Kueue has written its entries", lambda: _entries(held, 2))
        seen: set[str] = set()
        is_answered = False
        for _ in range(60):
            _force(held, stale)
            asked = held.asked("gang")
            seen |= {one["metadata"]["uid"] for one in asked}
            if asked and not is_answered:
                held.provision(asked[0])
                is_answered = True
        if not is_answered:
            held.provision(eventually("we have asked", partial(held.asked, "gang"))[0])
        eventually("we are ready", lambda: _answer(held, "Ready"))
        _say(held, "Ready")
        held.wait_until_runs("gang")
        seen |= {one["metadata"]["uid"] for one in held.asked("gang")}
        assert len(seen) == 1


def _checks(world: World, wanted: list[dict[str, Any]]) -> None:
    spec = {"spec": {"admissionChecksStrategy": {"admissionChecks": wanted}}}
    world.patch(_QUEUE, spec)


def _entries(world: World, count: int) -> list[dict[str, Any]] | None:
    found = (world.workload("gang") or {}).get("status", {}).get("admissionChecks") or []
    return found if len(found) == count else None


def _answer(world: World, state: str) -> dict[str, Any] | None:
    entry = world.entry("gang")
    return entry if entry.get("state") == state else None


def _force(world: World, entries: list[dict[str, Any]]) -> None:
    # All that it owns: what it leaves out of an apply is taken off.
    status = (world.workload("gang") or {})["status"]
    _apply(world, "kueue-admission", {**status, "admissionChecks": entries})


def _say(world: World, state: str) -> None:
    """The other check's answer, as its own controller would write it."""
    entry = {"name": _OTHER, "state": state, "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    _apply(world, "another", {"admissionChecks": [entry]})


def _apply(world: World, who: str, status: dict[str, Any]) -> None:
    workload = world.workload("gang")
    assert workload is not None
    meta = {key: workload["metadata"][key] for key in ("name", "namespace", "uid")}
    frame = {"apiVersion": names.KUEUE_API_VERSION, "kind": "Workload", "metadata": meta}
    at = f"{WORKLOADS}/{meta['name']}/status?fieldManager={who}&force=true"
    world.plane.call("PATCH", at, {**frame, "status": status}, content_type=_APPLY)


def _pod_annotation(world: World) -> str:
    """The request that the started job's pods say they consume."""
    path = "/apis/batch/v1/namespaces/team-b/jobs/gang"

    def claimed() -> str | None:
        meta = world.plane.call("GET", path)["spec"]["template"]["metadata"]
        found: str | None = (meta.get("annotations") or {}).get(names.CONSUME_ANNOTATION)
        return found

    return str(eventually("the job is started", claimed))
