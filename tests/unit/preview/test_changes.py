"""A comparison finds every difference, counts none twice, and is symmetric."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings

from muster.config import load
from muster.model.keys import Seconds
from muster.model.kueue.tree import in_pool_unit, nominal_quota, to_tree
from muster.model.pools import Pool
from muster.model.priorities import Priority
from muster.model.quantities import Bytes
from muster.model.queues import Allowance, Bound, Department, Limit
from muster.model.quotas import NOTHING
from muster.model.stack import PodsReady, Scheduler, Stack
from muster.preview.compare.diff import compare
from muster.preview.compare.preemption import KueueRules, PreemptionChange
from muster.preview.markdown import format_comment
from muster.preview.report import to_report
from tests.length import examples
from tests.unit.model.model_stacks import CPU, H100, L4, gpus, stack, stacks, team, two_teams
from tests.unit.preview.preview_world import LOCAL, ROOT, diff

_FEW = settings(max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.too_slow])


def _total(found: Stack, pool: Pool) -> int:
    total = NOTHING
    for node in to_tree(found).nodes.values():
        total += nominal_quota(node, pool.name)
    return in_pool_unit(pool, total)


@_FEW
@given(stacks())
def test_a_stack_does_not_differ_from_itself(one: Stack) -> None:
    assert compare(one, one).is_empty


@_FEW
@given(stacks(), stacks())
def test_what_teams_and_departments_gain_is_what_the_pools_guarantee_more(one: Stack, two: Stack) -> None:
    found = compare(one, two)
    for pool in (L4, H100):
        gained = sum(change.difference for change in found.quotas if change.pool.name == pool.name)
        assert gained == _total(two, pool) - _total(one, pool)
        listed = [each for each in found.sums if each.name == pool.name]
        assert (
            sum(in_pool_unit(pool, each.after) - in_pool_unit(pool, each.before) for each in listed) == gained
        )


@_FEW
@given(stacks(), stacks())
def test_the_way_back_is_the_mirror_image(one: Stack, two: Stack) -> None:
    there, back = compare(one, two), compare(two, one)
    assert {(row.name, row.pool.name, row.before, row.after) for row in there.quotas} == {
        (row.name, row.pool.name, row.after, row.before) for row in back.quotas
    }
    flipped = [replace(row, is_new=not row.is_new) for row in back.preemption]
    assert _pairs(there.preemption) == _pairs(tuple(flipped))


@_FEW
@given(stacks(), stacks())
def test_comparing_groups_equals_comparing_each_pair_of_teams(one: Stack, two: Stack) -> None:
    before, after = KueueRules.of(to_tree(one)), KueueRules.of(to_tree(two))
    expected = set()
    teams = {*before.profiles, *after.profiles}
    for first in teams:
        for second in teams - {first}:
            had, has = before.rights(first, second), after.rights(first, second)
            expected |= {(first, second, pool, True) for pool in has if pool not in had}
            expected |= {(first, second, pool, False) for pool in had if pool not in has}
    found = compare(one, two)
    assert _pairs(found.preemption) == expected
    inside = {name: before.can_preempt_within(name) for name in teams}
    for row in found.preemption:
        if row.right is None:
            assert all(inside[name] is not row.is_new for name in row.preemptors)


def _pairs(rows: tuple[PreemptionChange, ...]) -> set[tuple[str, str, str, bool]]:
    return {
        (one, two, pool, row.is_new)
        for row in rows
        if row.right is not None
        for one in row.preemptors
        for two in row.victims
        for pool in row.pools
        if one != two
    }


@_FEW
@given(stacks())
def test_no_queue_reaches_more_than_its_tree_guarantees_nor_less_than_its_own(one: Stack) -> None:
    tree = to_tree(one)
    for name, pool in tree.pools.items():
        reach = tree.reach(name)
        for team_node in tree.teams():
            root = tree.chain(team_node.name)[-1].name
            everything = sum(
                in_pool_unit(pool, nominal_quota(node, name))
                for node in tree.nodes.values()
                if tree.chain(node.name)[-1].name == root
            )
            assert (
                in_pool_unit(pool, nominal_quota(team_node, name)) <= reach[team_node.name].most <= everything
            )


def test_a_department_sums_all_below_it() -> None:
    def nested(quota: int) -> Stack:
        inner = Department(name="vision", teams=(team("team-a", Allowance(quota={"l4": gpus(quota)})),))
        pot = Allowance(quota={"l4": gpus(1)})
        return stack(Department(name="research", allowance=pot, departments=(inner,)))

    rows = {row.path: row for row in compare(nested(2), nested(5)).quotas if row.pool.name == "l4"}
    top = rows[("research",)]
    assert top.before is not None
    assert top.after is not None
    assert (top.before.own.gpus, top.before.sums.gpus, top.after.own.gpus, top.after.sums.gpus) == (
        1,
        3,
        1,
        6,
    )
    assert set(rows) == {("research",), ("research", "vision"), ("research", "vision", "team-a")}


def test_a_team_that_stops_lending_changes_reach_and_borrowing_of_others() -> None:
    first = Allowance(quota={"l4": gpus(1)}, borrow=Limit(pools={"l4": Bound.ALL}))
    lends, keeps = (
        Allowance(quota={"l4": gpus(2)}, lend=Limit(pools=limit)) for limit in ({}, {"l4": Bound.NONE})
    )
    found = compare(two_teams(first, lends), two_teams(first, keeps))
    rows = {(row.name, row.pool.name): row.is_indirect for row in found.quotas if row.is_team}
    assert rows == {("team-a", "l4"): True, ("team-b", "l4"): False}
    assert [(row.name, before, after) for row, before, after in found.borrowing()] == [("team-a", 2, 0)]


def test_a_team_that_does_not_change_gains_a_victim_and_keeps_the_one_it_had() -> None:
    owner = Allowance(quota={"l4": gpus(2), "h100": gpus(8)})
    before = Allowance(borrow=Limit(pools={"l4": gpus(1)}))
    after = Allowance(borrow=Limit(pools={"l4": gpus(2), "h100": Bound.ALL}))
    found = compare(two_teams(owner, before), two_teams(owner, after))
    assert _pairs(found.preemption) == {("team-a", "team-b", "h100", True)}
    assert [(row.name, row.pool.name) for row, _, _ in found.borrowing()] == [("team-b", "h100")]


def test_a_change_of_memory_alone_is_a_change() -> None:
    before = Allowance(quota={"l4": gpus(1)})
    after = Allowance(quota={"l4": replace(gpus(1), memory=Bytes(3 * 2**30))})
    found = compare(two_teams(before), two_teams(after))
    assert [(row.name, row.pool.name, row.is_indirect) for row in found.quotas if row.is_team] == [
        ("team-a", "l4", False)
    ]


def test_a_gpu_that_moves_leaves_the_sum_as_it_is_however_its_memory_is_rounded() -> None:
    def shared(*quotas: int) -> Stack:
        return two_teams(*(Allowance(quota={"l4": gpus(number)}) for number in quotas))

    def memory(found: Stack) -> int:
        return sum(nominal_quota(node, "l4").memory for node in to_tree(found).nodes.values())

    before = shared(6, 2)
    others = [
        after for after in (shared(7, 1), shared(5, 3), shared(3, 5)) if memory(after) != memory(before)
    ]
    assert others, "no sum of these was rounded"
    for after in others:
        found = compare(before, after)
        assert [row.name for row in found.quotas if row.pool.name == "l4"] == ["team-a", "team-b"]
        assert not found.sums


def test_settings_of_every_room_of_the_stack_are_compared() -> None:
    base = two_teams(Allowance())
    moved = stack(
        Department(name="research", teams=(team("team-a", Allowance(weight=3), priorities=("dev",)),)),
        Department(name="product", teams=(team("team-b"),)),
    )
    head = replace(
        moved, priorities=(Priority(7, "dev"), Priority(9, "prod")), pods_ready=PodsReady(timeout=Seconds(60))
    )
    listed = {each.place: (each.before, each.after) for each in compare(base, head).settings}
    assert listed == {
        "priorities": ("1000 prod, 100 dev", "9 prod, 7 dev"),
        "pods ready: timeout": ("900", "60"),
        "team team-a: priorities": (None, "dev"),
        "team team-a: weight": (None, "3"),
        "team team-b: within": ("research", "product"),
    }


def test_added_removed_and_changed_pools_are_listed() -> None:
    base = stack(Department(name="research", teams=(team("team-a"),)), pools=(CPU, L4))
    grown = replace(CPU, max_nodes=9)
    head = stack(Department(name="research", teams=(team("team-a"),)), pools=(grown, H100))
    found = {each.name: (each.before, each.after) for each in compare(base, head).pools}
    assert found == {"cpu": (CPU, grown), "h100": (None, H100), "l4": (L4, None)}


def test_a_stack_that_was_not_there_is_new_in_all_its_parts() -> None:
    found = compare(None, two_teams(Allowance(quota={"l4": gpus(1)})))
    assert {row.before for row in found.quotas} == {None}
    assert all(row.is_new for row in found.preemption)
    assert not found.settings


def test_kai_is_compared_by_its_own_rules() -> None:
    """To KAI work of 100 and more is never evicted: what prod could do to dev is over."""
    one, two = Allowance(), Allowance(quota={"l4": gpus(1)})
    base, head = (
        stack(Department(name="r", teams=(team("a", each, priorities=("prod", "dev")),)))
        for each in (one, two)
    )
    found = compare(base, replace(head, scheduler=Scheduler.KAI))
    assert [row.is_new for row in found.preemption if row.right is None] == [False]
    assert found.not_compared == ()


def test_too_many_groups_are_reported_as_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    base = two_teams(Allowance(quota={"l4": gpus(1)}, borrow=Limit(otherwise=Bound.ALL)))
    head = two_teams(Allowance(), Allowance(quota={"l4": gpus(1)}))
    monkeypatch.setattr("muster.preview.compare.preemption._MAX_PAIRS", 1)
    found = compare(base, head)
    assert not found.preemption
    assert "too many to compare" in found.not_compared[0]


def test_a_setting_that_is_a_set_is_written_in_the_same_order_in_every_run() -> None:
    base, head = load(ROOT / "stacks" / "Pulumi.gke-prod.yaml"), load(LOCAL)
    found = {each.place: each.before for each in compare(base, head).settings}
    bought = found["cluster: system pool machine bought"]
    assert bought is not None
    assert bought.split(", ") == sorted(bought.split(", "))
    assert "frozenset" not in "".join(each for each in found.values() if each)
    assert "" not in found.values(), "an empty set is no setting"


def test_a_report_of_a_changed_order_of_pools_says_which_pool_gets_work_first() -> None:
    """A file whose lines were moved changes no figure, and where work goes."""
    one, two = (replace(H100, name=name) for name in ("one", "two"))
    before, after = (stack(pools=pools) for pools in ((CPU, one, two), (CPU, two, one)))
    comment = format_comment(to_report([diff(before, after)]))
    assert "work goes to `two` before `one`" in comment
    assert "After: `cpu`, `two`, `one`." in comment
    kai = [replace(side, scheduler=Scheduler.KAI) for side in (before, after)]
    assert compare(*kai).is_empty, "KAI tries pools in no order"
