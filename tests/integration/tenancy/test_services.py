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
from tests.integration.tenancy.cluster import Caller, Object, place
from tests.integration.tenancy.conftest import World
from tests.integration.tenancy.works import (
    NAMESPACE,
    changed,
    head,
    named,
    owner,
    service,
)

SINCE = "2026-01-01T00:00:00Z"
NO_ADDRESS = "no address or port outside the cluster"
HEAD = "RayCluster.spec.headGroupSpec.headService"


def _refused(caller: Caller, code: int, message: str, *words: str) -> None:
    assert code == 403, f"{caller.name}: {code} {message}"
    for word in words:
        assert word in message, message


def test_none_is_written_in_an_older_version_of_the_kinds(world: World) -> None:
    """Which of the policies the API server names is its choice: nothing is written in that version at all."""
    older = {"apiVersion": "ray.io/v1alpha1"}
    for number, make in enumerate(PLACES.values()):
        body = named(make(OWN), f"older-{number}")
        assert world.member.create(body, dry_run=False).is_allowed
        for name, door in DOORS.items():
            assert not world.member.create(make(door.embedded) | older).is_allowed
            answer = world.member.patch(body | older, {"spec": make(door.embedded)["spec"]})
            _refused(world.member, answer.code, f"{name}: {answer.message}")


@pytest.mark.parametrize("way", ["json-patch+json", "apply-patch+yaml", "merge-patch+json"])
def test_no_address_is_taken_by_any_kind_of_patch(world: World, way: str) -> None:
    body = named(works.ray_cluster(), "patched")
    assert world.member.create(body, dry_run=False).code in (201, 409)
    stolen = {"spec": {"externalIPs": [STOLEN]}}
    where = "/spec/headGroupSpec/headService"
    full = named(PLACES[HEAD](stolen), "patched")
    change = {"json-patch+json": [{"op": "add", "path": where, "value": stolen}]}.get(way, full)
    query = "?dryRun=All" + ("&fieldManager=mine&force=true" if way.startswith("apply") else "")
    for caller in world.tenants:
        answer = caller.send("PATCH", place(body) + query, change, f"application/{way}")
        _refused(caller, answer.code, answer.message, "remove spec.externalIPs")


@pytest.mark.parametrize("where", PLACES)
def test_a_service_of_one_s_own_for_a_head_is_allowed(world: World, where: str) -> None:
    make = PLACES[where]
    headless = {"spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "type": "ClusterIP"}}
    # As a client writes it that is written in Go.
    empty = OWN | {"status": {"loadBalancer": {}}}
    sticky = {"spec": {"sessionAffinity": "ClientIP", "ports": PORTS, "selector": {"app": "ignored"}}}
    for embedded in (OWN, headless, empty, sticky):
        answer = world.member.create(make(embedded))
        assert answer.is_allowed, answer.message


def test_what_exists_with_a_load_balancer_stays_changeable_in_all_else(world: World) -> None:
    body = named(works.ray_cluster(), "of-before")
    assert world.member.create(body, dry_run=False).is_allowed
    older = {"headService": {"spec": {"type": "LoadBalancer"}}, "serviceType": "NodePort"}
    change = {"spec": {"headGroupSpec": older}}
    # What the system changes is exempt.
    made = world.controllers["kueue"].send("PATCH", place(body), change, "application/merge-patch+json")
    assert made.is_allowed, made.message
    answer = world.member.patch(body, {"metadata": {"annotations": {"note": "x"}}})
    assert answer.is_allowed, answer.message
    worse = {"spec": {"headGroupSpec": {"headService": {"spec": {"externalIPs": [STOLEN]}}}}}
    answer = world.member.patch(body, worse)
    _refused(world.member, answer.code, answer.message, "spec.externalIPs")


@pytest.mark.parametrize("kind", ["RayCluster", "RayJob", "RayService"])
@pytest.mark.parametrize("name", DOORS)
def test_kuberay_makes_no_such_service_for_a_tenant(world: World, name: str, kind: str) -> None:
    """Of a Ray object that is older than the policies, for example."""
    door = DOORS[name]
    body = service(kind, **door.spec)
    body["spec"] = {key: value for key, value in body["spec"].items() if value is not None}
    word, kuberay = door.word, world.controllers["kuberay"]
    answer = kuberay.create(body)
    _refused(kuberay, answer.code, answer.message, word, NO_ADDRESS, "from Service web")
    # Its account is not exempt without an owner, and the owner is what counts where the account is another.
    for caller, other in (
        (kuberay, changed(body, "metadata", "ownerReferences", value=None)),
        (world.controllers["autoscaler"], body),
        (world.admin, body),
    ):
        answer = caller.create(other)
        _refused(caller, answer.code, answer.message, word)


@pytest.mark.parametrize("name", DOORS)
def test_kuberay_changes_no_service_into_such_a_one(world: World, name: str) -> None:
    door, kuberay = DOORS[name], world.controllers["kuberay"]
    standing = service("RayService", name="standing-serve-svc")
    assert kuberay.create(standing, dry_run=False).code in (201, 409)
    answer = kuberay.patch(standing, {"spec": door.spec})
    _refused(kuberay, answer.code, answer.message, door.word)


def test_kuberay_takes_over_no_service_that_is_not_of_ray(world: World) -> None:
    """A RayService whose serveService has its name would be what it leads to."""
    platforms = service(name="of-the-platform-team")
    assert world.admin.create(platforms, dry_run=False).is_allowed
    kuberay = world.controllers["kuberay"]
    answer = kuberay.patch(platforms, {"spec": {"selector": {"ray.io/cluster": "llm"}}})
    _refused(kuberay, answer.code, answer.message, "choose another metadata.name")


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
        answer = kuberay.create(body)
        assert answer.is_allowed, answer.message
    # A RayService that moves to another cluster.
    assert kuberay.create(serving, dry_run=False).is_allowed
    answer = kuberay.patch(serving, {"spec": {"selector": {"ray.io/cluster": "llm-2"}}})
    assert answer.is_allowed, answer.message


def test_members_let_the_pods_of_a_job_find_each_other(world: World) -> None:
    """As `torchrun` does over an Indexed Job whose pods have the Service as their subdomain."""
    selector = {"batch.kubernetes.io/job-name": "train"}
    body = service(name="train", clusterIP="None", publishNotReadyAddresses=True, selector=selector)
    for caller in (world.member, world.person):
        assert caller.create(body).is_allowed
    assert world.member.create(body, dry_run=False).is_allowed
    assert world.member.patch(body, {"metadata": {"labels": {"app": "train"}}}).is_allowed
    answer = world.member.patch(body, {"spec": {"externalIPs": [STOLEN]}})
    _refused(world.member, answer.code, answer.message, "remove spec.externalIPs")
    made = service("RayCluster", name="train-head-svc")
    assert world.controllers["kuberay"].create(made, dry_run=False).is_allowed
    for answer in (
        world.member.delete(made),
        world.member.patch(made, {"spec": {"selector": {"app": "mine"}}}),
    ):
        _refused(world.member, answer.code, answer.message, "only its controller changes or deletes it")
    assert world.member.delete(body).is_allowed


def test_a_service_within_the_cluster_may_be_written_by_hand(world: World) -> None:
    answer = world.trusted.create(service())
    assert answer.is_allowed, answer.message
    for name, (metadata, word) in METADATA.items():
        body = service()
        body["metadata"] |= metadata
        answer = world.trusted.create(body)
        _refused(world.trusted, answer.code, f"{name}: {answer.message}", word)
    # A cloud's controllers write annotations of their own, and those that exist are no tenant's to change.
    standing = service(name="noted")
    assert world.trusted.create(standing, dry_run=False).is_allowed
    key = "cloud.google.com/neg-status"
    note = {"metadata": {"annotations": {key: "{}"}}}
    noted = world.controllers["autoscaler"].send(
        "PATCH", place(standing), note, "application/merge-patch+json"
    )
    assert noted.is_allowed, noted.message
    assert world.trusted.patch(standing, {"metadata": {"annotations": {"note": "x"}}}).is_allowed
    answer = world.trusted.patch(standing, {"metadata": {"annotations": {key: "mine"}}})
    _refused(world.trusted, answer.code, answer.message, key)


def test_an_administrator_decides_for_a_service_of_his_own(world: World) -> None:
    external = service(name="of-the-platform", externalIPs=["192.0.2.1"])
    assert world.admin.create(external, dry_run=False).is_allowed
    # What changes nothing of it may go on.
    note = {"metadata": {"annotations": {"note": "x"}}}
    for caller in (world.trusted, world.controllers["jobs"]):
        answer = caller.patch(external, note)
        assert answer.is_allowed, answer.message
    answer = world.trusted.patch(external, {"spec": {"externalIPs": [STOLEN]}})
    _refused(world.trusted, answer.code, answer.message, "spec.externalIPs")
    # The number of load balancers is counted for everybody.
    assert "services.loadbalancers" in world.admin.create(service(type="LoadBalancer")).message


def test_the_addresses_of_a_load_balancer_are_not_written_by_hand(world: World) -> None:
    """The proxy of every node takes those of the status as well."""
    standing = service(name="with-a-status")
    assert world.trusted.create(standing, dry_run=False).is_allowed
    stolen = {"status": {"loadBalancer": {"ingress": [{"ip": STOLEN}]}}}
    # Newer API servers refuse this for a Service that is no load balancer; older ones do not.
    assert not world.trusted.patch(standing, stolen, subresource="status").is_allowed
    condition = {
        "type": "Mine",
        "status": "True",
        "reason": "Mine",
        "message": "",
        "lastTransitionTime": SINCE,
    }
    status = {"status": {"conditions": [condition]}}
    answer = world.trusted.patch(standing, status, subresource="status")
    _refused(world.trusted, answer.code, answer.message, "are not written by hand here", "change spec")
    assert world.member.patch(standing, stolen, subresource="status").code == 403
    assert world.controllers["jobs"].patch(standing, status, subresource="status").is_allowed


@pytest.mark.parametrize("body", ENDPOINTS, ids=lambda body: str(body["kind"]))
def test_a_service_leads_to_the_pods_of_its_selector_alone(world: World, body: Object) -> None:
    """Endpoints by hand lead to another team's pods (CVE-2021-25740)."""
    assert world.controllers["jobs"].create(body, dry_run=False).is_allowed
    changes: tuple[Object, ...] = (
        {"metadata": {"labels": {"kubernetes.io/service-name": "another"}}},
        {"ports": []},
    )
    for change in changes:
        answer = world.trusted.patch(body, change)
        _refused(world.trusted, answer.code, answer.message, "set spec.selector of the Service")


@pytest.mark.parametrize("body", ROUTES.values(), ids=ROUTES)
def test_no_way_leads_in_from_outside(world: World, body: Object) -> None:
    kuberay, elsewhere = world.controllers["kuberay"], world.controllers["autoscaler"]
    owned = changed(body, "metadata", "ownerReferences", value=[owner("RayCluster", "ray.io/v1")])
    words = ("can be reached from outside", "enableIngress", "kubectl port-forward")
    for caller, made in ((world.trusted, body), (kuberay, body), (kuberay, owned), (elsewhere, owned)):
        answer = caller.create(made)
        _refused(caller, answer.code, answer.message, *words)
    for caller in (world.member, world.person):
        assert caller.create(body).code == 403
    # The platform team may place one, which its controller writes to and no tenant does.
    placed = named(body, "placed")
    assert world.admin.create(placed, dry_run=False).is_allowed
    note = {"metadata": {"annotations": {"note": "x"}}}
    assert elsewhere.patch(placed, note).is_allowed
    for caller in (world.trusted, kuberay):
        answer = caller.patch(placed, note)
        _refused(caller, answer.code, answer.message, *words)


def test_a_finalizer_is_not_added_to_a_service(world: World) -> None:
    """Gained: a namespace that is never deleted. A cloud's controller sets its own."""
    body = named(works.service(), "kept")
    assert world.admin.create(body, dry_run=False).code in (201, 409)
    change = {"metadata": {"finalizers": ["example.com/mine"]}}
    answer = world.trusted.patch(body, change)
    _refused(world.trusted, answer.code, answer.message, "remove metadata.finalizers from Service kept")
    answer = world.controllers["autoscaler"].patch(body, change)
    assert answer.is_allowed, answer.message


def test_a_head_may_rule_an_ingress_out(world: World) -> None:
    closed = works.ray_cluster(headGroupSpec=head(enableIngress=False))
    assert world.member.create(closed).is_allowed


def test_a_ray_cron_job_is_judged_as_the_job_that_it_makes(world: World) -> None:
    """No member has the right to one. That of a tenant with more rights is judged."""
    embedded, within = {"spec": {"externalIPs": [STOLEN]}}, "spec.rayClusterSpec.headGroupSpec.headService"
    body = {
        "apiVersion": "ray.io/v1",
        "kind": "RayCronJob",
        "metadata": {"name": "nightly", "namespace": NAMESPACE},
        "spec": {
            "schedule": "0 3 * * *",
            "jobTemplate": PLACES[f"RayJob.{within}"](embedded)["spec"],
        },
    }
    answer = world.trusted.create(body)
    path = "spec.jobTemplate.rayClusterSpec.headGroupSpec.headService"
    _refused(world.trusted, answer.code, answer.message, "spec.externalIPs", path)
    assert world.member.create(body).code == 403
