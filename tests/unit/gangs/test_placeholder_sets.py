"""A set of placeholders is read from the templates that were written for it."""

from fractions import Fraction

import msgspec
import pytest

from muster.controller.gangs.identity import placeholder_name, template_name
from muster.controller.gangs.objects import Node, Placeholder, PodTemplate, Taint
from muster.controller.gangs.placeholder_sets import ASKED, asked, has_changed, is_leaving, sets_of
from muster.model.names import GPU_RESOURCE, PLACEHOLDER_NAMESPACE, POOL_LABEL
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


def _placeholder(
    number: int = 0, *, phase: str = "Running", requests: dict[str, str], **where: object
) -> Placeholder:
    """One on l4-1."""
    spec = {
        **where,
        "nodeName": "l4-1",
        "containers": [{"resources": {"requests": requests}}],
        "tolerations": [{"key": GPU_RESOURCE, "operator": "Exists"}],
    }
    name = placeholder_name("muster-a", 0, number)
    metadata = {"name": name, "namespace": PLACEHOLDER_NAMESPACE}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": {"phase": phase}}, Placeholder)


@pytest.mark.parametrize(("phase", "standing"), [("Failed", 1), ("Pending", 0)])
def test_a_placeholder_that_has_ended_takes_no_room_from_the_next_on_its_node(
    phase: str, standing: int
) -> None:
    requests = {GPU_RESOURCE: "1"}
    pods = [_placeholder(0, phase=phase, requests=requests), _placeholder(1, requests=requests)]
    templates = [_template("muster-a", 0, 2, 2)]
    (found,) = sets_of(templates, pods, node={"l4-1": node("l4-1", "l4")}.get)
    assert found.standing == standing


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
        (node("l4-1", "other"), True),
    ],
    ids=["deleted", "written again", "not ready", "cordoned", "under pressure", "without its GPU", "moved"],
)
def test_a_gang_is_looked_at_when_a_node_of_its_placeholders_is_another_node_to_it(
    after: Node | None, is_news: bool
) -> None:
    assert has_changed(BEFORE, after) is is_news


@pytest.mark.parametrize(
    ("taken", "is_lost"),
    [({"cpu": 2, "pods": 3}, False), ({"cpu": 5}, True), ({"pods": 21}, True), ({GPU_RESOURCE: 2}, False)],
    ids=["room", "too little of its own", "too many pods", "too little of what it does not ask for"],
)
def test_a_node_is_lost_where_the_scheduler_would_put_no_such_pod(
    taken: dict[str, int], is_lost: bool
) -> None:
    """A GPU of its node is unhealthy, which a head without one does not mind."""
    pod = _placeholder(requests={"cpu": "1"})
    used = {name: Fraction(amount) for name, amount in taken.items()}
    template = _template("muster-a", 0, 1, 1)
    (found,) = sets_of([template], [pod], node=lambda _: BEFORE, used=lambda _: used)
    assert bool(found.lost) is is_lost
    assert found.standing == (not is_lost)


@pytest.mark.parametrize(("pool", "is_lost"), [("l4", False), ("other", True)])
@pytest.mark.parametrize("by_selector", [True, False])
def test_a_node_is_lost_that_has_no_longer_the_labels_that_its_pods_ask_for(
    pool: str, is_lost: bool, by_selector: bool
) -> None:
    """Another node got its name, or a person changed its labels. The scheduler reads the labels of today."""
    terms = [{"matchExpressions": [{"key": POOL_LABEL, "operator": "In", "values": ["l4"]}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    affinity = {"affinity": {"nodeAffinity": required}}
    where = {"nodeSelector": {POOL_LABEL: "l4"}} if by_selector else affinity
    pod = _placeholder(requests={}, **where)
    (found,) = sets_of([_template("muster-a", 0, 1, 1)], [pod], node=lambda _: node("l4-1", pool))
    assert bool(found.lost) is is_lost
    assert found.standing == (not is_lost)
