"""Gangs of KAI and nodes that turn out to be broken, on paper."""

import dataclasses
import itertools
import random
from datetime import datetime, timedelta

import pytest

from muster.controller.gangs.actions import EmitEvent
from muster.controller.gangs.lease import RUN
from muster.controller.gangs.retry import REFUSED, TRIES, RetryHistory, parse_history, to_annotations
from muster.controller.gangs.taints import closed_for
from muster.controller.kai.labels import is_gated
from muster.model.gangpolicy import BrokenNodes, RetryPolicy, WhileRunning
from muster.model.names import NODES_MISSING_ANNOTATION
from tests.length import examples, is_short
from tests.unit.gangs.placed_paper import SIGNS, Harm
from tests.unit.kai.kai_world import Group, replace
from tests.unit.kai.placed_kai_world import PlacedWorld
from tests.unit.kai.test_kai_placeholders import PAIR, run, world


def close(here: PlacedWorld, seen: dict[str, datetime]) -> None:
    """Twice: at first sight nothing is closed."""
    here.close_broken(seen)
    here.now += timedelta(minutes=1)
    here.close_broken(seen)
    here.settle()


@pytest.mark.parametrize("harm", SIGNS.values(), ids=SIGNS)
def test_a_gang_that_waits_gets_one_other_node_for_a_broken_one(harm: Harm) -> None:
    here, seen = world(stock={"l4": 2, "h100": 0}), dict[str, datetime]()
    here.submit("a", PAIR)
    run(here, 3)
    before = {key: pod.metadata.uid for key, pod in here.placeholders.items()}
    broken = sorted(here.nodes)[0]
    harm(here, broken)
    here.stock["l4"] = 3
    here.cloud()
    here.settle()
    assert here.gated("a") == 3, "no gate goes for it"
    close(here, seen)
    after = {key: pod.metadata.uid for key, pod in here.placeholders.items()}
    assert sum(before[key] != after[key] for key in before) == 1
    here.stock["l4"] = 4
    run(here, 5)
    assert here.running("a") == 3
    assert broken not in {pod.spec.node_name for pod in here.of("a")}


@pytest.mark.parametrize("sign", ["condition", "taint", "label"])
def test_a_request_with_a_broken_node_is_released_whole_and_made_again(sign: str) -> None:
    """New nodes have the old names here: a black hole, which is known by its name, would stay one."""
    here, seen = world(stock={"l4": 0, "h100": 4}), dict[str, datetime]()
    here.begin("a", {"headgroup": Group("h100"), "workers": Group("h100", 1)})
    while len(here.requests) < 2:
        here.now += timedelta(seconds=10)
        here.cloud()
        here.settle()
    while not all(request.status.holds("Provisioned") for request in here.requests.values()):
        here.now += timedelta(seconds=10)
        here.cloud()
    first = {request.metadata.uid for request in here.requests.values()}
    SIGNS[sign](here, sorted(key for key in here.nodes if key != "cpu-0")[0])
    here.settle()
    assert here.gated("a") == 2
    close(here, seen)
    assert first - {request.metadata.uid for request in here.requests.values()}
    run(here, 5)
    assert here.running("a") == 2


def running_gang(running: WhileRunning, *, l4: int = 4) -> tuple[PlacedWorld, str]:
    """A gang on three nodes of four, and the one of a worker."""
    here = world(stock={"l4": l4, "h100": 0})
    here.policy = dataclasses.replace(here.policy, broken_nodes=BrokenNodes(running=running))
    here.submit("a", PAIR)
    run(here, 6)
    assert here.running("a") == 3
    return here, next(pod.spec.node_name for pod in here.of("a") if "workers" in pod.metadata.name)


@pytest.mark.parametrize("running", WhileRunning)
@pytest.mark.parametrize("harm", SIGNS.values(), ids=SIGNS)
def test_a_gang_that_runs_is_left_alone_or_queued_again_as_a_whole(harm: Harm, running: WhileRunning) -> None:
    (here, broken), seen = running_gang(running), dict[str, datetime]()
    first = {pod.metadata.uid for pod in here.of("a")}
    harm(here, broken)
    here.tick()
    assert {pod.metadata.uid for pod in here.of("a")} == first, "the sign may go"
    for _ in range(8):
        here.close_broken(seen)
        here.tick()
    after = {pod.metadata.uid for pod in here.of("a")}
    is_queued_again = running is WhileRunning.REQUEUE
    assert after == first if not is_queued_again else not after & first
    assert here.running("a") == 3
    assert (broken in {pod.spec.node_name for pod in here.of("a")}) is not is_queued_again
    assert [each.reason for each in here.told if each.reason == "NodesLost"] == [
        "NodesLost"
    ] * is_queued_again
    assert not here.clusters["a"].metadata.annotations


def test_the_grace_goes_on_while_a_pod_that_was_made_again_backs_off() -> None:
    here, broken = running_gang(WhileRunning.REQUEUE)
    here.condition(broken, "AcceleratedHardwareReady", "False")
    here.settle()
    noted = parse_history(here.clusters["a"]).nodes_missing
    assert noted == here.now
    lost = next(pod for pod in here.of("a") if pod.spec.node_name not in ("", broken))
    del here.pods[lost.metadata.name]
    here.now += timedelta(seconds=20)
    here.kuberay()
    (again,) = (pod for pod in here.of("a") if is_gated(pod))
    at = here.now + timedelta(minutes=5)
    notes = to_annotations(RetryHistory(tries=1, first_try=here.now, retry_at=at, last_failure="x"))
    kept = {key: value for key, value in notes.items() if value}
    here.pods[again.metadata.name] = replace(again, metadata=replace(again.metadata, annotations=kept))
    here.settle()
    assert parse_history(here.clusters["a"]).nodes_missing == noted


@pytest.mark.parametrize("since", ["9998-12-31T23:59:59Z", "9999-12-31T23:59:59Z"])
def test_no_time_that_lies_ahead_puts_off_the_end_of_the_grace(since: str) -> None:
    here, broken = running_gang(WhileRunning.REQUEUE)
    first, held = {pod.metadata.uid for pod in here.of("a")}, here.clusters["a"]
    notes = {NODES_MISSING_ANNOTATION: since}
    here.clusters["a"] = replace(held, metadata=replace(held.metadata, annotations=notes))
    here.condition(broken, "AcceleratedHardwareReady", "False")
    run(here, 8)
    assert not {pod.metadata.uid for pod in here.of("a")} & first
    assert here.running("a") == 3


def test_a_gang_whose_node_is_healthy_again_within_the_grace_goes_on() -> None:
    here, broken = running_gang(WhileRunning.REQUEUE)
    first = {pod.metadata.uid for pod in here.of("a")}
    here.condition(broken, "AcceleratedHardwareReady", "False")
    here.tick()
    here.condition(broken, "AcceleratedHardwareReady", "True")
    run(here, 5)
    assert {pod.metadata.uid for pod in here.of("a")} == first
    assert not here.clusters["a"].metadata.annotations, "the next sign has its own grace"


def test_a_gang_queues_again_as_a_whole_wherever_the_controller_dies() -> None:
    for writes in range(6):
        here, broken = running_gang(WhileRunning.REQUEUE)
        first, seen = {pod.metadata.uid for pod in here.of("a")}, dict[str, datetime]()
        here.condition(broken, "AcceleratedHardwareReady", "False")
        here.crash_after = here.writes + writes
        for _ in range(10):
            here.close_broken(seen)
            here.tick()
        assert not {pod.metadata.uid for pod in here.of("a")} & first
        assert here.running("a") == 3
        assert broken not in {pod.spec.node_name for pod in here.of("a")}


def test_no_gate_goes_for_a_broken_node_whenever_the_controller_dies() -> None:
    """`check_standing` looks at each gate that goes first. In the end each gang runs whole or not at all."""
    started = 0
    for seed in range(0, examples(400), 2 if is_short() else 1):
        chance, seen = random.Random(seed), dict[str, datetime]()
        here = world(stock={"l4": 5, "h100": 2})
        running = chance.choice([*WhileRunning])
        here.policy = dataclasses.replace(here.policy, broken_nodes=BrokenNodes(running=running))
        here.submit("a", PAIR)
        here.submit("b", {"headgroup": Group("l4"), "workers": Group("h100", 1)})
        for _ in range(8):
            if chance.random() < 0.3:
                here.crash_after = here.writes + chance.randrange(4)
            if chance.random() < 0.2:
                seen.clear()
            if here.nodes and chance.random() < 0.3:
                chance.choice([*SIGNS.values()])(here, chance.choice(sorted(here.nodes)))
            here.close_broken(seen)
            here.tick()
            assert sum(bool(closed_for(each)) for each in here.nodes.values()) <= 2
        started += here.running("a") > 0
        here.crash_after = None
        run(here, 10)
        assert (here.running("a"), here.running("b")) in itertools.product((0, 3), (0, 2))
    assert started, "or nothing was tried"


@pytest.mark.parametrize(
    ("goes", "reason"), [(False, "runs on the broken node"), (True, "is gone")], ids=["broken", "gone"]
)
def test_a_gang_that_breaks_each_node_it_starts_on_backs_off_and_is_given_up(goes: bool, reason: str) -> None:
    """Its pods are made anew each time, and have no history of their own. `goes`: the node goes at once, and
    KAI evicts the rest of the gang.
    """
    here, _ = running_gang(WhileRunning.REQUEUE, l4=16)
    retry = RetryPolicy(deadline=timedelta(hours=3))
    here.policy = dataclasses.replace(here.policy, retry=retry)
    runs = set[str]()
    for _ in range(6 * 60):
        on = [pod for pod in here.of("a") if "workers" in pod.metadata.name and pod.spec.node_name]
        if on:
            runs |= {pod.metadata.uid for pod in on}
            here.condition(on[0].spec.node_name, "AcceleratedHardwareReady", "False")
        if on and goes:
            del here.nodes[on[0].spec.node_name]
            here.settle()
            for pod in here.of("a"):
                del here.pods[pod.metadata.name]
        here.tick()
        for name in [name for name, held in here.nodes.items() if here.signs.of(held)]:
            if name not in {pod.spec.node_name for pod in here.of("a")}:
                here.take_away(name)
    assert 2 * 3 <= len(runs) <= 2 * 10
    reasons = [pod.metadata.annotations.get(REFUSED, "") for pod in here.of("a")]
    assert any(reason in each for each in reasons)
    assert not here.clusters["a"].metadata.annotations, "nothing stays for the next gang of this cluster"


def test_pods_that_are_seen_to_go_one_after_another_are_one_event() -> None:
    here, broken = running_gang(WhileRunning.REQUEUE)
    here.condition(broken, "AcceleratedHardwareReady", "False")
    here.settle()
    here.now += here.policy.node_loss_grace
    decisions = [here.decided("a")]
    del here.pods[next(pod.metadata.name for pod in here.of("a") if pod.spec.node_name != broken)]
    decisions.append(here.decided("a"))
    events = [each for decision in decisions for each in decision.actions if isinstance(each, EmitEvent)]
    assert len(events) == 2
    assert len(set(events)) == 1


@pytest.mark.parametrize(("lease", "tries"), [("300", 0), ("86400", 1)], ids=["ended", "goes on"])
def test_nodes_that_go_at_the_end_of_their_lease_are_no_failed_try(lease: str, tries: int) -> None:
    here = world(stock={"l4": 0, "h100": 4})
    here.submit("a", {"headgroup": Group("h100"), "workers": Group("h100", 1)})
    run(here, 6)
    assert here.running("a") == 2
    for key, request in here.requests.items():
        spec = replace(request.spec, parameters={RUN: lease})
        here.requests[key] = replace(request, spec=spec)
    here.now += timedelta(minutes=5)
    for pod in here.of("a"):
        del here.nodes[pod.spec.node_name]
    here.settle()
    assert parse_history(here.clusters["a"]).tries == tries


def test_the_loss_of_a_node_is_noted_once_where_the_clocks_of_nodes_are_ahead() -> None:
    here, lost = running_gang(WhileRunning.LEAVE)
    for name, pod in here.pods.items():
        status = replace(pod.status, start_time=here.now + timedelta(minutes=10))
        here.pods[name] = replace(pod, status=status)
    del here.nodes[lost]
    before = here.writes
    for _ in range(5):
        here.settle()
        here.now += timedelta(minutes=1)
    assert parse_history(here.clusters["a"]).tries == 1
    assert here.writes == before + 1


def test_a_gang_that_grew_a_moment_ago_has_run_for_as_long_as_before() -> None:
    """Its first nodes have lasted: a broken one is no failed try, however young its last pod is."""
    here, broken = running_gang(WhileRunning.REQUEUE, l4=16)
    run(here, 60)
    here.resize("a", "workers", 3)
    run(here, 6)
    first = {pod.metadata.uid for pod in here.of("a")}
    assert here.running("a") == 4
    here.condition(broken, "AcceleratedHardwareReady", "False")
    run(here, 8)
    after = here.of("a")
    assert not {pod.metadata.uid for pod in after} & first
    assert here.running("a") == 4
    assert not any(TRIES in pod.metadata.annotations for pod in after)


@pytest.mark.parametrize("writes", range(2, 6))
def test_no_failed_try_is_forgotten_where_its_pods_go_one_after_another(writes: int) -> None:
    """As after a crash between two deletions, or in a cache that learns of them one by one."""
    here, broken = running_gang(WhileRunning.REQUEUE, l4=16)
    for number in range(2):
        here.condition(broken, "AcceleratedHardwareReady", "False")
        here.crash_after = here.writes + writes if number else None
        first = {pod.metadata.uid for pod in here.of("a")}
        for _ in range(12):
            here.tick()
            if here.running("a") == 3 and not first & {pod.metadata.uid for pod in here.of("a")}:
                break
        else:
            pytest.fail("it has not run again")
        here.take_away(broken)
        broken = next(pod.spec.node_name for pod in here.of("a") if "workers" in pod.metadata.name)
    assert max(parse_history(pod).tries for pod in here.of("a")) == 2
