"""The API server and its store go away, come back, run full: the manager waits, and goes on by itself."""

import os
import signal
import urllib.error
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from tests.envtest.process import free_port
from tests.faults import etcd, gangs, health, history, oracle
from tests.faults.breaks import Call, Calm
from tests.faults.managers import Manager
from tests.faults.plane import Plane, items
from tests.faults.stage import Stage

_FILL = "/api/v1/namespaces/default/configmaps"
_ROOM = 2_000_000
_PIECE = 400_000
_MOST_PIECES = 200
_FULL = "database space exceeded"


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
        stage.completes(first, second)
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
        stage.waits(gang)
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
        stage.completes(gang)
    assert manager.exits == []


def test_a_store_that_is_full_takes_nothing_and_gangs_go_on_when_it_has_room(stage: Stage) -> None:
    """Reads work, writes are refused: nothing is half done, the manager lives and needs nobody."""
    with stage.manager().kept() as manager:
        running = stage.submit()
        stage.runs(running)
        whole, waiting = _with_something_to_write(stage, manager)
        _restart_store(stage, f"--quota-backend-bytes={etcd.size(stage.plane.server.etcd) + _ROOM}")
        try:
            _fill(stage.plane)
            manager.thaw()
            # The first write about the other one makes what its request needs.
            for word in (whole, "podtemplates"):
                stage.eventually(f"a write about {word} is refused", partial(_is_refused, stage, word))
            assert gangs.entry(gangs.read(stage.plane, whole))["state"] == "Pending"
            made = gangs.requests(stage.plane) + gangs.templates(stage.plane)
            assert not _of(stage, waiting, made), "of what it needs, nothing is there"
            # Deletions are taken: what it held has to be given back, and nothing can be noted about it.
            gangs.end(stage.plane, running)
            stage.eventually("what it held is released", lambda: len(gangs.requests(stage.plane)) == 2)
            oracle.check(stage.plane, since=stage.began)
        finally:
            manager.thaw()
            _make_room(stage)
        stage.completes(whole, waiting)
        _restart_store(stage)
    assert manager.exits == []


def _with_something_to_write(stage: Stage, manager: Manager) -> tuple[str, str]:
    """A gang that stands whole and is to be told so, and one with quota for which nothing is asked yet. The
    manager is stopped, and writes about both as soon as it goes on.
    """
    stage.plane.fault("silent", pool="l4", kind="silence")
    whole = stage.submit()
    stage.eventually("both are asked for", lambda: len(_asked_for(stage, whole)) == 2)
    manager.freeze()
    stage.plane.mend()
    stage.eventually("it has all that it needs", partial(_stands_whole, stage, whole))
    waiting = stage.submit()
    stage.eventually("it has quota", lambda: gangs.holds(gangs.read(stage.plane, waiting), "QuotaReserved"))
    return whole, waiting


def _stands_whole(stage: Stage, gang: str) -> bool:
    promised = all(gangs.holds(each, "Provisioned") for each in _asked_for(stage, gang))
    nodes = items(stage.plane.server, "/api/v1/nodes")
    return promised and all(gangs.holds(each, "Ready") for each in nodes)


def _asked_for(stage: Stage, gang: str) -> list[dict[str, Any]]:
    return _of(stage, gang, gangs.requests(stage.plane))


def _of(stage: Stage, gang: str, made: list[dict[str, Any]]) -> list[dict[str, Any]]:
    uid = (gangs.read(stage.plane, gang) or {"metadata": {}})["metadata"].get("uid")
    return [each for each in made if oracle.owner(each) == uid]


def _is_refused(stage: Stage, word: str) -> bool:
    return any(word in call.path.split("/") for call in stage.proxy.refused(_FULL))


@dataclass(slots=True)
class _FullAfter(Calm):
    """The plan: the store is full once the manager has made an object of this kind."""

    store: str
    resource: str

    def done(self, call: Call) -> None:
        if (call.verb, call.resource) == ("create", self.resource):
            etcd.be_full(self.store)


def test_a_store_that_is_full_between_two_writes_leaves_no_gang_half_asked_for(stage: Stage) -> None:
    """Its pods are described, and the request for them is refused."""
    store = stage.plane.server.etcd
    stage.proxy.plan = _FullAfter(store, "podtemplates")
    with stage.manager().kept() as manager:
        try:
            gang = stage.submit()
            stage.eventually("a request is refused", partial(_is_refused, stage, "provisioningrequests"))
            assert gangs.templates(stage.plane)
            assert not gangs.requests(stage.plane)
        finally:
            stage.proxy.plan = Calm()
            etcd.be_full_no_more(store)
        stage.completes(gang)
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
            if _FULL in refusal.read().decode():
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
    etcd.be_full_no_more(store)
