"""The Services of a team: reachable within the cluster, at addresses that the cluster chooses.

The proxy of every node sends what is addressed to a Service to the pods of that Service. A tenant who could
write an address into one would take it from its owner, the API server included (CVE-2020-8554). KubeRay
copies the Services of a Ray object as they are written, so they are judged twice: in the Ray object, where
its author reads the refusal, and as Services, regardless of who writes them.
"""

from typing import Final

from muster.model.stack import Scheduler, Stack
from muster.model.work import WORK
from muster.render.tenancy.policies.pod_templates import BEFORE, CLUSTER_PATH, ray_spec
from muster.render.tenancy.policies.policy import (
    ADMINISTRATOR,
    BY_KUBERAY,
    EVERYWHERE,
    KUBERAY,
    SYSTEM,
    Kinds,
    Policy,
    Rule,
    kinds_of,
    owned_by_ray,
    quoted,
)
from muster.render.tenancy.policies.work import UNLESS

# Ways into a team's namespace from outside of the cluster: none, regardless of who makes them.
# An Ingress, a Gateway or one of its routes is closed as load balancers and ports of nodes are
# (render/tenancy/team.py). KubeRay makes them for a tenant who asks, so its account is not exempt.

_KINDS: Final = (
    Kinds(group="networking.k8s.io", resources=("ingresses",)),
    Kinds(group="gateway.networking.k8s.io", resources=("*",)),
    Kinds(group="gateway.networking.x-k8s.io", resources=("*",)),
    # OpenShift's, which KubeRay makes in place of an Ingress.
    Kinds(group="route.openshift.io", resources=("routes",)),
)


def routes() -> Policy:
    """An ingress controller may write its annotations and finalizers on what exists."""
    return Policy(
        name="muster-routes",
        purpose="Nothing of a team can be reached from outside the cluster, regardless of who creates the "
        "route.",
        kinds=_KINDS,
        unless=(
            ("the-system", f"{SYSTEM} && !({BY_KUBERAY})"),
            ("an-administrator", f"{ADMINISTRATOR} && !({BY_KUBERAY})"),
            ("a-user-of-the-whole-cluster", f"({EVERYWHERE}) && !({BY_KUBERAY})"),
        ),
        rules=(
            Rule(
                holds="false",
                message="'nothing of a team can be reached from outside the cluster: an exposed Ray "
                "dashboard runs "
                "the code of any client that finds it. Remove ' + object.kind + ' ' + object.metadata.name + "
                "', and headGroupSpec.enableIngress of a Ray object that asks for it. To reach a Service "
                "from outside, use kubectl port-forward; for more, ask the platform team'",
            ),
        ),
    )


_TYPE: Final = "ClusterIP"
# None of them names an address or opens a port of a node. KubeRay replaces the selector of its Services, and
# no selector reaches beyond its namespace.
_HARMLESS: Final = (
    *("selector", "publishNotReadyAddresses", "sessionAffinity", "sessionAffinityConfig"),
    *("internalTrafficPolicy", "trafficDistribution", "ipFamilies", "ipFamilyPolicy"),
)
_FIELDS: Final = ("type", "clusterIP", "clusterIPs", "ports", *_HARMLESS)
# The API server gives it to each Service with an address or port outside of the cluster, and to no other.
_GIVEN: Final = ("externalTrafficPolicy",)
_PORT_FIELDS: Final = ("name", "port", "targetPort", "protocol", "appProtocol")
_METADATA: Final = ("name", "namespace", "labels", "annotations")
# Controllers of clouds, DNS and proxies act on annotations of their own domains, and publish what they name.
# These domains have no such annotation; a key without a domain belongs to no controller.
_DOMAINS: Final = (
    *("ray.io", "prometheus.io", "app.kubernetes.io"),
    *("kubectl.kubernetes.io", "meta.helm.sh", "argocd.argoproj.io"),
)
# GKE adds it to every Service. It has no effect without an Ingress.
_BY_GKE: Final = ("cloud.google.com/neg", '{"ingress":true}')

_ALLOWED: Final = (
    f"Allowed: type {_TYPE}, clusterIP None, ports with {', '.join(_PORT_FIELDS)}, {', '.join(_HARMLESS)}"
)
_ALLOWED_ANNOTATIONS: Final = f"keys without a domain, or of {', '.join(_DOMAINS)}"
_REACHED: Final = "To reach it from outside, use kubectl port-forward"

_UPDATED: Final = "request.operation == 'UPDATE'"
_FINALIZERS_BEFORE: Final = "variables.before.metadata.?finalizers.orValue([])"


# Most Ray objects: there is nothing to judge.
_BY_KUBERAY_ALONE: Final = (
    f"[dyn({ray_spec('object')})].all(cluster, !has(cluster.headServiceAnnotations) && "
    "!['headService', 'serviceType', 'enableIngress'].exists(field, "
    "field in cluster.?headGroupSpec.orValue(dyn({})))) && "
    "!['serveService', 'upgradeStrategy'].exists(field, field in object.spec)"
)


def ray_services(stack: Stack) -> Policy:
    """What becomes a Service, an Ingress or a Gateway once KubeRay has read it."""
    words = [("path", CLUSTER_PATH), BEFORE]
    for when, of in (("", "object"), ("Before", "variables.before")):
        head = f"variables.head{when}"
        words += [
            (f"cluster{when}", f"dyn({ray_spec(of)})"),
            (f"head{when}", f"variables.cluster{when}.?headGroupSpec.orValue(dyn({{}}))"),
            (f"headService{when}", f"{head}.?headService.orValue(dyn({{}}))"),
            (f"serveService{when}", f"dyn({of}.spec).?serveService.orValue(dyn({{}}))"),
            (f"noted{when}", f"variables.cluster{when}.?headServiceAnnotations.orValue(dyn({{}}))"),
            (f"rolling{when}", f"dyn({of}.spec).?upgradeStrategy.orValue(dyn({{}}))"),
        ]
    head_at, serve_at = "variables.path + '.headGroupSpec.headService'", "'spec.serveService'"
    return Policy(
        name="muster-ray-services",
        purpose=(
            "KubeRay makes Services as a Ray object describes them. They have no address or port "
            "outside of the cluster."
        ),
        kinds=kinds_of(each for each in WORK if each.is_ray),
        unless=(*UNLESS, ("an-object-without-services", _BY_KUBERAY_ALONE)),
        words=(
            *words,
            ("headFaults", _faults("variables.headService", names_address=True)),
            ("serveFaults", _faults("variables.serveService", names_address=True)),
        ),
        rules=(
            _embedded("headService", "headFaults", head_at),
            _embedded("serveService", "serveFaults", serve_at),
            _head_type(),
            _annotated("variables.headService", "variables.headServiceBefore", head_at),
            _annotated("variables.serveService", "variables.serveServiceBefore", serve_at),
            _head_annotations(),
            _ingress(),
            # With Kueue no strategy but None is allowed (ray.py).
            *((_gateway(),) if stack.scheduler is Scheduler.KAI else ()),
        ),
    )


def services() -> Policy:
    """Services themselves. An administrator's own are exempt, and those that KubeRay makes never are."""
    # A cloud's controllers add their own. KubeRay's are those of a Ray object, in which they were judged.
    noting = f"{SYSTEM} || {EVERYWHERE}"
    return Policy(
        name="muster-services",
        purpose=(
            "A tenant who could write an address into a Service would take its traffic from its owner "
            "(CVE-2020-8554)."
        ),
        kinds=(Kinds(group="", resources=("services",)),),
        unless=(("an-administrator", f"{ADMINISTRATOR} && !({owned_by_ray('object')})"),),
        words=(
            ("now", "dyn(object)"),
            BEFORE,
            # The API server has given it an address by now, so a wanted one cannot be told from a given one.
            ("faults", _faults("variables.now", names_address=False)),
        ),
        rules=(
            Rule(
                holds=f"variables.faults.size() == 0 || ({_UPDATED} && "
                "variables.now.spec == variables.before.spec)",
                message="'a Service of a team has no address or port outside the cluster; remove ' + "
                f"variables.faults.join(', ') + ' from Service ' + object.metadata.name + '. {_ALLOWED}. "
                f"{_REACHED}'",
            ),
            Rule(
                holds=f"object.metadata.?finalizers.orValue([]).all(each, each in {_FINALIZERS_BEFORE}) || "
                f"({_UPDATED} && ({noting}))",
                message="'a finalizer would keep the Service after its deletion; remove "
                "metadata.finalizers from "
                "Service ' + object.metadata.name",
            ),
            _annotated("variables.now", "variables.before", "'Service'", unless=noting),
            _takeover(),
        ),
    )


def _takeover() -> Rule:
    """A RayService names its Services, and KubeRay gives what has such a name the selector of its own."""
    return Rule(
        holds=f"!({_UPDATED}) || !({KUBERAY}) || {owned_by_ray('oldObject')} || "
        "variables.now.spec == variables.before.spec",
        message="'Service ' + object.metadata.name + ' was not made for a Ray object; choose another "
        "metadata.name in headService or serveService'",
    )


def _faults(service: str, *, names_address: bool) -> str:
    """The paths in a Service that an author has to remove, as a CEL list. `names_address`: an address that
    it names is not one that the API server has given it.
    """
    spec = f"{service}.?spec.orValue(dyn({{}}))"
    found = [
        f"(!({spec}.?type.orValue('') in ['', '{_TYPE}']) ? ['spec.type ' + string({spec}.type)] : [])",
        f"{spec}.?ports.orValue([]).map(port, port.filter(key, !(key in {quoted(_PORT_FIELDS)})))"
        ".filter(keys, keys.size() > 0).map(keys, 'spec.ports[].' + keys[0])",
        _others(spec, _FIELDS if names_address else (*_FIELDS, *_GIVEN), "spec."),
    ]
    if names_address:
        found += [
            f"(!({spec}.?clusterIP.orValue('') in ['', 'None']) ? ['spec.clusterIP'] : [])",
            f"({spec}.?clusterIPs.orValue([]).exists(each, each != 'None') ? ['spec.clusterIPs'] : [])",
            _others(f"{service}.?metadata.orValue(dyn({{}}))", _METADATA, "metadata."),
        ]
    return " + ".join(found)


def _others(of: str, allowed: tuple[str, ...], prefix: str) -> str:
    return f"{of}.filter(key, !(key in {quoted(allowed)})).map(key, '{prefix}' + key)"


def _embedded(word: str, faults: str, where: str) -> Rule:
    return Rule(
        holds=f"variables.{faults}.size() == 0 || ({_UPDATED} && variables.{word} == variables.{word}Before)",
        message=f"'a Service of a team has no address or port outside the cluster; remove ' + "
        f"variables.{faults}.join(', ') + ' from ' + {where} + '. {_ALLOWED}. {_REACHED}'",
    )


def _head_type() -> Rule:
    now, before = (f"variables.head{when}.?serviceType.orValue('')" for when in ("", "Before"))
    return Rule(
        holds=f"{now} in ['', '{_TYPE}'] || ({_UPDATED} && {now} == {before})",
        message=f"'a Service of a team has no address or port outside the cluster; set ' + "
        f"variables.path + '.headGroupSpec.serviceType to {_TYPE} or remove it. {_REACHED}'",
    )


def _annotated(now: str, before: str, where: str, *, unless: str = "false") -> Rule:
    noted, noted_before = (f"{of}.?metadata.?annotations.orValue(dyn({{}}))" for of in (now, before))
    return _notes(noted, noted_before, f"{where} + '.metadata.annotations'", unless=unless)


def _head_annotations() -> Rule:
    return _notes("variables.noted", "variables.notedBefore", "variables.path + '.headServiceAnnotations'")


def _notes(noted: str, noted_before: str, where: str, *, unless: str = "false") -> Rule:
    gke, value = _BY_GKE
    others = (
        f"{noted}.filter(key, key.contains('/') && !(key.split('/')[0] in {quoted(_DOMAINS)}) && "
        f"!(key == '{gke}' && {noted}[key] == '{value}') && "
        f"!(key in {noted_before} && {noted_before}[key] == {noted}[key]))"
    )
    return Rule(
        holds=f"{others}.size() == 0 || {unless}",
        message="'annotations of a Service can make controllers of clouds, DNS and proxies open it; "
        "remove ' + "
        f"{others}.join(', ') + ' from ' + {where} + '. Allowed: {_ALLOWED_ANNOTATIONS}'",
    )


def _ingress() -> Rule:
    now, before = (f"variables.head{when}.?enableIngress.orValue(false)" for when in ("", "Before"))
    return Rule(
        holds=f"!{now} || ({_UPDATED} && {before})",
        message="'a Ray dashboard behind an Ingress runs the code of any client that finds it; remove ' + "
        f"variables.path + '.headGroupSpec.enableIngress. {_REACHED}'",
    )


def _gateway() -> Rule:
    """KubeRay makes a Gateway for the one strategy that has options."""
    return Rule(
        holds="request.resource.resource != 'rayservices' || "
        "!(variables.rolling.?type.orValue('') == 'NewClusterWithIncrementalUpgrade' || "
        "has(variables.rolling.clusterUpgradeOptions)) || "
        f"({_UPDATED} && variables.rolling == variables.rollingBefore)",
        message="'an incremental upgrade opens a Gateway for the service; remove "
        "spec.upgradeStrategy.clusterUpgradeOptions and use another spec.upgradeStrategy.type. "
        f"{_REACHED}'",
    )
