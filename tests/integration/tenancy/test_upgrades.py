"""What runs of Ray is brought up to date through its queue: no second cluster, no group added beside it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from muster.model.ray import Upgrade
from tests.integration.tenancy import works
from tests.integration.tenancy.cluster import Object, refused
from tests.integration.tenancy.conftest import World
from tests.integration.tenancy.works import annotated, cluster_spec, named, owner

_ELASTIC = "kueue.x-k8s.io/elastic-job"


def _strategy(kind: str | None) -> Object:
    return {"upgradeStrategy": {"type": kind} if kind else {}}


@pytest.mark.parametrize("kind", [None, Upgrade.NEW_CLUSTER, "NewClusterWithIncrementalUpgrade"])
def test_a_service_that_would_start_a_second_cluster_is_denied(world: World, kind: str | None) -> None:
    for caller in world.tenants:
        answer = caller.create(works.ray_service(**_strategy(kind)))
        refused(answer, "second cluster", "set it to None", "second RayService")


def test_a_standing_service_is_not_changed_into_one(world: World) -> None:
    body = world.member.ensure(named(works.ray_service(), "standing"))
    for kind in (None, Upgrade.NEW_CLUSTER):
        refused(world.member.patch(body, {"spec": {"upgradeStrategy": {"type": kind}}}))
    assert world.member.patch(body, {"spec": {"serveConfigV2": "applications: [ ]"}}).is_allowed


def test_an_elastic_cluster_that_recreates_its_pods_is_denied(world: World) -> None:
    recreating = works.ray_cluster(**_strategy(Upgrade.RECREATE))
    growing = works.ray_cluster(enableInTreeAutoscaling=True, **_strategy(Upgrade.RECREATE))
    for caller in world.tenants:
        refused(caller.create(annotated(growing, _ELASTIC, "true")), "at each growth", "set None", _ELASTIC)
        assert caller.create(recreating).is_allowed


def _cluster(*, waits: bool) -> Object:
    return works.ray_cluster(suspend=waits)


def _service(*, waits: bool) -> Object:
    return works.ray_service(rayClusterConfig=cluster_spec(suspend=waits))


@pytest.mark.parametrize("work", [_cluster, _service], ids=["RayCluster", "RayService"])
def test_a_group_is_added_to_what_waits_and_not_to_what_runs(
    world: World, work: Callable[..., Object]
) -> None:
    (group,) = cluster_spec()["workerGroupSpecs"]
    spec = {"workerGroupSpecs": [group, group | {"groupName": "another"}]}
    waiting, running = named(work(waits=True), "waits"), named(work(waits=False), "runs")
    change = {"spec": {"rayClusterConfig": spec} if work is _service else spec}
    for body in (waiting, running):
        world.member.ensure(body)
    for caller in world.tenants:
        assert caller.patch(waiting, change).is_allowed
        refused(caller.patch(running, change), f"create a new {running['kind']}")


def test_a_cluster_that_was_made_for_a_job_is_changed_through_the_job(world: World) -> None:
    made = named(works.ray_cluster(suspend=False), "train-x2")
    made["metadata"] |= {"labels": {}, "ownerReferences": [owner("RayJob", "ray.io/v1", "train")]}
    kuberay = world.controllers["kuberay"]
    kuberay.ensure(made)
    (group,) = cluster_spec()["workerGroupSpecs"]
    change = {"spec": {"workerGroupSpecs": [group | {"replicas": 9, "maxReplicas": 9}]}}
    for caller in world.tenants:
        refused(caller.patch(made, change), "created for RayJob train")
    assert kuberay.patch(made, change).is_allowed
