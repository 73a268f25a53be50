"""Gangs of kai-prod before the real KAI 0.12.0: its gate, its capacity, its queue, its eviction."""

from dataclasses import replace

from muster.model.gangpolicy import GangPolicy, KaiPolicy, OverQuota
from muster.model.names import CONSUME_ANNOTATION
from tests.integration.real_kai.bodies import Gang
from tests.integration.real_kai.world import World, classes_of, names_of


def test_kai_starts_nothing_of_a_gang_before_its_nodes_stand_and_all_of_it_then(gangs: World) -> None:
    gangs.submit("a", queue="training", gang=Gang(workers=3))
    gangs.eventually("KubeRay has made its pods", lambda: len(gangs.pods("a")) == 4)
    gangs.eventually("KAI has grouped them", lambda: "a" in gangs.groups())
    assert gangs.groups()["a"]["spec"]["minMember"] == 4, "the head and three workers"
    gangs.eventually("capacity is asked for", lambda: gangs.requests())
    gangs.eventually("KAI starts all of it", lambda: gangs.bound("a") == 4)
    requests = set(names_of(gangs.requests()))
    workers = [pod for pod in gangs.pods("a") if pod["metadata"]["labels"]["ray.io/group"] == "workers"]
    assert {pod["metadata"]["annotations"][CONSUME_ANNOTATION] for pod in workers} == requests
    gangs.eventually("the status of the queue counts them", lambda: gangs.held("training") == "3")
    gangs.eventually("and so are those above it", lambda: gangs.held("platform") == "3")


def test_what_the_quota_blocks_is_not_asked_for_until_there_is_room(gangs: World) -> None:
    gangs.submit("first", queue="notebooks", gang=Gang(workers=3))
    gangs.eventually("the first gang runs", lambda: gangs.bound("first") == 4)
    asked = set(names_of(gangs.requests()))
    gangs.submit("second", queue="notebooks", gang=Gang(workers=2))
    gangs.eventually("its status says why it waits", lambda: "no room for 2 GPUs" in gangs.told("second"))
    gangs.stays(lambda: gangs.gated("second") == 3, "it stays behind its gate")
    assert set(names_of(gangs.requests())) == asked
    gangs.end("first")
    gangs.eventually("it runs when the queue has room", lambda: gangs.bound("second") == 3)


def test_growth_beyond_the_minimum_is_started_by_kai_replica_by_replica(gangs: World) -> None:
    gangs.submit("a", queue="notebooks", gang=Gang(workers=2, least=2))
    gangs.eventually("the gang runs", lambda: gangs.bound("a") == 3)
    gangs.scale("a", 6)
    gangs.eventually("what the quota allows is started", lambda: gangs.bound("a") == 5)
    gangs.eventually("the rest is told why it waits", lambda: "has no room for" in gangs.told("a"))
    assert gangs.gated("a") == 2


def test_over_quota_a_gang_runs_where_the_policy_allows_it_and_nodes_come_for_who_has_quota(
    gangs: World, policy: GangPolicy
) -> None:
    gangs.govern(replace(policy, kai=KaiPolicy(over_quota=OverQuota.ALLOW)))
    gangs.submit("borrower", queue="notebooks", gang=Gang(workers=8))
    gangs.eventually("it runs with four GPUs above its quota", lambda: gangs.bound("borrower") == 9)
    gangs.submit("owner", queue="training", gang=Gang(workers=4))
    gangs.eventually("there are nodes for both", lambda: gangs.bound("owner") == 5)
    assert gangs.bound("borrower") == 9


def test_a_gang_with_quota_waits_while_one_without_has_the_last_nodes(
    gangs: World, policy: GangPolicy
) -> None:
    """Behind our gate KAI does not see it, and so takes nothing back for it (docs/kai.md)."""
    gangs.govern(replace(policy, kai=KaiPolicy(over_quota=OverQuota.ALLOW)))
    gangs.offer(stock=8, classes=classes_of(policy))
    gangs.submit("borrower", queue="notebooks", gang=Gang(workers=8))
    gangs.eventually("it has every node that there is", lambda: gangs.bound("borrower") == 9)
    gangs.submit("owner", queue="training", gang=Gang(workers=4))
    gangs.eventually("it asks for nodes", lambda: gangs.requests_of("owner"))
    gangs.stays(lambda: gangs.gated("owner") == 5 and gangs.bound("borrower") == 9, "nobody moves")
    gangs.end("borrower")
    gangs.eventually("it runs when the other has ended", lambda: gangs.bound("owner") == 5)


def test_a_gang_that_kai_evicts_stands_behind_the_gate_again_and_comes_back_whole(
    gangs: World, policy: GangPolicy
) -> None:
    gangs.govern(replace(policy, kai=KaiPolicy(over_quota=OverQuota.ALLOW)))
    gangs.offer(stock=8, classes=classes_of(policy), scale_down="20s")
    gangs.submit("borrower", queue="notebooks", gang=Gang(workers=8))
    gangs.eventually("it has every node that there is", lambda: gangs.bound("borrower") == 9)
    for number in range(4):
        gangs.pod(f"owner-{number}", queue="training")
    gangs.eventually("who has quota takes nodes back", lambda: gangs.bound(queue="training") == 4)
    gangs.eventually("all of the gang is made anew, and waits", lambda: gangs.gated("borrower") == 9)
    for number in range(4):
        gangs.remove_pod(f"owner-{number}")
    gangs.eventually("it runs again, whole", lambda: gangs.bound("borrower") == 9)


def test_a_job_starts_whole_where_there_are_nodes_for_all_of_it(gangs: World) -> None:
    gangs.submit_job("a", queue="training", pods=4)
    gangs.eventually("its controller has made its pods", lambda: len(gangs.pods("a")) == 4)
    gangs.eventually("capacity is asked for", lambda: gangs.requests_of("Job/a"))
    gangs.eventually("KAI starts all of it", lambda: gangs.bound("a") == 4)
    gangs.eventually("the status of the queue counts them", lambda: gangs.held("training") == "4")
    gangs.end_job("a")
    gangs.eventually("what was asked for goes with it", lambda: not gangs.requests())
    gangs.eventually("and the queue gets its room back", lambda: gangs.held("training") == "0")


def test_with_one_node_too_few_nothing_of_a_job_starts_and_no_quota_is_taken(
    gangs: World, policy: GangPolicy
) -> None:
    gangs.offer(stock=3, classes=classes_of(policy))
    gangs.submit_job("a", queue="training", pods=4)
    gangs.eventually("its status says why it waits", lambda: "0 of 4 a10g nodes" in gangs.told("a"))
    gangs.stays(lambda: gangs.gated("a") == 4 and gangs.bound("a") == 0, "it stays behind its gate")
    assert gangs.held("training") == "0"
    assert len(gangs.items("/api/v1/nodes")) == 1, "none but that of CPUs"
    gangs.offer(stock=4, classes=classes_of(policy))
    gangs.eventually("it starts when there is one more", lambda: gangs.bound("a") == 4)


def test_a_job_set_of_two_shapes_starts_whole_or_not_at_all(gangs: World, policy: GangPolicy) -> None:
    gangs.offer(stock=3, classes=classes_of(policy))
    gangs.submit_job_set("a", queue="training", shapes={"driver": (1, 1, 0), "workers": (2, 2, 1)})
    gangs.eventually("its Jobs have their pods", lambda: len(gangs.pods("a")) == 5)
    gangs.eventually("its status says why it waits", lambda: "0 of 4 a10g nodes" in gangs.told("a"))
    gangs.stays(lambda: gangs.gated("a") == 5, "its driver, too, stays behind the gate")
    gangs.offer(stock=4, classes=classes_of(policy))
    gangs.eventually("it starts when there is one more node", lambda: gangs.bound("a") == 5)


def test_a_manager_that_is_killed_is_followed_by_one_that_starts_the_job_whole(gangs: World) -> None:
    gangs.submit_job("a", queue="training", pods=4)
    for reached in (lambda: gangs.requests(), lambda: gangs.gated("a") < 4):
        gangs.eventually("the manager has begun", reached)
        gangs.ours.kill("manager")
        gangs.start_manager()
    gangs.eventually("all of it runs", lambda: gangs.bound("a") == 4)
    assert len(gangs.requests_of("Job/a")) == 1
