"""What becomes a Service or a way in from outside: addresses and ports that are not the team's.

KubeRay copies the Services of a Ray object, so each is tried in every place that a Ray object has for one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from tests.integration.tenancy import works
from tests.integration.tenancy.attack import Attack
from tests.integration.tenancy.attacks.sizes import CLUSTERS
from tests.integration.tenancy.cluster import Object
from tests.integration.tenancy.works import INGRESS, changed, cluster_spec, head, named, service

_RAY: Final = "muster-ray-services"
# The address of an API server; any other works the same way.
STOLEN: Final = "10.96.0.1"
PORTS: Final = [{"name": "dashboard", "port": 443, "targetPort": 8265}]
# Published samples of KubeRay (config/samples/*custom*), but for their type LoadBalancer.
OWN: Final[Object] = {
    "metadata": {
        "name": "custom-ray-service-name",
        "labels": {"custom-label": "custom-ray-service-label"},
        "annotations": {"custom-annotation": "custom", "prometheus.io/scrape": "true"},
    },
    "spec": {"ports": [{"name": "custom", "port": 12345, "targetPort": 12345, "protocol": "TCP"}]},
}


@dataclass(frozen=True, slots=True)
class Door:
    """What of a Service opens it or takes an address: the field, its values, and the words of a refusal."""

    field: str
    spec: Object
    word: str
    gains: str

    @property
    def embedded(self) -> Object:
        """As a Ray object has it."""
        return {"spec": {"ports": PORTS, **self.written}}

    @property
    def written(self) -> Object:
        return {key: value for key, value in self.spec.items() if value is not None}


_INTERCEPTS: Final = "the traffic of the address' owner, such as the API server"
_OPENS: Final = "a Ray dashboard that any client can reach, and run code in"

DOORS: Final[dict[str, Door]] = {
    "another's address": Door(
        "spec.externalIPs[]", {"externalIPs": [STOLEN], "ports": PORTS}, "spec.externalIPs", _INTERCEPTS
    ),
    "another's address, at its port": Door(
        "spec.externalIPs[]",
        {"externalIPs": [STOLEN], "ports": [{"name": "api", "port": 6443, "targetPort": 8265}]},
        "spec.externalIPs",
        _INTERCEPTS,
    ),
    "a load balancer": Door("spec.type", {"type": "LoadBalancer"}, "spec.type LoadBalancer", _OPENS),
    "a load balancer at an address": Door(
        "spec.loadBalancerIP",
        {"type": "LoadBalancer", "loadBalancerIP": STOLEN},
        "spec.loadBalancerIP",
        _INTERCEPTS,
    ),
    "a load balancer of a class": Door(
        "spec.loadBalancerClass",
        {"type": "LoadBalancer", "loadBalancerClass": "example.com/public"},
        "spec.loadBalancerClass",
        _OPENS,
    ),
    "a load balancer for all the world": Door(
        "spec.loadBalancerSourceRanges[]",
        {"type": "LoadBalancer", "loadBalancerSourceRanges": ["0.0.0.0/0"]},
        "spec.loadBalancerSourceRanges",
        _OPENS,
    ),
    "a port of every node": Door("spec.type", {"type": "NodePort"}, "spec.type NodePort", _OPENS),
    "a certain port of every node": Door(
        "spec.ports[].nodePort",
        {"type": "NodePort", "ports": [{"name": "d", "port": 8265, "nodePort": 30265}]},
        "spec.ports[].nodePort",
        _OPENS,
    ),
    "another's name": Door(
        "spec.externalName",
        {"type": "ExternalName", "externalName": "kubernetes.default.svc", "ports": None, "selector": None},
        "spec.externalName",
        "requests of the platform's services to another's address",
    ),
}
# What only a Ray object can have: the API server has filled the Service in, or refuses it, before a policy.
_EMBEDDED: Final[dict[str, Door]] = {
    "a certain cluster address": Door(
        "spec.clusterIP", {"clusterIP": "10.96.0.10"}, "remove spec.clusterIP", "the address of the DNS"
    ),
    "certain cluster addresses": Door(
        "spec.clusterIPs[]",
        {"clusterIPs": ["10.96.0.10"]},
        "remove spec.clusterIPs",
        "the address of the DNS",
    ),
    "a port for health checks": Door(
        "spec.healthCheckNodePort", {"healthCheckNodePort": 30001}, "spec.healthCheckNodePort", _OPENS
    ),
    "traffic from outside": Door(
        "spec.externalTrafficPolicy",
        {"externalTrafficPolicy": "Local"},
        "spec.externalTrafficPolicy",
        _OPENS,
    ),
    "no ports of nodes": Door(
        "spec.allocateLoadBalancerNodePorts",
        {"allocateLoadBalancerNodePorts": False},
        "spec.allocateLoadBalancerNodePorts",
        _OPENS,
    ),
}
_DNS: Final = "external-dns.alpha.kubernetes.io/hostname"
# The metadata of a Service, and what of it is refused.
METADATA: Final[dict[str, tuple[Object, str]]] = {
    "a finalizer": ({"finalizers": ["example.com/mine"]}, "metadata.finalizers"),
    "a name in the DNS": ({"annotations": {_DNS: "www.example.com"}}, f"remove {_DNS}"),
    "a network endpoint group": (
        {"annotations": {"cloud.google.com/neg": '{"exposed_ports": {"8265": {}}}'}},
        "remove cloud.google.com/neg",
    ),
    "a proxy": ({"annotations": {"tailscale.com/expose": "true"}}, "remove tailscale.com/expose"),
}


def _in_head(place: str) -> Callable[[Object], Object]:
    """KubeRay names the Service of a RayService's head itself."""

    def made(embedded: Object) -> Object:
        if place.startswith("RayService") and "metadata" in embedded:
            embedded = changed(embedded, "metadata", "name", value=None)
        return CLUSTERS[place](cluster_spec(headGroupSpec=head(headService=embedded)))

    return made


# Every place of a Ray object that KubeRay makes a Service from.
PLACES: Final[dict[str, Callable[[Object], Object]]] = {
    **{f"{place}.headGroupSpec.headService": _in_head(place) for place in CLUSTERS},
    "RayService.spec.serveService": lambda embedded: works.ray_service(serveService=embedded),
}


def _embedded_in(place: str) -> Iterator[Attack]:
    make = PLACES[place]
    before = named(make(OWN), f"harmless-{list(PLACES).index(place)}")
    at = "from " + place.partition(".")[2]
    for name, door in {**DOORS, **_EMBEDDED}.items():
        yield Attack(
            name=f"{name}, in {place}",
            body=make(door.embedded),
            before=before,
            gains=door.gains,
            policy=_RAY,
            path=f"{place}.{door.field}",
            words=(door.word, at, "Allowed: "),
        )
    for name, (metadata, word) in METADATA.items():
        field = "finalizers[]" if "finalizers" in metadata else "annotations{}"
        yield Attack(
            name=f"{name}, in {place}",
            body=make({"spec": {"ports": PORTS}, "metadata": metadata}),
            before=before,
            gains="would keep the Service after its deletion" if "finalizers" in metadata else _OPENS,
            policy=_RAY,
            path=f"{place}.metadata.{field}",
            words=(word, at, "Allowed: "),
        )


def _of_the_head(place: str) -> Iterator[Attack]:
    make, at = CLUSTERS[place], place.partition(".")[2]
    for kind in ("LoadBalancer", "NodePort", "ExternalName"):
        yield Attack(
            name=f"a head's Service of type {kind}, in {place}",
            body=make(cluster_spec(headGroupSpec=head(serviceType=kind))),
            gains=_OPENS,
            policy=_RAY,
            path=f"{place}.headGroupSpec.serviceType",
            words=(f"set {at}.headGroupSpec.serviceType to ClusterIP",),
        )
    yield Attack(
        name=f"a head's Service with a name in the DNS, in {place}",
        body=make(cluster_spec(headServiceAnnotations={_DNS: "www.example.com"})),
        gains=_OPENS,
        policy=_RAY,
        path=f"{place}.headServiceAnnotations{{}}",
        words=(f"from {at}.headServiceAnnotations", "external-dns"),
    )
    yield Attack(
        name=f"an Ingress for the dashboard, in {place}",
        body=make(cluster_spec(headGroupSpec=head(enableIngress=True))),
        gains=_OPENS,
        policy=_RAY,
        path=f"{place}.headGroupSpec.enableIngress",
        words=(f"remove {at}.headGroupSpec.enableIngress", "port-forward"),
    )


def _by_hand(name: str, door: Door) -> Attack:
    body = service(**door.spec)
    body["spec"] = {key: value for key, value in body["spec"].items() if value is not None}
    return Attack(
        name=f"a Service by hand: {name}",
        body=body,
        gains=door.gains,
        policy="muster-services",
        path=f"Service.{door.field}",
        words=(door.word,),
    )


def outside(kind: str, spec: Object) -> Object:
    return works.existing("gateway.networking.k8s.io/v1", kind, "mine", spec=spec)


ROUTES: Final = {
    "Ingress": INGRESS,
    "Gateway": outside("Gateway", {"gatewayClassName": "istio"}),
    "HTTPRoute": outside("HTTPRoute", {"rules": [{"backendRefs": [{"name": "web", "port": 8265}]}]}),
}
_METADATA: Final = {
    "name": "web",
    "namespace": works.NAMESPACE,
    "labels": {"kubernetes.io/service-name": "web"},
}
ENDPOINTS: Final[tuple[Object, ...]] = (
    {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": _METADATA,
        "subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 6443}]}],
    },
    {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": _METADATA,
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.0.0.1"]}],
        "ports": [{"port": 6443}],
    },
)

ATTACKS: Final = (
    *(attack for place in PLACES for attack in _embedded_in(place)),
    *(attack for place in CLUSTERS for attack in _of_the_head(place)),
    *(_by_hand(name, door) for name, door in DOORS.items()),
    *(
        Attack(
            name=f"{kind} by hand",
            body=body,
            gains=_OPENS,
            policy="muster-routes",
            path=kind,
            words=("can be reached from outside", "enableIngress", "kubectl port-forward"),
            by_rbac=True,
        )
        for kind, body in ROUTES.items()
    ),
    *(
        Attack(
            name=f"{body['kind']} by hand",
            body=body,
            gains="another team's pods behind a Service of one's own (CVE-2021-25740)",
            policy="muster-protected",
            path=str(body["kind"]),
            words=("set spec.selector of the Service",),
            by_rbac=True,
        )
        for body in ENDPOINTS
    ),
)
