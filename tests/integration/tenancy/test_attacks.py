"""Every way around the queues that we know of, tried as a tenant: denied, with what to do instead.

Tried as a member's ServiceAccount, as a user in a mapped group, and as a tenant with every
right in his namespace: what RBAC alone would stop, the policies stop too.
"""

from __future__ import annotations

import pytest

from muster.check.admission import Admission
from muster.check.policies import Level
from tests.integration.tenancy import works
from tests.integration.tenancy.attack import Attack, Way
from tests.integration.tenancy.attacks import ALL, amounts, validity
from tests.integration.tenancy.cluster import MERGE, allowed, await_allowed, await_denied, refused
from tests.integration.tenancy.conftest import World, described
from tests.integration.tenancy.works import (
    DEPLOYMENT,
    WORKLOAD,
    cluster_spec,
    in_a_cluster,
    named,
    owner,
    pod,
)

GPUS = ("GPUs are for work that a queue admitted", "submit a RayJob")


@pytest.mark.parametrize("attack", ALL, ids=lambda attack: attack.name)
def test_it_is_denied_and_says_what_to_do_instead(world: World, attack: Attack) -> None:
    attack.check(world)


def test_muster_check_refuses_the_same_by_the_same_policy() -> None:
    """Where a policy calls functions of Kubernetes, for which the command has its own."""
    admission = Admission(described(), "team-a")
    for attack in (each for each in (*amounts.ATTACKS, *validity.ATTACKS) if Way.CREATE in each.tried):
        refused = {each.by for each in admission.review(attack.body).findings if each.level is Level.REFUSED}
        assert refused & {attack.policy, *attack.also}, attack.name


def test_a_job_of_before_in_an_existing_cluster_gets_none_of_its_own_that_nothing_stops(world: World) -> None:
    body = world.member.ensure(named(works.ray_job(), "elsewhere"))
    selecting = {
        "spec": in_a_cluster("InteractiveMode")["spec"] | {"rayClusterSpec": None, "entrypoint": None}
    }
    allowed(world.controllers["kueue"].patch(body, selecting, dry_run=False))
    own = {"clusterSelector": None, "rayClusterSpec": cluster_spec(), "shutdownAfterJobFinishes": True}
    for caller in world.tenants:
        refused(caller.patch(body, {"spec": own}), "InteractiveMode cannot be suspended")


def test_an_older_version_of_the_kinds_does_not_switch_authentication_off(world: World) -> None:
    """Gained: any client that reaches the cluster runs code in it. The API server drops authOptions."""
    body = works.ray_cluster()
    body["metadata"]["name"] = "authenticated"
    assert world.member.create(body, dry_run=False).is_allowed
    older = body | {"apiVersion": "ray.io/v1alpha1"}
    refused(
        world.member.patch(older, {"metadata": {"labels": {"any": "change"}}}),
        "write Ray objects as apiVersion ray.io/v1",
    )
    assert world.member.patch(body, {"metadata": {"labels": {"any": "change"}}}).is_allowed


def test_a_deployment_with_gpus_gets_no_pods(world: World) -> None:
    for caller in (world.member, world.person):
        assert caller.create(DEPLOYMENT).code == 403
    # A tenant with the right to Deployments gets one, and the cluster's own controller is refused its pods.
    assert world.trusted.create(DEPLOYMENT).is_allowed
    answer = world.controllers["replicasets"].create(pod(1, owner=owner("ReplicaSet", "apps/v1")))
    for word in GPUS:
        assert word in answer.message


def test_only_controllers_write_the_status_of_a_workload(world: World) -> None:
    body = world.controllers["kueue"].ensure(named(WORKLOAD, "status"))
    admitted = {"status": {"conditions": [works.condition("Admitted")]}}
    for caller in world.tenants:
        assert caller.patch(body, admitted, subresource="status").code == 403
        assert caller.patch(body, {"spec": {"active": False}}).code == 403
        assert caller.delete(body).code == 403
    answer = world.trusted.patch(body, admitted, subresource="status")
    assert "not written by hand" in answer.message
    allowed(world.controllers["kueue"].patch(body, admitted, subresource="status"))


def test_a_member_of_one_team_does_nothing_in_another(world: World) -> None:
    for body in (works.ray_job(), works.job(), works.ray_cluster()):
        assert world.stranger.create(body).code == 403


def test_more_objects_than_a_namespace_may_hold_are_refused(world: World) -> None:
    status = {"status": {"used": {"count/rayjobs.ray.io": "500"}}}
    path = "/api/v1/namespaces/team-a/resourcequotas/objects/status"
    assert world.admin.send("PATCH", path, status, MERGE).is_allowed
    try:
        # The API server counts by what it has heard, a moment later.
        await_denied(world.member, works.ray_job())
        refused(world.member.create(works.ray_job()), "count/rayjobs.ray.io=500")
    finally:
        status["status"]["used"]["count/rayjobs.ray.io"] = "0"
        world.admin.send("PATCH", path, status, MERGE)
        await_allowed(world.member, works.ray_job())
