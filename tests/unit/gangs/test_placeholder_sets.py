"""A set of placeholders is read from the templates that were written for it."""

import msgspec
import pytest

from muster.controller.gangs.identity import template_name
from muster.controller.gangs.objects import Node, PodTemplate, Taint
from muster.controller.gangs.placeholder_sets import ASKED, asked, has_changed, is_leaving, sets_of
from tests.unit.gangs.paper import START, node

replace = msgspec.structs.replace


def _template(request: str, number: int, count: int, total: int) -> PodTemplate:
    metadata = {
        "name": template_name(request, number),
        "namespace": "team-a",
        "annotations": {ASKED: asked(count, total)},
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    return msgspec.convert({"metadata": metadata, "template": {}}, PodTemplate)


def test_a_set_of_eleven_pod_sets_has_them_in_their_order() -> None:
    total = sum(range(1, 12))
    templates = [_template("muster-a", number, number + 1, total) for number in reversed(range(11))]
    (found,) = sets_of(templates, (), node=lambda _: None)
    assert [each.count for each in found.spec.pod_sets] == list(range(1, 12))


BEFORE = node("l4-1", "l4")
PRESSURE = Taint(key="node.kubernetes.io/disk-pressure", effect="NoSchedule")


CORDONED = replace(BEFORE, spec=replace(BEFORE.spec, unschedulable=True))
GOING = replace(BEFORE, metadata=replace(BEFORE.metadata, deletion_timestamp=START))


@pytest.mark.parametrize(
    ("held", "leaves"),
    [(BEFORE, False), (node("l4-1", "l4", ready=False), False), (CORDONED, True), (GOING, True)],
    ids=["ready", "not ready", "cordoned", "deleted"],
)
def test_a_node_leaves_that_takes_no_pod_any_more(held: Node, leaves: bool) -> None:
    assert is_leaving(held) is leaves


@pytest.mark.parametrize(
    ("after", "is_news"),
    [
        (None, True),
        (replace(BEFORE, metadata=replace(BEFORE.metadata, resource_version="2")), False),
        (node("l4-1", "l4", ready=False), True),
        (CORDONED, True),
        (replace(BEFORE, spec=replace(BEFORE.spec, taints=(PRESSURE,))), True),
        (replace(BEFORE, status=replace(BEFORE.status, allocatable={"cpu": "4"})), True),
    ],
    ids=["deleted", "written again", "not ready", "cordoned", "under pressure", "without its GPU"],
)
def test_a_gang_is_looked_at_when_a_node_of_its_placeholders_is_another_node_to_it(
    after: Node | None, is_news: bool
) -> None:
    assert has_changed(BEFORE, after) is is_news
