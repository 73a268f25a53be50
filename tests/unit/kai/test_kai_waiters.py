"""Whom news of a node concerns where KAI schedules."""

import asyncio
from datetime import timedelta
from typing import cast

import msgspec

from muster.controller.gangs.reconciler import GangReconciler
from muster.controller.gangs.requests import Requests
from muster.controller.kai.executor import Executor
from muster.controller.kai.hooks import RayClusterHooks
from muster.controller.kai.view import View
from muster.controller.kube.resource import Key
from tests.unit.kai.kai_world import Group, World, queue
from tests.unit.kai.test_kai_rate_limit import Caches

replace = msgspec.structs.replace


def test_a_gang_that_waits_for_nodes_hears_of_every_change_of_one_and_of_no_heartbeat() -> None:
    here = World(delay=timedelta(hours=1))
    here.queues = {"team-a": queue("team-a", quota=4)}
    here.submit("a", {"headgroup": Group("l4")})
    here.tick()
    (request,) = here.requests
    here.provision(request, ready=False)
    caches = Caches(here)
    view, hands, requests = cast(View, caches), cast(Executor, caches), cast(Requests, None)
    reconciler = GangReconciler(
        RayClusterHooks(view, hands, requests), enqueue=lambda _: None, clock=lambda: here.now
    )
    asyncio.run(reconciler.reconcile(Key("ns", "a")))
    (node,) = here.nodes.values()
    lives = replace(node, metadata=replace(node.metadata, resource_version="9"))
    cordoned = replace(node, spec=replace(node.spec, unschedulable=True))
    assert tuple(reconciler.waiting_for_nodes(node, cordoned)) == (Key("ns", "a"),)
    assert tuple(reconciler.waiting_for_nodes(None, node)) == (Key("ns", "a"),)
    assert tuple(reconciler.waiting_for_nodes(node, lives)) == ()
