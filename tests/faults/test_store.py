"""The API server and its store go away, come back, run full: the manager waits, and goes on by itself."""

from __future__ import annotations

import base64
import json
import urllib.request
from functools import partial

import pytest

from tests.faults import gangs, history
from tests.faults.plane import Plane
from tests.faults.stage import Stage

_FILL = "/api/v1/namespaces/default/configmaps"


@pytest.mark.parametrize("what", ["server", "store"])
def test_the_api_server_or_its_store_is_killed_and_comes_back(stage: Stage, what: str) -> None:
    with stage.manager().kept() as manager:
        first = stage.submit()
        stage.eventually("it has asked", lambda: gangs.requests(stage.plane))
        _power_cut(stage.plane, what)
        second = stage.submit()
        stage.runs(first, second)
        stage.end(first, second)
        stage.judge()
    assert manager.exits == [], "an API server that is away is no reason to end"


def _power_cut(plane: Plane, what: str) -> None:
    server = plane.server
    if what == "server":
        server.kill()
    else:
        server.store.kill()
        server.store.start()
        server.kill()
    server.start()


def test_a_store_that_is_full_takes_nothing_and_gangs_go_on_when_it_has_room(stage: Stage) -> None:
    """Reads work, writes are refused: nothing is half done, the manager lives and needs nobody."""
    etcd = stage.plane.server.etcd
    with stage.manager().kept() as manager:
        gang = stage.submit()
        stage.eventually("it has asked", lambda: gangs.requests(stage.plane))
        _post(etcd, "/v3/maintenance/alarm", {"action": "ACTIVATE", "alarm": "NOSPACE"})
        try:
            number = len(stage.proxy.writes)
            stage.eventually("it has tried to write", lambda: len(stage.proxy.writes) > number)
        finally:
            _post(etcd, "/v3/maintenance/alarm", {"action": "DEACTIVATE", "alarm": "NOSPACE"})
        stage.runs(gang)
        stage.end(gang)
        stage.judge()
    assert manager.exits == []


def _post(etcd: str, path: str, body: object) -> None:
    request = urllib.request.Request(etcd + path, data=json.dumps(body).encode(), method="POST")  # noqa: S310 - our own
    with urllib.request.urlopen(request, timeout=30) as answer:
        assert answer.status == 200
