"""What a stack's quotas come to as KAI Queues."""

from dataclasses import replace
from typing import Any

from hypothesis import given, settings

from muster.model.kai import UNLIMITED, KaiSettings, MilliGpus, QueueSettings, Sharding, Share, Shares, within
from muster.model.kai.tree import RESOURCES, nodes
from muster.model.queues import Allowance, Bound, Department, Limit
from muster.model.stack import Scheduler, Stack
from muster.render import kai
from tests.length import examples
from tests.unit.model.model_stacks import CPU, H100, L4, gpus, stack, stacks, team


def _kai(*departments: Department, pools: Any = (CPU, L4)) -> Stack:
    return replace(stack(*departments, pools=pools), scheduler=Scheduler.KAI)


def _gpu(some: Stack) -> dict[str, tuple[float, float]]:
    """Queue -> its GPU quota and limit."""
    shares = {each["metadata"]["name"]: each["spec"]["resources"]["gpu"] for each in kai.queues(some)}
    return {name: (share["quota"], share["limit"]) for name, share in shares.items()}


def test_a_limit_is_quota_and_borrowing_and_a_top_department_keeps_to_what_it_has() -> None:
    borrowing = Allowance(quota={"l4": gpus(4)}, borrow=Limit(pools={"l4": gpus(2)}))
    free = Allowance(quota={"l4": gpus(3)}, borrow=Limit(otherwise=Bound.ALL))
    teams = (team("a", borrowing), team("b", Allowance(quota={"l4": gpus(1)})), team("c", free))
    tree = _kai(Department(name="top", teams=teams))
    assert _gpu(tree) == {"top": (8, 8), "a": (4, 6), "b": (1, 1), "c": (3, -1)}


def test_nothing_is_left_for_kai_to_read_as_nothing() -> None:
    for queue in kai.queues(_kai(Department(name="top", teams=(team("a"),)))):
        assert queue["spec"]["resources"].keys() == {"gpu", "cpu", "memory"}
        for share in queue["spec"]["resources"].values():
            assert share.keys() == {"quota", "limit", "overQuotaWeight"}


def test_figures_are_gpus_millicores_and_millions_of_bytes() -> None:
    """An a-node of g2-standard-8 brings its CPU and memory with its GPU."""
    only = _kai(Department(name="top", teams=(team("a", Allowance(quota={"l4": gpus(1)})),)), pools=(L4,))
    share = kai.queues(only)[1]["spec"]["resources"]
    assert share["gpu"]["quota"] == 1
    assert share["cpu"]["quota"] == L4.machine.allocatable_cpu
    assert share["memory"]["quota"] == L4.machine.allocatable_memory // 2**20 * 2**20 // 10**6


def test_a_part_of_a_gpu_and_unlimited_can_be_written() -> None:
    half = QueueSettings(shares=Shares(gpu=Share(quota=MilliGpus(500), limit=UNLIMITED)))
    endless = QueueSettings(shares=Shares(gpu=Share(quota=UNLIMITED)))
    tree = _kai(
        Department(name="first", teams=(replace(team("a"), kai=half),)),
        Department(name="second", teams=(replace(team("b"), kai=endless),)),
    )
    assert _gpu(tree) == {"first": (0.5, 0.5), "a": (0.5, -1), "second": (-1, -1), "b": (-1, -1)}


def test_two_gpu_pools_have_a_shard_and_queues_each_and_one_has_neither() -> None:
    teams = (team("a", Allowance(quota={"l4": gpus(1), "h100": gpus(8)})), team("b", Allowance()))
    two = _kai(Department(name="top", teams=teams), pools=(CPU, L4, H100))
    assert [each["spec"]["partitionLabelValue"] for each in kai.shards(two)] == ["cpu", "l4", "h100"]
    assert kai.leaf_queues(two) == {
        "a": {"cpu": "a-cpu", "l4": "a-l4", "h100": "a-h100"},
        "b": {"cpu": "b-cpu"},
    }
    by_name = {each["metadata"]["name"]: each for each in kai.queues(two)}
    assert by_name["a-h100"]["spec"]["parentQueue"] == "top-h100"
    assert by_name["a-h100"]["metadata"]["labels"]["muster.dev/pool"] == "h100"
    assert _gpu(two)["a-h100"] == (8, 8)
    one = _kai(Department(name="top", teams=teams[1:]))
    assert [each["metadata"]["name"] for each in kai.shards(one)] == ["default"]
    assert "partitionLabelValue" not in kai.shards(one)[0]["spec"]
    assert kai.leaf_queues(one) == {"b": {None: "b"}}


def test_a_stack_may_ask_for_a_shard_a_pool() -> None:
    some = replace(
        _kai(Department(name="top", teams=(team("a"),))), kai=KaiSettings(sharding=Sharding.PER_POOL)
    )
    assert [each["metadata"]["name"] for each in kai.shards(some)] == ["cpu", "l4"]


@settings(max_examples=examples(25))
@given(stacks())
def test_quotas_of_children_are_within_their_parents_and_within_their_own_limits(some: Stack) -> None:
    queues = list(nodes(replace(some, scheduler=Scheduler.KAI)))
    known = {node.name: node for node in queues}
    for node in queues:
        for key in RESOURCES:
            assert within(node.figures[key].quota, node.figures[key].limit)
        if node.parent is not None:
            assert node.parent in known
    for parent in queues:
        children = [node for node in queues if node.parent == parent.name]
        for key in RESOURCES:
            total = sum(int(str(child.figures[key].quota)) for child in children)
            assert within(total, parent.figures[key].quota)


@settings(max_examples=examples(25))
@given(stacks())
def test_only_teams_have_queues_without_children(some: Stack) -> None:
    queues = list(nodes(replace(some, scheduler=Scheduler.KAI)))
    parents = {node.parent for node in queues}
    assert all(node.team is not None or node.name in parents for node in queues)
    assert all(node.name not in parents for node in queues if node.team is not None)


@settings(max_examples=examples(25))
@given(stacks())
def test_parents_come_first_and_the_tree_equals_the_list(some: Stack) -> None:
    seen: set[str] = set()
    for queue in kai.queues(replace(some, scheduler=Scheduler.KAI)):
        assert queue["spec"].get("parentQueue", "") in {"", *seen}
        seen.add(queue["metadata"]["name"])
    tree = kai.by_department(replace(some, scheduler=Scheduler.KAI))
    objects = [each for teams in tree.values() for objects in teams.values() for each in objects]
    assert {each["metadata"]["name"] for each in objects if each["kind"] == "Queue"} == seen
    assert {each["metadata"]["name"] for each in objects if each["kind"] == "Namespace"} == {
        member.namespace for _, member in some.teams()
    }


def test_kais_own_classes_exist_beside_the_stacks() -> None:
    classes = {each["metadata"]["name"]: each["value"] for each in kai.priority_classes(_kai())}
    assert classes == {
        "prod": 1000,
        "dev": 100,
        "inference": 125,
        "build": 100,
        "build-preemptible": 75,
        "train": 50,
    }


def _named(**queues: QueueSettings) -> Stack:
    inner = Department(name="inner", teams=(replace(team("a"), kai=queues.get("a", QueueSettings())),))
    tops = Department(name="top", departments=(inner,), teams=(team("b"),))
    of = {name: settings for name, settings in queues.items() if name != "a"}
    inner = replace(inner, kai=of.get("inner", QueueSettings()))
    return _kai(replace(tops, departments=(inner,), kai=of.get("top", QueueSettings())))


def _parents(some: Stack) -> dict[str, str | None]:
    return {each["metadata"]["name"]: each["spec"].get("parentQueue") for each in kai.queues(some)}


def test_a_queue_may_have_another_name_than_its_owner() -> None:
    some = _named(a=QueueSettings(queue="team.a"), inner=QueueSettings(queue="research"))
    assert _parents(some) == {"top": None, "b": "top", "research": "top", "team.a": "research"}
    assert kai.names_by_team(some) == {"a": "team.a", "b": "b"}


def test_a_department_without_a_queue_passes_its_parent_on() -> None:
    assert _parents(_named(inner=QueueSettings(exists=False))) == {"top": None, "b": "top", "a": "top"}
    assert _parents(_named(top=QueueSettings(exists=False))) == {"b": None, "inner": None, "a": "inner"}


def test_a_named_queue_of_each_pool_has_the_pools_name_behind_it() -> None:
    owned = team("a", Allowance(quota={"l4": gpus(1), "h100": gpus(8)}))
    named = replace(owned, kai=QueueSettings(queue="research"))
    some = _kai(Department(name="top", teams=(named,)), pools=(L4, H100))
    assert kai.names_by_team(some)["a"] == {"l4": "research-l4", "h100": "research-h100"}
