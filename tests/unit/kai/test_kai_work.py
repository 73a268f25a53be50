"""Gangs of other work than Ray clusters: whole or not at all, by the counts of their kinds."""

from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Any

import pytest

from muster.controller.kai.decide import decide
from muster.controller.kai.groups import needed
from muster.controller.kai.labels import gang_of, is_owned
from muster.controller.kai.objects import COUNTED_WORK, CountedWork, Gate, GatedPod, GatedSpec
from muster.controller.kube.resource import Key, ObjectMeta, OwnerReference
from muster.model.names import CONSUME_ANNOTATION, GANG_GATE, KAI_BATCH_MINIMUM
from tests.length import is_short
from tests.unit.gangs.paper import START
from tests.unit.kai.kai_world import Group, World, queue

KINDS: Mapping[str, dict[str, Group]] = {
    "Job": {"main": Group("l4", 4)},
    "JobSet": {"driver": Group("cpu"), "workers": Group("l4", 2, hosts=2)},
    "PyTorchJob": {"master": Group("l4"), "worker": Group("l4", 3)},
    "MPIJob": {"launcher": Group("cpu"), "worker": Group("l4", 4)},
    "StatefulSet": {"main": Group("l4", 4)},
}
GROUP_INDEX = "leaderworkerset.sigs.k8s.io/group-index"
EVERY_KIND = pytest.mark.parametrize("kind", KINDS)
APART: Mapping[str, int] = {"LeaderWorkerSet": 2, "Deployment": 1}
"""How many pods are a gang, where an object is several."""
EACH_APART = pytest.mark.parametrize("kind", APART)


def lives(kinds: Collection[str], *, most: int) -> list[tuple[int, str]]:
    """After how many writes which kind's controller is killed. In `make test` each number has one kind."""
    return [
        (life, kind)
        for at, kind in enumerate(kinds)
        for life in range(1, most + 1)
        if not is_short() or life % len(kinds) == at
    ]


def gangs_of(kind: str, count: int) -> dict[str, Group]:
    return {str(index): Group("l4", APART[kind]) for index in range(count)}


def world(stock: int) -> World:
    here = World(stock={"l4": stock})
    here.queues = {"team-a": queue("team-a", quota=8)}
    return here


@EVERY_KIND
def test_with_one_node_too_few_nothing_starts_no_quota_is_held_and_nodes_go_back(kind: str) -> None:
    here = world(stock=3)
    here.submit("a", KINDS[kind], kind=kind)
    for _ in range(5):
        here.tick()
        assert here.gated("a") == len(here.of("a"))
    (name, *_) = here.requests
    here.answer(name, "Failed", "OUT_OF_RESOURCES")
    here.settle()
    assert here.running("a") == 0
    assert here.gated("a") == len(here.of("a"))
    assert not here.requests
    assert here.promised("team-a") == 0


@EVERY_KIND
def test_what_is_evicted_comes_back_whole(kind: str) -> None:
    here = world(stock=4)
    here.submit("a", KINDS[kind], kind=kind)
    here.ticks(6)
    assert here.running("a") == sum(each.replicas * each.hosts for each in KINDS[kind].values())
    for pod in here.of("a"):
        del here.pods[pod.metadata.name]
    here.tick(timedelta(minutes=12))
    assert here.gated("a") == len(here.of("a"))
    here.ticks(8)
    assert here.running("a") == len(here.of("a"))


@EACH_APART
def test_each_gang_of_an_object_starts_whole_by_itself(kind: str) -> None:
    here = world(stock=5)
    here.submit("a", gangs_of(kind, 4), kind=kind)
    for _ in range(6):
        here.tick()
        assert set(here.running_by_group("a").values()) <= {APART[kind]}
    assert here.running("a") == 4, "the stock is for two of two pods, or for four of one"
    assert here.promised("team-a") <= 8


@EACH_APART
def test_one_that_gets_no_nodes_holds_back_no_other_of_its_object(kind: str) -> None:
    here = world(stock=8)
    here.submit("a", gangs_of(kind, 2), kind=kind)
    here.schedules = False
    here.tick()
    here.answer(min(here.requests), "Failed", "OUT_OF_RESOURCES")
    here.schedules = True
    here.tick()
    assert here.running("a") == APART[kind]
    here.tick(timedelta(minutes=10))
    here.ticks(4)
    assert here.running("a") == 2 * APART[kind]


@pytest.mark.parametrize(("life", "kind"), lives(APART, most=15))
def test_controllers_that_are_killed_start_each_gang_of_an_object_whole(life: int, kind: str) -> None:
    here = Mortal(stock={"l4": 4})
    here.life = life
    here.queues = {"team-a": queue("team-a", quota=4)}
    here.submit("a", gangs_of(kind, 2), kind=kind)
    for _ in range(40):
        here.tick()
        assert set(here.running_by_group("a").values()) <= {APART[kind]}, "a part of one runs"
        assert here.promised("team-a") <= 4
    assert here.running("a") == 2 * APART[kind], here.status("a")


def test_an_object_is_looked_at_when_the_first_of_its_gangs_has_waited_too_long() -> None:
    here = world(stock=0)
    here.submit("a", gangs_of("LeaderWorkerSet", 2), kind="LeaderWorkerSet")
    here.kuberay()
    asked = here.now
    here.reconcile("a")
    here.now += timedelta(seconds=20)
    here.reconcile("a")
    assert len(here.requests) == 2
    limit = asked + here.policy.queue_timeout
    here.now = limit - timedelta(seconds=10)
    assert decide(here.snapshot("a")).requeue_at == limit


def test_a_group_that_passed_in_vain_has_a_history_of_its_own() -> None:
    """Its nodes go before KAI has placed it: it backs off, and the other group runs."""
    here = world(stock=4)
    here.submit("a", gangs_of("LeaderWorkerSet", 2), kind="LeaderWorkerSet")
    here.schedules = False
    here.ticks(4)
    assert here.gated("a") == 0
    pods = [pod for pod in here.of("a") if pod.metadata.labels[GROUP_INDEX] == "1"]
    here.answer(pods[0].metadata.annotations[CONSUME_ANNOTATION], "CapacityRevoked")
    here.settle()
    notes = here.clusters["a"].metadata.annotations
    assert {key.rpartition(".")[2] for key in notes} == {"1"}
    here.schedules = True
    here.tick(timedelta(seconds=1))
    assert here.running_by_group("a") == {"0": 2}
    assert "try 2 at" in here.status("a")
    here.tick(timedelta(minutes=10))
    here.ticks(4)
    assert here.running_by_group("a") == {"0": 2, "1": 2}
    assert not here.clusters["a"].metadata.annotations


def owner(
    kind: str,
    spec: dict[str, Any],
    *,
    status: dict[str, Any] | None = None,
    notes: dict[str, str] | None = None,
) -> CountedWork:
    metadata = ObjectMeta(
        name="a", namespace="ns", uid="uid-a", annotations=notes or {}, creation_timestamp=START
    )
    return COUNTED_WORK[kind].type(metadata=metadata, spec=spec, status=status or {})


def replicas(count: int, **jobs: Any) -> dict[str, Any]:
    return {"name": "w", "replicas": count, "template": {"spec": {"template": {}, **jobs}}}


@pytest.mark.parametrize(
    ("kind", "spec", "status", "counts"),
    [
        ("Job", {"template": {}}, {}, {"main": 1}),
        ("Job", {"template": {}, "parallelism": 4, "completions": 2}, {}, {"main": 2}),
        ("Job", {"template": {}, "parallelism": 4, "completions": 6}, {"succeeded": 4}, {"main": 2}),
        ("Job", {"template": {}, "parallelism": 4, "completions": 4}, {"succeeded": 4}, {"main": 0}),
        (
            "Job",
            {"template": {}, "parallelism": 8, "completions": 8, "backoffLimitPerIndex": 0},
            {"succeeded": 2, "failedIndexes": "1,3-5"},
            {"main": 2},
        ),
        ("JobSet", {"replicatedJobs": [replicas(2, parallelism=3)]}, {}, {"w": 6}),
        ("JobSet", {"replicatedJobs": [replicas(2, parallelism=3, completions=2)]}, {}, {"w": 4}),
        (
            "JobSet",
            {"replicatedJobs": [replicas(2, parallelism=3)]},
            {"replicatedJobsStatus": [{"name": "w", "succeeded": 1}]},
            {"w": 3},
        ),
        (
            "PyTorchJob",
            {"pytorchReplicaSpecs": {"Master": {"template": {}}, "Worker": {"template": {}, "replicas": 3}}},
            {"replicaStatuses": {"Worker": {"succeeded": 1}}},
            {"master": 1, "worker": 2},
        ),
        (
            "LeaderWorkerSet",
            {
                "replicas": 2,
                "leaderWorkerTemplate": {"size": 3, "leaderTemplate": {}, "workerTemplate": {}},
            },
            {},
            {"main": 3},
        ),
        (
            "LeaderWorkerSet",
            {"leaderWorkerTemplate": {"size": 3, "workerTemplate": {}}},
            {},
            {"main": 3},
        ),
        ("StatefulSet", {"replicas": 3, "template": {}}, {}, {"main": 3}),
        ("Deployment", {"replicas": 3, "template": {}}, {}, {"main": 1}),
    ],
)
def test_as_many_pods_are_needed_as_its_controller_makes_at_a_time(
    kind: str, spec: dict[str, Any], status: dict[str, Any], counts: dict[str, int]
) -> None:
    assert needed(owner(kind, spec, status=status)) == counts


def test_what_kai_never_starts_is_held_back() -> None:
    job = owner("Job", {"template": {}, "parallelism": 2}, notes={KAI_BATCH_MINIMUM: "3"})
    with pytest.raises(ValueError, match="is 3, and it has no more than 2 pods at a time"):
        needed(job)
    empty = {"Launcher": {"template": {}}, "Worker": {"template": {}, "replicas": 0}}
    with pytest.raises(ValueError, match="no pods of worker"):
        needed(owner("MPIJob", {"mpiReplicaSpecs": empty}))


def pod(labels: dict[str, str], *, uid: str, gated: bool = True, later: int = 1) -> GatedPod:
    return GatedPod(
        metadata=ObjectMeta(
            name="p",
            namespace="ns",
            labels=labels,
            owner_references=(OwnerReference(kind="Job", uid=uid, controller=True),),
            creation_timestamp=START + timedelta(seconds=later),
        ),
        spec=GatedSpec(scheduling_gates=(Gate(name=GANG_GATE),) if gated else ()),
    )


def test_a_pod_of_a_job_that_was_made_for_a_set_is_the_sets_and_of_the_present_one() -> None:
    labels = {"batch.kubernetes.io/job-name": "a-w-0", "jobset.sigs.k8s.io/jobset-name": "a"}
    found = pod(labels, uid="uid-of-the-job")
    assert gang_of(found) == [Key("ns", "JobSet/a")]
    assert is_owned(found, owner("JobSet", {}))
    assert not is_owned(pod(labels, uid="uid-of-the-job", later=-1), owner("JobSet", {}))
    assert not is_owned(pod({"batch.kubernetes.io/job-name": "a"}, uid="another"), owner("Job", {}))


def test_a_pod_that_never_waited_at_our_gate_is_of_no_gang() -> None:
    assert gang_of(pod({"batch.kubernetes.io/job-name": "a"}, uid="uid-a", gated=False)) == []


class Mortal(World):
    """Its controller is killed after so many writes, again and again; 0: never."""

    life = 1

    def carry_out(self, name: str, action: object) -> None:
        if self.crash_after is None:
            self.crash_after = self.writes + self.life
        super().carry_out(name, action)


@pytest.mark.parametrize(("life", "kind"), lives(KINDS, most=30))
def test_controllers_that_are_killed_start_it_once_and_whole(life: int, kind: str) -> None:
    """At first there is a node too few."""
    here = Mortal(stock={"l4": 3})
    here.life, size = life, sum(each.replicas * each.hosts for each in KINDS[kind].values())
    here.queues = {"team-a": queue("team-a", quota=8)}
    here.submit("a", KINDS[kind], kind=kind)
    for minute in range(60):
        here.tick()
        assert here.running("a") in (0, size), "a part of it runs"
        assert here.promised("team-a") <= 4
        if minute == 5:
            here.answer(min(here.requests), "Failed", "OUT_OF_RESOURCES")
            here.stock["l4"] = 4
    assert here.running("a") == size, here.status("a")
    assert here.requested() == 4
