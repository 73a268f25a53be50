"""Pods that take a while to end: those of an evicted gang, and those that a queue still holds."""

import asyncio
from dataclasses import replace as changed
from datetime import timedelta

import pytest

from muster.controller.gangs.identity import ATTEMPT
from muster.controller.kai.labels import CLUSTER_UID, SIZE, is_gated
from muster.controller.kai.objects import GATED_POD, GatedPod
from muster.model.gangpolicy import FlavorPolicy
from muster.model.waiting import clock
from tests.unit.controller_runtime.virtual import on_virtual_time
from tests.unit.gangs.slow_api import moment
from tests.unit.kai.kai_fleet import Fleet, replace
from tests.unit.kai.kai_world import POLICY, Group, queue

EXISTING_NODES = changed(POLICY, flavors=(FlavorPolicy(name="l4", verify_nodes=False, gpus_per_node=1),))
MINUTE = timedelta(minutes=1)


def _bind(fleet: Fleet, name: str) -> None:
    for pod in fleet.of(name):
        if not is_gated(pod):
            fleet.api.change(GATED_POD, pod, spec=replace(pod.spec, node_name="node"))


def _end(fleet: Fleet, pod: GatedPod) -> None:
    """It was deleted, and ends in a minute."""
    meta = replace(pod.metadata, deletion_timestamp=moment() + MINUTE)
    fleet.api.change(GATED_POD, pod, metadata=meta)


def _make_again(fleet: Fleet, name: str, pods: list[GatedPod]) -> None:
    """These have ended, and KubeRay makes others in their place."""
    for pod in pods:
        fleet.remove(GATED_POD, pod.key)
        del fleet.world.pods[pod.metadata.name]
    fleet.kuberay(name)


def _group(fleet: Fleet, name: str, group: str) -> list[GatedPod]:
    return [pod for pod in fleet.of(name) if pod.metadata.labels["ray.io/group"] == group]


@pytest.mark.parametrize("minimum", [1, 3])
@on_virtual_time
async def test_after_an_eviction_the_head_passes_with_its_workers_however_long_these_take_to_end(
    monkeypatch: pytest.MonkeyPatch, minimum: int
) -> None:
    """KAI deletes one pod after another; the head has ended before the first worker is deleted."""
    fleet = Fleet(monkeypatch, policy=EXISTING_NODES)
    fleet.queue(queue("team-a", quota=4))
    groups = {"headgroup": Group("cpu"), "workers": Group("l4", 3, minimum=minimum)}
    fleet.submit("a", groups, queue="team-a")
    async with fleet.running():
        assert fleet.gated("a") == 0
        _bind(fleet, "a")
        _make_again(fleet, "a", _group(fleet, "a", "headgroup"))
        await asyncio.sleep(1)
        workers = _group(fleet, "a", "workers")
        for worker in workers:
            _end(fleet, worker)
            await asyncio.sleep(0.1)
        await asyncio.sleep(50)
        (head,) = _group(fleet, "a", "headgroup")
        assert is_gated(head), "it waits for the others"
        assert "pods of ns/a are still ending" in fleet.status("a")
        for worker in workers:
            _make_again(fleet, "a", [worker])
            await asyncio.sleep(1)
        await asyncio.sleep(10)
        assert fleet.gated("a") == 0
        passed = [pod.metadata.annotations for pod in fleet.of("a")]
        attempts = {each[ATTEMPT] for each in passed}
        sizes = [int(each[SIZE]) for each in passed]
        assert (len(attempts), set(sizes)) == ((1, {4}) if minimum == 3 else (2, {2}))


@on_virtual_time
async def test_a_head_that_is_lost_alone_comes_back_after_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = Fleet(monkeypatch, policy=EXISTING_NODES)
    fleet.queue(queue("team-a", quota=4))
    fleet.submit("a", {"headgroup": Group("cpu"), "workers": Group("l4", 3)}, queue="team-a")
    async with fleet.running():
        _bind(fleet, "a")
        _make_again(fleet, "a", _group(fleet, "a", "headgroup"))
        await asyncio.sleep(11)
        assert fleet.gated("a") == 0


@on_virtual_time
async def test_a_gang_that_waits_for_its_queue_names_the_pods_that_end_and_is_not_written_for_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fleet = Fleet(monkeypatch, policy=EXISTING_NODES)
    fleet.queue(queue("team-a", quota=8))
    fleet.submit("first", {"headgroup": Group("l4"), "workers": Group("l4", 7)}, queue="team-a")
    async with fleet.running():
        _bind(fleet, "first")
        fleet.allocated("team-a", 8)
        fleet.remove_cluster("first")
        due = moment() + MINUTE
        for pod in fleet.of("first"):
            _end(fleet, pod)
        fleet.submit("next", {"headgroup": Group("l4"), "workers": Group("l4", 3)}, queue="team-a")
        await asyncio.sleep(1)
        assert fleet.status("next") == (
            "waits for its queue: queue team-a has no room for 4 GPUs (quota 8); "
            f"pods of ns/first are still ending, due {clock(due)}"
        )
        before = fleet.api.calls["patch Pod"]
        for number, pod in enumerate(fleet.of("first")[:-1]):
            fleet.remove(GATED_POD, pod.key)
            await asyncio.sleep(1)
            assert fleet.api.calls["patch Pod"] == before, f"after {number + 1} pods"
        fleet.allocated("team-a", 1)
        await asyncio.sleep(1)
        assert fleet.gated("next") == 0


SPLIT = {"headgroup": Group("l4"), "workers": Group("h100")}


@pytest.mark.parametrize("is_broken", [False, True], ids=["deleted", "broken"])
@on_virtual_time
async def test_a_cluster_that_can_never_begin_leaves_the_line(
    monkeypatch: pytest.MonkeyPatch, is_broken: bool
) -> None:
    """It is deleted while its status is written, or its pods get an annotation that cannot be read."""
    fleet = Fleet(monkeypatch)
    fleet.queue(queue("team-a", quota=100))
    fleet.submit("a", SPLIT, queue="team-a")
    async with fleet.running():
        await asyncio.sleep(5)
        fleet.submit("b", SPLIT, queue="team-a")
        written = fleet.api.calls["patch Pod"]
        while fleet.api.calls["patch Pod"] == written:
            await asyncio.sleep(0.001)
        if is_broken:
            await asyncio.sleep(1)
            _annotate(fleet, "b", {"gpu-fraction": "1", "gpu-fraction-num-devices": "1e400"})
        else:
            fleet.remove_cluster("b")
            await asyncio.sleep(2)
            _end_pods(fleet, "b")
        await asyncio.sleep(2)
        fleet.submit("c", SPLIT, queue="team-a")
        await asyncio.sleep(3)
        fleet.remove_cluster("a")
        _end_pods(fleet, "a")
        await asyncio.sleep(60)
        asked = {request.metadata.labels[CLUSTER_UID] for request in fleet.requests()}
        assert "uid-c" in asked, fleet.status("c")


def _annotate(fleet: Fleet, name: str, notes: dict[str, str]) -> None:
    for pod in fleet.of(name):
        meta = replace(pod.metadata, annotations={**pod.metadata.annotations, **notes})
        fleet.api.change(GATED_POD, pod, metadata=meta)


def _end_pods(fleet: Fleet, name: str) -> None:
    for pod in fleet.of(name):
        fleet.remove(GATED_POD, pod.key)
