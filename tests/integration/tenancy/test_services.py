"""What a tenant writes never takes an address, nor opens a way in from outside of the cluster.

KubeRay copies the Services of a Ray object, so each attack is tried as a member in every place that a Ray
object has for one, on CREATE and as a change of what exists, in KubeRay's own writing of the Service, and as
a Service by hand of a tenant with far too many rights. The server has no `DenyServiceExternalIPs`: the
policies hold by themselves.
"""

from __future__ import annotations

import pytest

from tests.integration.tenancy import works
from tests.integration.tenancy.attacks.services import (
    DOORS,
    ENDPOINTS,
    METADATA,
    OWN,
    PLACES,
    PORTS,
    ROUTES,
    STOLEN,
)
from tests.integration.tenancy.cluster import JSON_PATCH, Object, allowed, refused
from tests.integration.tenancy.conftest import World
from tests.integration.tenancy.works import (
    changed,
    head,
    named,
    owner,
    service,
)

NO_ADDRESS = "no address or port outside the cluster"
HEAD = "RayCluster.spec.headGroupSpec.headService"


def test_none_is_written_in_an_older_version_of_the_kinds(world: World) -> None:
    """Which of the policies the API server names is its choice: nothing is written in that version at all."""
    older = {"apiVersion": "ray.io/v1alpha1"}
    for number, make in enumerate(PLACES.values()):
        body = world.member.ensure(named(make(OWN), f"older-{number}"))
        for door in DOORS.values():
            assert not world.member.create(make(door.embedded) | older).is_allowed
            refused(world.member.patch(body | older, {"spec": make(door.embedded)["spec"]}))


def test_no_address_is_taken_by_any_kind_of_patch(world: World) -> None:
    """test_attacks.py sends merge patches."""
    body = world.member.ensure(named(works.ray_cluster(), "patched"))
    stolen = {"spec": {"externalIPs": [STOLEN]}}
    add = [{"op": "add", "path": "/spec/headGroupSpec/headService", "value": stolen}]
    for caller in world.tenants:
        refused(caller.patch(body, add, JSON_PATCH), "remove spec.externalIPs")
        refused(caller.apply(named(PLACES[HEAD](stolen), "patched")), "remove spec.externalIPs")


@pytest.mark.parametrize("where", PLACES)
def test_a_service_of_one_s_own_for_a_head_is_allowed(world: World, where: str) -> None:
    make = PLACES[where]
    headless = {"spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "type": "ClusterIP"}}
    # As a client writes it that is written in Go.
    empty = OWN | {"status": {"loadBalancer": {}}}
    sticky = {"spec": {"sessionAffinity": "ClientIP", "ports": PORTS, "selector": {"app": "ignored"}}}
    for embedded in (OWN, headless, empty, sticky):
        allowed(world.member.create(make(embedded)))


def test_what_exists_with_a_load_balancer_stays_changeable_in_all_else(world: World) -> None:
    body = world.member.ensure(named(works.ray_cluster(), "of-before"))
    older = {"headService": {"spec": {"type": "LoadBalancer"}}, "serviceType": "NodePort"}
    change = {"spec": {"headGroupSpec": older}}
    # What the system changes is exempt.
    allowed(world.controllers["kueue"].patch(body, change, dry_run=False))
    allowed(world.member.patch(body, {"metadata": {"annotations": {"note": "x"}}}))
    worse = {"spec": {"headGroupSpec": {"headService": {"spec": {"externalIPs": [STOLEN]}}}}}
    refused(world.member.patch(body, worse), "spec.externalIPs")


@pytest.mark.parametrize("kind", ["RayCluster", "RayJob", "RayService"])
@pytest.mark.parametrize("name", DOORS)
def test_kuberay_makes_no_such_service_for_a_tenant(world: World, name: str, kind: str) -> None:
    """Of a Ray object that is older than the policies, for example."""
    door = DOORS[name]
    body = service(kind, **door.spec)
    body["spec"] = {key: value for key, value in body["spec"].items() if value is not None}
    word, kuberay = door.word, world.controllers["kuberay"]
    refused(kuberay.create(body), word, NO_ADDRESS, "from Service web")
    # Its account is not exempt without an owner, and the owner is what counts where the account is another.
    for caller, other in (
        (kuberay, changed(body, "metadata", "ownerReferences", value=None)),
        (world.controllers["autoscaler"], body),
        (world.admin, body),
    ):
        refused(caller.create(other), word)


@pytest.mark.parametrize("name", DOORS)
def test_kuberay_changes_no_service_into_such_a_one(world: World, name: str) -> None:
    door, kuberay = DOORS[name], world.controllers["kuberay"]
    standing = kuberay.ensure(service("RayService", name="standing-serve-svc"))
    refused(kuberay.patch(standing, {"spec": door.spec}), door.word)


def test_kuberay_takes_over_no_service_that_is_not_of_ray(world: World) -> None:
    """A RayService whose serveService has its name would be what it leads to."""
    platforms = world.admin.ensure(service(name="of-the-platform-team"))
    kuberay = world.controllers["kuberay"]
    refused(
        kuberay.patch(platforms, {"spec": {"selector": {"ray.io/cluster": "llm"}}}),
        "choose another metadata.name",
    )


def test_what_kuberay_makes_ordinarily_is_allowed(world: World) -> None:
    kuberay = world.controllers["kuberay"]
    ports = [
        {"name": name, "port": port, "appProtocol": "tcp"}
        for name, port in (("gcs-server", 6379), ("dashboard", 8265), ("client", 10001), ("metrics", 8080))
    ]
    headless = {"clusterIP": "None", "publishNotReadyAddresses": True, "type": "ClusterIP"}
    selector = {"ray.io/cluster": "notebook", "ray.io/node-type": "head"}
    made = service("RayCluster", name="notebook-head-svc", ports=ports, selector=selector, **headless)
    made["metadata"]["annotations"] = {"cloud.google.com/neg": '{"ingress":true}'}
    serving = service("RayService", name="llm-serve-svc", ports=[{"name": "serve", "port": 8000}])
    workers = service("RayCluster", name="notebook-headless", ports=None, **headless)
    for body in (made, serving, workers):
        allowed(kuberay.create(body))
    # A RayService that moves to another cluster.
    assert kuberay.create(serving, dry_run=False).is_allowed
    allowed(kuberay.patch(serving, {"spec": {"selector": {"ray.io/cluster": "llm-2"}}}))


def test_members_let_the_pods_of_a_job_find_each_other(world: World) -> None:
    """As `torchrun` does over an Indexed Job whose pods have the Service as their subdomain."""
    selector = {"batch.kubernetes.io/job-name": "train"}
    body = service(name="train", clusterIP="None", publishNotReadyAddresses=True, selector=selector)
    assert world.person.create(body).is_allowed
    world.member.ensure(body)
    assert world.member.patch(body, {"metadata": {"labels": {"app": "train"}}}).is_allowed
    refused(world.member.patch(body, {"spec": {"externalIPs": [STOLEN]}}), "remove spec.externalIPs")
    made = world.controllers["kuberay"].ensure(service("RayCluster", name="train-head-svc"))
    for answer in (world.member.delete(made), world.member.patch(made, {"spec": {"selector": {"a": "b"}}})):
        refused(answer, "only its controller changes or deletes it")
    assert world.member.delete(body).is_allowed


def test_a_service_within_the_cluster_may_be_written_by_hand(world: World) -> None:
    allowed(world.trusted.create(service()))
    for metadata, word in METADATA.values():
        body = service()
        body["metadata"] |= metadata
        refused(world.trusted.create(body), word)
    # A cloud's controllers write annotations of their own, and those that exist are no tenant's to change.
    standing = world.trusted.ensure(service(name="noted"))
    key = "cloud.google.com/neg-status"
    note = {"metadata": {"annotations": {key: "{}"}}}
    allowed(world.controllers["autoscaler"].patch(standing, note, dry_run=False))
    assert world.trusted.patch(standing, {"metadata": {"annotations": {"note": "x"}}}).is_allowed
    refused(world.trusted.patch(standing, {"metadata": {"annotations": {key: "mine"}}}), key)


def test_an_administrator_decides_for_a_service_of_his_own(world: World) -> None:
    external = world.admin.ensure(service(name="of-the-platform", externalIPs=["192.0.2.1"]))
    # What changes nothing of it may go on.
    note = {"metadata": {"annotations": {"note": "x"}}}
    for caller in (world.trusted, world.controllers["jobs"]):
        allowed(caller.patch(external, note))
    refused(world.trusted.patch(external, {"spec": {"externalIPs": [STOLEN]}}), "spec.externalIPs")
    # The number of load balancers is counted for everybody.
    assert "services.loadbalancers" in world.admin.create(service(type="LoadBalancer")).message


def test_the_addresses_of_a_load_balancer_are_not_written_by_hand(world: World) -> None:
    """The proxy of every node takes those of the status as well."""
    standing = world.trusted.ensure(service(name="with-a-status"))
    stolen = {"status": {"loadBalancer": {"ingress": [{"ip": STOLEN}]}}}
    # Newer API servers refuse this for a Service that is no load balancer; older ones do not.
    assert not world.trusted.patch(standing, stolen, subresource="status").is_allowed
    status = {"status": {"conditions": [works.condition("Mine")]}}
    refused(
        world.trusted.patch(standing, status, subresource="status"),
        "are not written by hand here",
        "change spec",
    )
    assert world.member.patch(standing, stolen, subresource="status").code == 403
    assert world.controllers["jobs"].patch(standing, status, subresource="status").is_allowed


@pytest.mark.parametrize("body", ENDPOINTS, ids=lambda body: str(body["kind"]))
def test_a_service_leads_to_the_pods_of_its_selector_alone(world: World, body: Object) -> None:
    """Endpoints by hand lead to another team's pods (CVE-2021-25740)."""
    assert world.controllers["jobs"].create(body, dry_run=False).is_allowed
    change = {"metadata": {"labels": {"kubernetes.io/service-name": "another"}}}
    refused(world.trusted.patch(body, change), "set spec.selector of the Service")


@pytest.mark.parametrize("body", ROUTES.values(), ids=ROUTES)
def test_no_way_leads_in_from_outside(world: World, body: Object) -> None:
    kuberay, elsewhere = world.controllers["kuberay"], world.controllers["autoscaler"]
    owned = changed(body, "metadata", "ownerReferences", value=[owner("RayCluster", "ray.io/v1")])
    words = ("can be reached from outside", "enableIngress", "kubectl port-forward")
    for caller, made in ((world.trusted, body), (kuberay, body), (kuberay, owned), (elsewhere, owned)):
        refused(caller.create(made), *words)
    for caller in (world.member, world.person):
        assert caller.create(body).code == 403
    # The platform team may place one, which its controller writes to and no tenant does.
    placed = world.admin.ensure(named(body, "placed"))
    note = {"metadata": {"annotations": {"note": "x"}}}
    assert elsewhere.patch(placed, note).is_allowed
    for caller in (world.trusted, kuberay):
        refused(caller.patch(placed, note), *words)


def test_a_finalizer_is_not_added_to_a_service(world: World) -> None:
    """Gained: a namespace that is never deleted. A cloud's controller sets its own."""
    body = world.admin.ensure(named(works.service(), "kept"))
    change = {"metadata": {"finalizers": ["example.com/mine"]}}
    refused(world.trusted.patch(body, change), "remove metadata.finalizers from Service kept")
    allowed(world.controllers["autoscaler"].patch(body, change))


def test_a_head_may_rule_an_ingress_out(world: World) -> None:
    closed = works.ray_cluster(headGroupSpec=head(enableIngress=False))
    assert world.member.create(closed).is_allowed


def test_a_ray_cron_job_is_judged_as_the_job_that_it_makes(world: World) -> None:
    """No member has the right to one. That of a tenant with more rights is judged."""
    within = "rayClusterSpec.headGroupSpec.headService"
    job = PLACES[f"RayJob.spec.{within}"]({"spec": {"externalIPs": [STOLEN]}})
    body = works.ray_cron_job(jobTemplate=job["spec"])
    refused(world.trusted.create(body), "spec.externalIPs", f"spec.jobTemplate.{within}")
    assert world.member.create(body).code == 403
