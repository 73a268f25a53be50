"""What the real Kueue makes of our answers when a gang is in trouble: nodes that go, pools that are empty,
pieces that come too early.
"""

from functools import partial
from typing import Any, Final

from muster.model import names
from tests.integration.kueue_api.objects import apply
from tests.integration.kueue_api.works import work
from tests.integration.kueue_api.world import (
    JOBS,
    KUEUE,
    PODS,
    POLICY,
    REQUESTS,
    TEAM,
    Object,
    World,
    condition,
    pod,
)
from tests.waiting import eventually

_EVENTS: Final = f"/apis/events.k8s.io/v1/namespaces/{TEAM}/events"


def test_a_running_gang_that_loses_its_node_is_evicted_and_gets_another_request(world: World) -> None:
    with world.policy(nodeLossGrace="2s"), world.manager():
        world.run("trainer")
        (first,) = world.asked("trainer")
        ends = world.entry("trainer")["podSetUpdates"][0]["annotations"][names.LEASE_ENDS_ANNOTATION]
        eventually(
            "its program can read it", lambda: _told(world, "trainer", names.LEASE_ENDS_ANNOTATION) == ends
        )
        lease = f"{names.GKE_LEASE_LABEL}={_lease(world, first)}"
        world.delete(f"/api/v1/nodes?labelSelector={lease}")
        (second,) = eventually("it has asked anew", partial(world.asked, "trainer", first))
        news = {"NodesMissing", "NodesLost"}
        eventually("both are told", lambda: news <= world.reasons("trainer"))
        assert not world.holds("trainer", "Admitted")
        assert (world.workload("trainer") or {})["spec"].get("active") is not False
        world.provision(second)
        world.wait_until_runs("trainer")


def test_a_gang_whose_pool_is_empty_gets_the_next_flavor_of_its_queue(world: World) -> None:
    with world.policy(onStockOut="nextFlavor"), world.manager():
        _submit_anywhere(world, "anywhere")
        (first,) = eventually("it has asked", partial(world.asked, "anywhere"))
        world.answer(first, "Failed", reason="ResourcePoolExhausted")
        (second,) = eventually("it has asked anew", partial(world.asked, "anywhere", first))
        assert _pool(second) != _pool(first)
        world.provision(second)
        world.wait_until_runs("anywhere")
        job = eventually("the job has begun", lambda: _begun(world, "anywhere"))
        assert job["nodeSelector"][names.POOL_LABEL] == _pool(second)
        assert "affinity" not in job, "what steers Kueue is nothing to the job's own pods"


def test_what_comes_early_is_held_by_pods_that_go_when_the_gang_is_whole(world: World) -> None:
    hold = world.policy(onStaggered="hold", placeholderImage="none", bookingWindow="4s", bookingMargin="3s")
    with hold, world.manager():
        apply(world.plane, _cluster("pair"))
        both = eventually("it has asked for both", lambda: _accepted(world, "pair", count=2))
        early = next(each for each in both if _pool(each) == "l4")
        late = next(each for each in both if _pool(each) != "l4")
        world.provision(early)
        (held,) = eventually("its node is held", lambda: _placeholders(world))
        assert held["metadata"]["annotations"][names.CONSUME_ANNOTATION] == early["metadata"]["name"]
        assert held["spec"]["nodeSelector"][names.GKE_LEASE_LABEL] == _lease(world, early)
        world.provision(late)
        world.wait_until_runs("pair")
        eventually("nothing stands in its way", lambda: not _placeholders(world))
        assert {each["metadata"]["uid"] for each in world.asked("pair")} == {
            each["metadata"]["uid"] for each in both
        }


def test_what_is_wrong_with_a_policy_is_told_on_it_and_on_the_check_that_follows_it(world: World) -> None:
    check = f"{KUEUE}/admissionchecks/{names.ADMISSION_CHECK}"
    with world.manager():
        with world.policy(bookingMargin="10m"):
            said = eventually("it is refused", lambda: _condition(world, POLICY, "Accepted", "False"))
            assert (said["reason"], "bookingMargin" in said["message"]) == ("Invalid", True)
            said = eventually("so is the check", lambda: _condition(world, check, "Active", "False"))
            assert (said["reason"], "bookingMargin" in said["message"]) == ("BadParametersRef", True)
        with world.policy(onStaggered="hold"):
            eventually("the check is active", lambda: _condition(world, check, "Active", "True"))
            eventually("it is obeyed as far as it can be", lambda: _is_obeyed(world, "NoPlaceholderImage"))
        eventually("it is as it was", lambda: _is_obeyed(world, "Accepted"))


def _condition(world: World, path: str, kind: str, status: str) -> Object | None:
    found = condition(world.plane.call("GET", path), kind)
    return found if found["status"] == status else None


def _is_obeyed(world: World, reason: str) -> bool:
    said = _condition(world, POLICY, "Accepted", "True")
    return said is not None and said["reason"] == reason


def _lease(world: World, request: Object) -> str:
    found = world.plane.call("GET", f"{REQUESTS}/{request['metadata']['name']}")
    return str(found["status"]["provisioningClassDetails"][names.GKE_LEASE_DETAIL])


def _pool(request: Object) -> str:
    return str(request["metadata"]["annotations"][f"{names.GROUP}/requested-pool"])


def _submit_anywhere(world: World, name: str) -> None:
    """A Job that names no pool."""
    job = work("Job", {key: value for key, value in pod("l4").items() if key != "nodeSelector"})
    job["metadata"]["name"] = name
    apply(world.plane, job)


def _begun(world: World, name: str) -> dict[str, Any] | None:
    spec = world.plane.call("GET", f"{JOBS}/{name}")["spec"]
    found: dict[str, Any] = spec["template"]["spec"]
    return None if spec["suspend"] else found


def _told(world: World, name: str, note: str) -> str | None:
    """What the pods of the Job get to know; Kueue tells them some moments after it has admitted the Job."""
    meta = world.plane.call("GET", f"{JOBS}/{name}")["spec"]["template"].get("metadata") or {}
    found: str | None = (meta.get("annotations") or {}).get(note)
    return found


def _accepted(world: World, name: str, *, count: int) -> list[Object]:
    """Its requests when there are so many; those that are there are accepted meanwhile."""
    found = world.asked(name)
    for each in found:
        if not (each.get("status") or {}).get("conditions"):
            world.answer(each, "Accepted")
    return found if len(found) == count else []


def _placeholders(world: World) -> list[Object]:
    return [each for each in world.items(PODS) if "-hold-" in each["metadata"]["name"]]


def _cluster(name: str) -> Object:
    """Workers in two pools, and a head beside them."""
    cluster = work("RayCluster", pod("l4"))
    cluster["metadata"]["name"] = name
    (group,) = cluster["spec"]["workerGroupSpecs"]
    groups = [group | {"groupName": pool, "template": {"spec": pod(pool)}} for pool in ("l4", "h100")]
    cluster["spec"]["workerGroupSpecs"] = groups
    return cluster
