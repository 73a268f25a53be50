"""The machine of KAI gangs on virtual time: what it promises, whatever KAI, KubeRay and the cloud do."""

from dataclasses import replace as changed
from datetime import timedelta
from typing import Any

import pytest

from muster.controller.gangs.deadlines import SETTLED_AFTER
from muster.controller.gangs.gpu_parts import read_number
from muster.controller.gangs.identity import ATTEMPT
from muster.controller.gangs.objects import (
    Affinity,
    Container,
    ContainerPort,
    LabelSelector,
    PodAffinity,
    PodAffinityTerm,
    PodResourceClaim,
    ResourceNeeds,
)
from muster.controller.gangs.retry import REFUSED, TRIES, parse_history
from muster.controller.gangs.split import split
from muster.controller.kai.actions import Ungate
from muster.controller.kai.labels import CLUSTER_UID, is_gated
from muster.controller.kai.ledger import Ledger
from muster.controller.kai.objects import GatedPod, GatedSpec, RayCluster
from muster.controller.kai.pod_groups import pod_group_demands
from muster.controller.kai.queue_capacity import Shortfall
from muster.controller.kube.resource import ObjectMeta
from muster.model.gangpolicy import FlavorPolicy, GangPolicy, KaiPolicy, OverQuota
from muster.model.names import (
    CLASS_ANNOTATION,
    CONSUME_ANNOTATION,
    GKE_LEASE_LABEL,
    GKE_QUEUED_CLASS,
    POOL_LABEL,
)
from tests.unit.gangs.paper import Crash
from tests.unit.kai.kai_world import POLICY, Group, World, queue, replace

HEAD = Group("l4")
MINUTE = timedelta(minutes=1)
ALLOW = changed(POLICY, kai=KaiPolicy(over_quota=OverQuota.ALLOW))


def world(quota: float = 4, limit: float | None = None, **settings: object) -> World:
    made = World(**settings)  # type: ignore[arg-type]  # the test's own keywords
    made.queues = {
        "dep": queue("dep", quota=8, limit=8),
        "team-a": queue("team-a", quota=quota, limit=limit, parent="dep"),
        "team-b": queue("team-b", quota=4, parent="dep"),
    }
    return made


def run(here: World, minutes: int) -> None:
    here.ticks(minutes)


def after(minutes: int, groups: dict[str, Group], **settings: Any) -> World:
    """A world in which gang `a` was submitted so long ago."""
    here = world(**settings)
    here.submit("a", groups)
    run(here, minutes)
    return here


# Passing


def test_every_pod_is_stamped_pinned_and_ungated_once_the_whole_gang_stands() -> None:
    here = after(2, {"headgroup": HEAD, "workers": Group("h100", 2)})
    assert here.gated("a") == 3, "nothing passes before every request is provisioned"
    run(here, 4)
    assert here.gated("a") == 0
    assert here.running("a") == 3
    for pod in here.of("a"):
        request = pod.metadata.annotations[CONSUME_ANNOTATION]
        assert pod.metadata.annotations[CLASS_ANNOTATION] == GKE_QUEUED_CLASS
        assert pod.spec.node_selector[GKE_LEASE_LABEL] == f"lease-{request}"
    (event,) = [event for event in here.told if event.reason == "GangReady"]
    assert "provisioned" in event.message
    assert event.message == f"3 pods {here.status('a')}", "one pod says it for all of them"


def test_the_oldest_pod_says_why_a_cluster_is_held_back() -> None:
    here = after(2, {"headgroup": HEAD, "workers": Group("l4", 1, minimum=3)})
    held_back = here.status("a")
    assert "minReplicas 3 above replicas 1" in held_back
    here.resize("a", "workers", 2)
    run(here, 2)
    assert here.gated("a") == 3
    assert " / " not in here.status("a"), "a younger pod says nothing"


def test_a_half_created_set_of_pods_is_not_provisioned() -> None:
    here = world()
    here.submit("a", {"headgroup": HEAD, "workers": Group("l4", 2)})
    here.kuberay(most=1)
    here.settle()
    assert here.requests == {}
    assert here.status("a") == "waits until it has all 2 pods of workers"
    here.kuberay()
    here.settle()
    assert here.requested() == 1, "the first of its two shapes is asked for"


def test_what_kai_starts_with_is_one_gang_and_the_rest_grows_into_it() -> None:
    """KAI's minimum is minReplicas where it is set: waiting for more would hold what may run."""
    here = after(6, {"headgroup": Group("cpu"), "workers": Group("l4", 3, minimum=1)}, quota=2)
    assert here.running("a") == 3, "the head, one worker, and as many more as the quota has room for"
    assert here.gated("a") == 1
    assert "no room for 1 GPU (" in here.status("a")


def test_a_cluster_that_grows_passes_the_same_door() -> None:
    here = after(6, {"headgroup": HEAD, "workers": Group("l4", 1)}, quota=2)
    assert here.running("a") == 2
    here.resize("a", "workers", 3)
    run(here, 3)
    assert here.gated("a") == 2
    assert here.requested() == 2, "no request for what the quota does not hold"
    here.queues["team-a"] = queue("team-a", quota=4, parent="dep")
    run(here, 6)
    assert here.running("a") == 4


def test_a_growing_group_of_several_hosts_passes_in_whole_replicas_only() -> None:
    here = after(6, {"headgroup": HEAD, "workers": Group("l4", 1, hosts=2)}, quota=4)
    here.resize("a", "workers", 2)
    run(here, 4)
    assert here.running("a") == 3
    assert here.gated("a") == 2, "one of the two hosts would fit; a replica needs both"


@pytest.mark.parametrize("room", range(7))
def test_as_much_of_a_growth_passes_as_there_is_room_for(room: int) -> None:
    here = after(
        8, {"headgroup": HEAD, "workers": Group("l4", 7, minimum=1)}, quota=2 + room, stock={"l4": 12}
    )
    assert here.running("a") == 2 + room


def test_the_room_of_a_large_growth_is_reckoned_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once for each pod of it, beside thousands that run, took seconds in which nobody else was served."""
    here = after(6, {"headgroup": HEAD, "workers": Group("l4", 301, minimum=1)}, quota=2)
    assert here.gated("a") == 300
    looks: list[object] = []

    shortfall = Ledger.shortfall

    def counted(*args: Any, **settings: Any) -> Shortfall | None:
        looks.append(args)
        return shortfall(*args, **settings)

    monkeypatch.setattr(Ledger, "shortfall", counted)
    assert len(here.decided("a").shortfalls) == 1
    assert 0 < len(looks) <= 10


def test_a_host_that_is_lost_from_a_replica_above_the_minimum_comes_back_alone() -> None:
    """KubeRay makes that one pod again: there is no whole replica behind the gate to wait for."""
    here = after(
        8,
        {"headgroup": Group("cpu"), "workers": Group("l4", 2, minimum=1, hosts=2)},
        quota=8,
        stock={"l4": 8},
    )
    assert here.running("a") == 5
    _lose(here, "a", "workers")
    run(here, 8)
    assert here.running("a") == 5


def test_with_a_lost_host_and_a_growth_behind_it_what_fits_makes_replicas_whole() -> None:
    here = after(
        8,
        {"headgroup": Group("cpu"), "workers": Group("l4", 2, minimum=1, hosts=2)},
        quota=5,
        stock={"l4": 8},
    )
    here.resize("a", "workers", 3)
    _lose(here, "a", "workers")
    run(here, 10)
    assert here.running("a") == 5, "the lost host is back; of the third replica one host alone would fit"
    assert here.gated("a") == 2


def test_parts_of_gpus_are_packed_into_whole_ones() -> None:
    here = after(8, {"headgroup": HEAD, "workers": Group("l4", 4, fraction="0.5")}, quota=3)
    assert here.running("a") == 5
    assert len(here.nodes) == 3
    assert here.most_requested == 3


@pytest.mark.parametrize("text", ["1e30000000", "1e400", "half", "1/3", "-1", ""])
def test_a_part_that_is_no_plain_number_is_refused_at_once(text: str) -> None:
    """Some take minutes to become a number, in which the controller would do nothing else."""
    with pytest.raises(ValueError, match=r"gpu-memory: .* is not a number"):
        read_number({"gpu-memory": text}, "gpu-memory")


def test_parts_in_memory_are_parts_of_the_pools_gpu() -> None:
    here = after(6, {"headgroup": Group("cpu"), "workers": Group("l4", 3, memory="8192")}, quota=1)
    assert here.running("a") == 4
    assert here.most_requested == 1


def test_parts_in_memory_are_parts_of_the_only_pools_gpu_where_no_pool_is_named() -> None:
    one = changed(POLICY, flavors=tuple(flavor for flavor in POLICY.flavors if flavor.name != "h100"))
    here = world(quota=1, policy=one)
    here.submit("a", {"headgroup": Group("cpu"), "workers": Group("l4", 3, memory="8192")})
    here.kuberay()
    for name, pod in here.pods.items():
        if pod.metadata.annotations:
            here.pods[name] = replace(pod, spec=replace(pod.spec, node_selector={}))
    here.settle()
    assert here.requested() == 1, "three thirds of a GPU have room in a quota of one"


def test_without_anything_to_provision_room_alone_decides() -> None:
    plain = changed(POLICY, flavors=(FlavorPolicy(name="l4", verify_nodes=False, gpus_per_node=1),))
    here = world(quota=1, policy=plain)
    here.submit("a", {"headgroup": HEAD})
    here.submit("b", {"headgroup": HEAD})
    run(here, 2)
    assert sorted([here.gated("a"), here.gated("b")]) == [0, 1]
    assert here.requests == {}


# Room


def test_work_that_its_quota_blocks_never_asks_for_a_node() -> None:
    here = after(30, {"headgroup": HEAD, "workers": Group("l4", 2)}, quota=2)
    assert here.most_requested == 0
    assert here.gated("a") == 3
    assert here.status("a") == ("waits for its queue: queue team-a has no room for 3 GPUs (quota 2)")


def test_the_quota_of_a_queue_above_blocks_as_well() -> None:
    here = world(quota=8)
    here.queues["dep"] = queue("dep", quota=2)
    here.submit("a", {"headgroup": HEAD, "workers": Group("l4", 2)})
    run(here, 5)
    assert "queue dep has no room for 3 GPUs" in here.status("a")


@pytest.mark.parametrize("blind", [False, True])
@pytest.mark.parametrize("head", [HEAD, Group("cpu")], ids=["two-requests", "one-request"])
def test_of_two_gangs_that_race_for_the_last_quota_one_passes_and_the_other_holds_nothing(
    blind: bool, head: Group
) -> None:
    here = world(quota=3)
    for name in ("a", "b"):
        here.submit(name, {"headgroup": head, "workers": Group("l4", 2 if head.pool == "cpu" else 1)})
    here.kuberay()
    pods = len(here.of("a"))
    if blind:
        here.reconcile_blind()
        assert len(here.requests) == 2, "the test must make them cross"
    here.settle()
    owners = {item.metadata.labels[CLUSTER_UID] for item in here.requests.values()}
    assert len(owners) == 1, "the later one has given back what it asked for before a node is bought"
    run(here, 12)
    assert sorted([here.running("a"), here.running("b")]) == [0, pods]
    winner, loser = ("a", "b") if here.running("a") else ("b", "a")
    owners = {item.metadata.labels[CLUSTER_UID] for item in here.requests.values()}
    assert owners == {f"uid-{winner}"}, "the other holds nothing"
    here.end(winner)
    run(here, 12)
    assert here.running(loser) == pods


@pytest.mark.parametrize("policy", [POLICY, ALLOW])
def test_a_queue_without_a_limit_lets_nothing_through_as_kai_starts_nothing_of_it(policy: GangPolicy) -> None:
    here = after(8, {"headgroup": HEAD}, quota=4, limit=0, policy=policy)
    assert here.running("a") == 0
    assert "limit 0" in here.status("a")


@pytest.mark.parametrize(
    ("policy", "limit", "runs"), [(POLICY, 4, 0), (ALLOW, 4, 3), (ALLOW, 2, 0), (ALLOW, 0, 0), (ALLOW, -1, 3)]
)
def test_over_quota_a_gang_passes_only_where_the_policy_allows_it(
    policy: GangPolicy, limit: float, runs: int
) -> None:
    """And up to the limit of its queue."""
    here = after(8, {"headgroup": HEAD, "workers": Group("l4", 2)}, quota=1, limit=limit, policy=policy)
    assert here.running("a") == runs


def test_work_that_cannot_be_preempted_never_passes_over_quota() -> None:
    here = world(quota=1, limit=4, policy=ALLOW)
    here.submit("a", {"headgroup": HEAD, "workers": Group("l4", 2)}, priorityClassName="build")
    run(here, 8)
    assert here.running("a") == 0
    assert "non-preemptible" in here.status("a")


def test_work_that_cannot_be_preempted_takes_quota_that_preemptible_work_uses() -> None:
    here = world(quota=2, limit=4)
    here.submit("train", {"headgroup": HEAD, "workers": Group("l4", 1)})
    run(here, 6)
    here.submit("serve", {"headgroup": HEAD}, priorityClassName="inference")
    run(here, 6)
    assert here.running("serve") == 1


URGENT = {"priorityClassName": "build-preemptible"}


def gathering(**sizes: int) -> World:
    """Gangs that have asked for nodes of which there are none, in a queue of four GPUs."""
    here = world(stock={"l4": 0, "h100": 0})
    for name, size in sizes.items():
        here.submit(name, {"headgroup": HEAD, "workers": Group("l4", size - 1)})
        here.ticks(1)
    return here


def asking(here: World) -> set[str]:
    return {item.metadata.labels[CLUSTER_UID].removeprefix("uid-") for item in here.requests.values()}


def test_a_gang_that_gathers_gives_its_room_to_one_of_a_higher_priority() -> None:
    """It begins again after that one."""
    here = gathering(low=4)
    here.begin("high", {"headgroup": HEAD, "workers": Group("l4", 3)}, **URGENT)
    assert asking(here) == {"high"}
    (released,) = here.told
    assert "a gang of higher priority" in released.message
    assert here.status("low").startswith("waits for its queue: ")
    here.stock["l4"] = 4
    here.ticks(6)
    assert (here.running("high"), here.running("low")) == (4, 0)
    here.end("high")
    here.ticks(8)
    assert here.running("low") == 4


def test_only_as_many_gangs_give_way_as_that_one_needs() -> None:
    """The youngest of the lowest priority first."""
    here = gathering(first=1, second=1, third=1)
    here.begin("high", {"headgroup": HEAD, "workers": Group("l4", 1)}, **URGENT)
    assert asking(here) == {"first", "second", "high"}


@pytest.mark.parametrize(("size", "priority"), [(5, URGENT), (4, {}), (4, {"priorityClassName": "train"})])
def test_a_gang_gives_way_to_none_that_could_not_begin_or_is_as_low(
    size: int, priority: dict[str, str]
) -> None:
    here = gathering(low=4)
    here.begin("other", {"headgroup": HEAD, "workers": Group("l4", size - 1)}, **priority)
    assert asking(here) == {"low"}


def test_a_gang_that_has_its_nodes_gives_way_to_none() -> None:
    """It starts, and KAI may take it then."""
    here = gathering(low=4)
    for request in here.requests:
        here.provision(request, ready=False)
    here.begin("high", {"headgroup": HEAD, "workers": Group("l4", 3)}, **URGENT)
    assert asking(here) == {"low"}


@pytest.mark.parametrize(
    ("name", "told"),
    [("nowhere", "queue nowhere does not exist"), ("dep", "queue dep has queues below it"), ("", "no queue")],
)
def test_a_queue_that_takes_no_work_is_told_and_nothing_is_asked(name: str, told: str) -> None:
    here = world()
    here.begin("a", {"headgroup": HEAD}, queue=name)
    assert told in here.status("a")
    assert here.requests == {}


def test_room_that_is_lost_on_the_way_gives_the_capacity_back() -> None:
    here = after(2, {"headgroup": HEAD}, delay=timedelta(hours=1))
    assert here.requests
    here.queues["team-a"] = queue("team-a", quota=0, parent="dep")
    here.settle()
    assert here.requests == {}


# The way back


def test_a_stock_out_releases_the_gang_and_it_comes_back_later() -> None:
    here = world(stock={"l4": 4, "h100": 0})
    here.begin("a", {"headgroup": HEAD, "workers": Group("h100", 1)})
    (request,) = here.requests
    here.answer(request, "Failed", "CapacityIsNotFound")
    here.settle()
    assert here.requests == {}
    assert here.templates == {}
    assert "out of stock" in here.status("a")
    assert "try 2 at" in here.status("a")
    here.stock["h100"] = 1
    run(here, 8)
    assert here.running("a") == 2


def test_the_deadline_of_all_tries_counts_from_the_first_request() -> None:
    here = world(stock={"l4": 4, "h100": 0})
    here.begin("a", {"headgroup": HEAD, "workers": Group("h100", 1)})
    asked, (request,) = here.now, here.requests
    here.now += 5 * MINUTE
    here.answer(request, "Failed", "CapacityIsNotFound")
    here.settle()
    (leader,) = [pod for pod in here.of("a") if TRIES in pod.metadata.annotations]
    assert parse_history(leader).first_try == asked


def test_a_next_try_that_a_clock_ahead_of_ours_has_put_off_is_not_waited_for() -> None:
    here = world(delay=timedelta(hours=3))
    here.begin("a", {"headgroup": HEAD})
    (request,) = here.requests
    here.answer(request, "Failed", "CapacityIsNotFound")
    here.settle()
    assert here.requests == {}
    here.now -= timedelta(hours=1)
    here.settle()
    (asked,) = here.requests
    for _ in range(60):
        here.now += MINUTE
        here.settle()
        assert set(here.requests) == {asked}, "what is asked for stays asked for"


def test_what_no_retry_can_mend_is_refused_until_a_person_acts() -> None:
    here = world()
    here.begin("a", {"headgroup": HEAD})
    (request,) = here.requests
    here.answer(request, "Failed", "Invalid")
    run(here, 60)
    assert here.requests == {}
    (pod,) = here.of("a")
    assert REFUSED in pod.metadata.annotations
    assert here.status("a").startswith("refused: ")


def test_a_refused_gang_that_asks_for_fewer_pods_begins_anew() -> None:
    """That is the fix that the refusal names; the pod that carries it stays."""
    here = _refused(Group("l4", 18))
    here.resize("a", "workers", 4)
    for pod in [pod for pod in here.of("a") if "workers" in pod.metadata.name][4:]:
        del here.pods[pod.metadata.name]
        here.settle()
    run(here, 8)
    assert here.running("a") == 5
    assert not any(REFUSED in pod.metadata.annotations for pod in here.of("a"))


def test_a_refused_gang_begins_anew_when_its_pool_may_have_more_nodes() -> None:
    here = _refused(Group("l4", 18))
    larger = tuple(changed(flavor, max_nodes=20 * bool(flavor.max_nodes)) for flavor in POLICY.flavors)
    here.policy = changed(POLICY, flavors=larger)
    run(here, 8)
    assert here.running("a") == 19


OFF_EACH_OTHER = PodAffinity(
    required_during_scheduling_ignored_during_execution=(
        PodAffinityTerm(topology_key="kubernetes.io/hostname", label_selector=LabelSelector()),
    )
)


@pytest.mark.parametrize(
    ("ports", "affinity", "field"),
    [
        ((ContainerPort(host_port=80),), None, "hostPort"),
        ((), Affinity(pod_anti_affinity=OFF_EACH_OTHER), "podAntiAffinity"),
    ],
)
def test_pods_that_share_no_node_need_one_each(
    ports: tuple[ContainerPort, ...], affinity: Affinity | None, field: str
) -> None:
    """Until they may share it."""
    small = changed(POLICY.flavors[0], gpus_per_node=2, max_nodes=3)
    here = world(policy=changed(POLICY, flavors=(small, *POLICY.flavors[1:])), stock={"l4": 4})
    here.submit("a", {"headgroup": Group("cpu"), "workers": Group("l4", 4)})
    here.kuberay()
    free = dict(here.pods)
    for name, pod in free.items():
        if "workers" in name:
            containers = tuple(replace(each, ports=ports) for each in pod.spec.containers)
            here.pods[name] = replace(pod, spec=replace(pod.spec, containers=containers, affinity=affinity))
    run(here, 2)
    assert f"workers (one for each pod, by its {field}) needs 4 nodes" in here.status("a")
    here.pods |= free
    run(here, 8)
    assert here.running("a") == 5


def test_the_refusal_of_a_growth_does_not_keep_out_what_the_minimum_has_lost() -> None:
    here = _refused(Group("l4", 20, minimum=2))
    assert here.running("a") == 3
    _lose(here, "a", "workers")
    run(here, 8)
    assert here.running("a") == 3


def test_what_the_minimum_has_lost_does_not_wait_for_the_next_try_of_a_growth() -> None:
    here = after(8, {"headgroup": Group("cpu"), "workers": Group("l4", 2, minimum=2)}, stock={"l4": 3})
    here.resize("a", "workers", 4)
    here.kuberay()
    here.settle()
    while "try 5 at" not in here.status("a"):
        for name, request in list(here.requests.items()):
            if not request.status.holds("Provisioned"):
                here.answer(name, "Failed", "CapacityIsNotFound")
        here.settle()
        here.now += MINUTE
        here.settle()
    _lose(here, "a", "workers")
    run(here, 6)
    assert here.running("a") == 3
    assert here.gated("a") == 2, "the growth goes on being tried"


def test_what_is_refused_in_part_stays_refused_while_the_whole_is_the_same() -> None:
    here = after(4, {"headgroup": Group("cpu"), "workers": Group("l4", 4, minimum=1)}, quota=2)
    here.queues["team-a"] = queue("team-a", quota=3, parent="dep")
    here.settle()
    for name, request in list(here.requests.items()):
        if not request.status.holds("Provisioned"):
            here.answer(name, "Failed", "Invalid")
    run(here, 2)
    assert "refused: " in here.status("a")
    before = here.writes
    run(here, 20)
    assert here.writes == before


def _refused(workers: Group) -> World:
    """More than the pool's sixteen nodes, in queues that have room for all."""
    here = world(quota=40, stock={"l4": 30})
    here.queues["dep"] = queue("dep", quota=40)
    here.submit("a", {"headgroup": Group("cpu"), "workers": workers})
    run(here, 8)
    assert "needs 18 nodes, more than the pool can have" in here.status("a")
    return here


def test_a_late_sibling_releases_the_gang_before_the_booking_ends() -> None:
    here = after(20, {"headgroup": HEAD, "workers": Group("h100", 1)}, stock={"l4": 0, "h100": 4})
    assert here.gated("a") == 2
    (leader,) = [pod for pod in here.of("a") if TRIES in pod.metadata.annotations]
    assert leader.metadata.annotations[TRIES] == "1"


def test_released_pods_whose_booking_ends_before_kai_places_them_go_back_behind_the_gate() -> None:
    here = world()
    here.schedules = False
    here.submit("a", {"headgroup": HEAD})
    run(here, 5)
    assert here.gated("a") == 0
    before = {pod.metadata.uid for pod in here.of("a")}
    run(here, 12)
    assert {pod.metadata.uid for pod in here.of("a")} & before == set()
    assert any(told.reason == "GangRecalled" for told in here.told)
    here.schedules = True
    run(here, 8)
    assert here.running("a") == 1


def test_a_gang_that_kai_has_not_bound_goes_back_whole_when_one_of_its_leases_is_revoked() -> None:
    """KAI binds a gang whole: its head would hold a node until the worker's is bought again."""
    here = world()
    here.schedules = False
    here.submit("a", {"headgroup": HEAD, "workers": Group("h100", 1)})
    run(here, 5)
    assert here.gated("a") == 0
    assert len(here.requests) == 2
    before = {pod.metadata.uid for pod in here.of("a")}
    revoked = max(here.requests)
    here.answer(revoked, "CapacityRevoked", "Revoked")
    run(here, 1)
    assert {pod.metadata.uid for pod in here.of("a")} & before == set()
    assert here.requests == {}, "the other lease is given back, too"
    here.schedules = True
    run(here, 12)
    assert here.running("a") == 2


def test_pods_that_run_on_a_lease_that_is_revoked_are_left_to_kai() -> None:
    here = after(5, {"headgroup": HEAD})
    (request,) = here.requests
    here.answer(request, "CapacityRevoked", "Revoked")
    before = here.writes
    here.settle()
    assert here.writes == before
    (pod,) = here.of("a")
    del here.nodes[pod.spec.node_name], here.pods[pod.metadata.name]
    run(here, 6)
    assert here.running("a") == 1, "the pod that KubeRay made anew has passed with a request of its own"
    assert request not in here.requests


def test_a_deleted_cluster_leaves_nothing() -> None:
    here = after(2, {"headgroup": HEAD})
    gone = here.clusters["a"]
    here.clusters["a"] = replace(gone, metadata=replace(gone.metadata, deletion_timestamp=here.now))
    here.settle()
    assert (here.requests, here.templates) == ({}, {})


# Crashes and quiet


def test_a_crash_after_each_write_is_finished_by_the_next_leader() -> None:
    """The same end, with as many requests, whatever write was the last."""

    def whole(crash_after: int | None) -> World:
        groups = {"headgroup": Group("cpu"), "workers": Group("l4", 2), "big": Group("h100", 2)}
        return after(12, groups, crash_after=crash_after)

    for last in range(1, whole(None).writes):
        here = whole(last)
        assert here.running("a") == 5, f"after a crash behind write {last}"
        assert here.requested() == 4
        assert len(here.requests) == 2


def _cut_short(here: World) -> None:
    """Gang `a` of a head and two workers has begun to pass, and the controller has died."""
    here.submit("a", {"headgroup": HEAD, "workers": Group("l4", 2)})
    run(here, 1)
    while all(is_gated(pod) for pod in here.of("a")):
        here.crash_after = None
        here.now += MINUTE
        here.cloud()
        here.crash_after = here.writes + 1
        try:
            here.reconcile("a")
        except Crash:
            continue
    assert 0 < here.gated("a") < 3, "the test must cut the release short"
    here.crash_after = None


def test_a_release_cut_short_is_finished_even_when_its_room_is_gone() -> None:
    here = world(quota=3)
    _cut_short(here)
    here.queues["team-a"] = queue("team-a", quota=0, parent="dep")
    here.settle()
    assert here.gated("a") == 0


@pytest.mark.parametrize("condition", ["Failed", "BookingExpired", ""])
def test_a_release_cut_short_is_taken_back_when_its_request_is_lost(condition: str) -> None:
    """Or gone, without a word."""
    here = world(quota=3)
    _cut_short(here)
    gated, request = here.gated("a"), next(iter(here.requests))
    if condition:
        here.answer(request, condition, "CapacityRevoked")
    else:
        here.requests.clear()
    here.reconcile("a")
    assert here.gated("a") == gated, "no pod may pass to a node that its gang has lost"
    assert ("what it has asked for is gone" in here.status("a")) is (not condition)


def test_a_growth_cut_short_lets_no_more_pass_than_there_was_room_for() -> None:
    plain = changed(POLICY, flavors=(FlavorPolicy(name="l4", verify_nodes=False, gpus_per_node=1),))
    here = world(quota=2, policy=plain)
    here.begin("a", {"headgroup": HEAD, "workers": Group("l4", 5, minimum=1)})
    here.queues["team-a"] = queue("team-a", quota=4, parent="dep")
    here.crash_after = here.writes + 1
    with pytest.raises(Crash):
        here.reconcile("a")
    assert here.gated("a") == 3, "the test must cut the release short"
    here.crash_after = None
    here.settle()
    assert here.gated("a") == 2


def test_ungating_twice_equals_ungating_once() -> None:
    here = after(1, {"headgroup": HEAD, "workers": Group("l4", 1)})
    decision = here.reconcile("a")
    while not any(isinstance(action, Ungate) for action in decision.actions):
        here.now += MINUTE
        here.cloud()
        decision = here.reconcile("a")
    once = dict(here.pods)
    for action in decision.actions:
        here.carry_out("a", action)
    assert here.pods == once


def test_news_that_may_change_within_seconds_is_written_once_it_has_settled() -> None:
    here = world(delay=timedelta(hours=1))
    here.begin("a", {"headgroup": HEAD})
    (request,) = here.requests
    before = here.status("a")
    here.now += timedelta(seconds=30)
    here.answer(request, "Accepted", "")
    decision = here.reconcile("a")
    assert here.status("a") == before
    assert decision.requeue_at == here.now + SETTLED_AFTER
    here.now = decision.requeue_at
    here.reconcile("a")
    assert here.status("a") != before


def test_a_gang_that_waits_or_runs_costs_no_writes() -> None:
    here = world(quota=2, delay=timedelta(hours=3))
    here.submit("runs", {"headgroup": Group("cpu")})
    here.submit("asks", {"headgroup": HEAD})
    here.submit("waits", {"headgroup": HEAD, "workers": Group("l4", 2)})
    run(here, 3)
    before = here.writes
    run(here, 20)
    assert here.writes == before


def test_a_split_gang_takes_its_pools_in_turn_and_never_holds_half_against_another() -> None:
    here = world(quota=8, stock={"l4": 1, "h100": 1})
    here.queues["dep"] = queue("dep", quota=-1)
    for name in ("a", "b"):
        here.submit(name, {"headgroup": HEAD, "workers": Group("h100", 1)})
    for _ in range(40):
        here.tick()
        held = [each for each in here.requests.values() if each.status.holds("Provisioned")]
        attempts = {request.metadata.labels[ATTEMPT] for request in held}
        assert len(attempts) <= 1 or here.running("a") or here.running("b")
    assert sorted([here.running("a"), here.running("b")]) == [0, 2]


def test_a_gang_that_waits_for_room_is_in_nobodys_way() -> None:
    """It came first to the pool, but its queue's room is held by what still runs of the gang behind it."""
    here = world(quota=4)
    parts = {"headgroup": HEAD, "workers": Group("h100", 2)}
    here.submit("runs", parts)
    run(here, 6)
    here.submit("waits", parts)
    run(here, 2)
    assert "no room for 3 GPUs" in here.status("waits")
    _lose(here, "runs", "headgroup", "workers")
    run(here, 8)
    assert here.running("runs") == 3
    here.end("runs")
    run(here, 8)
    assert here.running("waits") == 3


def test_only_what_is_true_now_is_said_of_pods_that_have_passed() -> None:
    here = world(quota=4)
    here.submit("runs", {"headgroup": HEAD, "workers": Group("h100", 2)})
    run(here, 6)
    here.queues["dep"] = queue("dep", quota=0, limit=0)
    _lose(here, "runs", "workers")
    run(here, 2)
    assert "waits for its queue" in here.status("runs")
    _lose(here, "runs", "headgroup")  # the head leads from now on
    here.queues["dep"] = queue("dep", quota=8)
    run(here, 8)
    assert here.running("runs") == 3
    assert "waits" not in here.status("runs")


def _lose(here: World, name: str, *groups: str) -> None:
    """One node under each of these groups, and the pod on it."""
    for group in groups:
        pods = (pod for pod in here.of(name) if pod.metadata.labels["ray.io/group"] == group)
        here.take_away(next(pod.spec.node_name for pod in pods if pod.spec.node_name))


@pytest.mark.parametrize("pool", ["l4", ""])
def test_pods_that_claim_their_devices_are_asked_for_as_those_that_request_them(pool: str) -> None:
    """By Dynamic Resource Allocation: no container requests a GPU, and the gate would go at once."""
    claims = (PodResourceClaim(name="gpu", resource_claim_template_name="one-gpu"),)
    cpu = Container(resources=ResourceNeeds(requests={"cpu": "1"}))
    pods = [
        GatedPod(
            metadata=ObjectMeta(name=f"worker-{number}", namespace="ns"),
            spec=GatedSpec(
                containers=(cpu,), node_selector={POOL_LABEL: pool} if pool else {}, resource_claims=claims
            ),
        )
        for number in range(2)
    ]
    # Without a pool they go to the only one that has GPUs.
    flavors = tuple(each for each in POLICY.flavors if pool or each.name != "h100")
    policy = changed(POLICY, flavors=flavors)
    (found,) = pod_group_demands(pods, RayCluster(), policy)
    (request,) = split([found.demand], annotations={}).request_specs
    assert (request.pool, request.count) == ("l4", 2)
