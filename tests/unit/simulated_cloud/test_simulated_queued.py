"""queued-provisioning.gke.io: what a client of GKE sees, step by step."""

from dataclasses import replace

from muster.local.simulated_cloud import names
from muster.local.simulated_cloud.faults import Fault, FaultKind
from muster.local.simulated_cloud.fit import PodShape
from muster.local.simulated_cloud.queued import resize_request_name
from tests.unit.simulated_cloud.world import (
    ONE_GPU,
    START,
    World,
    consumer,
    delivered,
    offering,
    pool,
    request,
)


def test_a_request_is_queued_then_promised_then_provisioned() -> None:
    world = World(offering())
    world.add(request("gang"))
    world.settle()
    assert world.state("gang", "Accepted") == ("False", "NotAccepted")
    world.run(1.5)
    assert world.state("gang", "Accepted") == ("True", "SuccessfullyQueued")
    assert world.state("gang", "Provisioned") == ("False", "NotProvisioned")
    assert "ETA: 20" in world.message("gang", "Provisioned")
    assert not world.nodes
    world.run(5)
    assert world.state("gang", "Provisioned") == ("True", "Provisioned")
    [node] = world.nodes_of("gang")
    lease = world.get("gang").details[names.RESIZE_REQUEST]
    assert node.lease == lease == resize_request_name("team-a", "gang")


def test_a_resize_request_name_is_gkes_and_fits_a_label() -> None:
    assert resize_request_name("default", "prov2") == "gke-default-prov2-693c08ad911d8c40"
    assert len(resize_request_name("n" * 63, "x" * 253)) <= 63


def test_two_pod_sets_are_denied_in_gkes_words() -> None:
    world = World(offering())
    world.add(request("gang", shapes=(ONE_GPU, ONE_GPU)))
    world.run(200)
    assert world.state("gang", "Failed") == ("True", "ProvisioningRequestDenied")
    assert "currently supports only single PodSet per request" in world.message("gang", "Failed")
    assert world.state("gang", "Accepted") == ("False", "NotAccepted")
    assert not world.bought


def test_a_missing_template_fails_as_the_autoscaler_has_it() -> None:
    world = World(offering())
    world.add(request("gang", shapes=(None,)))
    world.settle()
    assert world.state("gang", "Failed") == ("True", "FailedToCreatePods")
    assert "gang-0" in world.message("gang", "Failed")


def test_without_stock_a_request_waits_accepted_and_gets_the_next_free_machine() -> None:
    world = World(offering())
    world.add(request("first"))
    world.run(10)
    world.add(request("second"))
    world.run(30)
    assert world.state("second", "Accepted") == ("True", "SuccessfullyQueued")
    assert world.state("second", "Provisioned") == ("False", "ResourcePoolExhausted")
    assert "ETA: unknown" in world.message("second", "Provisioned")
    assert not world.nodes_of("second")
    world.delete("first")
    world.run(30)
    assert world.state("second", "Provisioned") == ("True", "Provisioned")
    assert len(world.nodes) == 1


def test_one_machine_is_promised_to_one_request_only() -> None:
    world = World(offering())
    world.add(request("first"), request("second"))
    world.run(2)
    assert not world.bought, "both are judged before a node exists"
    promised = [one.name for one in world.requests.values() if names.DETAIL_READY_AT in one.details]
    assert promised == ["first"]
    assert world.state("second", "Provisioned") == ("False", "ResourcePoolExhausted")
    world.settle()
    assert not world.decide(), "and the promise of one decision binds the next"


def test_a_request_comes_whole_or_not_at_all() -> None:
    world = World(offering(pool(stock=3, max_nodes=4)))
    world.add(request("pair", count=2))
    world.run(10)
    world.add(request("other", count=2))
    world.run(30)
    assert len(world.nodes_of("pair")) == 2
    assert not world.nodes_of("other")
    assert world.state("other", "Provisioned") == ("False", "ResourcePoolExhausted")


def test_an_earlier_large_request_is_not_starved_by_later_small_ones() -> None:
    world = World(offering(pool(stock=2, max_nodes=4)))
    world.add(request("running"))
    world.run(10)
    world.add(request("large", count=2))
    world.run(5)
    world.add(request("small"))
    world.run(20)
    assert not world.nodes_of("large")
    assert not world.nodes_of("small")
    world.delete("running")
    world.run(30)
    assert len(world.nodes_of("large")) == 2


def test_a_request_beyond_the_whole_stock_holds_nobody_up() -> None:
    world = World(offering(pool(stock=1, max_nodes=4)))
    world.add(request("impossible", count=2))
    world.run(5)
    world.add(request("small"))
    world.run(20)
    assert world.state("impossible", "Provisioned") == ("False", "ResourcePoolExhausted")
    assert len(world.nodes_of("small")) == 1


def test_a_request_deleted_in_the_queue_leaves_its_place() -> None:
    world = World(offering())
    world.add(request("first"))
    world.run(10)
    world.add(request("second"))
    world.run(5)
    world.add(request("third"))
    world.run(5)
    world.delete("second")
    world.delete("first")
    world.run(30)
    assert len(world.nodes_of("third")) == 1


def test_pods_that_fit_no_pool_fail_after_two_minutes_with_the_reason() -> None:
    world = World(offering())
    world.add(request("greedy", shapes=(replace(ONE_GPU, requests={names.GPU: 8000, "pods": 1000}),)))
    world.run(110, tick=5)
    assert world.state("greedy", "Failed") is None
    world.run(20, tick=5)
    assert world.state("greedy", "Failed") == ("True", "ProvisioningRequestNotSchedulableInNodepool")
    assert "l4 (Insufficient nvidia.com/gpu)" in world.message("greedy", "Failed")


def test_an_untolerated_taint_is_named() -> None:
    world = World(offering())
    world.add(request("bare", shapes=(PodShape({names.GPU: 1000, "pods": 1000}),)))
    world.run(130, tick=5)
    assert "untolerated taint {nvidia.com/gpu: present}" in world.message("bare", "Failed")


def test_more_nodes_than_the_pool_may_have_fail_with_its_size() -> None:
    world = World(offering(pool(stock=9, max_nodes=2)))
    world.add(request("wide", count=3), request("absurd", count=2**31 - 1))
    world.run(130, tick=5)
    assert world.state("wide", "Failed") == world.state("absurd", "Failed") == ("True", "NodepoolSizeReached")
    assert not world.bought


def test_a_run_duration_outside_of_the_clouds_range_is_denied() -> None:
    world = World(offering())
    for name, text in {"short": "10", "long": "604801", "word": "1h", "digit": "٣٠٠٠"}.items():
        world.add(request(name, parameters={names.MAX_RUN_DURATION: text}))
    world.settle()
    assert all(world.state(name, "Failed") for name in ("short", "long", "word", "digit"))


def test_the_booking_of_an_unused_node_ends_and_the_node_goes() -> None:
    world = delivered()
    world.run(580, tick=10)
    assert world.state("gang", "BookingExpired") is None
    assert world.nodes_of("gang")
    world.run(60, tick=5)
    assert world.state("gang", "BookingExpired") == ("True", "BookingExpired")
    assert not world.nodes


def test_a_consumed_booking_does_not_expire_and_its_node_goes_after_its_pods() -> None:
    world = delivered()
    world.boot()
    world.pods["worker"] = consumer(world.get("gang"), "l4-0")
    world.run(1200, tick=20)
    assert world.state("gang", "BookingExpired") is None
    assert world.nodes_of("gang")
    world.pods.clear()
    world.run(60, tick=1)
    assert world.state("gang", "BookingExpired") == ("True", "BookingExpired")
    assert not world.nodes


def test_consumed_bookings_expire_too_where_the_offering_says_so() -> None:
    world = delivered(offering(expire_consumed=True), used=True)
    world.run(700, tick=20)
    assert world.state("gang", "BookingExpired") == ("True", "BookingExpired")
    assert world.nodes_of("gang"), "a node in use stays whatever became of its booking"


def test_a_pod_of_another_namespace_consumes_nothing() -> None:
    world = delivered()
    world.pods["thief"] = replace(consumer(world.get("gang"), "l4-0"), namespace="team-b")
    world.run(700, tick=20)
    assert world.state("gang", "BookingExpired") == ("True", "BookingExpired")


def test_a_used_node_waits_for_a_pod_of_its_request_that_the_scheduler_has_yet_to_bind() -> None:
    world = delivered()
    world.boot()
    worker = consumer(world.get("gang"), "l4-0")
    world.pods["worker"] = worker
    world.run(20)
    world.pods = {"twin": replace(worker, uid="twin", node="")}
    world.run(120)
    assert world.nodes_of("gang")
    world.pods = {"twin": replace(worker, uid="twin", node="", gated=True)}
    world.run(60)
    assert not world.nodes, "a pod behind a gate waits for somebody else's word"


def test_between_two_pods_of_a_gang_its_node_stays_a_while() -> None:
    world = delivered()
    world.pods["placeholder"] = consumer(world.get("gang"), "l4-0")
    world.run(5)
    world.pods.clear()
    world.run(20)
    assert world.nodes_of("gang")
    world.pods["worker"] = consumer(world.get("gang"), "l4-0")
    world.run(60)
    assert world.nodes_of("gang")


def test_a_lease_ends_with_its_run_duration_whatever_runs_there() -> None:
    world = delivered(used=True, parameters={names.MAX_RUN_DURATION: "600"})
    world.run(620, tick=5)
    assert world.state("gang", "CapacityRevoked") == ("True", "CapacityRevoked")
    assert world.state("gang", "BookingExpired") == ("True", "BookingExpired")
    assert not world.nodes


def test_a_deleted_requests_node_goes_once_it_is_empty() -> None:
    world = delivered(used=True)
    world.delete("gang")
    world.run(120)
    assert world.nodes
    world.pods.clear()
    world.run(15)
    assert not world.nodes


def test_a_second_request_of_the_same_name_waits_for_the_first_ones_machines() -> None:
    world = delivered(offering(pool(stock=2)), used=True)
    world.delete("gang")
    world.add(request("gang", uid="second"))
    world.run(60)
    assert not world.get("gang").conditions
    world.pods.clear()
    world.run(60)
    assert world.state("gang", "Provisioned") == ("True", "Provisioned")


def test_a_machine_that_cannot_be_started_fails_the_request() -> None:
    world = World(offering(), broken_machines=True)
    world.add(request("gang"))
    world.run(30)
    assert world.state("gang", "Failed") == ("True", "InternalError")
    assert not world.nodes


def test_stock_that_goes_after_the_promise_sends_the_request_back() -> None:
    world = World(offering())
    world.add(request("gang"))
    world.run(2)
    assert world.state("gang", "Provisioned") == ("False", "NotProvisioned")
    world.capacity["l4"] = 0
    world.run(20)
    assert world.state("gang", "Provisioned") == ("False", "ResourcePoolExhausted")
    assert not world.bought
    world.capacity["l4"] = 1
    world.run(20)
    assert world.state("gang", "Provisioned") == ("True", "Provisioned")


def test_half_bought_when_it_crashed_and_the_stock_went_a_request_keeps_what_it_has_and_waits() -> None:
    world = World(offering(pool(stock=2)))
    world.add(request("pair", count=2))
    world.run(2)
    world.now += 5
    world.step(upto=1)
    assert len(world.nodes_of("pair")) == 1
    world.capacity["l4"] = 1
    world.run(30)
    assert len(world.nodes_of("pair")) == 1
    assert world.state("pair", "Provisioned") == ("False", "NotProvisioned")
    world.capacity["l4"] = 2
    world.run(5)
    assert world.state("pair", "Provisioned") == ("True", "Provisioned")


def test_a_machine_ends_with_its_run_duration_even_when_its_request_is_gone() -> None:
    world = delivered(used=True, parameters={names.MAX_RUN_DURATION: "600"})
    world.delete("gang")
    world.run(560, tick=5)
    assert world.nodes
    world.run(60, tick=5)
    assert not world.nodes


def test_a_request_that_has_been_over_for_a_week_is_deleted() -> None:
    world = World(offering())
    world.add(request("gang", shapes=(None,)))
    world.settle()
    world.run(8 * 86400, tick=86400)
    assert not world.requests


def test_times_of_conditions_move_only_when_they_say_something_new() -> None:
    world = World(offering())
    world.add(request("first"))
    world.run(10)
    accepted = world.get("first").condition("Accepted")
    world.run(100, tick=5)
    assert world.get("first").condition("Accepted") == accepted
    assert accepted is not None
    assert START <= accepted.since <= START + 2


def test_a_fault_of_one_pool_leaves_the_others_alone() -> None:
    world = World(offering(pool(), pool("h100")))
    world.faults = (Fault("f", "h100", FaultKind.SILENCE),)
    world.add(request("gang", shapes=(replace(ONE_GPU, selector={names.POOL_LABEL: "l4"}),)))
    world.run(10)
    assert world.state("gang", "Provisioned") == ("True", "Provisioned")
