"""Cases on virtual time, before stand-ins for the API server, the scheduler and the cloud.

The controller's own loop runs in tests/unit/admission/fleet.py, and with KAI its view over the world of
tests/unit/kai. Calls and virtual seconds are exact and the same on every machine; CPU is this one's and
includes the stand-ins. For a real API server see cases.py.
"""

import dataclasses
import logging
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec
import structlog

from muster.controller.gangs.objects import Condition, Node, Pod, PodSpec
from muster.controller.kai.decide import decide
from muster.controller.kai.view import View
from muster.controller.kube.resource import Key, ObjectMeta
from muster.controller.kueue.decide import decide as kueue_decide
from muster.model.names import CONSUME_ANNOTATION, GKE_LEASE_LABEL
from tests.unit.admission.fleet import ONE_SHAPE, SPACE, TWO_SHAPES, Costs, Fleet, Pieces, costs
from tests.unit.admission.gang_world import CHECK, POLICY
from tests.unit.controller_runtime.virtual import now as virtual_now
from tests.unit.controller_runtime.virtual import virtual
from tests.unit.gangs.paper import flavor_policy
from tests.unit.gangs.slow_api import moment
from tests.unit.kai.kai_world import Group, World, queue
from tests.unit.kai.test_kai_view import view_of

replace = msgspec.structs.replace
Figures = Mapping[str, float]

_SILENT_SECONDS: Final = 180.0
_WAITING: Final = 400
"""Gangs that wait for room in the queue whose status changes."""


def run(name: str, count: int) -> Figures:
    """The figures of one case, by name."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    return CASES[name](count)


def row(case: str, figures: Figures) -> str:
    """One line of a Markdown table; `header` is the one above."""
    return f"| {case} | {' | '.join(f'{figure:,.1f}' for figure in figures.values())} |"


def header(figures: Figures) -> str:
    return f"| case | {' | '.join(figures)} |\n|---|{'---:|' * len(figures)}"


def _of(found: Costs) -> Figures:
    return {
        "status writes a gang": found.calls.get("apply Workload", 0),
        "calls a gang": sum(found.calls.values()),
        "reconciles a gang": found.reconciles,
        "CPU a gang, ms": found.cpu,
        "first request, s": found.last_asked,
        "last Ready, s": found.last_ready,
    }


def _gangs(pieces: Pieces, **settings: Any) -> Callable[[int], Figures]:
    return lambda count: _of(costs(count, lambda _: pieces, **settings))


def _disjoint(count: int) -> Figures:
    pools = tuple(f"pool-{number}" for number in range(2 * count))
    policy = dataclasses.replace(
        POLICY, flavors=tuple(flavor_policy(name, number) for number, name in enumerate(pools))
    )
    gangs: list[Pieces] = [
        {"big": (pools[2 * number], 1), "small": (pools[2 * number + 1], 1)} for number in range(count)
    ]
    return _of(costs(count, lambda number: gangs[number], policy=policy, pools=pools))


def _partition(count: int) -> Figures:
    """Running gangs; then nothing is heard of any node for three minutes, and then they answer again."""

    async def scenario() -> tuple[Fleet, Counter[str], float]:
        fleet = Fleet()
        for number in range(count):
            fleet.submit(f"gang-{number:04}", TWO_SHAPES)
        ends = [float("inf")]
        before: Counter[str] = Counter()
        begun = [0.0]

        def is_over() -> bool:
            if ends[0] == float("inf") and len(fleet.ready) == count:
                _start_pods(fleet)
                before.update(fleet.api.calls)
                begun[0], ends[0] = time.process_time(), virtual_now() + 2 * _SILENT_SECONDS
                _answer(fleet, "Unknown")
            elif ends[0] - virtual_now() < _SILENT_SECONDS:
                _answer(fleet, "True")
            return virtual_now() >= ends[0]

        await fleet.run(is_over)
        return fleet, before, begun[0]

    fleet, before, begun = virtual(scenario())
    spent = 1000 * (time.process_time() - begun) / count
    since = fleet.api.calls - before
    evicted = sum(_state(fleet, f"gang-{number:04}") == "Retry" for number in range(count))
    return {
        "gangs evicted": evicted,
        "calls a gang meanwhile": sum(since.values()) / count,
        "CPU a gang, ms": spent,
    }


def _start_pods(fleet: Fleet) -> None:
    """One pod on each node: a gang without pods would lose what it was promised in an outage."""
    for node in fleet.view.nodes.store:
        request = node.metadata.labels[GKE_LEASE_LABEL].removeprefix("lease-")
        meta = ObjectMeta(name=node.metadata.name, namespace=SPACE, annotations={CONSUME_ANNOTATION: request})
        fleet.view.pods.store.put(Pod(metadata=meta, spec=PodSpec(node_name=node.metadata.name)))


def _answer(fleet: Fleet, status: str) -> None:
    ready = (Condition(type="Ready", status=status),)
    for node in _others(fleet.view.nodes.store, status):
        meta = replace(node.metadata, resource_version=fleet.api.version())
        changed = replace(node, metadata=meta, status=replace(node.status, conditions=ready))
        fleet.view.nodes.store.put(changed)


def _others(nodes: Iterable[Node], status: str) -> list[Node]:
    return [node for node in nodes if any(each.status != status for each in node.status.conditions)]


def _state(fleet: Fleet, name: str) -> str:
    held = fleet.view.workloads.get(Key(SPACE, name))
    entry = held.check_state(CHECK) if held else None
    return entry.state if entry else ""


def _kai_queue(count: int) -> Figures:
    """Running pods in a queue of KAI that is full, and gangs that wait for room in it: the queue's status
    changes, and each waiting gang is looked at.
    """
    here = World(stock={"l4": 1})
    here.queues = {"team-a": queue("team-a", quota=1, limit=1)}
    here.submit("runs", {"headgroup": Group("l4")})
    for _ in range(6):
        here.tick()
    running = next(pod for pod in here.pods.values() if pod.spec.node_name)
    waiting = [f"waits-{number:03}" for number in range(_WAITING)]
    for name in waiting:
        here.submit(name, {"headgroup": Group("l4")})
    here.kuberay()
    view = view_of(here)
    for number in range(count - 1):
        meta = replace(running.metadata, name=f"runs-{number}", uid=f"uid-runs-{number}")
        view.pods.store.put(replace(running, metadata=meta))
    _look(view, here, waiting)  # The first look reads every quantity once.
    begun = time.process_time()
    _look(view, here, waiting)
    spent = time.process_time() - begun
    return {"CPU a change, s": spent, "CPU a waiting gang, ms": 1000 * spent / len(waiting)}


def _look(view: View, here: World, names: Iterable[str]) -> None:
    for name in names:
        decide(view.snapshot(here.clusters[name], now=here.now))


def _cycle(count: int) -> Figures:
    """Gangs that wait for nodes: one pass that sorts all of them and decides for each, as decision 030
    proposes it for once a second.
    """
    spent: list[float] = []

    async def scenario() -> None:
        fleet = Fleet(stock=0)
        for number in range(count):
            fleet.submit(f"gang-{number:04}", TWO_SHAPES)
        await fleet.run(lambda: virtual_now() > _SILENT_SECONDS)
        for _ in range(5):
            begun = time.process_time()
            _decide_all(fleet)
            spent.append(time.process_time() - begun)

    virtual(scenario())
    cycle = statistics.median(spent)
    return {"CPU a cycle, ms": 1000 * cycle, "CPU a waiting gang, ms": 1000 * cycle / count}


def _decide_all(fleet: Fleet) -> None:
    held = [
        fleet.view.snapshot(workload, CHECK, now=moment()) for workload in list(fleet.view.workloads.store)
    ]
    held.sort(key=lambda each: (-each.workload.spec.priority, each.workload.metadata.creation_timestamp))
    for snapshot in held:
        kueue_decide(snapshot)


CASES: Final[dict[str, Callable[[int], Figures]]] = {
    "one-shape": _gangs(ONE_SHAPE),
    "two-shapes": _gangs(TWO_SHAPES),
    "split-line": _gangs(TWO_SHAPES, accepts=lambda _: 1.0, starts=lambda _: 480.0),
    "split-line-one-shape": _gangs(ONE_SHAPE, accepts=lambda _: 1.0, starts=lambda _: 480.0),
    "disjoint": _disjoint,
    "partition": _partition,
    "kai-queue": _kai_queue,
    "cycle": _cycle,
}
"""`one-shape`, `two-shapes`: quota for all at once, a call takes 25 ms, nodes come at once; all share their
pools. `split-line`: a cloud that takes a second to accept and nodes that take eight minutes. `disjoint`: each
gang has two pools of its own.
"""
