"""Gangs of kai-prod before the real KAI 0.12.0: its gate, its capacity, its queue, its eviction.

KubeRay, KAI and KWOK are the programs themselves, as are our manager and the simulated autoscaler.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from muster.model.gangpolicy import GangPolicy, KaiPolicy, OverQuota, RetryPolicy
from muster.model.names import CONSUME_ANNOTATION
from muster.model.stack import Stack
from muster.render.gang import gang_policy
from tests.integration.real_kai.bodies import Gang
from tests.integration.real_kai.world import World, names_of


@pytest.fixture
def policy(stack: Stack) -> GangPolicy:
    """What kai-prod renders, with a retry that a test can wait for."""
    retry = RetryPolicy(base=timedelta(seconds=5), max=timedelta(seconds=10))
    return replace(gang_policy(stack), retry=retry)


@pytest.fixture
def gangs(world: World, policy: GangPolicy) -> World:
    """With our manager and the cloud."""
    world.govern(policy)
    world.offer(stock=32, classes=_classes(policy))
    world.start_ours()
    return world


def test_kai_starts_nothing_of_a_gang_before_its_nodes_stand_and_all_of_it_then(gangs: World) -> None:
    gangs.submit("a", queue="training", gang=Gang(workers=3))
    gangs.eventually(lambda: len(gangs.pods("a")) == 4, "KubeRay has made its pods")
    gangs.eventually(lambda: "a" in gangs.groups(), "KAI has grouped them")
    assert gangs.groups()["a"]["spec"]["minMember"] == 4, "the head and three workers"
    gangs.eventually(lambda: gangs.requests(), "capacity is asked for")
    gangs.eventually(lambda: gangs.bound("a") == 4, "KAI starts all of it")
    requests = set(names_of(gangs.requests()))
    workers = [pod for pod in gangs.pods("a") if pod["metadata"]["labels"]["ray.io/group"] == "workers"]
    assert {pod["metadata"]["annotations"][CONSUME_ANNOTATION] for pod in workers} == requests
    gangs.eventually(lambda: gangs.held("training") == "3", "the queue is told to hold them")
    gangs.eventually(lambda: gangs.held("platform") == "3", "and so are those above it")


def test_what_the_quota_blocks_is_not_asked_for_until_there_is_room(gangs: World) -> None:
    gangs.submit("first", queue="notebooks", gang=Gang(workers=3))
    gangs.eventually(lambda: gangs.bound("first") == 4, "the first gang runs")
    asked = set(names_of(gangs.requests()))
    gangs.submit("second", queue="notebooks", gang=Gang(workers=2))
    gangs.eventually(lambda: "no room for 2 GPUs" in gangs.told("second"), "it is told why it waits")
    gangs.stays(lambda: gangs.gated("second") == 3, "it stays behind its gate")
    assert set(names_of(gangs.requests())) == asked
    gangs.end("first")
    gangs.eventually(lambda: gangs.bound("second") == 3, "it runs when the queue has room")


def test_growth_beyond_the_minimum_is_started_by_kai_replica_by_replica(gangs: World) -> None:
    gangs.submit("a", queue="notebooks", gang=Gang(workers=2, least=2))
    gangs.eventually(lambda: gangs.bound("a") == 3, "the gang runs")
    gangs.scale("a", 6)
    gangs.eventually(lambda: gangs.bound("a") == 5, "what the quota allows is started")
    gangs.eventually(lambda: "has no room for" in gangs.told("a"), "the rest is told why it waits")
    assert gangs.gated("a") == 2


def test_over_quota_a_gang_runs_where_the_policy_allows_it_and_nodes_come_for_who_has_quota(
    gangs: World, policy: GangPolicy
) -> None:
    gangs.govern(replace(policy, kai=KaiPolicy(over_quota=OverQuota.ALLOW)))
    gangs.submit("borrower", queue="notebooks", gang=Gang(workers=8))
    gangs.eventually(lambda: gangs.bound("borrower") == 9, "it runs with four GPUs above its quota")
    gangs.submit("owner", queue="training", gang=Gang(workers=4))
    gangs.eventually(lambda: gangs.bound("owner") == 5, "there are nodes for both")
    assert gangs.bound("borrower") == 9


def test_a_gang_with_quota_waits_while_one_without_has_the_last_nodes(
    gangs: World, policy: GangPolicy
) -> None:
    """Behind our gate KAI does not see it, and so takes nothing back for it (docs/kai.md)."""
    gangs.govern(replace(policy, kai=KaiPolicy(over_quota=OverQuota.ALLOW)))
    gangs.offer(stock=8, classes=_classes(policy))
    gangs.submit("borrower", queue="notebooks", gang=Gang(workers=8))
    gangs.eventually(lambda: gangs.bound("borrower") == 9, "it has every node that there is")
    gangs.submit("owner", queue="training", gang=Gang(workers=4))
    gangs.eventually(lambda: gangs.requests_of("owner"), "it asks for nodes")
    gangs.stays(lambda: gangs.gated("owner") == 5 and gangs.bound("borrower") == 9, "nobody moves")
    gangs.end("borrower")
    gangs.eventually(lambda: gangs.bound("owner") == 5, "it runs when the other has ended")


def test_a_gang_that_kai_evicts_stands_behind_the_gate_again_and_comes_back_whole(
    gangs: World, policy: GangPolicy
) -> None:
    gangs.govern(replace(policy, kai=KaiPolicy(over_quota=OverQuota.ALLOW)))
    gangs.offer(stock=8, classes=_classes(policy), scale_down="20s")
    gangs.submit("borrower", queue="notebooks", gang=Gang(workers=8))
    gangs.eventually(lambda: gangs.bound("borrower") == 9, "it has every node that there is")
    for number in range(4):
        gangs.pod(f"owner-{number}", queue="training")
    gangs.eventually(lambda: gangs.bound(queue="training") == 4, "who has quota takes nodes back")
    gangs.eventually(lambda: gangs.gated("borrower") == 9, "all of the gang is made anew, and waits")
    for number in range(4):
        gangs.remove_pod(f"owner-{number}")
    gangs.eventually(lambda: gangs.bound("borrower") == 9, "it runs again, whole")


def _classes(policy: GangPolicy) -> tuple[str, ...]:
    return tuple(each.provisioning_class_name for each in policy.flavors if each.gpus_per_node)
