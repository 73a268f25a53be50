"""What changes around a gang and does not concern it costs it nothing; what does, costs it no more than its
place.
"""

import urllib.error
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

from tests.faults import gangs
from tests.faults.plane import KUEUE, MERGE
from tests.faults.stage import Stage

_QUEUE = f"{KUEUE}/clusterqueues/{gangs.TEAM}"


def test_a_queue_that_is_held_keeps_who_runs_and_lets_nobody_gather(stage: Stage) -> None:
    with stage.manager().kept():
        running = stage.submit()
        stage.runs(running)
        bought = gangs.uids(stage.plane)
        stage.plane.fault("silent", pool="*", kind="silence")
        waiting = stage.submit()
        stage.eventually("it has asked", lambda: gangs.uids(stage.plane) > bought)
        stage.waits(waiting)
        with _queue(stage, stopPolicy="Hold"):
            stage.eventually("it holds nothing", lambda: gangs.uids(stage.plane) == bought)
            stage.eventually("nor its quota", lambda: not _holds(stage, waiting, "QuotaReserved"))
            assert stage.stands(running)
        stage.plane.mend()
        stage.runs(waiting)
        assert stage.stands(running)
        stage.end(running, waiting)
        stage.judge()


def test_quota_that_is_taken_down_is_kept_by_who_has_it_and_lacked_by_who_comes(stage: Stage) -> None:
    """Kueue takes no reservation back for it; so nothing is given back and nothing asked for anew."""
    with stage.manager().kept():
        stage.plane.fault("silent", pool="*", kind="silence")
        first = stage.submit()
        (asked,) = stage.eventually("it has asked", lambda: gangs.uids(stage.plane))
        with _queue(stage, resourceGroups=_without_quota(stage)):
            late = stage.submit()
            stage.waits(first)
            stage.plane.mend()
            stage.runs(first)
            assert asked in gangs.uids(stage.plane)
            assert len(gangs.uids(stage.plane)) == 2, "nothing is asked for without quota"
            assert not _holds(stage, late, "QuotaReserved")
        stage.runs(late)
        stage.end(first, late)
        stage.judge()


def test_another_priority_leaves_what_a_gang_has_asked_for(stage: Stage) -> None:
    with stage.manager().kept():
        stage.plane.fault("silent", pool="*", kind="silence")
        gang = stage.submit()
        (asked,) = stage.eventually("it has asked", lambda: gangs.uids(stage.plane))
        for priority in (1000, 1, 100):
            gangs.patch(stage.plane, gang, {"spec": {"priority": priority}})
            stage.waits(gang)
        stage.plane.mend()
        stage.runs(gang)
        assert asked in gangs.uids(stage.plane)
        stage.end(gang)
        stage.judge()


@pytest.mark.parametrize("how", ["Foreground", "Orphan"])
def test_a_gang_that_is_being_deleted_gives_everything_back_and_asks_for_nothing(
    stage: Stage, how: str
) -> None:
    """Both ways keep the Workload until the garbage collector has done its part, which is never here."""
    with stage.manager().kept():
        stage.plane.fault("silent", pool="l4", kind="silence")
        gang = stage.submit()
        stage.eventually("it has asked for both", lambda: len(gangs.uids(stage.plane)) == 2)
        stage.waits(gang)
        stage.plane.server.call("DELETE", f"{gangs.path(gang)}?propagationPolicy={how}")
        stage.eventually(
            "it has given all back", lambda: not gangs.uids(stage.plane) and not gangs.templates(stage.plane)
        )
        stage.plane.mend()
        other = stage.submit()
        stage.runs(other)
        assert len(gangs.uids(stage.plane)) == 2, "of the one that goes nothing has come back"
        assert gangs.read(stage.plane, gang), "it is still going"
        gangs.patch(stage.plane, gang, {"metadata": {"finalizers": None}})
        stage.eventually("it is gone", lambda: gangs.read(stage.plane, gang) is None)
        stage.end(other)
        stage.judge()


def test_what_a_gang_leaves_that_was_deleted_while_nobody_looked_is_taken_away(stage: Stage) -> None:
    """With nobody to collect garbage, as after a deletion that orphans what it owns."""
    manager = stage.manager()
    manager.start()
    stage.plane.fault("silent", pool="l4", kind="silence")
    gang = stage.submit()
    stage.eventually("it has asked for both", lambda: len(gangs.uids(stage.plane)) == 2)
    manager.kill()
    stage.eventually("it is deleted", partial(_is_gone, stage, gang))
    assert len(gangs.uids(stage.plane)) == 2
    stage.plane.mend()
    with stage.manager().kept():
        stage.eventually(
            "nothing is left of it", lambda: not gangs.uids(stage.plane) and not gangs.templates(stage.plane)
        )
        stage.judge()


def _is_gone(stage: Stage, gang: str) -> bool:
    if gangs.read(stage.plane, gang) is None:
        return True
    gangs.end(stage.plane, gang)
    return False


def _holds(stage: Stage, gang: str, condition: str) -> bool:
    return gangs.holds(gangs.read(stage.plane, gang), condition)


@contextmanager
def _queue(stage: Stage, **fields: object) -> Iterator[None]:
    """The team's ClusterQueue with other values, until the block ends."""
    before = stage.plane.server.call("GET", _QUEUE)["spec"]
    _patch(stage, fields)
    try:
        yield
    finally:
        _patch(stage, {name: before.get(name) for name in fields})


def _patch(stage: Stage, fields: dict[str, object]) -> None:
    try:
        stage.plane.server.call("PATCH", _QUEUE, {"spec": fields}, content_type=MERGE)
    except urllib.error.HTTPError as refusal:
        raise AssertionError(refusal.read().decode()) from refusal


def _without_quota(stage: Stage) -> list[dict[str, Any]]:
    groups: list[dict[str, Any]] = stage.plane.server.call("GET", _QUEUE)["spec"]["resourceGroups"]
    for group in groups:
        for flavor in group["flavors"]:
            for resource in flavor["resources"]:
                resource["nominalQuota"] = "0"
    return groups
