"""When a leader begins."""

import asyncio
from typing import Any, cast

import msgspec
import pytest

from muster.controller.gangs.objects import GANG_POLICY, PodTemplate
from muster.controller.gangs.retry import REFUSED
from muster.controller.kube.client import Client
from muster.controller.kube.resource import ObjectMeta
from muster.controller.kueue.identity import OWNING_WORKLOAD
from muster.controller.kueue.objects import CheckState, WorkloadStatus
from muster.controller.kueue.setup import setup
from muster.controller.runtime.controller import Controller
from muster.controller.runtime.events import EventRecorder
from muster.controller.runtime.health import Health
from muster.controller.runtime.manager import Manager
from muster.controller.runtime.metrics import Metrics
from muster.model.names import OWN_PREFIX
from tests.unit.admission.fleet import ONE_SHAPE, Fleet
from tests.unit.admission.gang_world import workload

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


@pytest.mark.parametrize(
    ("changes", "is_reconciled"),
    [
        ({}, False),
        ({"status": WorkloadStatus(admission_checks=(CheckState(name="any"),))}, True),
        ({"metadata": ObjectMeta(name="a", namespace="team-a", annotations={REFUSED: "why"})}, True),
    ],
    ids=["waits for quota", "has a check", "has a note of ours"],
)
def test_a_gang_that_only_waits_for_quota_costs_no_reconcile(
    changes: dict[str, Any], is_reconciled: bool
) -> None:
    fleet = Fleet()
    held = msgspec.structs.replace(workload("a", ONE_SHAPE), status=WorkloadStatus())
    held = msgspec.structs.replace(held, **changes)
    assert fleet.view.keys_concerned(held) == ([held.key] if is_reconciled else [])


def test_a_gang_that_waits_for_quota_is_reconciled_where_something_of_its_name_is_left() -> None:
    fleet = Fleet()
    held = msgspec.structs.replace(workload("a", ONE_SHAPE), status=WorkloadStatus())
    left = PodTemplate(
        metadata=ObjectMeta(
            name=f"{OWN_PREFIX}1-0", namespace="team-a", uid="t", annotations={OWNING_WORKLOAD: "a"}
        )
    )
    fleet.view.templates.store.put(left)
    assert fleet.view.keys_concerned(held) == [held.key]


def _has_begun(controller: Controller[Any]) -> bool:
    return controller._active
