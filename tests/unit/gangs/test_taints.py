"""Our taint on a node, while others write on the same node."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web

from muster.controller.gangs.objects import Node
from muster.controller.gangs.placeholder_sets import held_for
from muster.controller.gangs.taints import TRIES, NodeTaints
from muster.controller.kube.errors import Conflict
from tests.unit.controller_kube.fake_apiserver import FakeApiServer

Json = dict[str, Any]
_OTHER = {"key": "example.com/other", "value": "", "effect": "NoExecute", "timeAdded": "2026-11-26T10:00:00Z"}


def on_a_node(scenario: Callable[[FakeApiServer, NodeTaints], Awaitable[None]]) -> list[Node]:
    """What was remembered of it."""
    remembered: list[Node] = []

    async def run() -> None:
        async with FakeApiServer().running() as server:
            server.put("nodes", {"metadata": {"name": "n"}, "spec": {}})
            await scenario(server, NodeTaints(server.client(), remember=remembered.append))

    asyncio.run(run())
    return remembered


def node_of(server: FakeApiServer) -> Json:
    return server.objects["nodes", "", "n"]


def another(server: FakeApiServer, *taints: Json) -> Callable[[web.Request], None]:
    """Another client, which writes just before us."""

    def write(_: web.Request) -> None:
        meta = {"name": "n", "labels": {"karpenter.sh/initialized": "true"}}
        server.put("nodes", {"metadata": meta, "spec": {"taints": list(taints)}})

    return write


def test_what_another_client_writes_meanwhile_is_kept() -> None:
    async def scenario(server: FakeApiServer, taints: NodeTaints) -> None:
        server.write_faults.extend([another(server), another(server, _OTHER)])
        await taints.hold("n", held_as="muster-1")
        assert node_of(server)["metadata"]["labels"] == {"karpenter.sh/initialized": "true"}
        kept, own = node_of(server)["spec"]["taints"]
        assert kept == _OTHER
        assert own["value"] == "muster-1"
        server.write_faults.append(another(server, _OTHER, own))
        await taints.release("n", held_as="muster-1")
        assert node_of(server)["spec"]["taints"] == [_OTHER]

    assert [held_for(each) for each in on_a_node(scenario)] == ["muster-1", ""]


def test_a_taint_that_became_another_gangs_meanwhile_stays() -> None:
    async def scenario(server: FakeApiServer, taints: NodeTaints) -> None:
        await taints.hold("n", held_as="muster-1")
        (own,) = node_of(server)["spec"]["taints"]
        server.write_faults.append(another(server, {**own, "value": "muster-2"}))
        await taints.release("n", held_as="muster-1")
        assert [each["value"] for each in node_of(server)["spec"]["taints"]] == ["muster-2"]

    on_a_node(scenario)


def test_a_node_that_changes_all_the_time_is_left_to_the_next_reconcile() -> None:
    async def scenario(server: FakeApiServer, taints: NodeTaints) -> None:
        server.write_faults.extend([another(server)] * TRIES)
        with pytest.raises(Conflict):
            await taints.hold("n", held_as="muster-1")

    assert on_a_node(scenario) == []
