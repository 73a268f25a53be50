"""The API server and its store go away, come back, run full: the manager waits, and goes on by itself."""

from __future__ import annotations

import os
import signal
import urllib.error

import pytest

from localplane.bare.process import free_port
from tests.faults import etcd, gangs, health, history, oracle
from tests.faults.plane import Plane
from tests.faults.stage import Stage

_FILL = "/api/v1/namespaces/default/configmaps"
_ROOM = 2_000_000
_PIECE = 400_000
_MOST_PIECES = 200


@pytest.mark.parametrize("what", ["server", "store"])
def test_the_api_server_or_its_store_is_killed_and_comes_back(stage: Stage, what: str) -> None:
    port = free_port()
    with stage.manager(health_port=port).kept() as manager:
        first = stage.submit()
        stage.eventually("it has asked", lambda: gangs.requests(stage.plane))
        if what == "server":
            stage.plane.server.kill()
            stage.plane.server.start()
        else:
            _restart_store(stage)
        assert health.is_ready(port), "who was ready stays so: to take it out would mend nothing"
        second = stage.submit()
        stage.runs(first, second)
        stage.end(first, second)
        stage.judge()
        is_noticed = health.counted(port, "muster_watch_failures_total") > 0
    assert is_noticed or what == "store", "the API server's own caches bridge an etcd that is away"
    assert manager.exits == [], "an API server that is away is no reason to end"


def test_an_api_server_that_is_stopped_for_a_while_and_goes_on_ends_nobody(stage: Stage) -> None:
    """Its connections stand, and nothing comes over them: for longer than any call or watch is waited for."""
    port = free_port()
    with stage.manager(health_port=port).kept() as manager:
        stage.plane.fault("silent", pool="l4", kind="silence")
        gang = stage.submit()
        stage.eventually("both are asked for", lambda: len(gangs.requests(stage.plane)) == 2)
        server = stage.plane.server.server
        failed = health.counted(port, "muster_watch_failures_total")
        os.kill(server.pid or 0, signal.SIGSTOP)
        try:
            stage.eventually(
                "its silence is noticed", lambda: health.counted(port, "muster_watch_failures_total") > failed
            )
            assert health.is_ready(port)
        finally:
            os.kill(server.pid or 0, signal.SIGCONT)
        stage.plane.mend()
        stage.runs(gang)
        stage.end(gang)
        stage.judge()
    assert manager.exits == []


def test_a_store_that_is_full_takes_nothing_and_gangs_go_on_when_it_has_room(stage: Stage) -> None:
    """Reads work, writes are refused: nothing is half done, the manager lives and needs nobody."""
    store = stage.plane.server.etcd
    with stage.manager().kept() as manager:
        running = stage.submit()
        stage.runs(running)
        _restart_store(stage, f"--quota-backend-bytes={_size(store) + _ROOM}")
        try:
            _fill(stage.plane)
            # Deletions are taken: what it held has to be given back, and nothing can be noted about it.
            gangs.end(stage.plane, running)
            stage.eventually("what it held is released", lambda: not gangs.requests(stage.plane))
            oracle.check(stage.plane, since=stage.began)
        finally:
            _make_room(stage)
        waiting = stage.submit()
        stage.runs(waiting)
        stage.end(waiting)
        stage.judge()
        _restart_store(stage)
    assert manager.exits == []


def _restart_store(stage: Stage, *flags: str) -> None:
    server = stage.plane.server
    server.store.kill()
    server.store.start(*flags)
    stage.eventually("the API server reads again", lambda: server.call("GET", "/api/v1/namespaces/default"))


def _fill(plane: Plane) -> None:
    """Until the store refuses."""
    for number in range(_MOST_PIECES):
        body = {"metadata": {"name": f"fill-{number}"}, "data": {"fill": "x" * _PIECE}}
        try:
            plane.server.call("POST", _FILL, body)
        except urllib.error.HTTPError as refusal:
            if "space exceeded" in refusal.read().decode():
                return
            raise
    raise AssertionError("the store is never full")


def _make_room(stage: Stage) -> None:
    """As an operator does it: delete, compact, defragment, take the alarm off."""
    store = stage.plane.server.etcd
    stage.plane.server.call("DELETE", _FILL)
    stage.began = history.revision(store)
    etcd.ask(store, "kv/compaction", {"revision": str(stage.began), "physical": True})
    etcd.ask(store, "maintenance/defragment", {})
    for alarm in etcd.ask(store, "maintenance/alarm", {"action": "GET"}).get("alarms", ()):
        etcd.ask(store, "maintenance/alarm", {**alarm, "action": "DEACTIVATE"})


def _size(store: str) -> int:
    return int(etcd.ask(store, "maintenance/status", {})["dbSize"])
