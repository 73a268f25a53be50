"""What a gang sees of others in the caches: room that they were promised, and who stands in line with it."""

import dataclasses
from datetime import datetime, timedelta
from typing import Any

import pytest

from muster.controller.gangs.actions import CreateRequest, HoldNode
from muster.controller.gangs.identity import request_of_placeholder
from muster.controller.gangs.indexes import BY_OWNER
from muster.controller.gangs.objects import Container, Pod, PodSpec, ResourceNeeds
from muster.controller.gangs.progress import recheck_at
from muster.controller.gangs.templates import POOL
from muster.controller.kube.resource import Key, ObjectMeta, OwnerReference, T
from muster.controller.kueue.actions import PatchAnnotations, SetCheckState, State
from muster.controller.kueue.decide import decide
from muster.controller.kueue.identity import OWNING_WORKLOAD
from muster.controller.kueue.objects import CheckState, PodSetUpdate, ReclaimablePod, Workload
from muster.controller.kueue.slices import REPLACES
from muster.controller.kueue.snapshot import WorkloadSnapshot
from muster.controller.kueue.view import View
from muster.model.gangpolicy import DetailSelector
from muster.model.names import (
    CONSUME_ANNOTATION,
    ELASTIC_JOB,
    GKE_LEASE_DETAIL,
    PLACED_ANNOTATION,
    RUNS_ANNOTATION,
    RUNS_ON_ANNOTATION,
    WORKLOAD_UID_LABEL,
)
from muster.model.waiting import clock
from tests.unit.admission.gang_world import CHECK, POLICY, World, assignment, pod_spec, replace
from tests.unit.admission.placed_world import PLACED, PlacedWorld
from tests.unit.admission.views import view_over
from tests.unit.gangs.paper import START, flavor_policy, node

_HEADED = {"head": ("cpu", 1), "main": ("l4", 1)}
_SPLIT = {"big": ("h100", 1), "small": ("l4", 1)}
_HEADS = flavor_policy("cpu", 0, provisioning_class_name="", node_selector_from_details=(), gpus_per_node=0)
_POLICY = dataclasses.replace(POLICY, flavors=(*POLICY.flavors, _HEADS))


def _ready(world: World) -> list[str]:
    """Who would be let start, were everybody asked before anybody writes."""
    view = view_over(world)
    said = {
        name: decide(view.snapshot(held, CHECK, now=world.now)).actions
        for name, held in world.workloads.items()
    }
    return [
        name
        for name, actions in said.items()
        if any(isinstance(action, SetCheckState) and action.state is State.READY for action in actions)
    ]


@pytest.fixture
def world() -> World:
    """Two gangs whose workers stand; there is room for one of the heads."""
    made = World(policy=_POLICY, stock={"l4": 2})
    for name in ("a", "b"):
        made.submit(name, _HEADED)
    made.nodes["cpu-0"] = node("cpu-0", "cpu", cpus=1)
    made.kueue()
    made.settle()
    for request in made.requests:
        made.answer(request, "Accepted")
        made.provision(request)
    return made


def test_room_for_one_head_is_claimed_once(world: World) -> None:
    assert _ready(world) == ["a"]
    world.nodes["cpu-1"] = node("cpu-1", "cpu", cpus=1)
    assert _ready(world) == ["a", "b"]


def test_the_room_is_kept_until_the_gang_has_its_nodes_and_no_longer(world: World) -> None:
    """The head's pod takes its room for itself; it has no mark that would tell whose it is."""
    world.workloads["a"] = _with_entry(world, "a", State.READY)
    assert "b" not in _ready(world)
    (request,) = (
        name for name, each in world.requests.items() if each.metadata.labels[WORKLOAD_UID_LABEL] == "uid-a"
    )
    for namespace, is_free in (("team-b", False), ("team-a", True)):  # Anyone may write any name on a pod.
        meta = ObjectMeta(
            name="worker", namespace=namespace, uid="w", annotations={CONSUME_ANNOTATION: request}
        )
        world.pods["worker"] = Pod(metadata=meta, spec=PodSpec(node_name=f"lease-{request}-0"))
        assert ("b" in _ready(world)) is is_free


def test_what_a_gang_was_promised_is_computed_once_until_it_changes(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    view, computed = view_over(world), list[str]()
    compute = view._base_snapshot

    def counted(workload: Workload, check: str, now: datetime) -> WorkloadSnapshot:
        computed.append(workload.metadata.name)
        return compute(workload, check, now)

    monkeypatch.setattr(view.known, "_build", counted)

    def others() -> list[str]:
        computed.clear()
        for _ in range(2):
            view.snapshot(world.workloads["b"], CHECK, now=world.now)
        return [name for name in computed if name != "b"]

    assert others() == ["a"]
    assert others() == []
    held = world.workloads["a"]
    view.workloads.store.put(_newer(held))
    assert others() == ["a"]
    (request,) = view.requests.store.by_index(BY_OWNER, held.key)
    view.requests.store.put(_newer(request))
    assert others() == ["a"]
    flavor = next(iter(view.flavors.store))
    spec = replace(flavor.spec, node_labels={"other": "label"})
    view.flavors.store.put(replace(_newer(flavor), spec=spec))
    assert others() == ["a"]
    assert others() == []
    view.workloads.store.forget(held.metadata.uid)
    assert others() == []
    assert held.metadata.uid not in view.known._known, "what is over stays in memory"


def _newer(obj: T) -> T:
    return replace(obj, metadata=replace(obj.metadata, resource_version="999999"))


def _asks(world: World, view: View, name: str) -> bool:
    decision = decide(view.snapshot(world.workloads[name], CHECK, now=world.now))
    return any(isinstance(action, CreateRequest) for action in decision.actions)


def test_a_head_whose_place_a_gang_of_the_same_queue_waits_for_asks_for_nothing() -> None:
    """Both would get their GPUs, and one of them would have bought them for nothing."""
    world = World(policy=_POLICY, stock={"l4": 2, "h100": 1})
    world.nodes["cpu-0"] = node("cpu-0", "cpu", cpus=1)
    for name, pool in (("z", "l4"), ("a", "l4"), ("other", "h100")):
        world.submit(name, {"head": ("cpu", 1), "main": (pool, 1)})
    world.kueue()
    view = view_over(world)
    assert [name for name in ("z", "a", "other") if _asks(world, view, name)] == ["z", "a", "other"]
    world.reconcile("z")
    assert [name for name in ("a", "other") if _asks(world, view_over(world), name)] == ["other"], (
        "it delays none in the queue of another pool"
    )
    world.nodes["cpu-1"] = node("cpu-1", "cpu", cpus=1)
    assert _asks(world, view_over(world), "a")


def test_a_head_counts_from_the_decision_to_ask_on() -> None:
    world = World(policy=_POLICY, stock={"l4": 2})
    world.nodes["cpu-0"] = node("cpu-0", "cpu", cpus=1)
    for name in ("a", "b"):
        world.submit(name, _HEADED)
    world.kueue()
    view = view_over(world)
    snapshot = view.snapshot(world.workloads["b"], CHECK, now=world.now)
    with view.split_gangs.asking(snapshot, decide(snapshot)):
        assert not _asks(world, view, "a")
    assert _asks(world, view, "a"), "its write has failed"


def test_a_gang_that_never_takes_its_room_does_not_keep_it_for_ever(world: World) -> None:
    world.workloads["a"] = _with_entry(world, "a", State.READY)
    (late,) = (
        name for name, each in world.requests.items() if each.metadata.labels[WORKLOAD_UID_LABEL] == "uid-b"
    )
    world.now += timedelta(minutes=16)
    del world.requests[late]
    world.settle()
    for request in world.requests:
        if not world.requests[request].status.holds("Provisioned"):
            world.answer(request, "Accepted")
            world.provision(request)
    assert _ready(world) == ["b"]


def test_pods_that_are_done_keep_no_room() -> None:
    """Kueue gives their quota to the next gang while the rest of theirs runs on for hours."""
    shared = flavor_policy("l4", 10, node_selector_from_details=())
    policy = dataclasses.replace(POLICY, flavors=(shared, _HEADS))
    world = World(policy=policy)
    world.nodes = {"cpu-0": node("cpu-0", "cpu")}
    world.begin("a", {"head": ("cpu", 1), "main": ("l4", 2)})
    (first,) = world.requests
    _provision(world, first)
    world.workloads["a"] = _with_entry(world, "a", State.READY)
    world.set_condition("a", "Admitted", "True")
    bound = replace(pod_spec(1), node_name="l4-0")
    carried = ObjectMeta(name="w", namespace="team-a", uid="w", annotations={CONSUME_ANNOTATION: first})
    world.pods["w"] = Pod(metadata=carried, spec=bound)
    world.begin("b", _HEADED)
    (second,) = world.requests.keys() - {first}
    _provision(world, second)
    world.nodes = {name: node(name, "l4") for name in ("l4-0", "l4-1")} | {
        "cpu-0": node("cpu-0", "cpu", cpus=1)
    }
    assert _ready(world) == []
    world._status("a", reclaimable_pods=(ReclaimablePod(name="main", count=1),))
    assert _ready(world) == ["b"]


def _provision(world: World, request: str) -> None:
    held = world.requests[request]
    notes = {**held.metadata.annotations, POOL: held.metadata.annotations["pool"]}
    meta = replace(held.metadata, annotations=notes)
    world.requests[request] = replace(held, metadata=meta)
    world.answer(request, "Accepted")
    world.answer(request, "Provisioned")


@pytest.mark.parametrize("asked", [True, False])
def test_a_lost_node_affects_its_gang_also_when_the_request_is_deleted(asked: bool) -> None:
    """cluster-autoscaler deletes a request a week after it was provisioned, and the gang runs on."""
    world = World(stock={"l4": 2})
    world.submit("a", {"main": ("l4", 2)})
    world.ticks(4)
    assert "a" in world.started
    tables: tuple[dict[str, Any], ...] = (world.requests, world.templates)
    for made in tables:
        for name, held in made.items():
            notes = {**held.metadata.annotations, OWNING_WORKLOAD: "a"}
            meta = replace(held.metadata, annotations=notes)
            made[name] = replace(held, metadata=meta)
    if not asked:
        world.requests.clear()
    lost = next(iter(world.nodes.values()))
    assert set(view_over(world).workloads_affected_by(lost, None)) == {Key("team-a", "a")}


def test_what_runs_is_looked_for_in_its_own_pools_and_not_only_where_it_grows() -> None:
    """A worker that is made anew has room in its pool: nothing is lost, and nobody has to queue again."""
    pools = tuple(flavor_policy(name, 1, node_selector_from_details=()) for name in ("l4", "h100"))
    policy = dataclasses.replace(POLICY, flavors=pools)
    world = World(policy=policy)
    claims = tuple(
        PodSetUpdate(name=name, annotations={CONSUME_ANNOTATION: f"of-{name}"}) for name in ("a", "b")
    )
    for name, count, updates in (("one", 1, claims), ("two", 2, ())):
        pieces = {"a": ("l4", 1), "b": ("h100", count)}
        world.submit(name, pieces)
        entry = CheckState(name=CHECK, state="Ready" if updates else "Pending", pod_set_updates=updates)
        world._status(name, admission=assignment(pieces), admission_checks=(entry,))
        world.set_condition(name, "QuotaReserved", "True")
        notes = {
            ELASTIC_JOB: "true",
            RUNS_ANNOTATION: "a=1,b=1",
            RUNS_ON_ANNOTATION: "one",
            REPLACES: "team-a/one",
        }
        world._metadata(name, annotations=notes if name == "two" else {})
    for kind in ("Admitted", "Finished"):
        world.set_condition("one", kind, "True")
    world.nodes["free"] = node("free", "l4")
    bound = replace(pod_spec(1), node_name="busy")
    carried = ObjectMeta(name="b", namespace="team-a", annotations={CONSUME_ANNOTATION: "of-b"})
    world.nodes["busy"] = node("busy", "h100")
    world.pods["b"] = Pod(metadata=carried, spec=bound)
    grows = view_over(world).snapshot(world.workloads["two"], CHECK, now=world.now)
    assert [spec.shape for spec in grows.gang.request_specs] == ["b"]
    assert grows.surroundings.lacks_pods
    assert not any(isinstance(action, PatchAnnotations) for action in decide(grows).actions)


def test_nodes_of_a_lease_are_found_whatever_label_they_carry_it_in() -> None:
    pin = DetailSelector(key="example.com/lease", detail=GKE_LEASE_DETAIL)
    policy = dataclasses.replace(POLICY, flavors=(flavor_policy("l4", 1, node_selector_from_details=(pin,)),))
    world = World(policy=policy)
    world.submit("a", {"main": ("l4", 2)})
    world.kueue()
    update = PodSetUpdate(
        name="main", annotations={CONSUME_ANNOTATION: "consumed"}, node_selector={pin.key: "mine"}
    )
    world._status("a", admission_checks=(CheckState(name=CHECK, state="Ready", pod_set_updates=(update,)),))
    world.set_condition("a", "Admitted", "True")
    for name in ("n0", "n1"):
        made = node(name, "l4")
        labels = {**made.metadata.labels, pin.key: "mine"}
        meta = replace(made.metadata, labels=labels)
        world.nodes[name] = replace(made, metadata=meta)
    carried = ObjectMeta(name="w", namespace="team-a", annotations={CONSUME_ANNOTATION: "consumed"})
    world.pods["w"] = Pod(metadata=carried, spec=replace(pod_spec(1), node_name="n0"))
    runs = view_over(world).snapshot(world.workloads["a"], CHECK, now=world.now)
    assert runs.surroundings.lacks_pods
    assert not any(isinstance(action, PatchAnnotations) for action in decide(runs).actions)


def _with_entry(world: World, name: str, state: State) -> Any:
    held = world.workloads[name]
    entry = held.check_state(CHECK)
    assert entry is not None
    entry = replace(entry, state=state, last_transition_time=world.now)
    return replace(held, status=replace(held.status, admission_checks=(entry,)))


def test_only_split_gangs_take_turns() -> None:
    world = World(policy=_POLICY)
    for name, pieces in (("a", _SPLIT), ("b", _SPLIT), ("whole", {"main": ("l4", 1)}), ("headed", _HEADED)):
        world.submit(name, pieces)
    world.kueue()
    view = view_over(world)
    seen = {name: view.snapshot(held, CHECK, now=world.now) for name, held in world.workloads.items()}
    assert [name for name, each in seen.items() if each.surroundings.must_wait] == ["b"]


def _ending(name: str, *, gpus: int, due: datetime, where: str = "l4-0", cluster: str = "train-x1") -> Pod:
    job = OwnerReference(kind="RayCluster", name=cluster, controller=True)
    meta = ObjectMeta(
        name=name, namespace="team-b", uid=name, deletion_timestamp=due, owner_references=(job,)
    )
    spec = replace(pod_spec(gpus), node_name=where)
    sidecar = Container(resources=ResourceNeeds(requests={"cpu": "100m"}))
    return Pod(metadata=meta, spec=replace(spec, containers=(sidecar, *spec.containers)))


def _waiting(world: World) -> tuple[str, datetime | None]:
    """What its check reports, and when the gang is looked at again."""
    decision = decide(view_over(world).snapshot(world.workloads["a"], CHECK, now=world.now))
    (entry,) = [action for action in decision.actions if isinstance(action, SetCheckState)]
    return entry.message, decision.requeue_at


def test_pods_of_a_job_that_was_just_deleted_may_be_seen_a_moment_later() -> None:
    assert recheck_at((), since=START, now=START) == START + timedelta(seconds=10)
    assert recheck_at((), since=START, now=START + timedelta(seconds=10)) is None


def test_a_gang_that_waits_for_nodes_is_told_whose_pods_are_still_ending() -> None:
    """Their job was deleted and its quota given to this gang; the nodes come when they have ended."""
    world = World(policy=_POLICY)
    world.begin("a", {"main": ("l4", 2)})
    due = world.now + timedelta(seconds=100)
    world.nodes = {name: node(name, "l4") for name in ("l4-0", "l4-1")} | {"cpu-0": node("cpu-0", "cpu")}
    world.pods = {name: _ending(name, gpus=1, due=due) for name in ("w0", "w1")}
    # Neither holds what the gang waits for.
    later = due + timedelta(hours=1)
    world.pods["sidecar"] = _ending("sidecar", gpus=0, due=later)
    world.pods["head"] = _ending("head", gpus=1, due=later, where="cpu-0")
    ending = f"pods of team-b/train-x1 are still ending, due {clock(due)}"
    soon = decide(view_over(world).snapshot(world.workloads["a"], CHECK, now=world.now))
    assert soon.requeue_at == world.now + timedelta(seconds=10)
    world.now += timedelta(seconds=10)
    assert "asked for 2 l4 nodes; " + ending in _waiting(world)[0]
    world.now += timedelta(seconds=20)
    message, again = _waiting(world)
    assert ending in message
    assert again == due + timedelta(seconds=1)
    before = due - timedelta(seconds=50)
    world.pods["w2"] = _ending("w2", gpus=1, due=before, cluster="a-bit-sooner")
    message, again = _waiting(world)
    assert f"pods of team-b/train-x1 and others are still ending, due {clock(due)}" in message
    assert again == before + timedelta(seconds=1)
    del world.pods["w2"]
    (request,) = world.requests
    _provision(world, request)
    world.now += timedelta(seconds=10)
    assert ending in _waiting(world)[0]
    world.pods = {}
    assert "still ending" not in _waiting(world)[0]


@pytest.fixture
def placed() -> PlacedWorld:
    """Two gangs whose placeholders stand; there is room for one of the heads."""
    policy = dataclasses.replace(PLACED, flavors=(*PLACED.flavors, _HEADS))
    made = PlacedWorld(policy=policy, stock={"l4": 2})
    for name in ("a", "b"):
        made.submit(name, _HEADED)
    made.nodes["cpu-0"] = node("cpu-0", "cpu", cpus=1)
    made.kueue()
    made.settle()
    made.cloud()
    for key, pod in made.placeholders.items():
        made.write("", HoldNode(node=pod.spec.node_name, held_as=request_of_placeholder(key)))
    return made


def test_room_for_one_head_is_claimed_once_by_gangs_of_placeholders(placed: PlacedWorld) -> None:
    assert _ready(placed) == ["a"]
    placed.nodes["cpu-1"] = node("cpu-1", "cpu", cpus=1)
    assert _ready(placed) == ["a", "b"]


def test_a_gang_of_placeholders_keeps_its_heads_room_until_its_own_pods_have_their_nodes(
    placed: PlacedWorld,
) -> None:
    """Its placeholders go when it is admitted, before its pods are there."""
    placed.workloads["a"] = _with_entry(placed, "a", State.READY)
    placed.set_condition("a", "Admitted", "True")
    ((held, pod),) = (
        item for item in placed.placeholders.items() if item[1].metadata.labels[WORKLOAD_UID_LABEL] == "uid-a"
    )
    del placed.placeholders[held]
    assert "b" not in _ready(placed)
    request, node_name = request_of_placeholder(held), pod.spec.node_name
    meta = ObjectMeta(name="w", namespace="team-a", uid="w", annotations={PLACED_ANNOTATION: request})
    placed.pods["w"] = Pod(metadata=meta, spec=PodSpec(node_name=node_name))
    assert "b" in _ready(placed)


@pytest.mark.parametrize("lost", ["its node", "its placeholder", "its template"])
def test_a_gang_that_loses_what_it_asked_for_by_placeholders_lets_the_room_go(
    placed: PlacedWorld, lost: str
) -> None:
    view = view_over(placed)

    def is_ready() -> bool:
        decision = decide(view.snapshot(placed.workloads["b"], CHECK, now=placed.now))
        return any(isinstance(each, SetCheckState) and each.state == "Ready" for each in decision.actions)

    assert not is_ready()
    workload = placed.workloads["a"].key
    (template,) = view.templates.store.by_index(BY_OWNER, workload)
    (held,) = view.placeholders.store.by_index(BY_OWNER, workload)
    match lost:
        case "its node":
            view.nodes.store.remove(placed.nodes[held.spec.node_name])
        case "its placeholder":
            view.placeholders.store.remove(held)
        case _:
            view.templates.store.remove(template)
    assert is_ready()
