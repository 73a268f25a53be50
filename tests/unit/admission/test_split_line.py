"""The line of split gangs: what it costs, how fast it passes on, and what holds it up."""

import dataclasses
import random
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from muster.controller.gangs.templates import POOL
from muster.controller.gangs.turn_order import Line, TurnPosition
from muster.controller.kube.errors import TransportError
from muster.controller.kube.resource import Key
from muster.controller.kueue.decide import decide
from muster.controller.kueue.objects import Workload
from muster.controller.kueue.snapshot import WorkloadSnapshot
from tests.unit.admission.fleet import ONE_SHAPE, SPACE, TWO_SHAPES, Fleet, Pieces, costs
from tests.unit.admission.gang_world import CHECK, POLICY
from tests.unit.controller_runtime.virtual import now as virtual_now
from tests.unit.controller_runtime.virtual import on_virtual_time
from tests.unit.gangs.paper import START, flavor_policy

MINUTES = 60.0


# What it costs


@pytest.mark.parametrize("count", [25, 50])
def test_a_gang_costs_the_same_calls_however_many_wait_in_its_pools(count: int) -> None:
    """Each template, each request, and that it is Ready; of pods that are alike one is tried. It is
    reconciled for its quota, each turn, each answer of the cloud and its admission, and for no other gang. Of
    the turns each takes one call and the answer of the cloud, 25 ms each: a gang that waits has written the
    templates of all its requests meanwhile.
    """
    found = costs(count, lambda _: TWO_SHAPES)
    assert found.reconciles <= 7
    assert found.last_ready < count * (0.025 + 0.025) + 0.5
    calls = dict(found.calls)
    assert calls.pop("try Pod") * count == 2
    assert calls == {"create PodTemplate": 2, "create ProvisioningRequest": 2, "apply Workload": 1}


def test_a_gang_of_one_shape_costs_four_calls() -> None:
    assert costs(1, lambda _: ONE_SHAPE).calls == {
        "try Pod": 1,
        "create PodTemplate": 1,
        "create ProvisioningRequest": 1,
        "apply Workload": 1,
    }


@pytest.mark.parametrize(("pieces", "count"), [(ONE_SHAPE, 1), (TWO_SHAPES, 2)])
@on_virtual_time
async def test_the_end_of_a_gang_is_not_confirmed_by_a_read(pieces: Pieces, count: int) -> None:
    """Each template and each request; that it has finished is never taken back."""
    fleet = Fleet()
    fleet.submit("a", pieces)
    view = fleet.view
    finished: list[str] = []

    def is_over() -> bool:
        if "a" in fleet.ready and not finished:
            finished.append("a")
            fleet.api.calls.clear()
            fleet.finish("a")
        return bool(finished) and not len(view.requests.store) + len(view.templates.store)

    await fleet.run(is_over)
    assert fleet.api.calls == {"delete ProvisioningRequest": count, "delete PodTemplate": count}


@pytest.mark.parametrize("count", [10, 30])
def test_what_a_gang_reports_does_not_change_with_those_before_it(count: int) -> None:
    """Its turn, each request that is not accepted, each pool whose nodes have not come, that it is Ready."""
    calls = costs(count, lambda _: TWO_SHAPES, accepts=lambda _: 30.0, starts=lambda _: 8 * MINUTES).calls
    assert calls["apply Workload"] <= 6


@on_virtual_time
async def test_a_waiting_gang_names_its_pool_and_no_other_gang() -> None:
    fleet = Fleet(accepts=lambda _: 1000.0)
    for name in ("a", "b"):
        fleet.submit(name, TWO_SHAPES)

    def said() -> str:
        held = fleet.view.workloads.get(Key(SPACE, "b"))
        entry = held.check_state(CHECK) if held else None
        return entry.message if entry else ""

    await fleet.run(lambda: bool(said()))
    assert said().startswith("waits for its turn at pool h100 (limit 2h)")


@on_virtual_time
async def test_gangs_that_run_or_are_gone_cost_the_line_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the start of a leader there are tens of thousands that run; a replica that waits keeps none."""
    fleet = Fleet()
    workloads, line = fleet.view.workloads, fleet.view.split_gangs
    looked: list[str] = []
    for name in ("runs", "gone"):
        fleet.submit(name, TWO_SHAPES)
    base = line._base_snapshot

    def recorded(workload: Workload, check: str, now: datetime) -> WorkloadSnapshot:
        looked.append(workload.metadata.name)
        return base(workload, check, now)

    monkeypatch.setattr(line, "_base_snapshot", recorded)
    fleet.api.condition(workloads.get(Key(SPACE, "runs")), "Admitted")
    if (gone := workloads.get(Key(SPACE, "gone"))) is not None:
        workloads.store.remove(gone)
    line.reconciling(Key(SPACE, "other"), now=START)
    assert looked == []
    assert not line._changed


# How fast it passes on


@pytest.mark.parametrize(
    "slow", [{"h100": 8 * MINUTES, "l4": 8 * MINUTES}, {"h100": 8 * MINUTES, "l4": 3 * MINUTES}]
)
def test_ten_gangs_with_stock_for_all_gather_at_once(slow: dict[str, float]) -> None:
    """Also where their pools' nodes come at different times. The cloud takes five seconds to accept."""
    found = costs(10, lambda _: TWO_SHAPES, stock=99, accepts=lambda _: 5.0, starts=lambda pool: slow[pool])
    assert found.last_ready < 12 * MINUTES


@on_virtual_time
async def test_every_pool_is_asked_in_one_order() -> None:
    """Three pools, gangs that need two of them each: no two clouds see two gangs in different orders."""
    pairs = (("l4", "h100"), ("l4", "cpu"), ("cpu", "h100"))
    chance = random.Random(7)
    fleet = Fleet(accepts=lambda _: chance.uniform(0.0, 2.0))
    names = [f"gang-{number}" for number in range(12)]
    for number, name in enumerate(names):
        one, two = pairs[number % 3][:2] if number % 3 == 0 else ("l4", "h100")
        fleet.submit(name, {"big": (two, 1), "small": (one, 1)})
    await fleet.run(lambda: len(fleet.ready) == len(names))
    of = {each.key.name: each.metadata.labels for each in fleet.view.requests.store}
    orders = {
        pool: [of[name]["muster.dev/workload-uid"] for name in accepted]
        for pool, accepted in fleet.cloud.accepted.items()
    }
    assert orders["h100"] == orders["l4"]


@on_virtual_time
async def test_the_next_gang_begins_when_the_one_before_it_is_deleted() -> None:
    """No other gang is there whose reconcile would notice it."""
    fleet = Fleet(accepts=lambda _: 1000.0)
    for name in ("a", "b"):
        fleet.submit(name, TWO_SHAPES)
    view, deleted = fleet.view, list[float]()

    def has_begun() -> bool:
        gang = view.workloads.get(Key(SPACE, "a"))
        if gang is not None and virtual_now() > 20.0:
            deleted.append(virtual_now())
            view.workloads.store.remove(gang)
            for request in view.requests.store:
                view.requests.store.remove(request)
            for template in view.templates.store:
                view.templates.store.remove(template)
        return "b" in fleet.asked

    await fleet.run(has_begun)
    assert fleet.asked["b"] < deleted[0] + 1.0


# What holds it up


def test_whichever_gang_closes_a_circle_of_three_its_last_one_gives_way() -> None:
    """The cloud serves the first two later than the last one."""

    def holds(uid: str, minute: int, held: str, short: str) -> TurnPosition:
        since, pools = START + timedelta(minutes=minute), frozenset({held, short})
        own, lacks = frozenset({held}), frozenset({short})
        return TurnPosition(uid=uid, since=since, pools=pools, asked=pools, held=own, short=lacks)

    gangs = [holds("1", 1, "b", "c"), holds("2", 2, "a", "b"), holds("3", 3, "c", "a")]
    for closing in gangs[:2]:
        line = Line(gangs)
        assert [gang.uid for gang in gangs if line.must_give_way(gang)] == ["3"]
        assert [gang.uid for gang in line.affected_by(closing)] == ["3"]


def test_a_gang_that_holds_two_pools_gives_way_to_one_that_lacks_either() -> None:
    pools = frozenset({"a", "b", "c"})

    def holds(minute: int, held: set[str], short: str) -> TurnPosition:
        since, lacks = START + timedelta(minutes=minute), frozenset({short})
        return TurnPosition(
            uid=str(minute), since=since, pools=pools, asked=pools, held=frozenset(held), short=lacks
        )

    first, last = holds(1, {"c"}, "a"), holds(2, {"a", "b"}, "c")
    line = Line([first, last])
    assert line.must_give_way(last) == pools
    assert not line.must_give_way(first)


def test_a_gang_that_is_put_into_the_line_again_has_one_place() -> None:
    pools = frozenset({"a"})
    first, last = (
        TurnPosition(uid=uid, since=START, priority=priority, pools=pools, unaccepted=pools, next_pool="a")
        for uid, priority in (("first", 2), ("last", 1))
    )
    line = Line([first, last])
    line.put(dataclasses.replace(first, priority=3))
    assert line.must_wait(last)
    line.remove("first")
    assert not line.must_wait(last)


def test_gangs_of_lower_priority_are_looked_at_when_placeholders_of_a_higher_one_wait_for_a_node() -> None:
    pools = frozenset({"a"})

    def waits(uid: str, priority: int) -> TurnPosition:
        return TurnPosition(
            uid=uid, since=START, priority=priority, pools=pools, asked=pools, short=pools, by_pods=pools
        )

    low, high = waits("low", 1), waits("high", 100)
    assert list(Line([low, high]).affected_by(high)) == [low]
    assert list(Line([low, high]).affected_by(low)) == []


@on_virtual_time
async def test_a_gang_whose_write_failed_delays_others_again_when_it_comes_back() -> None:
    fleet = Fleet()
    fleet.submit("a", TWO_SHAPES)
    fleet.submit("b", TWO_SHAPES)
    view, line = fleet.view, fleet.view.split_gangs

    def snapshot(name: str) -> WorkloadSnapshot:
        held = view.workloads.get(Key(SPACE, name))
        assert held is not None
        return view.snapshot(held, CHECK, now=START)

    def b_waits_while_a_asks() -> bool:
        mine = snapshot("a")
        with line.asking(mine, decide(mine)):
            return line.has_turn(snapshot("b"))[0]

    asking = snapshot("a")
    with pytest.raises(TransportError), line.asking(asking, decide(asking)):
        raise TransportError("no answer", call="create")
    assert not line.has_turn(snapshot("b"))[0]
    held = asking.workload
    fleet.api.change(held, status=msgspec.structs.replace(held.status, conditions=()))
    snapshot("b")
    fleet.submit("a", TWO_SHAPES)
    assert b_waits_while_a_asks()


def _hangs(pool: str) -> Callable[[str, Any], bool]:
    """The first request of this pool."""
    hung: list[str] = []

    def hangs(_: str, body: Any) -> bool:
        if body["metadata"]["annotations"].get(POOL) != pool or "spec" not in body or hung:
            return False
        hung.append(body["metadata"]["name"])
        return True

    return hangs


POOLS = ("l4", "h100", "a", "b")


@on_virtual_time
async def test_a_create_that_hangs_delays_no_gang_outside_its_pools() -> None:
    """Twenty gangs behind it in its pools, twenty in other pools, and five that need no turn."""
    fleet = Fleet(hangs=_hangs("h100"), pools=POOLS, policy=_policy())
    behind = [f"behind-{number}" for number in range(20)]
    others = [f"other-{number}" for number in range(20)]
    whole = [f"whole-{number}" for number in range(5)]
    for name in (*behind, *others, *whole):
        pieces = {"behind": TWO_SHAPES, "other": {"big": ("a", 1), "small": ("b", 1)}, "whole": ONE_SHAPE}
        fleet.submit(name, pieces[name.partition("-")[0]])
    free = {*others, *whole}
    await fleet.run(lambda: free <= fleet.ready.keys())
    assert max(fleet.ready[name] for name in free) < 10.0


@on_virtual_time
async def test_a_gang_whose_requests_cannot_be_written_delays_others_no_longer_than_its_try() -> None:
    fleet = Fleet(hangs=lambda _, body: body["metadata"]["labels"]["muster.dev/workload-uid"] == "uid-a")
    for name in ("a", "b", "c"):
        fleet.submit(name, TWO_SHAPES)
    await fleet.run(lambda: {"b", "c"} <= fleet.ready.keys())
    assert fleet.ready["c"] < 60.0


def _policy() -> Any:
    flavors = tuple(flavor_policy(name, number) for number, name in enumerate(POOLS))
    return dataclasses.replace(POLICY, flavors=flavors)
