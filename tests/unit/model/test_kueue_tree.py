"""The queue tree of a stack is the tree of the objects that it renders, and of anyone's objects."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from muster import config
from muster.live.snapshot.kueue import read_tree
from muster.model.kueue.tree import Tree, to_tree
from muster.model.stack import Scheduler, Stack
from muster.render import queues
from tests.unit.model.kueue_stacks import kueue_stacks

_STACKS = sorted((Path(__file__).parents[3] / "stacks").glob("Pulumi.*.yaml"))


def _figures(tree: Tree) -> dict[tuple[bool, str], tuple[object, ...]]:
    """What Kueue decides by, under the objects' names."""
    return {
        (node.is_team, node.object_name): (
            None if node.parent is None else tree.nodes[node.parent].object_name,
            node.groups,
            node.weight,
            node.within,
            node.reclaim,
            node.holdings,
        )
        for node in tree.nodes.values()
    }


def _assert_same(stack: Stack) -> None:
    objects = json.loads(json.dumps(queues.objects(stack)))
    assert _figures(read_tree(objects, stack.pools)) == _figures(to_tree(stack))


@pytest.mark.parametrize("path", _STACKS, ids=lambda path: path.stem)
def test_a_shipped_stack_is_read_back_from_its_objects(path: Path) -> None:
    stack = config.load(path)
    if stack.scheduler is Scheduler.KUEUE:
        _assert_same(stack)


@given(kueue_stacks())
def test_any_stack_is_read_back_from_its_objects(stack: Stack) -> None:
    _assert_same(stack)


def _object(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    return {"kind": kind, "metadata": {"name": name}, "spec": spec}


def test_a_cohort_that_is_only_named_is_in_the_tree() -> None:
    tree = read_tree([_object("ClusterQueue", "vision", cohortName="research")])
    assert [node.name for node in tree.chain("vision")] == ["vision", "research"]


def test_a_cohort_with_the_name_of_a_queue_is_another_node() -> None:
    objects = [_object("ClusterQueue", "ml", cohortName="ml"), _object("Cohort", "ml", parentName="all")]
    assert [node.object_name for node in read_tree(objects).chain("ml")] == ["ml", "ml", "all"]


def test_a_circle_of_cohorts_has_a_top() -> None:
    objects = [_object("Cohort", "a", parentName="b"), _object("Cohort", "b", parentName="a")]
    tree = read_tree([*objects, _object("ClusterQueue", "vision", cohortName="b")])
    assert [node.name for node in tree.chain("vision")] == ["vision", "b", "a"]
