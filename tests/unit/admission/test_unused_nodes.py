"""The time of nodes that were bought for a gang and not used, by cause."""

import asyncio
from datetime import datetime, timedelta
from functools import partial
from typing import cast

import pytest
from prometheus_client import CollectorRegistry

from muster.controller.gangs.metrics import GangMetrics
from muster.controller.gangs.objects import Condition, Node, Placeholder, PlaceholderStatus, Taint
from muster.controller.gangs.retry import LAST_FAILURE
from muster.controller.gangs.taints import NodeTaints
from muster.controller.gangs.unused_nodes import ALWAYS, UnusedNodes
from muster.controller.kube.resource import Key, ObjectMeta
from muster.controller.kueue.held_nodes import HeldNodes, unused_cause
from muster.controller.kueue.identity import OWNING_WORKLOAD
from muster.controller.kueue.objects import Workload
from muster.controller.runtime.controller import RequeueAfter, Result
from muster.controller.runtime.metrics import Metrics
from muster.model.names import (
    HELD_TAINT_KEY,
    OWNER_NAMESPACE_ANNOTATION,
    PLACEHOLDER_NAMESPACE,
    WORKLOAD_UID_LABEL,
)
from tests.unit.admission.gang_world import pod_spec, replace, workload
from tests.unit.admission.placed_world import PLACED
from tests.unit.admission.views import view_of
from tests.unit.gangs.paper import START, node, with_condition

SECONDS = "muster_gang_unused_node_seconds_total"
LABELS = {"pool": "l4", "reason": "asked_again"}


def placeholder() -> Placeholder:
    return Placeholder(
        metadata=ObjectMeta(
            name="muster-1-0-hold-0",
            namespace=PLACEHOLDER_NAMESPACE,
            labels={WORKLOAD_UID_LABEL: "uid-a"},
            annotations={OWNING_WORKLOAD: "a", OWNER_NAMESPACE_ANNOTATION: "team-a"},
        ),
        spec=replace(pod_spec(1), node_name="l4-1"),
        status=PlaceholderStatus(
            conditions=(Condition(type="PodScheduled", status="True", last_transition_time=START),)
        ),
    )


@pytest.mark.parametrize(
    ("state", "reason", "seconds"),
    [
        ("released", "provisionTimeout_passed", 60.0),
        ("deleted", "gang_gone", 60.0),
        ("admitted", "asked_again", None),
        ("waiting", "asked_again", 60.0),
    ],
)
def test_only_a_gang_that_started_has_used_them(state: str, reason: str, seconds: float | None) -> None:
    held = workload("a", {"main": ("l4", 1)})
    if state == "released":
        notes = {LAST_FAILURE: "provisionTimeout of 30m has passed: 1 of 2 l4 nodes for main"}
        meta = replace(held.metadata, annotations=notes)
        held = replace(held, metadata=meta, spec=replace(held.spec, active=False))
    if state == "admitted":
        conditions = with_condition((), "Admitted", "True", START)
        held = replace(held, status=replace(held.status, conditions=conditions))
    registry = Metrics().registry
    unused = unused_nodes(registry, [] if state == "deleted" else [held])
    unused.changed(placeholder(), None)
    assert registry.get_sample_value(SECONDS, {**LABELS, "reason": reason}) == seconds


def unused_nodes(registry: CollectorRegistry, held: list[Workload], *, leads: bool = True) -> UnusedNodes:
    view = view_of(PLACED, workloads=held, nodes=[node("l4-1", "l4")])
    return UnusedNodes(
        nodes=view.nodes,
        cause=partial(unused_cause, view),
        metrics=GangMetrics(registry),
        counts=lambda: leads,
        clock=lambda: START + timedelta(minutes=1),
    )


@pytest.mark.parametrize(
    ("before", "after", "leads"),
    [(None, placeholder(), True), (placeholder(), placeholder(), True), (placeholder(), None, False)],
    ids=["comes", "stays", "goes and another leads"],
)
def test_only_the_leader_counts_and_when_they_go(
    before: Placeholder | None, after: Placeholder | None, leads: bool
) -> None:
    registry = Metrics().registry
    unused_nodes(registry, [workload("a", {"main": ("l4", 1)})], leads=leads).changed(before, after)
    assert registry.get_sample_value(SECONDS, LABELS) is None


LATER = START + timedelta(minutes=2)
HELD_NODE = node("l4-1", "l4", taints=(Taint(key=HELD_TAINT_KEY, effect="NoSchedule", value="muster-1"),))


@pytest.mark.parametrize(
    ("nodes", "until", "released", "again"),
    [
        ([HELD_NODE], None, ["l4-1 muster-1"], None),
        ([HELD_NODE], START, ["l4-1 muster-1"], None),
        ([HELD_NODE], LATER, [], RequeueAfter(120.0)),
        ([HELD_NODE], ALWAYS, [], None),
        ([node("l4-1", "l4")], None, [], None),
        ([], None, [], None),
    ],
    ids=["no gang", "no longer", "for a while", "while it waits", "not held", "no node"],
)
def test_a_node_is_opened_once_no_gang_holds_it(
    nodes: list[Node], until: datetime | None, released: list[str], again: Result
) -> None:
    opened: list[str] = []

    class Taints:
        async def release(self, name: str, *, held_as: str) -> None:
            opened.append(f"{name} {held_as}")

    class Held(HeldNodes):
        def held_until(self, held_as: str) -> datetime | None:
            return until

    held = Held(view_of(PLACED, nodes=nodes), cast(NodeTaints, Taints()), clock=lambda: START)
    assert asyncio.run(held.reconcile(Key("", "l4-1"))) == again
    assert opened == released
