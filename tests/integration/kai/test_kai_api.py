"""A real API server with KAI's definitions takes whatever the model renders for KAI, unchanged."""

from __future__ import annotations

import json
import urllib.error
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import HealthCheck, given, settings

from muster.config import load
from muster.model.queues import Allowance
from muster.model.stack import Scheduler, Stack
from muster.render import kai
from tests.kai.definitions import ours
from tests.kai.generated import kai_stacks
from tests.length import examples
from tests.unit.model.model_stacks import two_teams

if TYPE_CHECKING:
    from tests.integration.conftest import ApiServer

_ROOT: Final = Path(__file__).resolve().parents[3]
_QUERY: Final = "?fieldManager=muster&force=true&fieldValidation=Strict"
_PLURALS: Final = {
    "Queue": "queues",
    "SchedulingShard": "schedulingshards",
    "Topology": "topologies",
    "PriorityClass": "priorityclasses",
}
_FRAME: Final = ("apiVersion", "kind", "metadata")


@pytest.fixture(scope="module")
def kai_server(api_server: ApiServer) -> ApiServer:
    """The server with KAI's definitions established."""
    api_server.define(list(ours().values()))
    return api_server


def _everything(stack: Stack) -> list[dict[str, Any]]:
    objects = [*kai.priority_classes(stack), *kai.topologies(stack), *kai.shards(stack), *kai.queues(stack)]
    # What goes over the wire is JSON: the model's numbers are compared as such.
    return [dict(json.loads(json.dumps(each))) for each in objects]


def _home(item: dict[str, Any]) -> str:
    return f"/apis/{item['apiVersion']}/{_PLURALS[item['kind']]}"


def _apply(server: ApiServer, item: dict[str, Any]) -> None:
    path = f"{_home(item)}/{item['metadata']['name']}{_QUERY}"
    try:
        server.call("PATCH", path, item, content_type="application/apply-patch+yaml")
    except urllib.error.HTTPError as refusal:
        raise AssertionError(f"{item}: {refusal.read().decode()}") from None


def _read(server: ApiServer, homes: Iterable[str]) -> dict[tuple[str, str], dict[str, Any]]:
    """What the server has, by where it lives and its name."""
    return {
        (home, each["metadata"]["name"]): each for home in homes for each in server.call("GET", home)["items"]
    }


def _is_taken_unchanged(server: ApiServer, stack: Stack) -> None:
    items = _everything(stack)
    for item in items:
        _apply(server, item)
    kept = _read(server, {_home(item) for item in items})
    for item in items:
        found = kept[_home(item), item["metadata"]["name"]]
        body = {key: value for key, value in found.items() if key not in (*_FRAME, "status")}
        assert body == {key: value for key, value in item.items() if key not in _FRAME}
        assert found["metadata"]["labels"] == item["metadata"]["labels"]


@pytest.mark.parametrize("file", ["tests/kai/every-field.yaml", "stacks/Pulumi.kai-prod.yaml"])
def test_every_object_of_an_example_is_taken_unchanged(kai_server: ApiServer, file: str) -> None:
    _is_taken_unchanged(kai_server, load(_ROOT / file))


@settings(max_examples=examples(30), deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(some=kai_stacks())
def test_every_object_of_any_tree_is_taken_unchanged(kai_server: ApiServer, some: Stack) -> None:
    _is_taken_unchanged(kai_server, some)


def test_a_field_that_kai_does_not_have_is_refused(kai_server: ApiServer) -> None:
    """So that the tests above prove something."""
    queue = kai.queues(replace(two_teams(Allowance()), scheduler=Scheduler.KAI))[0]
    queue["spec"]["resourceQuota"] = {}
    with pytest.raises(AssertionError, match="resourceQuota"):
        _apply(kai_server, queue)
