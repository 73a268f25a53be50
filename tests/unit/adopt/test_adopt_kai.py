"""A cluster that runs KAI, read from manifests, becomes a stack that means the same."""

import copy
from typing import Any

import pytest

from muster.adopt.adoption import Adoption, adopt, format_report
from muster.adopt.compare import Fate
from muster.errors import MusterError
from muster.model.stack import Scheduler
from muster.render import kai
from muster.render.manifest import MANAGED_BY_LABEL
from tests.integration.adopt.shapes import PRIORITIES
from tests.unit.adopt.clusters import CLUSTER, Object, lost, stack_of
from tests.unit.adopt.kai_clusters import (
    DEEP,
    GUIDE,
    TREES,
    UNLIMITED,
    kai_cluster,
    node,
    priority,
    queue,
    shard,
)


def _adopted(objects: list[Object]) -> Adoption:
    return adopt(kai_cluster(objects), CLUSTER)


@pytest.mark.parametrize("tree", TREES)
def test_a_tree_of_queues_is_expressed_exactly(tree: str) -> None:
    adopted = _adopted(TREES[tree])
    assert adopted.mistakes == ()
    assert adopted.is_exact, format_report(adopted)
    assert {each.object for each in adopted.objects if each.fate is Fate.UNCHANGED} == {
        f"{each['kind']} {each['metadata']['name']}" for each in TREES[tree]
    }
    stack = stack_of(adopted)
    assert stack.scheduler is Scheduler.KAI
    assert not stack.kai.install


def test_every_figure_is_rendered_as_the_cluster_has_it() -> None:
    rendered = {each["metadata"]["name"]: each["spec"] for each in kai.queues(stack_of(_adopted(DEEP)))}
    vision = rendered["team.vision"]
    assert vision["parentQueue"] == "research"
    assert vision["resources"] == {
        "gpu": {"quota": 0.7, "limit": 2.5, "overQuotaWeight": 3},
        "cpu": {"quota": 12500, "limit": 64000, "overQuotaWeight": 1},
        "memory": {"quota": 16500, "limit": 512000, "overQuotaWeight": 0},
    }
    assert (vision["preemptMinRuntime"], vision["reclaimMinRuntime"]) == ("1h30m", "45s")
    assert rendered["research"]["displayName"] == "Research"
    assert rendered["research"]["priority"] == 120
    assert rendered["by-itself"]["resources"]["gpu"] == {"quota": 0, "limit": 2, "overQuotaWeight": 0}
    assert "parentQueue" not in rendered["by-itself"]


def test_the_tree_keeps_its_names_and_its_form() -> None:
    chains = {team.name: [each.name for each in chain] for chain, team in stack_of(_adopted(DEEP)).teams()}
    assert chains == {
        "team-vision": ["company", "research"],
        "speech": ["company", "research"],
        "sandbox": ["company"],
        "by-itself": ["independent"],
    }


def test_kais_priority_classes_keep_values_and_descriptions() -> None:
    classes = {each["metadata"]["name"]: each for each in kai.priority_classes(stack_of(_adopted(DEEP)))}
    assert classes["build"]["value"] == 101
    assert classes["train"]["description"] == "Training that may be preempted"


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        (queue("speech", "gone"), ("Queue speech", "spec.parentQueue")),
        (queue("company", "research"), ("Queue company", "spec.parentQueue")),
        (queue("speech", "research", cpu={}, gpu={"limit": 4}), ("Queue speech", "spec.resources.cpu.limit")),
        (
            shard(
                usageDBConfig={"clientType": "prometheus", "connectionString": "http://user:secret@metrics"}
            ),
            ("SchedulingShard default", "spec.usageDBConfig.connectionString"),
        ),
    ],
)
def test_what_a_stack_cannot_say_is_named_with_its_field(changed: Object, expected: tuple[str, str]) -> None:
    key = changed["kind"], changed["metadata"]["name"]
    others = [each for each in DEEP if (each["kind"], each["metadata"]["name"]) != key]
    adopted = _adopted([*others, changed])
    assert adopted.mistakes == ()
    assert expected in lost(adopted)
    assert not adopted.is_exact
    assert "secret" not in adopted.text


@pytest.mark.parametrize(
    ("resources", "path"),
    [
        ({"gpu": {**UNLIMITED, "quota": 0.3335}}, "spec.resources.gpu.quota"),
        ({"memory": {**UNLIMITED, "quota": 10.5}}, "spec.resources.memory.quota"),
        ({"cpu": {**UNLIMITED, "overQuotaWeight": 1.5}}, "spec.resources.cpu.overQuotaWeight"),
    ],
)
def test_a_figure_that_a_stack_cannot_have_is_found_by_the_comparison(
    resources: dict[str, Any], path: str
) -> None:
    adopted = _adopted([shard(), queue("department-1"), queue("team-a", "department-1", **resources)])
    (changed,) = [each for each in adopted.objects if each.fate is Fate.DIFFERENT]
    assert [each.path for each in changed.fields] == [path]
    assert not adopted.is_exact


def test_a_duration_is_kept_as_kai_has_it() -> None:
    own = queue("team-a", "department-1", spec={"preemptMinRuntime": "1h0m0.5s"})
    adopted = _adopted([shard(), queue("department-1"), own])
    assert adopted.mistakes == ()
    assert adopted.is_exact


def test_a_field_that_nothing_reads_is_found_by_the_comparison() -> None:
    objects = copy.deepcopy(GUIDE)
    objects[0]["spec"]["ofTomorrow"] = "on"
    (changed,) = [each for each in _adopted(objects).objects if each.fate is Fate.DIFFERENT]
    assert [(each.path, each.written) for each in changed.fields] == [("spec.ofTomorrow", None)]


def test_children_with_more_than_their_parent_are_a_mistake_that_is_named() -> None:
    parent = queue("department-1", gpu={"quota": 1, "limit": -1, "overQuotaWeight": 1})
    adopted = _adopted([shard(), parent, queue("team-a", "department-1")])
    assert "department-1.kai.gpu.quota" in adopted.mistakes[0]
    assert not adopted.is_exact


def test_a_cluster_without_the_default_shard_would_get_a_second_scheduler() -> None:
    adopted = _adopted([shard("l4", partitionLabelValue="l4"), *GUIDE[1:]])
    assert ("SchedulingShard default", "") in lost(adopted)
    assert "one more scheduler" in format_report(adopted)


def test_further_shards_are_left_alone() -> None:
    adopted = _adopted([*GUIDE, shard("l4", partitionLabelValue="l4")])
    assert adopted.is_exact
    assert [each.object for each in adopted.objects if each.fate is Fate.KEPT] == ["SchedulingShard l4"]


def test_nodes_that_are_alike_are_pools_where_the_queues_fit_them() -> None:
    nodes = [node(f"l4-{each}", accelerator="nvidia-l4", gpus=1) for each in range(16)]
    adopted = _adopted([*DEEP, *nodes, node("plain")])
    assert adopted.is_exact, format_report(adopted)
    assert [(pool.name, pool.max_nodes) for pool in stack_of(adopted).pools] == [("cpu", 1), ("l4", 16)]


@pytest.mark.parametrize(
    ("nodes", "reason"),
    [
        ([node("one", accelerator="nvidia-l4", gpus=1)], "quotas of 16 GPUs exceed"),
        (
            [
                node("one", accelerator="nvidia-l4", gpus=8),
                node("two", accelerator="nvidia-tesla-t4", gpus=8),
            ],
            "one GPU figure for all pools",
        ),
    ],
)
def test_nodes_that_the_queues_do_not_fit_are_no_pools(nodes: list[Object], reason: str) -> None:
    adopted = _adopted([*DEEP, *nodes])
    assert adopted.is_exact, format_report(adopted)
    assert stack_of(adopted).pools == ()
    assert reason in format_report(adopted)


def test_where_kueue_has_queues_kai_is_left_alone() -> None:
    adopted = adopt(kai_cluster(GUIDE, kueue=PRIORITIES), CLUSTER)
    assert stack_of(adopted).scheduler is Scheduler.KUEUE
    assert "the cluster has 4 of KAI as well" in format_report(adopted)


def test_queues_of_a_stack_are_not_taken_over_again() -> None:
    objects = copy.deepcopy(GUIDE)
    for each in objects:
        each["metadata"]["labels"] = {MANAGED_BY_LABEL: "muster"}
    with pytest.raises(MusterError, match="Queue default-parent-queue is a Muster stack's already"):
        _adopted(objects)


def test_another_value_of_a_class_stays() -> None:
    assert _adopted([*GUIDE, priority("inference", 130)]).is_exact
