"""What KAI gangs that wait cost, and what one of them may hold up."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from muster.controller.gangs.objects import PROVISIONING_REQUEST
from muster.controller.kai.labels import CLUSTER_NAME
from muster.controller.kai.objects import GATED_POD, QUEUE, QueueStatus
from muster.controller.kube.resource import Key
from muster.model.names import GPU_RESOURCE
from tests.unit.controller_runtime.virtual import virtual
from tests.unit.gangs.paper import with_condition
from tests.unit.gangs.slow_api import moment
from tests.unit.kai.kai_fleet import Fleet, replace
from tests.unit.kai.kai_world import Group, queue

RUNNING, WAITING, QUEUES = 1_000, 80, 4


def _reconciled(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> list[Key]:
    """The gangs that are looked at from now on."""
    seen: list[Key] = []
    once = fleet.gangs._reconcile

    async def recorded(key: Key) -> Any:
        seen.append(key)
        return await once(key)

    monkeypatch.setattr(fleet.gangs, "_reconcile", recorded)
    return seen


def _crowd(fleet: Fleet, *, running: int, waiting: int) -> None:
    """A department of teams that are full, with gangs that wait in each."""
    fleet.queue(queue("dep", quota=-1, limit=-1))
    for number in range(QUEUES):
        fleet.queue(queue(f"team-{number}", quota=running // QUEUES, parent="dep"))
        fleet.allocated(f"team-{number}", running // QUEUES)
    for number in range(running):
        fleet.foreign(f"runs-{number}", queue=f"team-{number % QUEUES}")
    for number in range(waiting):
        fleet.submit(f"waits-{number}", {"headgroup": Group("l4")}, queue=f"team-{number % QUEUES}")


def test_a_queue_that_reports_what_it_holds_costs_nothing_where_no_gang_gains_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> None:
        fleet = Fleet(monkeypatch)
        _crowd(fleet, running=RUNNING, waiting=WAITING)
        async with fleet.running():
            assert "waits for its queue" in fleet.status("waits-7")
            seen = _reconciled(fleet, monkeypatch)
            fleet.allocated("team-0", RUNNING // QUEUES + 1)
            await asyncio.sleep(1)
            assert seen == []
            fleet.allocated("team-0", RUNNING // QUEUES - 1)
            fleet.remove(GATED_POD, Key("ns", "runs-0"))
            await asyncio.sleep(1)
            assert {int(key.name.removeprefix("waits-")) % QUEUES for key in seen} == {0}
            assert len(fleet.requests()) == 1, "one of them has the room"

    virtual(scenario())


def test_a_queue_whose_figures_cannot_be_read_costs_its_own_gangs_and_no_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> None:
        fleet = Fleet(monkeypatch)
        for name in ("team-a", "team-b"):
            fleet.queue(queue(name, quota=1))
            fleet.foreign(f"runs-{name}", queue=name)
            fleet.submit(f"waits-{name}", {"headgroup": Group("l4")}, queue=name)
        async with fleet.running():
            bad = QueueStatus(allocated={GPU_RESOURCE: "many"})
            fleet.api.change(QUEUE, fleet.api.caches[QUEUE].get(Key("", "team-a")), status=bad)
            fleet.remove(GATED_POD, Key("ns", "runs-team-b"))
            await asyncio.sleep(1)
            assert fleet.status("waits-team-a").startswith("held back: ")
            assert _asked(fleet) == {"waits-team-b": 1}

    virtual(scenario())


def test_what_a_waiting_gang_reports_does_not_move_with_the_pods_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> None:
        fleet = Fleet(monkeypatch)
        fleet.queue(queue("team-a", quota=40))
        for number in range(30):
            fleet.foreign(f"first-{number}", queue="team-a")
        for number in range(50):
            fleet.submit(
                f"waits-{number}", {"headgroup": Group("l4"), "workers": Group("l4", 19)}, queue="team-a"
            )
        async with fleet.running():
            assert fleet.api.calls["patch Pod"] == 50
            for number in range(20):
                fleet.foreign(f"other-{number}", queue="team-a")
                fleet.allocated("team-a", 31 + number)
                await asyncio.sleep(1)
            assert fleet.api.calls["patch Pod"] == 50

    virtual(scenario())


def test_reasons_that_alternate_change_what_a_gang_reports_twice_a_minute_at_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As of an autoscaler that tries again and again."""

    async def scenario() -> None:
        fleet = Fleet(monkeypatch)
        fleet.queue(queue("team-a", quota=4))
        fleet.submit("a", {"headgroup": Group("l4")}, queue="team-a")
        async with fleet.running():
            fleet.accept()
            await asyncio.sleep(60)
            written = fleet.api.calls["patch Pod"]
            for number in range(120):
                _estimate(fleet, f"{number % 2} machines are left")
                await asyncio.sleep(1)
            assert 3 <= fleet.api.calls["patch Pod"] - written <= 5
            _estimate(fleet, "none is left")
            await asyncio.sleep(30)
            assert "none is left" in fleet.status("a")

    virtual(scenario())


def test_a_gang_of_higher_priority_waits_for_none_that_gathers_in_its_queue(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing else changes: the news that it waits brings the other back, and the room that one leaves it."""

    async def scenario() -> None:
        fleet = Fleet(monkeypatch)
        fleet.queue(queue("team-a", quota=4))
        four = {"headgroup": Group("l4"), "workers": Group("l4", 3)}
        fleet.submit("low", four, queue="team-a")
        fleet.foreign("runs", queue="team-a")
        async with fleet.running():
            assert _asked(fleet) == {}
            fleet.remove(GATED_POD, Key("ns", "runs"))
            await asyncio.sleep(1)
            assert _asked(fleet) == {"low": 1}
            fleet.submit("high", four, queue="team-a", priorityClassName="build-preemptible")
            await asyncio.sleep(60)  # What they report settles.
            assert _asked(fleet) == {"high": 1}
            writes = sum(fleet.api.calls.values())
            await asyncio.sleep(60)
            assert sum(fleet.api.calls.values()) == writes
            for pod in fleet.of("high"):
                fleet.remove(GATED_POD, pod.key)
            fleet.remove_cluster("high")
            await asyncio.sleep(1)
            assert "low" in _asked(fleet)

    virtual(scenario())


def _estimate(fleet: Fleet, words: str) -> None:
    """What the autoscaler says of the request that it has accepted."""
    (request,) = fleet.requests()
    conditions = with_condition(request.status.conditions, "Provisioned", "False", moment(), message=words)
    status = replace(request.status, conditions=conditions)
    fleet.api.change(PROVISIONING_REQUEST, request, status=status)


@pytest.mark.parametrize("kind", ["PodTemplate", "ProvisioningRequest"])
def test_a_create_that_gets_no_answer_holds_up_no_other_gang(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    def hangs(created: str, body: Any) -> bool:
        return created == kind and body["metadata"]["annotations"][CLUSTER_NAME] == "gang-00"

    async def scenario() -> None:
        fleet = Fleet(monkeypatch, hangs=hangs)
        fleet.queue(queue("team-a", quota=100))
        for number in range(26):
            fleet.submit(f"gang-{number:02}", {"headgroup": Group("l4")}, queue="team-a")
        async with fleet.running():
            assert len(fleet.requests()) == 25

    virtual(scenario())


def test_a_split_gang_follows_when_the_one_before_it_is_accepted_and_no_other_is_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> None:
        fleet = Fleet(monkeypatch)
        fleet.queue(queue("team-a", quota=100))
        for number in range(9):
            groups = {"headgroup": Group("l4"), "workers": Group("h100", 2)}
            fleet.submit(f"gang-{number}", groups, queue="team-a")
            await asyncio.sleep(1)
        async with fleet.running():
            assert _asked(fleet) == {"gang-0": 1}
            assert fleet.status("gang-1") == "waits for its turn at pool h100"
            fleet.accept()
            await asyncio.sleep(1)
            assert _asked(fleet) == {"gang-0": 2, "gang-1": 1}
            seen = _reconciled(fleet, monkeypatch)
            fleet.accept()
            await asyncio.sleep(1)
            assert _asked(fleet) == {"gang-0": 2, "gang-1": 2, "gang-2": 1}
            assert {key.name for key in seen} == {"gang-0", "gang-1", "gang-2"}

    virtual(scenario())


def test_a_node_that_a_gang_leaves_brings_the_first_that_waits_for_it_and_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> None:
        fleet = Fleet(monkeypatch)
        fleet.queue(queue("team-a", quota=100))
        made = fleet.leased("l4")
        for name, pool in (("other", "h100"), ("first", "l4"), ("second", "l4")):
            fleet.submit(name, {"headgroup": Group(pool)}, queue="team-a")
            await asyncio.sleep(1)
        async with fleet.running():
            fleet.accept()
            await asyncio.sleep(1)
            seen = _reconciled(fleet, monkeypatch)
            for count, (resource, key) in enumerate(made, start=1):
                fleet.remove(resource, key)
                await asyncio.sleep(1)
                assert [key.name for key in seen] == ["first"] * count

    virtual(scenario())


def _asked(fleet: Fleet) -> Counter[str]:
    return Counter(request.metadata.annotations[CLUSTER_NAME] for request in fleet.requests())
