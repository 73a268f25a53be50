"""When so many nodes are silent that the network is at fault, not they."""

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from muster.controller.gangs.objects import Condition, Node, NodeStatus
from muster.controller.gangs.outages import is_silent
from muster.controller.kube.resource import ObjectMeta
from tests.unit.gangs.paper import silent_together


def node(name: str, *, ready: str = "True", zone: str = "a") -> Node:
    return Node(
        metadata=ObjectMeta(name=name, labels={"topology.kubernetes.io/zone": zone}),
        status=NodeStatus(conditions=(Condition(type="Ready", status=ready),)),
    )


def zone(name: str, *, silent: int, heard: int, ready: str = "Unknown") -> list[Node]:
    return [
        *(node(f"{name}-silent-{number}", ready=ready, zone=name) for number in range(silent)),
        *(node(f"{name}-{number}", zone=name) for number in range(heard)),
    ]


@pytest.mark.parametrize(
    ("silent", "heard", "is_outage"),
    [(3, 0, True), (11, 9, True), (5, 5, False), (2, 0, False), (0, 9, False)],
)
def test_an_outage_begins_at_three_silent_nodes_that_are_most(
    silent: int, heard: int, is_outage: bool
) -> None:
    assert len(silent_together(zone("a", silent=silent, heard=heard))) == (silent if is_outage else 0)


def test_it_is_judged_by_zone() -> None:
    found = silent_together([*zone("a", silent=4, heard=0), *zone("b", silent=1, heard=20)])
    assert found == {f"a-silent-{number}" for number in range(4)}


def test_it_is_judged_of_the_cluster_as_a_whole() -> None:
    """A zone of two nodes is too small to judge by itself."""
    nodes = [each for name in "abc" for each in zone(name, silent=2, heard=0)]
    assert len(silent_together(nodes)) == 6


def test_nodes_that_report_to_be_broken_are_not_silent() -> None:
    assert not silent_together(zone("a", silent=9, heard=0, ready="False"))


def test_a_node_that_is_being_deleted_is_not_silent() -> None:
    silent = node("a", ready="Unknown")
    assert is_silent(silent)
    gone = replace(silent.metadata, deletion_timestamp=datetime.now(UTC))
    assert not is_silent(replace(silent, metadata=gone))
