"""An elastic gang stands on the capacity of every growth that it came by, also while it asks for more."""

import dataclasses
from datetime import timedelta

import pytest
from msgspec.structs import replace

from muster.controller.gangs.actions import CreateRequest, EmitEvent
from muster.controller.gangs.indexes import BY_OWNER
from muster.controller.gangs.objects import ProvisioningRequest
from muster.controller.gangs.retry import to_annotations
from muster.controller.kueue.actions import Action, Deactivate, Reactivate, State
from muster.controller.kueue.decide import decide
from muster.controller.kueue.identity import OWNING_WORKLOAD
from muster.controller.kueue.objects import Workload
from muster.controller.kueue.view import View
from muster.model.names import MULTI_KUEUE_ORIGIN, RUNS_ANNOTATION, RUNS_ON_ANNOTATION
from tests.unit.admission.elastic_world import STEPS, Elastic
from tests.unit.admission.gang_world import CHECK, PLAIN, POLICY, assignment
from tests.unit.admission.views import named_by_label, view_of
from tests.unit.gangs.paper import START, flavor_policy, node, with_condition


def in_calm(world: Elastic) -> None:
    for _ in range(6):
        for name in STEPS:
            getattr(world, name)()


def a_part_and_its_growth(*, grown: bool) -> tuple[Elastic, str]:
    """One worker runs and two more are asked for, or run as well; and the request of the first."""
    world = Elastic(stock={"l4": 20})
    in_calm(world)
    (first,) = world.requests
    world.stock = {"l4": 20 if grown else 0}
    world.scale(3)
    in_calm(world)
    assert len(world.pods) == (3 if grown else 1)
    assert len(world.requests) == 2, "the growth has one of its own"
    return world, first


def newest(world: Elastic) -> tuple[State, str]:
    entry = world.slices()[-1].check_state(CHECK)
    assert entry is not None
    return State(entry.state), entry.message


def last(world: Elastic) -> EmitEvent:
    return world.told[-1]


@pytest.mark.parametrize("grown", [False, True])
def test_a_revoked_request_of_the_first_part_ends_the_whole(grown: bool) -> None:
    world, first = a_part_and_its_growth(grown=grown)
    world.answer(first, "CapacityRevoked", "Revoked")
    world.settle()
    state, message = newest(world)
    assert state is State.RETRY
    assert message.endswith("the gang queues again")
    assert last(world).reason == "CapacityRevoked"


@pytest.mark.parametrize("grown", [False, True])
def test_a_lost_node_of_the_first_part_ends_the_whole_after_the_grace(grown: bool) -> None:
    world, first = a_part_and_its_growth(grown=grown)
    held = next(pod for pod in world.pods.values() if first in pod.metadata.annotations.values())
    del world.nodes[held.spec.node_name]
    world.settle()
    assert last(world).reason == "NodesMissing"
    assert newest(world)[0] is not State.RETRY, "it may come back"
    world.now += POLICY.node_loss_grace
    world.settle()
    assert newest(world)[0] is State.RETRY
    assert last(world).reason == "NodesLost"


def test_a_cluster_that_grows_and_shrinks_for_ever_keeps_what_its_pods_use_and_no_more() -> None:
    world = Elastic(stock={"l4": 200})
    in_calm(world)
    for _ in range(6):
        for wish in (3, 1):
            world.scale(wish)
            in_calm(world)
            assert world.free_pods() == wish
    assert len(world.workloads) > 6
    assert len(world.requests) <= 2, "the first, and the newest growth's"


def test_a_node_that_comes_back_lets_the_growth_go_on() -> None:
    world, first = a_part_and_its_growth(grown=False)
    held = next(pod for pod in world.pods.values() if first in pod.metadata.annotations.values())
    lost = world.nodes.pop(held.spec.node_name)
    world.settle()
    world.nodes[lost.metadata.name] = lost
    world.settle()
    assert last(world).reason == "NodesBack"
    world.stock = {"l4": 20}
    in_calm(world)
    assert len(world.pods) == 3


def test_a_growth_by_heads_too_keeps_in_view_the_nodes_that_it_runs_on() -> None:
    """The place of the new head is looked for among the nodes of another pool."""
    heads = flavor_policy(
        "cpu", 0, provisioning_class_name="", node_selector_from_details=(), gpus_per_node=0
    )
    world = Elastic(policy=dataclasses.replace(POLICY, flavors=(*POLICY.flavors, heads)), stock={"l4": 20})
    world.nodes["cpu-0"] = node("cpu-0", "cpu", "", ready=True)
    in_calm(world)
    (held,) = world.pods.values()
    cordoned = world.nodes[held.spec.node_name]
    world.nodes[held.spec.node_name] = replace(cordoned, spec=replace(cordoned.spec, unschedulable=True))
    world.scale(3)
    for step in (world.job, world.kueue, world.finish):
        step()
    live = _with_two_heads(world.slices()[-1])
    view = view_of(
        world.policy,
        owned={BY_OWNER: named_by_label},
        workloads=[_unowned(each) for each in (*world.workloads.values(), live)],
        requests=world.requests.values(),
        templates=world.templates.values(),
        nodes=world.nodes.values(),
        pods=[
            replace(pod, metadata=replace(pod.metadata, namespace="team-a")) for pod in world.pods.values()
        ],
    )
    decision = decide(view.snapshot(live, CHECK, now=world.now))
    assert any(isinstance(action, CreateRequest) for action in decision.actions), decision.actions


def _with_two_heads(live: Workload) -> Workload:
    assert live.status.admission is not None
    notes = {**live.metadata.annotations, RUNS_ANNOTATION: "head=1,main=1", RUNS_ON_ANNOTATION: "slice-001"}
    assignments = tuple(
        replace(each, count=2 if each.name == "head" else each.count)
        for each in live.status.admission.pod_set_assignments
    )
    admission = replace(live.status.admission, pod_set_assignments=assignments)
    return replace(
        live,
        metadata=replace(live.metadata, annotations=notes),
        spec=replace(
            live.spec,
            pod_sets=tuple(
                replace(each, count=2 if each.name == "head" else each.count) for each in live.spec.pod_sets
            ),
        ),
        status=replace(live.status, admission=admission),
    )


def _unowned(workload: Workload) -> Workload:
    return replace(workload, metadata=replace(workload.metadata, owner_references=()))


def test_the_nodes_of_an_earlier_slice_are_no_gangs_to_take_while_its_cluster_runs() -> None:
    """Its worker is being made again, and has no node for a moment."""
    world, first = a_part_and_its_growth(grown=True)
    world.submit("other", PLAIN)
    world._status("other", admission=assignment(PLAIN))
    world.set_condition("other", "QuotaReserved", "True")
    view = view_of(
        world.policy,
        owned={BY_OWNER: named_by_label},
        workloads=world.workloads.values(),
        requests=map(_named, world.requests.values()),
        nodes=world.nodes.values(),
    )
    view.clock = lambda: world.now
    other = world.workloads["other"]
    seen = view.snapshot(other, CHECK, now=world.now)
    assert not seen.surroundings.vacated
    assert any(isinstance(action, CreateRequest) for action in decide(seen).actions)
    for live in [each for each in world.slices() if each is not other]:
        view.workloads.store.remove(live)
    left = view.snapshot(other, CHECK, now=world.now).surroundings.vacated
    assert f"lease-{first}" in {each.name for each in left}
    world.now += timedelta(hours=9)
    view.requests.store.remove(next(each for each in view.requests.store if each.metadata.name == first))
    (lease,) = (each for each in view.left_leases.of("l4") if each.name == f"lease-{first}")
    assert lease.at == world.now, "its pods have run until then, under later slices"


def _named(request: ProvisioningRequest) -> ProvisioningRequest:
    """With the annotation that names its Workload."""
    owner = {OWNING_WORKLOAD: named_by_label(request)[0].name}
    notes = {**request.metadata.annotations, **owner}
    return replace(request, metadata=replace(request.metadata, annotations=notes))


def a_waiting_growth(*, is_checked: bool) -> tuple[View, Workload, Workload]:
    """One worker runs, and a growth waits for quota: their slices, in the caches of the controller."""
    world = Elastic(stock={"l4": 20}, capacity=1)
    in_calm(world)
    world.scale(2)
    world.job()
    before, waiting = world.slices()
    if not is_checked:
        waiting = replace(waiting, status=replace(waiting.status, admission_checks=()))
    view = view_of(POLICY, workloads=[before, waiting], owned={BY_OWNER: named_by_label})
    return view, before, waiting


def put(view: View, workload: Workload, *conditions: str) -> Workload:
    """Its next version, with these conditions."""
    meta = replace(workload.metadata, resource_version=str(int(workload.metadata.resource_version) + 1))
    found = workload.status.conditions
    for kind in conditions:
        found = with_condition(found, kind, "True", START)
    status = replace(workload.status, conditions=found)
    view.workloads.store.put(newer := replace(workload, metadata=meta, status=status))
    return newer


def actions(view: View, workload: Workload) -> tuple[Action, ...]:
    (check,) = view.checks_of(workload)
    return decide(view.snapshot(workload, check, now=START)).actions


@pytest.mark.parametrize("is_checked", [True, False])
def test_kueue_is_made_to_stop_a_job_that_lost_its_quota_while_a_growth_waits(is_checked: bool) -> None:
    view, before, waiting = a_waiting_growth(is_checked=is_checked)
    assert not view.is_stranded(waiting), "the part that runs has quota"
    over = put(view, before, "Evicted", "Finished")
    assert waiting.key in view.slices_affected_by(before, over)
    assert view.keys_concerned(waiting) == [waiting.key]
    (stop,) = (each for each in actions(view, waiting) if isinstance(each, Deactivate))
    notes = {key: value for key, value in to_annotations(stop.history).items() if value is not None}
    meta = replace(waiting.metadata, annotations={**waiting.metadata.annotations, **notes})
    inactive = put(view, replace(waiting, metadata=meta, spec=replace(waiting.spec, active=False)))
    assert not actions(view, inactive), "Kueue has not stopped the job yet"
    stopped = put(view, inactive, "Evicted")
    assert any(isinstance(each, Reactivate) for each in actions(view, stopped))
    assert not view.is_stranded(put(view, waiting, "Evicted")), "one stop is enough"
    of_manager = replace(waiting.metadata, labels={MULTI_KUEUE_ORIGIN: "multikueue"})
    assert not view.is_stranded(replace(waiting, metadata=of_manager))
