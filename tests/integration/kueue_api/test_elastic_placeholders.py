"""A RayCluster grows in a pool whose autoscaler answers no ProvisioningRequest: real Kueue, KubeRay and
scheduler, and a cloud that makes a node for each pod that waits, while it has some.
"""

from typing import Any

from tests.integration.kueue_api.cloud import Cloud, force, rival
from tests.integration.kueue_api.elastic_cluster import NAME, elastic, is_up, pods, scale, uids
from tests.integration.kueue_api.objects import apply
from tests.integration.kueue_api.world import PODS, World
from tests.integration.pod_autoscaler import PLACEHOLDERS, taint_of
from tests.waiting import eventually

Object = dict[str, Any]


def test_each_growth_gets_its_nodes_and_a_failed_one_touches_nothing(cloud: Cloud) -> None:
    """Rivals of the same shape take what is given back, and wait while the rest comes."""
    world, fast = cloud.world, {"base": "1s", "max": "2s"}
    with world.kuberay(), world.policy(provisionTimeout="12s", retry=fast), world.manager():
        apply(world.plane, elastic())
        cloud.stock["l4"] = 1
        starts_whole(cloud, size=1)
        running = uids(world)

        # It grows, and there is one node of two.
        scale(world, 3)
        cloud.stock["l4"] = 1
        cloud.eventually("it has one node", lambda: "1 of 2 l4 nodes" in world.entry(NAME).get("message", ""))
        for number in range(3):
            apply(world.plane, rival(number))
        assert len(bound(workers(world))) == 1
        cloud.eventually("it is given up", lambda: "cannot grow yet" in world.entry(NAME).get("message", ""))
        assert running <= uids(world)
        assert is_up(world)

        # It tries again by itself, and there are nodes for all.
        cloud.stock["l4"] = 8
        starts_whole(cloud, size=3)
        assert running <= uids(world)

        # It shrinks and grows again.
        gone = [each["metadata"]["name"] for each in workers(world)[1:]]
        scale(world, 1, without=gone)
        cloud.eventually("two are gone", lambda: ended(world, gone))
        scale(world, 2)
        starts_whole(cloud, size=2)

        # It is evicted as a whole, and starts again as a whole.
        world.stop_queue("HoldAndDrain")
        cloud.eventually("it has stopped", lambda: drained(world))
        assert not world.items(PLACEHOLDERS)
        world.stop_queue("None")
        starts_whole(cloud, size=2)


def test_a_growth_within_seconds_of_the_start_gets_a_node_for_every_pod(cloud: Cloud) -> None:
    """The first slice is replaced while it is being admitted and started."""
    world = cloud.world
    with world.kuberay(), world.manager():
        apply(world.plane, elastic())
        eventually("it asks", lambda: world.items(PLACEHOLDERS))
        cloud.stock["l4"] = 4
        cloud.eventually("it has quota and nodes", lambda: any(map(taint_of, cloud.nodes())))
        scale(world, 3)
        starts_whole(cloud, size=3)


def test_a_growth_before_the_first_part_has_its_nodes_asks_for_all(cloud: Cloud) -> None:
    world = cloud.world
    with world.kuberay(), world.manager():
        apply(world.plane, elastic())
        eventually("it asks", lambda: len(world.items(PLACEHOLDERS)) == 1)
        scale(world, 3)
        cloud.eventually("it asks for all", lambda: len(world.items(PLACEHOLDERS)) == 3)
        assert not bound(workers(world))
        cloud.stock["l4"] = 3
        starts_whole(cloud, size=3)


def test_a_worker_that_is_made_again_while_its_cluster_grows_gets_a_node_too(cloud: Cloud) -> None:
    """It waits behind Kueue's gate until the growth may start, and tolerates the taint of its nodes."""
    world = cloud.world
    with world.kuberay(), world.manager():
        apply(world.plane, elastic())
        cloud.stock["l4"] = 1
        starts_whole(cloud, size=1)
        (first,) = workers(world)
        scale(world, 3)
        eventually("it asks for the difference", lambda: len(world.items(PLACEHOLDERS)) == 2)
        force(world.plane, f"{PODS}/{first['metadata']['name']}")
        eventually("its worker is made again", lambda: len(workers(world)) == 3)
        cloud.stock["l4"] = 2
        starts_whole(cloud, size=3)


def starts_whole(cloud: Cloud, *, size: int) -> None:
    """Every worker has a node of its own, no placeholder is left and no node is held."""
    world = cloud.world
    cloud.eventually("all have a node", lambda: len(bound(workers(world))) == size)
    cloud.eventually("the placeholders are gone", lambda: not world.items(PLACEHOLDERS))
    cloud.eventually("the taints are gone", lambda: not any(map(taint_of, cloud.nodes())))
    on = {each["spec"]["nodeName"] for each in workers(world)}
    assert len(on) == size


def workers(world: World) -> list[Object]:
    found = [each for each in pods(world) if each["metadata"]["labels"].get("ray.io/node-type") == "worker"]
    return sorted(found, key=lambda each: str(each["metadata"]["creationTimestamp"]))


def bound(found: list[Object]) -> list[Object]:
    return [each for each in found if each["spec"].get("nodeName")]


def ended(world: World, gone: list[str]) -> bool:
    end_pods(world)
    return not {each["metadata"]["name"] for each in world.items(PODS)} & set(gone)


def drained(world: World) -> bool:
    end_pods(world)
    return not is_up(world) and not world.holds(NAME, "QuotaReserved") and not world.items(PODS)


def end_pods(world: World) -> None:
    """No kubelet is here that would."""
    for each in world.items(PODS):
        if "deletionTimestamp" in each["metadata"]:
            force(world.plane, f"{PODS}/{each['metadata']['name']}")
