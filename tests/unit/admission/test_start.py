"""When a leader begins."""

import asyncio
from typing import Any, cast

import pytest

from muster.controller.gangs.objects import GANG_POLICY
from muster.controller.kube.client import Client
from muster.controller.kueue.setup import setup
from muster.controller.runtime.controller import Controller
from muster.controller.runtime.events import EventRecorder
from muster.controller.runtime.health import Health
from muster.controller.runtime.manager import Manager
from muster.controller.runtime.metrics import Metrics

_KINDS = (
    *("workloads", "provisioningrequests", "podtemplates", "placeholders", "nodes", "pods"),
    *("resourceflavors", "clusterqueues", "admissionchecks", "gangpolicies"),
)


def _manager() -> Manager:
    metrics, client = Metrics(), cast(Client, None)
    events = EventRecorder(client, reporter="test", instance="one", metrics=metrics)
    manager = Manager(client, metrics=metrics, health=Health(metrics, port=0), events=events)
    setup(manager, manager.informer(GANG_POLICY))
    return manager


def test_these_are_all_its_caches() -> None:
    titles = {str(informer.resource).partition(".")[0] for informer in _manager()._informers}
    assert titles == set(_KINDS)


@pytest.mark.parametrize("late", _KINDS)
async def test_no_gang_is_looked_at_before_every_cache_has_been_read(late: str) -> None:
    """A node whose pods have not been read yet would look empty."""
    manager = _manager()
    (gangs,) = (each for each in manager._controllers if each.name == "gangs")
    (missing,) = (each for each in manager._informers if str(each.resource).partition(".")[0] == late)
    for informer in manager._informers:
        if informer is not missing:
            informer.relisted("first", 0)
    running = asyncio.create_task(gangs.run())
    for _ in range(2 * len(_KINDS)):
        await asyncio.sleep(0)
    assert not _has_begun(gangs)
    missing.relisted("first", 0)
    while not _has_begun(gangs):
        await asyncio.sleep(0)
    gangs.stop()
    await running


def _has_begun(controller: Controller[Any]) -> bool:
    return controller._active
