"""KAI gangs of a pool whose nodes come for pods that wait, on paper."""

import contextlib
from dataclasses import replace as changed
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from muster.controller.gangs.actions import CreateSet, EmitEvent
from muster.controller.gangs.identity import request_of_placeholder
from muster.controller.gangs.objects import Placeholder, PlaceholderStatus, Toleration
from muster.controller.gangs.placeholder_pods import pods
from muster.controller.gangs.placeholder_sets import HANDOVER, held_for
from muster.controller.gangs.retry import FIRST_TRY, LAST_FAILURE, REFUSED, RETRY_AT, TRIES
from muster.controller.kai.actions import Decision, DeleteUnbound, PatchAnnotations, Ungate
from muster.controller.kai.decide import decide
from muster.controller.kai.held_nodes import unused_cause
from muster.controller.kai.labels import CLUSTERS, HANDED_OVER, is_gated
from muster.controller.kai.objects import REQUIRED_PLACEMENT
from muster.controller.kai.shutdown import shutdown_actions
from muster.controller.kueue.jobs import Job
from muster.controller.kueue.webhooks import Reviews
from muster.controller.runtime.review import Allow, Deny
from muster.model.gangpolicy import GangPolicy, RetryPolicy
from muster.model.names import (
    GPU_RESOURCE,
    HELD_TAINT_KEY,
    KAI_PRIORITY_LABEL,
    PLACED_ANNOTATION,
    POOL_LABEL,
    UNDISTURBED,
)
from tests.unit.gangs.paper import Crash, with_condition
from tests.unit.gangs.placed_paper import HARMS, Harm
from tests.unit.kai.kai_world import POLICY, Group, queue, replace
from tests.unit.kai.placed_kai_world import PLACED, PlacedWorld, view_of

PAIR = {"headgroup": Group("l4"), "workers": Group("l4", 2)}
RARELY = changed(PLACED, retry=RetryPolicy(base=timedelta(hours=2), max=timedelta(hours=2)))


def world(**settings: object) -> PlacedWorld:
    made = PlacedWorld(**settings)  # type: ignore[arg-type]  # the test's own keywords
    made.queues = {"team-a": queue("team-a", quota=9)}
    return made


def run(here: PlacedWorld, minutes: int) -> None:
    here.ticks(minutes)


def after(minutes: int, groups: dict[str, Group], **settings: Any) -> PlacedWorld:
    """A world in which gang `a` was submitted so long ago."""
    here = world(**settings)
    here.submit("a", groups)
    run(here, minutes)
    return here


def tainted(here: PlacedWorld) -> list[str]:
    return [key for key, node in here.nodes.items() if held_for(node)]


def ready_to_pass(**settings: object) -> PlacedWorld:
    """Every placeholder has a tainted node, and no gate is gone."""
    here = world(**settings)
    here.begin("a", PAIR)
    here.cloud()
    while not here.decided("a").actions or not any(
        isinstance(each, Ungate) for each in here.decided("a").actions
    ):
        here.reconcile("a")
    return here


def test_a_gang_waits_behind_its_gate_for_the_last_node_and_runs_on_what_was_kept_for_it() -> None:
    here = after(3, PAIR, stock={"l4": 2, "h100": 0})
    here.still()
    assert here.gated("a") == 3
    assert "2 of 3 l4 nodes" in here.status("a")
    assert not tainted(here), "others may use nodes that are not all there"
    here.stock["l4"] = 3
    here.cloud()
    here.settle()
    assert len(tainted(here)) == 3
    assert not here.placeholders
    for pod in here.of("a"):
        notes, (own,) = pod.metadata.annotations, set(map(held_for, here.nodes.values()))
        assert notes[PLACED_ANNOTATION] == own
        assert UNDISTURBED.items() <= notes.items()
        assert [each.value for each in pod.spec.tolerations if each.key == HELD_TAINT_KEY] == [own]
    here.rival()
    here.kai()
    here.settle()
    assert here.running("a") == 3
    assert not tainted(here), "others may have what is left of the nodes"
    here.end("a")
    here.settle()
    assert not here.templates


@pytest.mark.parametrize("harm", HARMS.values(), ids=HARMS)
def test_no_gate_goes_for_a_node_that_no_pod_of_the_gang_can_enter_any_more(harm: Harm) -> None:
    here = after(3, PAIR, stock={"l4": 2, "h100": 0})
    harm(here, sorted(here.nodes)[0])
    here.stock["l4"] = 3
    here.cloud()
    here.settle()
    assert here.gated("a") == 3
    here.stock["l4"] = 4
    run(here, 5)
    assert here.running("a") == 3


def test_with_stock_for_a_part_no_gate_goes_and_everything_is_given_back_at_the_deadline() -> None:
    here = after(33, PAIR, stock={"l4": 2, "h100": 0}, policy=RARELY)
    assert here.gated("a") == 3
    assert not here.placeholders
    assert not here.templates
    assert not here.nodes
    assert any("2 of 3 l4 nodes" in pod.metadata.annotations.get(LAST_FAILURE, "") for pod in here.of("a"))


def test_of_two_gangs_with_capacity_for_one_each_runs_whole_in_its_turn() -> None:
    here = world(stock={"l4": 0, "h100": 0})
    for name in ("a", "b"):
        here.submit(name, PAIR)
    run(here, 1)
    here.stock["l4"] = 4
    run(here, 4)
    first = next(name for name in ("a", "b") if here.running(name))
    other = {"a": "b", "b": "a"}[first]
    assert here.running(first) == 3
    assert here.gated(other) == 3
    here.end(first)
    run(here, 5)
    assert here.running(other) == 3


class OneByOne(PlacedWorld):
    """The controller looks at each pod before the next is made."""

    def _make_pod(self, cluster: str, group: str, shape: Group) -> None:
        super()._make_pod(cluster, group, shape)
        self.settle()


@pytest.mark.parametrize(
    ("kind", "groups"),
    [
        ("RayCluster", {"workers": Group("l4", 2), "headgroup": Group("l4")}),
        ("Deployment", {each: Group("l4") for each in "012"}),
    ],
)
def test_a_gang_that_kai_never_places_backs_off_and_is_given_up(kind: str, groups: dict[str, Group]) -> None:
    """Its pods are made anew each time, and have no history of their own."""
    here = OneByOne(policy=changed(PLACED, retry=RetryPolicy(deadline=timedelta(hours=3))))
    here.queues = {"team-a": queue("team-a", quota=9)}
    here.schedules = False
    here.submit("a", groups, kind=kind)
    tries, minutes = list[str](), 0
    for _ in range(6 * 60):
        here.tick()
        minutes += len(here.nodes)
        tries += [each for pod in here.of("a") if (each := pod.metadata.annotations.get(TRIES))]
    counted = list(dict.fromkeys(tries))
    assert counted == [str(each) for each in range(1, len(counted) + 1)]
    assert 3 <= len(counted) <= 8
    assert minutes <= 3 * (8 + 1) * 10, "nodes that none of them has run on"
    assert any("no node within 10m" in pod.metadata.annotations.get(REFUSED, "") for pod in here.of("a"))
    assert all(each.startswith("refused") for each in here.status("a").split(" / ")), "who led before, too"
    assert not here.placeholders
    here.policy = changed(PLACED, retry=RetryPolicy(deadline=timedelta(hours=30)))
    here.tick()
    assert here.gated("a") == 0, "another deadline: they are tried anew"
    assert not here.clusters["a"].metadata.annotations, "nothing stays for the next gang of this cluster"


def test_a_gang_whose_pods_are_deleted_between_its_tries_waits_all_the_same() -> None:
    here = world(
        stock={"l4": 2, "h100": 0}, policy=changed(PLACED, retry=RetryPolicy(base=timedelta(minutes=30)))
    )
    here.submit("a", PAIR)
    minutes = 0
    for _ in range(3 * 60):
        here.tick()
        minutes += len(here.nodes)
        waiting = [pod for pod in here.of("a") if RETRY_AT in pod.metadata.annotations]
        for pod in waiting:
            del here.pods[pod.metadata.name]
    assert minutes <= 3 * 2 * 30, "of each hour a try of half an hour"
    here.stock["l4"] = 3
    run(here, 60)
    assert here.running("a") == 3
    assert not here.clusters["a"].metadata.annotations, "nothing stays for the next gang of this cluster"


@pytest.mark.parametrize(
    "notes",
    [
        pytest.param({RETRY_AT: "2026-11-21T10:20:00Z", TRIES: "many"}, id="unreadable"),
        pytest.param({RETRY_AT: "9999-12-31T23:59:59Z", TRIES: "1"}, id="the last year"),
        pytest.param(
            {RETRY_AT: "2026-11-21T10:20:00Z", TRIES: "1", FIRST_TRY: "2026-11-21T09:00:00Z"}, id="copied"
        ),
        pytest.param({RETRY_AT: "2026-11-21T09:00:00Z", REFUSED: "gave up"}, id="refused and copied"),
    ],
)
def test_no_gang_waits_for_a_note_that_says_nothing_of_it(notes: dict[str, str]) -> None:
    here = world()
    here.submit("a", PAIR)
    note(here, notes)
    run(here, 5)
    assert here.running("a") == 3, here.status("a")
    assert not here.clusters["a"].metadata.annotations


@pytest.mark.parametrize(
    "notes",
    [
        pytest.param({TRIES: "many"}, id="unreadable"),
        pytest.param({TRIES: "1", FIRST_TRY: "2026-11-21T09:00:00Z"}, id="by a clock that was behind"),
    ],
)
def test_what_its_object_would_not_keep_is_not_written_there_again_and_again(notes: dict[str, str]) -> None:
    here = world()
    here.submit("a", PAIR)
    here.kuberay()
    leader = next(pod for pod in here.of("a") if "headgroup" in pod.metadata.name)
    waits = {RETRY_AT: "2026-11-21T10:10:00Z", **notes}
    here.pods[leader.metadata.name] = replace(leader, metadata=replace(leader.metadata, annotations=waits))
    run(here, 5)
    assert here.gated("a") == 3
    run(here, 10)
    assert here.running("a") == 3


def test_a_gang_that_kai_places_as_it_is_given_up_is_not_refused_when_it_is_evicted_later() -> None:
    here = after(3, PAIR)
    note(here, {RETRY_AT: here.now.isoformat(), REFUSED: "gave up"})
    run(here, 60)
    for pod in here.of("a"):
        del here.pods[pod.metadata.name]
    run(here, 4)
    assert here.running("a") == 3, here.status("a")


@pytest.mark.parametrize("tries", [1, 3])
def test_what_a_scale_up_has_tried_in_vain_is_not_held_against_its_cluster(tries: int) -> None:
    here = after(
        4,
        {"headgroup": Group("l4"), "workers": Group("l4", 1, minimum=1)},
        policy=changed(PLACED, retry=RetryPolicy(deadline=timedelta(minutes=30))),
    )
    here.schedules = False
    here.resize("a", "workers", 3)
    run(here, 14 if tries == 1 else 60)
    assert ("refused: " in here.status("a")) is (tries > 1)
    assert not here.clusters["a"].metadata.annotations
    here.schedules = True
    if tries > 1:
        try_again(here)
        run(here, 4)
        assert here.running("a") == 4, here.status("a")
    for pod in here.of("a"):
        del here.pods[pod.metadata.name]
    run(here, 4)
    assert here.running("a") == 4, here.status("a")


@pytest.mark.parametrize("writes", range(4))
def test_a_person_lets_a_gang_that_was_refused_try_again_wherever_a_leader_has_died(writes: int) -> None:
    here = world(policy=changed(PLACED, retry=RetryPolicy(deadline=timedelta(minutes=30))))
    here.schedules = False
    here.submit("a", PAIR)
    while REFUSED not in here.clusters["a"].metadata.annotations:
        here.tick(timedelta(seconds=10))
    here.kuberay()
    here.crash_after = here.writes + writes
    with contextlib.suppress(Crash):
        here.settle()
    here.crash_after = None
    here.settle()
    here.schedules = True
    try_again(here)
    run(here, 4)
    assert here.running("a") == 3, here.status("a")


@pytest.mark.parametrize("writes", range(4))
def test_a_history_is_kept_wherever_a_leader_has_died(writes: int) -> None:
    here = after(1, PAIR, stock={"l4": 2, "h100": 0}, policy=RARELY)
    while here.placeholders:
        here.now += timedelta(seconds=10)
        here.crash_after = here.writes + writes
        with contextlib.suppress(Crash):
            here.settle()
    here.crash_after = None
    here.settle()
    assert here.clusters["a"].metadata.annotations[TRIES] == "1"


class Unchangeable(PlacedWorld):
    """A webhook refuses each change of a pod, and the executor goes on with the rest."""

    def write(self, name: str, action: object) -> None:
        if not isinstance(action, PatchAnnotations):
            super().write(name, action)

    def settle(self) -> None:
        for _ in range(4):
            self.quietly("a")


def test_a_gang_whose_pods_take_no_note_of_a_failed_try_buys_nothing_more() -> None:
    here = Unchangeable(stock={"l4": 2, "h100": 0})
    here.queues = {"team-a": queue("team-a", quota=9)}
    here.submit("a", PAIR)
    minutes = 0
    for _ in range(60):
        here.tick()
        minutes += len(here.nodes)
    assert 0 < minutes <= 2 * 10
    assert [each.reason for each in here.told] == ["GangReleased"]


def note(here: PlacedWorld, notes: dict[str, str]) -> None:
    """Somebody has written this on its object."""
    held = here.clusters["a"]
    here.clusters["a"] = replace(held, metadata=replace(held.metadata, annotations=notes))


def try_again(here: PlacedWorld) -> None:
    """A person takes the refusal off its pod."""
    for name, pod in here.pods.items():
        notes = {key: value for key, value in pod.metadata.annotations.items() if key != REFUSED}
        here.pods[name] = replace(pod, metadata=replace(pod.metadata, annotations=notes))


def test_a_pod_that_kai_never_places_ends_no_try_of_another_of_its_deployment() -> None:
    here = world(stock={"l4": 1, "h100": 0})
    here.schedules = False
    here.submit("a", {"0": Group("l4")}, kind="Deployment")
    run(here, 2)
    assert here.gated("a") == 0
    here.stock["l4"] = 0
    here.groups["a"] = {"0": Group("l4"), "1": Group("l4")}
    run(here, 2)
    (waiting,) = (pod.metadata.uid for pod in here.placeholders.values())
    run(here, 10)
    assert [each.reason for each in here.told].count("GangRecalled") == 1
    assert waiting in {pod.metadata.uid for pod in here.placeholders.values()}


def test_of_two_gangs_that_lack_nodes_the_one_of_higher_priority_goes_first() -> None:
    here = world(stock={"l4": 3, "h100": 0})
    here.submit("low", {"headgroup": Group("l4"), "workers": Group("l4", 3)})
    run(here, 2)
    here.submit("high", PAIR, **{KAI_PRIORITY_LABEL: "build-preemptible"})
    run(here, 4)
    assert here.running("high") == 3
    assert here.gated("low") == 4


def test_a_node_that_is_lost_in_between_is_asked_for_again() -> None:
    here = after(2, PAIR, stock={"l4": 2, "h100": 0})
    here.take_away(min(here.nodes))
    here.stock["l4"] = 3
    run(here, 3)
    assert here.running("a") == 3


def test_a_gang_over_both_kinds_of_pools_passes_when_both_stand() -> None:
    here = after(
        5,
        {"headgroup": Group("l4"), "small": Group("l4"), "big": Group("h100", 2)},
        stock={"l4": 2, "h100": 0},
    )
    assert here.gated("a") == 4
    here.stock["h100"] = 2
    run(here, 5)
    assert here.running("a") == 4


def test_a_head_without_a_gpu_in_such_a_pool_has_a_placeholder_too() -> None:
    """The taint of its own gang would keep it out of any room there."""
    here = world()
    here.submit("a", PAIR)
    here.kuberay()
    head = next(pod for pod in here.of("a") if "headgroup" in pod.metadata.name)
    (container,) = head.spec.containers
    plain = replace(container, resources=replace(container.resources, requests={"cpu": "1"}))
    here.pods[head.metadata.name] = replace(head, spec=replace(head.spec, containers=(plain,)))
    here.settle()
    assert len(here.placeholders) == 3
    run(here, 3)
    assert here.running("a") == 3


def test_a_cluster_that_grows_gets_its_further_nodes_in_the_same_way() -> None:
    here = after(4, {"headgroup": Group("l4"), "workers": Group("l4", 1, minimum=1)})
    here.resize("a", "workers", 3)
    run(here, 4)
    assert here.running("a") == 4
    assert not tainted(here)


def test_a_batch_that_shrinks_while_it_waits_asks_anew_for_what_it_needs_now() -> None:
    here = after(2, PAIR, stock={"l4": 2, "h100": 0})
    here.resize("a", "workers", 1)
    for name in [name for name in here.pods if "workers" in name][:1]:
        del here.pods[name]
    run(here, 3)
    assert here.running("a") == 2
    assert not here.placeholders


@pytest.mark.parametrize("policies", [(POLICY, PLACED), (PLACED, POLICY)], ids=["to", "from"])
def test_a_pool_that_changes_its_way_of_asking_is_asked_in_the_new_one(
    policies: tuple[GangPolicy, GangPolicy],
) -> None:
    before, later = policies
    here = after(2, PAIR, policy=before, stock={"l4": 0, "h100": 0})
    here.policy = later
    here.stock["l4"] = 3
    run(here, 6)
    assert here.running("a") == 3


def test_what_a_topology_requires_of_its_pods_is_refused() -> None:
    here = world()
    here.submit("a", PAIR)
    cluster = here.clusters["a"]
    notes = {REQUIRED_PLACEMENT: "rack"}
    here.clusters["a"] = replace(cluster, metadata=replace(cluster.metadata, annotations=notes))
    run(here, 1)
    assert f"annotation {REQUIRED_PLACEMENT}" in here.status("a")
    assert not here.placeholders


@pytest.mark.parametrize("of_pods", [False, True])
def test_the_review_refuses_it_as_well(of_pods: bool) -> None:
    notes = {REQUIRED_PLACEMENT: "rack"}
    needs = {"requests": {GPU_RESOURCE: "1"}}
    template = {
        "metadata": {"annotations": notes if of_pods else {}},
        "spec": {
            "nodeSelector": {POOL_LABEL: "l4"},
            "tolerations": [{"key": GPU_RESOURCE, "operator": "Exists"}],
            "containers": [{"name": "c", "resources": needs}],
        },
    }
    job = {"metadata": {"annotations": {} if of_pods else notes}, "spec": {"template": template}}
    obj = msgspec.convert(job, Job)
    asked = cast(Any, SimpleNamespace(object=obj, old=None, namespace="ns", operation="CREATE"))
    verdict = Reviews(lambda: PLACED).review(asked)
    assert isinstance(verdict, Deny)
    assert f"main has annotation {REQUIRED_PLACEMENT}" in verdict.message
    assert isinstance(Reviews(lambda: POLICY).review(asked), Allow), "of a queued pool"


def test_a_placeholder_leaves_a_lost_node_although_the_pod_that_it_copies_would_stay_longer() -> None:
    """The API server gives every pod such tolerations, and the first of a key counts alone."""
    here = world()
    here.submit("a", PAIR)
    here.kuberay()
    kept = Toleration(key="node.kubernetes.io/unreachable", operator="Exists", effect="NoExecute")
    for name, pod in here.pods.items():
        here.pods[name] = replace(pod, spec=replace(pod.spec, tolerations=(kept,)))
    (action,) = (each for each in here.decided("a").actions if isinstance(each, CreateSet))
    for body in pods(CLUSTERS.of(here.clusters["a"]), action):
        tolerations = [each for each in body["spec"]["tolerations"] if each["key"] == kept.key]
        assert [each["tolerationSeconds"] for each in tolerations] == [60]


# Crashes


@pytest.mark.parametrize("cloud_first", [False, True])
@pytest.mark.parametrize("writes", range(16))
def test_a_crash_after_each_write_is_finished_by_the_next_leader(writes: int, cloud_first: bool) -> None:
    """`cloud_first`: the nodes that have no pods go before there is one."""
    here = world(stock={"l4": 3, "h100": 0})
    here.submit("a", PAIR)
    here.kuberay()
    here.crash_after = writes
    for _ in range(3):
        with contextlib.suppress(Crash):
            for _ in range(8):
                here.reconcile("a")
                here.cloud()
        if cloud_first:
            here.cloud()
    run(here, 4)
    assert here.running("a") == 3
    assert not here.placeholders
    assert not tainted(here)


def test_a_crash_while_gates_go_leaves_no_pod_beside_its_placeholder() -> None:
    here = ready_to_pass()
    here.crash_after = here.writes + 4
    with contextlib.suppress(Crash):
        here.reconcile("a")
    assert here.gated("a") == 2
    assert not here.placeholders
    here.settle()
    assert here.gated("a") == 0
    here.kai()
    assert here.running("a") == 3


# The handover


@pytest.mark.parametrize("altered", ["", "9998-12-31T23:59:59Z", "9999-12-31T23:59:59Z"])
def test_pods_that_kai_places_nowhere_in_time_go_back_behind_the_gate(altered: str) -> None:
    """`altered`: what their owner writes over the time of the handover, to keep the nodes for longer."""
    here = ready_to_pass(stock={"l4": 3, "h100": 0})
    here.reconcile("a")
    assert here.gated("a") == 0
    for key, pod in here.pods.items():
        notes = pod.metadata.annotations | ({HANDED_OVER: altered} if altered else {})
        here.pods[key] = replace(pod, metadata=replace(pod.metadata, annotations=notes))
    here.stock["l4"] = 2  # A rival has taken one of the nodes that were empty for a moment.
    here.take_away(min(here.nodes))
    before = here.decided("a")
    assert not [each for each in before.actions if isinstance(each, DeleteUnbound)]
    assert before.requeue_at is not None
    here.now = before.requeue_at
    here.sweep()
    assert not tainted(here), "others may have what is left of the nodes"
    snapshot = here.snapshot("a")
    once_more = decide(changed(snapshot, pods=snapshot.pods[1:])).actions
    recalled = here.reconcile("a").actions
    assert len([each for each in recalled if isinstance(each, DeleteUnbound)]) == 3
    (event,) = (each for each in recalled if isinstance(each, EmitEvent))
    assert "on no node within 10m" in event.message
    assert event in once_more, "a cache that learns of one deletion after another says no more"
    run(here, 2)
    assert here.gated("a") == 3, "it waits as a whole again"
    here.stock["l4"] = 3
    run(here, 3)
    assert here.running("a") == 3


def test_a_gang_that_kai_refuses_to_group_after_the_gate_goes_back_and_says_why() -> None:
    """Its pods would wait without a node, and without a word, until a person deletes them."""
    here = ready_to_pass()
    here.reconcile("a")
    here.schedules = False
    here.groups["a"] = {"headgroup": Group("l4"), "workers": Group("l4", 2, minimum=3)}
    here.resize("a", "workers", 2)
    run(here, 12)
    assert here.gated("a") == 3
    assert "minReplicas 3 above replicas 2" in here.status("a")
    assert not here.nodes
    here.schedules = True
    here.groups["a"] = PAIR
    here.resize("a", "workers", 2)
    run(here, 4)
    assert here.running("a") == 3


def test_the_taint_stays_until_every_pod_has_a_node_and_no_longer_than_the_handover() -> None:
    here = ready_to_pass()
    here.reconcile("a")
    here.sweep()
    assert len(tainted(here)) == 3
    waits = max(pod.metadata.annotations[HANDED_OVER] for pod in here.of("a"))
    assert waits == here.now.isoformat().replace("+00:00", "Z")
    here.now += HANDOVER
    here.sweep()
    assert not tainted(here)


def test_uninstalling_releases_what_waits_and_finishes_what_passes() -> None:
    here = after(2, PAIR, stock={"l4": 2, "h100": 0})
    for action in shutdown_actions(here.snapshot("a")):
        here.carry_out("a", action)
    assert not here.placeholders
    assert not here.templates
    assert here.gated("a") == 3
    here = ready_to_pass()
    here.crash_after = here.writes + 4
    with contextlib.suppress(Crash):
        here.reconcile("a")
    for action in shutdown_actions(here.snapshot("a")):
        here.carry_out("a", action)
    assert here.gated("a") == 0


def test_only_a_gang_that_passes_has_used_the_nodes_of_its_placeholders() -> None:
    here = ready_to_pass()
    (first, *_) = here.placeholders.values()
    assert unused_cause(view_of(here), _known(here, first.metadata.name)) == ""
    (node,) = (each for each in here.nodes if each == first.spec.node_name)
    here._taint(here.nodes[node], "")
    assert unused_cause(view_of(here), _known(here, first.metadata.name)) == "asked_again"
    (batch,) = here.snapshot("a").batch_snapshots
    leader = batch.batch.leader
    notes = {"muster.dev/tries": "1", LAST_FAILURE: "provisionTimeout of 30m has passed: no node"}
    here.pods[leader.metadata.name] = replace(leader, metadata=replace(leader.metadata, annotations=notes))
    cause = unused_cause(view_of(here), _known(here, first.metadata.name))
    assert cause == "provisionTimeout_passed"
    placeholder = _known(here, first.metadata.name)
    here.end("a")
    assert unused_cause(view_of(here), placeholder) == "gang_gone"


def _known(here: PlacedWorld, name: str) -> Placeholder:
    """The placeholder as the cache has it."""
    return next(each for each in view_of(here).placeholders.store if each.metadata.name == name)


def test_another_gangs_placeholders_are_not_its_own() -> None:
    here = world(stock={"l4": 6, "h100": 0})
    for name in ("a", "b"):
        here.submit(name, PAIR)
    here.kuberay()
    here.settle()
    sets = {request_of_placeholder(name) for name in here.placeholders}
    assert len(sets) == 2
    run(here, 3)
    assert here.running("a") == here.running("b") == 3
    assert not any(is_gated(pod) for pod in here.pods.values())


def test_nodes_that_come_one_after_another_are_one_write() -> None:
    here = world(stock={"l4": 1, "h100": 0})
    here.queues = {"team-a": queue("team-a", quota=20)}
    here.submit("a", {"headgroup": Group("l4"), "workers": Group("l4", 7)})
    run(here, 1)
    said = set[str]()
    for count in range(1, 8):
        here.now += timedelta(seconds=2)
        here.stock["l4"] = count
        here.cloud()
        for name, pod in here.placeholders.items():
            if pod.spec.node_name and not pod.status.conditions:
                bound = with_condition((), "PodScheduled", "True", here.now)
                here.placeholders[name] = replace(pod, status=PlaceholderStatus(conditions=bound))
        here.settle()
        said.add(here.status("a"))
    assert len(said) == 1, said
    here.now += timedelta(seconds=10)
    here.settle()
    assert "7 of 8 l4 nodes" in here.status("a")


@pytest.mark.parametrize("is_left", [False, True])
def test_nodes_are_not_paid_for_while_no_policy_says_what_for(is_left: bool) -> None:
    """`is_left`: everything is deleted side by side, and the deletions of placeholders alone fail."""
    here = world(stock={"l4": 2, "h100": 0})
    here.submit("a", PAIR)
    run(here, 2)
    assert len(here.nodes) == 2
    here.policy = None  # type: ignore[assignment]  # a policy that is deleted, or refused
    if is_left:
        here.templates.clear()
    run(here, 6)
    assert not here.nodes
    assert not here.placeholders
    assert not here.templates
    here.policy, here.stock["l4"] = PLACED, 3
    run(here, 4)
    assert here.running("a") == 3


@pytest.mark.parametrize("writes", range(6))
def test_whoever_waits_reads_why_a_try_has_failed_whatever_becomes_of_the_deletions(writes: int) -> None:
    here = world(stock={"l4": 2, "h100": 0})
    here.submit("a", PAIR)
    here.kuberay()
    for _ in range(60):
        here.now += timedelta(minutes=1)
        here.cloud()
        here.crash_after = here.writes + writes
        here.settle()
        if any(LAST_FAILURE in pod.metadata.annotations for pod in here.of("a")):
            break
    assert [each.reason for each in here.told].count("GangReleased") == 1


def test_a_gang_that_is_in_line_by_a_cache_that_lags_has_one_place_in_it() -> None:
    """The answer to its request was lost: it waits for its turn, and then the request is seen."""
    here = world(stock={"l4": 0, "h100": 0})
    here.begin("a", {"headgroup": Group("l4"), "workers": Group("h100", 1)})
    view = view_of(here)
    snapshot = view.snapshot(here.clusters["a"], now=here.now)
    (position,) = [each.turn_position() for each in snapshot.batch_snapshots]
    assert position is not None
    unseen = changed(position, asked=frozenset(), next_pool="h100")
    for in_line in ((unseen,), (), (unseen,), ()):
        view.gathering.decided(snapshot, Decision(in_line=in_line))
        assert [*view.gathering.line] == [position]
