"""In a KAI stack queues are labels that any author may write, so policies alone hold a tenant to its own."""

from __future__ import annotations

import pytest

from muster.model import names
from tests.integration.tenancy.attack import Attack
from tests.integration.tenancy.attacks.kai import ALL, CLUSTER, OWN, queued
from tests.integration.tenancy.cluster import Object, allowed, refused
from tests.integration.tenancy.conftest import World
from tests.integration.tenancy.works import (
    DEPLOYMENT,
    QUEUE,
    changed,
    cluster_spec,
    cron_job,
    head,
    in_a_cluster,
    job,
    labelled,
    named,
    owner,
    pod,
    ray_cluster,
    ray_job,
    ray_service,
    service,
    template,
)

GATE = [{"name": names.GANG_GATE}]


@pytest.mark.parametrize("attack", ALL, ids=lambda attack: attack.name)
def test_an_attack_is_denied_and_told_what_to_do_instead(kai: World, attack: Attack) -> None:
    attack.check(kai)


def test_ordinary_work_of_the_same_team_passes(kai: World) -> None:
    for who in kai.tenants:
        # Nothing suspends a job of KAI's, so it may run in a cluster that has been admitted.
        selecting = queued(in_a_cluster("HTTPMode"))
        graded = labelled(CLUSTER, names.KAI_PRIORITY_LABEL, "dev")
        for body in (CLUSTER, graded, queued(ray_job()), selecting):
            allowed(who.create(body))


def test_what_kai_s_documentation_tells_authors_to_write_passes(kai: World) -> None:
    body = queued(ray_cluster())
    for who in kai.tenants:
        segments = {"kai.scheduler/segment-size": "2"}
        allowed(who.create(changed(body, "metadata", "annotations", value=segments)))


def test_a_topology_and_parts_of_gpus_need_a_stack_that_has_them(kai: World) -> None:
    sharing = template() | {"metadata": {"annotations": {"gpu-fraction": "0.5"}}}
    half = queued(ray_cluster(headGroupSpec=head(template=sharing)))
    racks = changed(
        queued(ray_cluster()), "metadata", "annotations", value={"kai.scheduler/topology": "racks"}
    )
    for who in kai.tenants:
        for body, words in ((half, "gpuSharing is off"), (racks, "kai.scheduler/topology: racks")):
            answer = who.create(body)
            assert not answer.is_allowed
            assert words in answer.message


def test_kai_notes_what_it_has_decided(kai: World) -> None:
    assert kai.member.create(named(CLUSTER, "decided"), dry_run=False).is_allowed
    noted = {"metadata": {"annotations": {"kai.scheduler/last-start-timestamp": "2026-01-01T00:00:00Z"}}}
    allowed(kai.controllers["kuberay"].patch(named(CLUSTER, "decided"), noted))


def batch(asking: Object) -> Object:
    return queued(job(template=asking))


def nightly(asking: Object) -> Object:
    metadata = {"labels": {names.KAI_QUEUE_LABEL: OWN}}
    value = {"metadata": metadata, "spec": {"template": asking}}
    return changed(cron_job(), "spec", "jobTemplate", value=value)


@pytest.mark.parametrize("gates", [{}, {"schedulingGates": GATE}], ids=["by our webhook", "by its author"])
def test_a_batch_job_with_gpus_is_queued_and_its_pods_wait_at_the_gate(kai: World, gates: Object) -> None:
    """Our webhook gates its template. Where it was down its pods are refused, and no others."""
    asking = template(1, restart="Never", **gates)
    for who in (*kai.tenants, kai.admin, kai.controllers["cronjobs"]):
        for body in (batch(asking), nightly(asking)):
            allowed(who.create(body))
    made = pod(owner=owner("Job", "batch/v1"), schedulerName=names.KAI_SCHEDULER, **gates)
    answer = kai.controllers["jobs"].create(made)
    assert answer.is_allowed is bool(gates), answer.message
    assert gates or "wait behind the gate" in answer.message


@pytest.mark.parametrize("kind", ["StatefulSet", "ReplicaSet"])
def test_what_serves_makes_pods_with_gpus_that_wait_at_the_gate_alone(kai: World, kind: str) -> None:
    for gates in ([], GATE):
        made = pod(owner=owner(kind, "apps/v1"), schedulerName=names.KAI_SCHEDULER, schedulingGates=gates)
        answer = kai.controllers["replicasets"].create(made)
        assert answer.is_allowed is bool(gates), answer.message


def test_a_replica_set_cannot_pass_for_a_deployments_in_the_queue_of_another_team(kai: World) -> None:
    body = changed(DEPLOYMENT, "metadata", "labels", value={names.KAI_QUEUE_LABEL: "team-b-l4"})
    answer = kai.trusted.create({**body, "kind": "ReplicaSet"})
    assert f"remove {names.KAI_QUEUE_LABEL} from metadata.labels" in answer.message


def test_a_batch_job_with_a_part_of_a_gpu_needs_a_stack_that_shares_them(kai: World) -> None:
    asking = template(restart="Never") | {"metadata": {"annotations": {"gpu-fraction": "0.5"}}}
    for body in (batch(asking), nightly(asking)):
        assert "gpuSharing is off" in kai.member.create(body).message


def test_a_job_that_claims_a_device_is_refused_when_it_is_created(kai: World) -> None:
    asking = template(restart="Never", resourceClaims=[{"name": "gpu", "resourceClaimName": "mine"}])
    for who in kai.tenants:
        for body in (batch(asking), nightly(asking)):
            refused(who.create(body), "resourceClaims")


def test_a_batch_job_without_gpus_is_queued_like_any_other_work(kai: World) -> None:
    plain = template(restart="Never")
    for who in (*kai.tenants, kai.controllers["cronjobs"]):
        for body in (batch(plain), nightly(plain)):
            allowed(who.create(body))
    for body, label in (
        (queued(job(template=plain), "team-b-l4"), "set metadata.labels"),
        (
            changed(nightly(plain), "spec", "jobTemplate", "metadata", value={}),
            "set spec.jobTemplate.metadata.labels",
        ),
    ):
        assert f"{label}[{names.KAI_QUEUE_LABEL}] to one of: " in kai.member.create(body).message


def test_an_incremental_upgrade_opens_no_gateway(kai: World) -> None:
    options = {"gatewayClassName": "istio", "intervalSeconds": 10, "stepSizePercent": 10}
    incremental = {"type": "NewClusterWithIncrementalUpgrade", "clusterUpgradeOptions": options}
    standing = named(queued(ray_service(upgradeStrategy={"type": "NewCluster"})), "standing")
    assert kai.member.create(standing, dry_run=False).is_allowed
    for who in kai.tenants:
        for answer in (
            who.create(queued(ray_service(upgradeStrategy=incremental))),
            who.create(queued(ray_service(upgradeStrategy={"type": incremental["type"]}))),
            who.patch(standing, {"spec": {"upgradeStrategy": incremental}}),
        ):
            refused(answer, "opens a Gateway")


def test_no_ray_object_takes_an_address(kai: World) -> None:
    spec: Object = {"externalIPs": ["10.96.0.1"], "ports": [{"name": "api", "port": 6443}]}
    stolen = {"spec": spec}
    clusters = cluster_spec(headGroupSpec=head(headService=stolen))
    bodies = (
        ray_cluster(**clusters),
        ray_job(rayClusterSpec=clusters),
        ray_service(rayClusterConfig=clusters),
        ray_service(serveService=stolen),
    )
    for who in kai.tenants:
        for body in bodies:
            refused(who.create(queued(body)), "remove spec.externalIPs")
    answer = kai.controllers["kuberay"].create(service("RayCluster", **spec))
    assert "remove spec.externalIPs" in answer.message


def test_a_gpu_pod_of_a_cluster_stands_behind_our_gate_or_is_not_made(kai: World) -> None:
    """With our webhooks down nothing puts the gate there: KubeRay's pods are refused, and no others."""
    body = pod(owner=owner("RayCluster", "ray.io/v1"), schedulerName=names.KAI_SCHEDULER)
    kuberay = kai.controllers["kuberay"]
    refused = kuberay.create(body)
    assert not refused.is_allowed
    assert names.GANG_GATE in refused.message
    allowed(kuberay.create(changed(body, "spec", "schedulingGates", value=GATE)))
    head = pod(0, owner=owner("RayCluster", "ray.io/v1"), schedulerName=names.KAI_SCHEDULER)
    assert kuberay.create(head).is_allowed
    elsewhere = changed(body, "metadata", "namespace", value="ray-system")
    assert kai.admin.create(elsewhere).is_allowed
    assert QUEUE not in str(refused.message)


def test_pods_name_kai_as_their_scheduler_or_none(kai: World) -> None:
    """A template that names another one would get nodes for pods that are never placed."""
    for scheduler in (None, "default-scheduler", names.KAI_SCHEDULER):
        found = template()
        if scheduler:
            found["spec"]["schedulerName"] = scheduler
        body = named(ray_cluster(headGroupSpec=head(template=found)), "placed")
        allowed(kai.member.create(queued(body)))
    for body in (
        ray_cluster(headGroupSpec=head(template=template(schedulerName="volcano"))),
        ray_job(submitterPodTemplate=template(restart="Never", schedulerName="volcano")),
        job(template=template(restart="Never", schedulerName="volcano")),
    ):
        refused(kai.member.create(queued(body)), f"set schedulerName to {names.KAI_SCHEDULER}, not volcano")
