"""A RayCluster grows and shrinks: each growth is a gang of its own, and what runs is never touched by one."""

import urllib.error
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from typing import Any, Final

from muster.model import names
from tests.integration.kueue_api.elastic_cluster import (
    GATE,
    NAME,
    elastic,
    is_up,
    pods,
    scale,
    spec_of,
    uid,
    uids,
)
from tests.integration.kueue_api.objects import apply
from tests.integration.kueue_api.world import CLUSTERS, KUEUE, REQUESTS, TEAM, World, is_ours, pod, size_of
from tests.waiting import eventually

_GATED: Final = "gated"


def test_each_growth_is_gated_as_its_own_gang_and_a_failed_one_touches_nothing(world: World) -> None:
    with world.kuberay(), world.manager():
        apply(world.plane, elastic())
        first = _asked(world)
        assert size_of(first) == 1
        world.provision(first)
        world.wait_until_runs(NAME)
        eventually("its worker may be scheduled", lambda: _released(world) == {first["metadata"]["name"]: 1})
        eventually("its templates hold no claim", lambda: not _claims(world))
        running = uids(world)

        # It grows, and the cloud has nothing.
        _scale(world, 3)
        failed = _asked(world, first)
        assert size_of(failed) == 2, "what runs is not bought again"
        eventually("its new pods are there", lambda: len(uids(world)) == 4)
        world.answer(failed, "Failed")
        eventually("it is told", lambda: "GrowthReleased" in world.reasons(NAME))
        assert _released(world) == {first["metadata"]["name"]: 1}
        assert running <= uids(world)
        assert is_up(world)

        # It tries again by itself, and the cloud has two nodes.
        second = _asked(world, first, failed)
        assert size_of(second) == 2
        assert uid(first) in _live(world), "the first request is what the running part stands on"
        world.provision(second)
        world.wait_until_runs(NAME)
        grown = {first["metadata"]["name"]: 1, second["metadata"]["name"]: 2}
        eventually("its new pods may be scheduled with their own claim", lambda: _released(world) == grown)
        assert running <= uids(world)

        # It shrinks and grows again.
        _scale(world, 1, without=second["metadata"]["name"])
        eventually("two are gone", lambda: len(uids(world)) == 2)
        assert is_up(world)
        _scale(world, 2)
        third = _asked(world, first, second)
        assert size_of(third) == 1
        world.provision(third)
        world.wait_until_runs(NAME)

        # It is evicted as a whole and comes back as a whole: all is asked for anew, and it can be started.
        world.stop_queue("HoldAndDrain")
        eventually("it has stopped", lambda: not is_up(world) and not world.holds(NAME, "QuotaReserved"))
        eventually("all is given back", lambda: not _live(world))
        world.stop_queue("None")
        again = _asked(world)
        assert size_of(again) == 2
        world.provision(again)
        world.wait_until_runs(NAME)
        eventually("it is started", lambda: is_up(world))


def test_a_growth_that_is_taken_back_gives_its_request_back(world: World) -> None:
    with world.kuberay(), world.manager():
        apply(world.plane, elastic())
        first = _asked(world)
        world.provision(first)
        eventually("its worker may be scheduled", lambda: _released(world) == {first["metadata"]["name"]: 1})
        _scale(world, 2)
        _asked(world, first)
        eventually("its pods are there", lambda: len(uids(world)) == 3)
        _scale(world, 1, without=_GATED)
        eventually("only the first is left", lambda: _live(world) == {uid(first)})
        world.wait_until_runs(NAME)
        assert is_up(world)


def test_a_growth_that_was_refused_begins_anew_when_it_asks_for_less(world: World) -> None:
    with world.kuberay(), world.manager():
        apply(world.plane, elastic())
        first = _asked(world)
        world.provision(first)
        eventually("its worker may be scheduled", lambda: _released(world) == {first["metadata"]["name"]: 1})
        _scale(world, 4)
        second = _asked(world, first)
        world.answer(second, "Failed", reason="InvalidArgument")
        eventually("it is refused", lambda: "GrowthRefused" in world.reasons(NAME))
        eventually("its request is given back", lambda: _live(world) == {uid(first)})
        eventually("its pods are there", lambda: len(uids(world)) == 5)
        _scale(world, 2, without=_GATED)
        third = _asked(world, first, second)
        assert size_of(third) == 1
        world.provision(third)
        world.wait_until_runs(NAME)
        grown = {first["metadata"]["name"]: 1, third["metadata"]["name"]: 1}
        eventually("what it asks for now runs", lambda: _released(world) == grown)


def test_a_growth_within_seconds_of_the_start_gets_a_node_for_every_pod(world: World) -> None:
    """The first slice is replaced while it is being admitted and started: whatever it came to counts."""
    with world.kuberay(), world.manager():
        apply(world.plane, elastic())
        first = _asked(world)
        world.provision(first)
        _scale(world, 3)
        asked, answered = {first["metadata"]["name"]: size_of(first)}, {uid(first)}

        def settled() -> bool:
            # What it asked for while the first slice was not finished yet may be asked for anew, and is gone
            # before the cloud has answered it.
            for each in world.asked(NAME):
                if uid(each) not in answered:
                    answered.add(uid(each))
                    asked[each["metadata"]["name"]] = size_of(each)
                    with _gone_meanwhile():
                        world.provision(each)
            return sum(_released(world).values()) == 3

        eventually("all three may be scheduled", settled)
        assert all(pods <= asked[name] for name, pods in _released(world).items()), "a pod without a node"
        assert is_up(world)


@contextmanager
def _gone_meanwhile() -> Iterator[None]:
    """What is answered may be no more."""
    try:
        yield
    except urllib.error.HTTPError as refusal:
        if refusal.code != HTTPStatus.NOT_FOUND:
            raise


def test_kueue_counts_of_a_changed_cluster_only_how_many_pods_it_has(world: World) -> None:
    """So a policy keeps the resources and the gate in its templates (policies/muster-growth.yaml)."""
    cluster = elastic()
    cluster["spec"]["enableInTreeAutoscaling"] = False
    # It gets no quota: of one that has it Kueue counts a change in a slice of its own.
    cluster["metadata"]["labels"][names.QUEUE_LABEL] = "absent"
    apply(world.plane, cluster)
    (counted,) = eventually("it is queued", lambda: world.items(f"{KUEUE}/namespaces/{TEAM}/workloads"))
    assert counted["spec"]["podSets"][1]["count"] == 1
    larger = pod("l4")
    larger["containers"][0]["resources"] = {"requests": {"cpu": "7"}, "limits": {"cpu": "7"}}
    gates = [{"name": GATE}]
    at = "/spec/workerGroupSpecs/0"
    change = [
        {"op": "replace", "path": f"{at}/template/spec", "value": larger | {"schedulingGates": gates}},
        {"op": "replace", "path": f"{at}/replicas", "value": 2},
    ]
    world.plane.call("PATCH", f"{CLUSTERS}/{NAME}", change, content_type="application/json-patch+json")

    def workers() -> dict[str, Any]:
        (now,) = world.items(f"{KUEUE}/namespaces/{TEAM}/workloads")
        assert uid(now) == uid(counted)
        found: dict[str, Any] = now["spec"]["podSets"][1]
        return found

    eventually("it counts the new number", lambda: workers()["count"] == 2)
    assert workers()["template"] == counted["spec"]["podSets"][1]["template"]


def _asked(world: World, *but: dict[str, Any]) -> dict[str, Any]:
    """The request of the slice that lives, once there is one that is none of those."""
    (found,) = eventually("it has asked", partial(world.asked, NAME, *but))
    return dict(found)


def _live(world: World) -> set[str]:
    """The requests of every slice."""
    slices = [each["metadata"]["uid"] for each in world.items(f"{KUEUE}/namespaces/{TEAM}/workloads")]
    found = world.items(REQUESTS)
    return {uid(one) for one in found if any(is_ours(one, uid) for uid in slices)}


def _scale(world: World, replicas: int, *, without: str = "") -> None:
    """Without pods that consume this request."""
    gone = [each["metadata"]["name"] for each in pods(world) if without and _claim(each) == without]
    scale(world, replicas, without=gone)


def _claims(world: World) -> bool:
    spec = spec_of(world)
    templates = [spec["headGroupSpec"]["template"], *(each["template"] for each in spec["workerGroupSpecs"])]
    return any(
        names.CONSUME_ANNOTATION in str(each) or names.GKE_LEASE_LABEL in str(each) for each in templates
    )


def _claim(each: dict[str, Any]) -> str:
    """The request that a pod consumes, _GATED while it may not be scheduled; empty for the head."""
    if each["metadata"]["labels"].get("ray.io/node-type") == "head":
        return ""
    if each["spec"].get("schedulingGates"):
        return _GATED
    return str((each["metadata"].get("annotations") or {}).get(names.CONSUME_ANNOTATION, ""))


def _released(world: World) -> dict[str, int]:
    """Workers that may be scheduled, by the request that they consume and are pinned to."""
    found: dict[str, int] = {}
    for each in pods(world):
        claimed = _claim(each)
        if claimed and each["spec"]["nodeSelector"].get(names.GKE_LEASE_LABEL) == claimed:
            found[claimed] = found.get(claimed, 0) + 1
    return found
