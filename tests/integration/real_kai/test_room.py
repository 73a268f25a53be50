"""What muster/controller/kai/ledger.py says a queue has room for is what KAI starts, whatever the
queue's figures are.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any, Final

import msgspec
import pytest

from muster.controller.kai.ledger import Ledger
from muster.controller.kai.objects import Queue
from muster.controller.kai.queue_capacity import QueueDemand, QueueUsage
from muster.model.gangpolicy import OverQuota
from muster.model.names import GPU_RESOURCE
from tests.integration.real_kai.bodies import queue_body
from tests.integration.real_kai.world import QUEUES, World

_WAVES: Final = (1, 3)
"""GPUs that are asked for, one after another."""
_UNSAID: Final = None
_FREE: Final = (-1, -1)
_PRIORITIES: Final = {"train": True, "build": False}
"""Class -> whether its work is preemptible."""

Figures = tuple[float | None, float | None]
"""Quota and limit; None: not written."""


@dataclass(frozen=True)
class Case:
    name: str
    leaf: Figures
    top: Figures
    priority: str


def _cases() -> Iterator[Case]:
    figures = list(product((_UNSAID, -1, 0, 2, 4), (_UNSAID, -1, 0, 2, 4)))
    trees = [(leaf, _FREE) for leaf in figures] + [(_FREE, top) for top in figures]
    for number, ((leaf, top), priority) in enumerate(product(trees, _PRIORITIES)):
        yield Case(name=f"case-{number}", leaf=leaf, top=top, priority=priority)


CASES: Final = tuple(_cases())


def _queue(name: str, figures: Figures, parent: str = "") -> dict[str, Any]:
    share = {key: value for key, value in zip(("quota", "limit"), figures, strict=True) if value is not None}
    return queue_body(name, {**share, "overQuotaWeight": 1}, parent=parent)


@pytest.fixture
def cases(world: World) -> World:
    for case in CASES:
        world.server.apply(_queue(f"{case.name}-top", case.top), f"{QUEUES}/{case.name}-top")
        world.server.apply(_queue(case.name, case.leaf, f"{case.name}-top"), f"{QUEUES}/{case.name}")
    for number in range(len(CASES)):
        world.node(f"gpu-{number}", gpus=8)
    return world


def test_room_is_what_kai_starts(cases: World) -> None:
    held: dict[str, list[QueueUsage]] = {case.name: [] for case in CASES}
    for wave, gpus in enumerate(_WAVES):
        expected = {case.name: _has_room(cases, case, gpus, held[case.name]) for case in CASES}
        for case in CASES:
            cases.pod(f"{case.name}-{wave}", queue=case.name, priority=case.priority, gpus=gpus)
        started = _started(cases, wave, {name for name, has_room in expected.items() if has_room})
        wrong = {
            f"{case.leaf} below {case.top}, {case.priority}, {gpus} GPUs": case.name in started
            for case in CASES
            if (case.name in started) != expected[case.name]
        }
        assert not wrong, f"what KAI does, against room.py: {json.dumps(wrong, indent=1)}"
        for case in CASES:
            if case.name in started:
                held[case.name].append(QueueUsage(demand=_need(case, gpus), is_bound=True))


def _started(world: World, wave: int, expected: set[str]) -> set[str]:
    """What has a node once KAI has looked often enough, or everything that should have."""

    def seen() -> set[str]:
        return {
            pod["metadata"]["name"].removesuffix(f"-{wave}")
            for pod in world.pods()
            if pod["metadata"]["name"].endswith(f"-{wave}") and "nodeName" in pod["spec"]
        }

    for number in range(20):
        world.await_round(f"round-{wave}-{number}x")
        if number > 3 and seen() >= expected:
            break
    return seen()


def _has_room(world: World, case: Case, gpus: int, held: list[QueueUsage]) -> bool:
    names = (case.name, f"{case.name}-top")
    queues = [msgspec.json.decode(json.dumps(world.queue(name)), type=Queue) for name in names]
    ledger = Ledger(queues, {"held": held})
    return ledger.shortfall([_need(case, gpus)], over_quota=OverQuota.ALLOW) is None


def _need(case: Case, gpus: int) -> QueueDemand:
    amounts = {"gpu": Fraction(gpus), "cpu": Fraction(1), "memory": Fraction(2**30)}
    return QueueDemand(queue=case.name, amounts=amounts, is_preemptible=_PRIORITIES[case.priority])


def test_the_queue_controller_tells_what_is_allocated_in_kubernetes_quantities(world: World) -> None:
    world.node("gpu-0", gpus=8)
    world.pod("one", queue="training", gpus=2, cpu="1500m", memory="3Gi")
    world.pod("two", queue="training", gpus=1, priority="build")
    told = {GPU_RESOURCE: "3", "cpu": "2500m", "memory": "4Gi"}
    world.eventually("both are told", lambda: world.told_of("training", "allocated") == told)
    firm = {GPU_RESOURCE: "1", "cpu": "1", "memory": "1Gi"}
    world.eventually("one is firm", lambda: world.told_of("training", "allocatedNonPreemptible") == firm)
