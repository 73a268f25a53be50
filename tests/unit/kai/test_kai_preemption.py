"""A gang that is entitled to what others hold, where no more nodes come: KAI gets all of it, or nothing."""

import dataclasses
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.controller.gangs.assembly import TURN_RECHECK
from muster.controller.gangs.objects import Node
from muster.controller.gangs.retry import parse_history
from muster.controller.kai.actions import Decision
from muster.controller.kai.decide import decide
from muster.controller.kai.labels import PREEMPTS, is_gated, preempts_since
from muster.controller.kai.objects import GatedStatus
from muster.model.gangpolicy import OverQuota, RetryPolicy
from tests.length import examples
from tests.unit.gangs.placed_paper import SIGNS, Harm
from tests.unit.kai.kai_world import hosts_of, queue, replace
from tests.unit.kai.placed_kai_world import view_of
from tests.unit.kai.preempting_kai_world import PreemptingWorld, submit, world

POOLS = pytest.mark.parametrize("pool", ["l4", "h100"], ids=["placeholders", "requests"])


def run(here: PreemptingWorld, minutes: int) -> None:
    here.ticks(minutes)


def training_runs(pool: str, *, priority: str = "train", **settings: object) -> PreemptingWorld:
    here = world(**settings)  # type: ignore[arg-type]  # the test's own keywords
    submit(here, "training", pool, 4, priority)
    run(here, 4)
    assert here.running("training") == 5
    return here


@POOLS
def test_inference_takes_its_gpus_from_training_which_returns_whole(pool: str) -> None:
    here = training_runs(pool)
    submit(here, "inference", pool, 2, "inference")
    run(here, 1)
    assert here.gated("inference") == 3, "new nodes come first"
    run(here, 3)
    assert here.running("inference") == 3
    assert (here.running("training"), here.gated("training")) == (0, 5)
    run(here, 20)
    assert here.running("inference") == 3, "nobody takes them back"
    here.end("inference")
    run(here, 15)
    assert here.running("training") == 5
    assert here.most_nodes <= 4, "no node is bought for a gang that takes another's"


@POOLS
def test_nothing_is_taken_where_nodes_come(pool: str) -> None:
    here = training_runs(pool, stock=8)
    submit(here, "inference", pool, 2, "inference")
    run(here, 8)
    assert (here.running("inference"), here.running("training")) == (3, 5)


@POOLS
def test_a_pool_at_its_maximum_is_not_asked_for_more(pool: str) -> None:
    here = training_runs(pool, most=5, stock=16, after=600)
    submit(here, "inference", pool, 2, "inference")
    run(here, 2)
    assert (here.running("inference"), here.running("training")) == (3, 0)
    assert here.most_nodes <= 4


def test_it_takes_at_once_what_it_may_when_nodes_are_refused() -> None:
    here = training_runs("h100", after=600)
    submit(here, "inference", "h100", 2, "inference")
    run(here, 1)
    (request,) = [name for name, item in here.requests.items() if not item.status.holds("Provisioned")]
    here.answer(request, "Failed", "OUT_OF_RESOURCES")
    run(here, 1)
    assert (here.running("inference"), here.running("training")) == (3, 0)


@POOLS
def test_higher_priority_preemptible_work_takes_the_quota_of_its_queue(pool: str) -> None:
    """There is no room in the queue: it could never ask for nodes."""
    here = training_runs(pool, stock=16)
    submit(here, "urgent", pool, 3, "build-preemptible")
    run(here, 2)
    assert (here.running("urgent"), here.running("training")) == (4, 0)
    assert here.most_nodes <= 4


@POOLS
def test_nothing_is_bought_where_the_queue_has_room_for_one_of_them_alone(pool: str) -> None:
    here = training_runs(pool, stock=16)
    here.queues["team-a"] = queue("team-a", quota=4, limit=5, parent="dep")
    submit(here, "inference", pool, 2, "inference")
    run(here, 2)
    assert (here.running("inference"), here.running("training")) == (3, 0)
    assert here.most_nodes <= 4


@POOLS
@pytest.mark.parametrize(("workers", "priority"), [(5, "inference"), (2, "train")])
def test_what_kai_would_not_make_room_for_stays_behind_its_gate(
    pool: str, workers: int, priority: str
) -> None:
    here = training_runs(pool, quota=8)
    submit(here, "late", pool, workers, priority)
    run(here, 20)
    assert here.gated("late") == workers + 1
    assert here.running("training") == 5


@POOLS
def test_work_within_its_quota_reclaims_what_another_queue_has_beyond_its_own(pool: str) -> None:
    here = world(stock=6, over_quota=OverQuota.ALLOW)
    submit(here, "training", pool, 6, "train", queue="team-b")
    run(here, 4)
    assert here.running("training") == 7
    submit(here, "owner", pool, 3, "train", queue="team-a")
    run(here, 6)
    assert (here.running("owner"), here.running("training")) == (4, 0)
    run(here, 40)
    assert here.running("owner") == 4, "a gang that is beyond its quota takes nothing back"
    assert here.most_nodes <= 6


def test_a_gang_whose_pods_have_just_got_nodes_is_the_youngest() -> None:
    """The kubelet has not written when they start."""
    here = world(stock=8, over_quota=OverQuota.ALLOW, quota=4)
    for name in ("first", "second"):
        submit(here, name, "h100", 4, "train", queue="team-b")
        run(here, 4)
    for pod in here.of("second"):
        here.pods[pod.metadata.name] = replace(pod, status=GatedStatus(phase="Pending"))
    here.evicts = False
    submit(here, "owner", "h100", 3, "train", queue="team-a")
    run(here, 3)
    (hosts,) = {hosts for pod in here.of("owner") if (hosts := hosts_of(pod))}
    assert set(hosts) <= {pod.spec.node_name for pod in here.of("second")}


def waiting_behind_build(**submitted: str) -> PreemptingWorld:
    """Work that nothing evicts has all four nodes; these gangs of two wait longer than their bound."""
    here = world(quota=16)
    here.queues["dep"] = queue("dep", quota=16)
    submit(here, "build", "h100", 4, "build")
    run(here, 4)
    for name, priority in submitted.items():
        submit(here, name, "h100", 2, priority)
    run(here, 6)
    assert (here.running("build"), sum(map(here.running, submitted))) == (5, 0)
    return here


def leave(here: PreemptingWorld, name: str) -> None:
    """The gang ends, and its nodes are idle until the cloud takes them away."""
    here.end(name)
    here.settle()
    here.kai()


def test_a_gang_whose_nodes_are_late_takes_those_that_another_has_just_left() -> None:
    here = waiting_behind_build(inference="inference")
    leave(here, "build")
    assert here.running("inference") == 3
    run(here, 20)
    assert here.running("inference") == 3
    assert here.most_nodes <= 4


def test_nodes_that_were_left_go_to_the_gang_that_nobody_evicts() -> None:
    here = waiting_behind_build(train="train", inference="inference")
    leave(here, "build")
    assert (here.running("train"), here.running("inference")) == (0, 3)


def test_nodes_that_were_left_and_those_of_victims_make_room_together() -> None:
    here = world(quota=16)
    here.queues["dep"] = queue("dep", quota=16)
    for name, priority in (("build", "build"), ("training", "train")):
        submit(here, name, "h100", 2, priority)
        run(here, 4)
    submit(here, "inference", "h100", 4, "inference")
    run(here, 4)
    assert here.gated("inference") == 5
    leave(here, "build")
    assert (here.running("inference"), here.running("training")) == (5, 0)


def test_nodes_that_come_for_another_gang_are_not_taken() -> None:
    here = waiting_behind_build(first="build")
    leave(here, "build")
    here.end("first")
    submit(here, "owner", "h100", 4, "train")
    run(here, 1)
    submit(here, "inference", "h100", 2, "inference")
    here.schedules = False
    run(here, 6)
    assert here.gated("owner") == 0
    assert here.gated("inference") == 3


@pytest.mark.parametrize("harm", SIGNS.values(), ids=SIGNS)
def test_no_gang_passes_for_room_on_a_broken_node(harm: Harm) -> None:
    here = training_runs("l4")
    broken = next(where for where in here.places() if where in here.nodes)
    harm(here, broken)
    submit(here, "inference", "l4", 2, "inference")
    run(here, 4)
    assert here.running("inference") == 3
    assert broken not in {host for pod in here.of("inference") for host in hosts_of(pod)}


@POOLS
@pytest.mark.parametrize("altered", ["", "9999-12-31T23:59:59Z", "9998-12-31T23:59:59Z"])
def test_what_kai_makes_no_room_for_goes_back_behind_the_gate(pool: str, altered: str) -> None:
    """`altered`: what the pods' owner writes over the time when they passed."""
    here = training_runs(pool)
    here.evicts = False
    submit(here, "inference", pool, 2, "inference")
    run(here, 4)
    assert here.gated("inference") == 0
    for pod in here.of("inference"):
        notes = pod.metadata.annotations | ({PREEMPTS: altered} if altered else {})
        here.pods[pod.metadata.name] = replace(pod, metadata=replace(pod.metadata, annotations=notes))
    for _ in range(5):
        here.tick()
        if any(told.reason == "GangRecalled" for told in here.told):
            break
    else:
        pytest.fail("its pods stay where KAI makes no room")
    run(here, 1)
    assert here.gated("inference") == 3
    assert here.running("training") == 5


@POOLS
def test_a_gang_that_kai_never_makes_room_for_is_given_up(pool: str) -> None:
    """Its pods are made anew each time, and have no history of their own."""
    here = training_runs(pool)
    here.policy = dataclasses.replace(here.policy, retry=RetryPolicy(deadline=timedelta(minutes=40)))
    here.evicts = False
    submit(here, "inference", pool, 2, "inference")
    run(here, 70)
    (refused,) = {said for pod in here.of("inference") if (said := parse_history(pod).refused)}
    assert "KAI has made no room for it within 5m" in refused
    assert here.gated("inference") == 3
    assert here.running("training") == 5


@POOLS
def test_kai_makes_room_for_one_gang_after_another(pool: str) -> None:
    """Each would count on the same victims."""
    here = training_runs(pool)
    here.evicts = False
    submit(here, "first", pool, 2, "inference")
    run(here, 1)
    submit(here, "second", pool, 2, "inference")
    run(here, 4)
    assert here.gated("second") == 3
    assert here.gated("first") == 0
    here.evicts = True
    run(here, 12)
    assert (here.running("first"), here.running("second")) == (3, 3)


@POOLS
@pytest.mark.parametrize("writes", range(8))
def test_a_controller_that_dies_on_the_way_is_followed_by_one_that_goes_on(pool: str, writes: int) -> None:
    here = training_runs(pool)
    submit(here, "inference", pool, 2, "inference")
    run(here, 2)
    here.crash_after = here.writes + writes
    run(here, 12)
    assert (here.running("inference"), here.running("training")) == (3, 0)
    assert here.most_nodes <= 4


def test_work_is_left_alone_for_its_minimum_runtime() -> None:
    here = training_runs("l4")
    held = here.queues["team-a"]
    here.queues["team-a"] = replace(held, spec=replace(held.spec, preempt_min_runtime="30m"))
    submit(here, "inference", "l4", 2, "inference")
    run(here, 20)
    assert here.running("training") == 5
    assert here.gated("inference") == 3
    run(here, 20)
    assert (here.running("inference"), here.running("training")) == (3, 0)


@POOLS
def test_a_gang_whose_nodes_are_late_looks_again_for_what_starts_later(pool: str) -> None:
    """Nothing that another gang does reconciles it."""
    here = world(stock=0)
    submit(here, "inference", pool, 2, "inference")
    run(here, 8)
    look_at = decide(here.snapshot("inference")).requeue_at
    assert look_at is not None
    assert here.now < look_at <= here.now + TURN_RECHECK


def test_a_gang_that_backs_off_looks_again_within_a_minute_and_at_its_next_try() -> None:
    here = training_runs("l4")
    held = here.queues["team-a"]
    here.queues["team-a"] = replace(held, spec=replace(held.spec, preempt_min_runtime="900m"))
    here.stock["l4"] = 0
    submit(here, "inference", "l4", 2, "inference")
    while "released everything" not in here.status("inference"):
        run(here, 1)
    histories = [parse_history(pod) for pod in here.of("inference")]
    (next_try,) = [each.retry_at for each in histories if each.retry_at]
    here.now = next_try - 2 * TURN_RECHECK
    assert decide(here.snapshot("inference")).requeue_at == here.now + TURN_RECHECK
    here.now = next_try - TURN_RECHECK / 2
    assert decide(here.snapshot("inference")).requeue_at == next_try


def test_a_gang_whose_leader_alone_is_made_again_takes_room_while_it_backs_off() -> None:
    here = training_runs("l4")
    here.policy = dataclasses.replace(here.policy, retry=RetryPolicy(base=timedelta(minutes=30)))
    held = here.queues["team-a"]
    here.queues["team-a"] = replace(held, spec=replace(held.spec, preempt_min_runtime="900m"))
    here.stock["l4"] = 0
    submit(here, "inference", "l4", 2, "inference")
    while "released everything" not in here.status("inference"):
        run(here, 1)
    (leader,) = [pod for pod in here.of("inference") if parse_history(pod).tries]
    del here.pods[leader.metadata.name]
    run(here, 1)
    here.queues["team-a"] = held
    run(here, 2)
    assert here.running("inference") == 3


def test_no_pod_is_marked_that_has_not_passed_for_room() -> None:
    here = training_runs("l4")
    submit(here, "inference", "l4", 2, "inference")
    here.now += timedelta(minutes=1)
    run(here, 4)
    marked = {pod.metadata.labels["ray.io/cluster"] for pod in here.pods.values() if preempts_since(pod)}
    assert marked == {"inference"}
    assert not any(is_gated(pod) for pod in here.of("inference"))


@POOLS
@settings(deadline=None, max_examples=examples(12))
@given(
    sizes=st.lists(st.integers(1, 3), min_size=1, max_size=2),
    takers=st.lists(
        st.tuples(st.integers(1, 4), st.sampled_from(["train", "build-preemptible", "build", "inference"])),
        min_size=1,
        max_size=2,
    ),
    evicts=st.booleans(),
    crash=st.integers(0, 30),
)
def test_whatever_comes_gangs_are_whole_and_training_is_back_in_the_end(
    pool: str, sizes: list[int], takers: list[tuple[int, str]], evicts: bool, crash: int
) -> None:
    """Training fills the pool; the takers want what it holds, or more than there is."""
    stock = sum(sizes)
    here = world(stock=stock, quota=stock)
    here.evicts = evicts
    for index, size in enumerate(sizes):
        submit(here, f"train-{index}", pool, size, "train")
    run(here, 12)
    for index, (workers, priority) in enumerate(takers):
        submit(here, f"taker-{index}", pool, workers, priority)
    here.crash_after = here.writes + crash
    for _ in range(12):
        here.tick()
        for name in here.clusters:
            assert here.running(name) in (0, len(here.of(name))), f"{name} runs in part"
    here.crash_after = None
    for index in range(len(takers)):
        here.end(f"taker-{index}")
    run(here, 45)
    assert [here.running(f"train-{index}") for index in range(len(sizes))] == [size + 1 for size in sizes]
    assert here.most_nodes <= stock


def test_the_gang_of_the_highest_priority_is_made_room_for_first_then_the_oldest() -> None:
    here = training_runs("l4", quota=8)
    for name, priority in (("low", "build"), ("high", "inference"), ("young", "inference")):
        submit(here, name, "l4", 1, priority)
        here.kuberay()
        here.now += timedelta(minutes=1)
    view = view_of(here)
    batches = {}
    for name in ("low", "high", "young"):
        snapshot = view.snapshot(here.clusters[name], now=here.now)
        (batches[name],) = snapshot.batch_snapshots
        view.gathering.decided(snapshot, Decision(to_preempt=batches[name]))
    before = {name: set(view.gathering.takers_before(each)) for name, each in batches.items()}
    assert before == {"high": set(), "young": {"l4"}, "low": {"l4"}}


class SlowKai(PreemptingWorld):
    """A KAI that binds a gang in the cycle after the one that has evicted for it, on nodes that stay for
    these seconds.
    """

    def kai(self) -> None:
        before = dict(self.pods)
        super().kai()
        if before.keys() - self.pods.keys():
            self.pods = {key: before[key] for key in self.pods}

    def goes(self, empty: Node) -> bool:
        return False


@pytest.mark.parametrize("priority", ["train", "build-preemptible"])
def test_nodes_that_kai_frees_for_a_gang_serve_no_placeholder_of_another(priority: str) -> None:
    """The nodes of an evicted gang are free for a moment before KAI binds what it has evicted it for."""
    here = training_runs("l4", made=SlowKai, priority=priority, quota=8)
    submit(here, "inference", "l4", 2, "inference")
    run(here, 3)
    for _ in range(20):
        here.tick(timedelta(seconds=1))
    assert (here.running("inference"), here.running("training")) == (3, 0)
