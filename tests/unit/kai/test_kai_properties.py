"""Whatever KAI gangs meet: never over the room of a queue, never half, and in the end everybody has run."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.controller.kai.labels import is_gated
from tests.length import examples
from tests.unit.kai.kai_world import Group, World, queue
from tests.unit.kai.placed_kai_world import PlacedWorld

GANGS = st.fixed_dictionaries(
    {
        "queue": st.sampled_from(["team-a", "team-b"]),
        "priority": st.sampled_from(["train", "build-preemptible"]),
        "kind": st.sampled_from(["RayCluster", "Job", "JobSet", "PyTorchJob", "MPIJob"]),
        "groups": st.fixed_dictionaries(
            {
                "headgroup": st.builds(Group, pool=st.sampled_from(["cpu", "l4"])),
                "small": st.builds(Group, pool=st.just("l4"), replicas=st.integers(1, 2)),
                "big": st.builds(Group, pool=st.just("h100"), replicas=st.integers(1, 2)),
            }
        ),
    }
)
FAULTS = st.lists(
    st.tuples(
        st.integers(0, 30),
        st.sampled_from(["fail", "expire", "revoke", "crash", "kill-node", "lag", "evict", "rival"]),
    ),
    max_size=6,
)


# As their kinds call the groups of a gang.
NAMES = {
    "Job": {"main": "small"},
    "PyTorchJob": {"master": "headgroup", "worker": "big"},
    "MPIJob": {"launcher": "headgroup", "worker": "small"},
}


def submit(here: World, name: str, gang: dict[str, Any]) -> None:
    groups = {known: gang["groups"][each] for known, each in NAMES.get(gang["kind"], {}).items()}
    marks = {"queue": gang["queue"], "kind": gang["kind"], "priorityClassName": gang["priority"]}
    here.submit(name, groups or dict(gang["groups"]), **marks)


WORLDS = pytest.mark.parametrize("kind", [World, PlacedWorld], ids=["requests", "placeholders"])


def world(kind: type[World], quotas: tuple[int, int, int]) -> World:
    made = kind(stock={"l4": 3, "h100": 2})
    department, first, second = quotas
    made.queues = {
        "dep": queue("dep", quota=department),
        "team-a": queue("team-a", quota=first, parent="dep"),
        "team-b": queue("team-b", quota=second, parent="dep"),
    }
    return made


def strike(here: World, fault: str) -> None:
    """One mishap at whatever is there to be struck."""
    live = [name for name, item in here.requests.items() if item.status.conditions]
    match fault:
        case "fail" if live:
            here.answer(live[0], "Failed", "OUT_OF_RESOURCES")
        case "expire" if live:
            here.answer(live[-1], "BookingExpired", "BookingExpired")
        case "revoke" if live:
            here.answer(live[0], "CapacityRevoked", "Revoked")
        case "crash":
            here.crash_after = here.writes + 2
        case "kill-node" if here.nodes:
            here.take_away(next(iter(here.nodes)))
        case "evict" if isinstance(here, PlacedWorld) and here.placeholders:
            del here.placeholders[min(here.placeholders)]
        case "rival" if isinstance(here, PlacedWorld):
            here.rival()
        case "lag":
            here.schedules = not here.schedules


def assert_within_room(here: World) -> None:
    for name, held in here.queues.items():
        assert here.promised(name) <= held.spec.resources.gpu.quota, f"queue {name} gives more than it has"


@WORLDS
@settings(deadline=None, max_examples=examples(20))
@given(
    gangs=st.lists(GANGS, min_size=1, max_size=4),
    quotas=st.tuples(st.integers(4, 7), st.integers(3, 6), st.integers(3, 6)),
    faults=FAULTS,
)
def test_queues_keep_their_room_and_gangs_pass_whole_whatever_happens(
    kind: type[World],
    gangs: list[dict[str, Any]],
    quotas: tuple[int, int, int],
    faults: list[tuple[int, str]],
) -> None:
    here = world(kind, quotas)
    for number, gang in enumerate(gangs):
        submit(here, f"gang-{number}", gang)
    for minute in range(32):
        for at, fault in faults:
            if at == minute:
                strike(here, fault)
        here.tick()
        assert_within_room(here)


@WORLDS
@settings(deadline=None, max_examples=examples(10))
@given(gangs=st.lists(GANGS, min_size=2, max_size=4), faults=FAULTS)
def test_gangs_that_fit_alone_all_run_in_the_end_and_none_blocks_another_with_half(
    kind: type[World], gangs: list[dict[str, Any]], faults: list[tuple[int, str]]
) -> None:
    """Stock holds any one gang and not any two: whoever held a part and waited would block for ever."""
    here = world(kind, (5, 5, 5))
    here.stock = {"l4": 3, "h100": 2}
    started: dict[str, int] = {}
    for number, gang in enumerate(gangs):
        submit(here, f"gang-{number}", gang)
    for minute in range(900):
        for at, fault in faults:
            if at == minute and fault not in ("lag", "rival"):
                strike(here, fault)
        here.tick()
        for name in list(here.clusters):
            whole = here.of(name) and all(pod.spec.node_name for pod in here.of(name))
            if whole and minute - started.setdefault(name, minute) >= 3:
                here.end(name)
        if not here.clusters:
            break
        if not here.requests and not any(not is_gated(pod) for pod in here.pods.values()):
            here.now += timedelta(minutes=5)
    assert not here.clusters, {name: here.status(name) for name in here.clusters}
