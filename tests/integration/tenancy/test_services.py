"""What a tenant writes never takes an address, nor opens a way in from outside of the cluster.

KubeRay copies the Services of a Ray object, so each attack is tried as a member in every place that a Ray
object has for one, on CREATE and as a change of what exists, in KubeRay's own writing of the Service, and as
a Service by hand of a tenant with far too many rights. The server has no `DenyServiceExternalIPs`: the
policies hold by themselves.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.integration.tenancy import works
from tests.integration.tenancy.cluster import Caller, Object, place
from tests.integration.tenancy.conftest import World
from tests.integration.tenancy.works import (
    INGRESS,
    NAMESPACE,
    changed,
    cluster_spec,
    head,
    named,
    owner,
    service,
)

# The address of an API server; any other works the same way.
STOLEN = "10.96.0.1"
SINCE = "2026-01-01T00:00:00Z"
PORTS = [{"name": "dashboard", "port": 443, "targetPort": 8265}]
NO_ADDRESS = "no address or port outside of the cluster"

# What each would have gained: the field and value that the Service got.
SPECS: dict[str, tuple[Object, str]] = {
    "another's address": ({"externalIPs": [STOLEN], "ports": PORTS}, "spec.externalIPs"),
    "another's address, at its port": (
        {"externalIPs": [STOLEN], "ports": [{"name": "api", "port": 6443, "targetPort": 8265}]},
        "spec.externalIPs",
    ),
    "a load balancer": ({"type": "LoadBalancer"}, "spec.type LoadBalancer"),
    "a load balancer at an address": (
        {"type": "LoadBalancer", "loadBalancerIP": STOLEN},
        "spec.loadBalancerIP",
    ),
    "a load balancer of a class": (
        {"type": "LoadBalancer", "loadBalancerClass": "example.com/public"},
        "spec.loadBalancerClass",
    ),
    "a load balancer for all the world": (
        {"type": "LoadBalancer", "loadBalancerSourceRanges": ["0.0.0.0/0"]},
        "spec.loadBalancerSourceRanges",
    ),
    "a port of every node": ({"type": "NodePort"}, "spec.type NodePort"),
    "a certain port of every node": (
        {"type": "NodePort", "ports": [{"name": "d", "port": 8265, "nodePort": 30265}]},
        "spec.ports[].nodePort",
    ),
    "another's name": (
        {"type": "ExternalName", "externalName": "kubernetes.default.svc", "ports": None, "selector": None},
        "spec.externalName",
    ),
}
# What only a Ray object can say: the API server has filled the Service in, or refuses it, before a policy.
EMBEDDED_SPECS: dict[str, tuple[Object, str]] = {
    "a certain cluster address": ({"clusterIP": "10.96.0.10"}, "remove spec.clusterIP"),
    "certain cluster addresses": ({"clusterIPs": ["10.96.0.10"]}, "remove spec.clusterIPs"),
    "a port for health checks": ({"healthCheckNodePort": 30001}, "spec.healthCheckNodePort"),
    "traffic from outside": ({"externalTrafficPolicy": "Local"}, "spec.externalTrafficPolicy"),
    "no ports of nodes": ({"allocateLoadBalancerNodePorts": False}, "spec.allocateLoadBalancerNodePorts"),
}
METADATA: dict[str, tuple[Object, str]] = {
    "a finalizer": ({"finalizers": ["example.com/mine"]}, "metadata.finalizers"),
    "a name in the DNS": (
        {"annotations": {"external-dns.alpha.kubernetes.io/hostname": "www.example.com"}},
        "remove external-dns.alpha.kubernetes.io/hostname",
    ),
    "a network endpoint group": (
        {"annotations": {"cloud.google.com/neg": '{"exposed_ports": {"8265": {}}}'}},
        "remove cloud.google.com/neg",
    ),
    "a proxy": ({"annotations": {"tailscale.com/expose": "true"}}, "remove tailscale.com/expose"),
}
# Published samples of KubeRay (config/samples/*custom*), but for their type LoadBalancer.
OWN = {
    "metadata": {
        "name": "custom-ray-service-name",
        "labels": {"custom-label": "custom-ray-service-label"},
        "annotations": {"custom-annotation": "custom", "prometheus.io/scrape": "true"},
    },
    "spec": {"ports": [{"name": "custom", "port": 12345, "targetPort": 12345, "protocol": "TCP"}]},
}


def _cluster(embedded: Object) -> Object:
    return works.ray_cluster(headGroupSpec=head(headService=embedded))


def _job(embedded: Object) -> Object:
    return works.ray_job(rayClusterSpec=cluster_spec(headGroupSpec=head(headService=embedded)))


def _service(embedded: Object) -> Object:
    spec = cluster_spec(suspend=True, headGroupSpec=head(headService=embedded))
    return works.ray_service(rayClusterConfig=spec)


def _serving(embedded: Object) -> Object:
    return works.ray_service(serveService=embedded)


PLACES: dict[str, tuple[Callable[[Object], Object], str]] = {
    "RayCluster": (_cluster, "from spec.headGroupSpec.headService"),
    "RayJob": (_job, "from spec.rayClusterSpec.headGroupSpec.headService"),
    "RayService": (_service, "from spec.rayClusterConfig.headGroupSpec.headService"),
    "serveService": (_serving, "from spec.serveService"),
}


def _embedded(spec: Object) -> Object:
    return {"spec": {"ports": PORTS, **{key: value for key, value in spec.items() if value is not None}}}


EMBEDDED: dict[str, tuple[Object, str]] = {
    **{name: (_embedded(spec), word) for name, (spec, word) in {**SPECS, **EMBEDDED_SPECS}.items()},
    **{name: (_embedded({}) | {"metadata": found}, word) for name, (found, word) in METADATA.items()},
}


def _refused(caller: Caller, code: int, message: str, *words: str) -> None:
    assert code == 403, f"{caller.name}: {code} {message}"
    for word in words:
        assert word in message, message


@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("name", EMBEDDED)
def test_no_ray_object_has_a_service_that_opens_or_takes_anything(
    world: World, name: str, where: str
) -> None:
    (embedded, word), (make, path) = EMBEDDED[name], PLACES[where]
    for caller in world.tenants:
        answer = caller.create(make(embedded))
        _refused(caller, answer.code, answer.message, word, path, "Allowed: ")


def test_nor_has_one_in_an_older_version_of_the_kinds(world: World) -> None:
    """Which of the policies the API server names is its choice: nothing is written in that version at all."""
    older = {"apiVersion": "ray.io/v1alpha1"}
    for where, (make, _) in PLACES.items():
        body = named(make(OWN), f"older-{list(PLACES).index(where)}")
        assert world.member.create(body, dry_run=False).is_allowed
        for name, (embedded, _) in EMBEDDED.items():
            assert not world.member.create(make(embedded) | older).is_allowed
            answer = world.member.patch(body | older, {"spec": make(embedded)["spec"]})
            _refused(world.member, answer.code, f"{name}: {answer.message}")


@pytest.mark.parametrize("where", PLACES)
def test_nor_is_one_changed_into_it(world: World, where: str) -> None:
    make, path = PLACES[where]
    body = named(make(OWN), f"harmless-{list(PLACES).index(where)}")
    answer = world.member.create(body, dry_run=False)
    assert answer.is_allowed, answer.message
    for name, (embedded, word) in EMBEDDED.items():
        for caller in world.tenants:
            answer = caller.patch(body, {"spec": make(embedded)["spec"]})
            _refused(caller, answer.code, f"{name}: {answer.message}", word, path)
            full = world.admin.get(place(body)).body
            answer = caller.send("PUT", f"{place(body)}?dryRun=All", {**full, "spec": make(embedded)["spec"]})
            _refused(caller, answer.code, f"{name}: {answer.message}", word, path)


@pytest.mark.parametrize("way", ["json-patch+json", "apply-patch+yaml", "merge-patch+json"])
def test_nor_by_any_kind_of_patch(world: World, way: str) -> None:
    body = named(works.ray_cluster(), "patched")
    assert world.member.create(body, dry_run=False).code in (201, 409)
    stolen = _embedded({"externalIPs": [STOLEN]})
    where = "/spec/headGroupSpec/headService"
    full = named(_cluster(stolen), "patched")
    change = {"json-patch+json": [{"op": "add", "path": where, "value": stolen}]}.get(way, full)
    query = "?dryRun=All" + ("&fieldManager=mine&force=true" if way.startswith("apply") else "")
    for caller in world.tenants:
        answer = caller.send("PATCH", place(body) + query, change, f"application/{way}")
        _refused(caller, answer.code, answer.message, "remove spec.externalIPs")


@pytest.mark.parametrize("kind", ["LoadBalancer", "NodePort", "ExternalName"])
def test_the_head_s_service_type_is_that_of_a_service_within(world: World, kind: str) -> None:
    spec = cluster_spec(suspend=True, headGroupSpec=head(serviceType=kind))
    for body, path in (
        (works.ray_cluster(**spec), "spec.headGroupSpec"),
        (works.ray_job(rayClusterSpec=spec), "spec.rayClusterSpec.headGroupSpec"),
        (works.ray_service(rayClusterConfig=spec), "spec.rayClusterConfig.headGroupSpec"),
    ):
        for caller in world.tenants:
            answer = caller.create(body)
            _refused(caller, answer.code, answer.message, f"set {path}.serviceType to ClusterIP")


def test_the_head_service_s_annotations_are_judged_wherever_they_are_written(world: World) -> None:
    hostname = {"external-dns.alpha.kubernetes.io/hostname": "www.example.com"}
    spec = cluster_spec(suspend=True, headServiceAnnotations=hostname)
    for body, path in (
        (works.ray_cluster(**spec), "spec.headServiceAnnotations"),
        (works.ray_job(rayClusterSpec=spec), "spec.rayClusterSpec.headServiceAnnotations"),
        (works.ray_service(rayClusterConfig=spec), "spec.rayClusterConfig.headServiceAnnotations"),
    ):
        for caller in world.tenants:
            answer = caller.create(body)
            _refused(caller, answer.code, answer.message, f"from {path}", "external-dns")


@pytest.mark.parametrize("where", PLACES)
def test_a_service_of_one_s_own_for_a_head_is_allowed(world: World, where: str) -> None:
    make, _ = PLACES[where]
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
@pytest.mark.parametrize("name", SPECS)
def test_kuberay_makes_no_such_service_for_a_tenant(world: World, name: str, kind: str) -> None:
    """Of a Ray object that is older than the policies, for example."""
    spec, word = SPECS[name]
    body = service(kind, **spec)
    body["spec"] = {key: value for key, value in body["spec"].items() if value is not None}
    kuberay = world.controllers["kuberay"]
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


@pytest.mark.parametrize("name", SPECS)
def test_nor_is_one_made_by_hand_or_by_a_change(world: World, name: str) -> None:
    spec, word = SPECS[name]
    body = service(**spec)
    body["spec"] = {key: value for key, value in body["spec"].items() if value is not None}
    standing = service("RayService", name="standing-serve-svc")
    assert world.controllers["kuberay"].create(standing, dry_run=False).code in (201, 409)
    answer = world.trusted.create(body)
    _refused(world.trusted, answer.code, answer.message, word)
    for caller in (world.controllers["kuberay"], world.trusted):
        answer = caller.patch(standing, {"spec": spec})
        _refused(caller, answer.code, answer.message, word)
    for caller in (world.member, world.person):
        assert caller.create(body).code == 403
        assert caller.patch(standing, {"spec": spec}).code == 403


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


def test_a_service_within_the_cluster_may_be_written_by_hand_where_roles_allow_it(world: World) -> None:
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
    _refused(world.trusted, answer.code, answer.message, "here are not written by hand", "change spec")
    assert world.member.patch(standing, stolen, subresource="status").code == 403
    assert world.controllers["jobs"].patch(standing, status, subresource="status").is_allowed


def _endpoints() -> tuple[Object, Object]:
    metadata = {"name": "web", "namespace": NAMESPACE, "labels": {"kubernetes.io/service-name": "web"}}
    old = {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": metadata,
        "subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 6443}]}],
    }
    slices = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": metadata,
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.0.0.1"]}],
        "ports": [{"port": 6443}],
    }
    return old, slices


@pytest.mark.parametrize("body", _endpoints(), ids=lambda body: str(body["kind"]))
def test_a_service_leads_to_the_pods_of_its_selector_alone(world: World, body: Object) -> None:
    """Endpoints by hand lead to another team's pods (CVE-2021-25740)."""
    for caller in world.tenants:
        assert caller.create(body).code == 403
    assert "set spec.selector of the Service" in world.trusted.create(body).message
    assert world.controllers["jobs"].create(body, dry_run=False).is_allowed
    changes: tuple[Object, ...] = (
        {"metadata": {"labels": {"kubernetes.io/service-name": "another"}}},
        {"ports": []},
    )
    for change in changes:
        answer = world.trusted.patch(body, change)
        _refused(world.trusted, answer.code, answer.message, "set spec.selector of the Service")


def _outside(kind: str, spec: Object) -> Object:
    metadata = {"name": "mine", "namespace": NAMESPACE}
    return {"apiVersion": "gateway.networking.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": spec}


ROUTES = {
    "Ingress": INGRESS,
    "Gateway": _outside("Gateway", {"gatewayClassName": "istio"}),
    "HTTPRoute": _outside("HTTPRoute", {"rules": [{"backendRefs": [{"name": "web", "port": 8265}]}]}),
}


@pytest.mark.parametrize("body", ROUTES.values(), ids=ROUTES)
def test_no_way_leads_in_from_outside(world: World, body: Object) -> None:
    kuberay, elsewhere = world.controllers["kuberay"], world.controllers["autoscaler"]
    owned = changed(body, "metadata", "ownerReferences", value=[owner("RayCluster", "ray.io/v1")])
    told = ("no way in from outside", "enableIngress", "kubectl port-forward")
    for caller, made in ((world.trusted, body), (kuberay, body), (kuberay, owned), (elsewhere, owned)):
        answer = caller.create(made)
        _refused(caller, answer.code, answer.message, *told)
    for caller in (world.member, world.person):
        assert caller.create(body).code == 403
    # The platform team may place one, which its controller writes to and no tenant does.
    placed = named(body, "placed")
    assert world.admin.create(placed, dry_run=False).is_allowed
    note = {"metadata": {"annotations": {"note": "x"}}}
    assert elsewhere.patch(placed, note).is_allowed
    for caller in (world.trusted, kuberay):
        answer = caller.patch(placed, note)
        _refused(caller, answer.code, answer.message, *told)


def test_no_ray_object_asks_for_an_ingress(world: World) -> None:
    spec = cluster_spec(suspend=True, headGroupSpec=head(enableIngress=True))
    bodies = (
        (works.ray_cluster(**spec), "spec.headGroupSpec"),
        (works.ray_job(rayClusterSpec=spec), "spec.rayClusterSpec.headGroupSpec"),
        (works.ray_service(rayClusterConfig=spec), "spec.rayClusterConfig.headGroupSpec"),
    )
    standing = named(works.ray_cluster(), "without-ingress")
    assert world.member.create(standing, dry_run=False).is_allowed
    for caller in world.tenants:
        for body, path in bodies:
            answer = caller.create(body)
            _refused(caller, answer.code, answer.message, f"remove {path}.enableIngress", "port-forward")
        answer = caller.patch(standing, {"spec": {"headGroupSpec": {"enableIngress": True}}})
        _refused(caller, answer.code, answer.message, "enableIngress")
    closed = works.ray_cluster(headGroupSpec=head(enableIngress=False))
    assert world.member.create(closed).is_allowed


def test_a_ray_cron_job_is_judged_as_the_job_that_it_makes(world: World) -> None:
    """No member has the right to one; whoever was given it has it judged."""
    embedded = _embedded({"externalIPs": [STOLEN]})
    body = {
        "apiVersion": "ray.io/v1",
        "kind": "RayCronJob",
        "metadata": {"name": "nightly", "namespace": NAMESPACE},
        "spec": {"schedule": "0 3 * * *", "jobTemplate": _job(embedded)["spec"]},
    }
    answer = world.trusted.create(body)
    path = "spec.jobTemplate.rayClusterSpec.headGroupSpec.headService"
    _refused(world.trusted, answer.code, answer.message, "spec.externalIPs", path)
    assert world.member.create(body).code == 403
