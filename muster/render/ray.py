"""The admission policy for Ray's kinds and the network policy for its pods.

They need no process of ours: the API server and the network enforce them.
"""

from typing import Any, Final

from muster.model import names
from muster.model.ray import FLOOR, NODE_LABEL, Peer, Port, Ray, RayAuth, ports_for
from muster.render.manifest import Manifest, manifest

POLICY: Final = "muster-ray"
NETWORK_POLICY: Final = "ray"
# Where each kind has the spec of its Ray cluster. A RayJob that selects a cluster has none: that cluster was
# checked when it was created.
_CLUSTER: Final = {"RayCluster": "spec", "RayJob": "rayClusterSpec", "RayService": "rayClusterConfig"}
_VERSION: Final = "v1"
_ADMISSION: Final = "admissionregistration.k8s.io/v1"


def admission(ray: Ray) -> list[Manifest]:
    """The policy and its binding to the teams' namespaces."""
    policy = manifest(
        _ADMISSION,
        "ValidatingAdmissionPolicy",
        POLICY,
        spec={
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [_rule()]},
            "variables": [{"name": name, "expression": text} for name, text in _variables().items()],
            "validations": _validations(ray),
        },
    )
    binding = manifest(
        _ADMISSION,
        "ValidatingAdmissionPolicyBinding",
        POLICY,
        spec={
            "policyName": POLICY,
            "validationActions": ["Deny"],
            "matchResources": {
                "namespaceSelector": {"matchExpressions": [{"key": names.TEAM_LABEL, "operator": "Exists"}]}
            },
        },
    )
    return [policy, binding]


def network_policy(namespace: str) -> Manifest:
    """Traffic to a team's Ray pods: from the team, from KubeRay, and from scrapers to their one port."""
    return manifest(
        "networking.k8s.io/v1",
        "NetworkPolicy",
        NETWORK_POLICY,
        namespace=namespace,
        spec={
            "podSelector": {"matchLabels": {NODE_LABEL: "yes"}},
            "policyTypes": ["Ingress"],
            "ingress": [
                {"from": [{"podSelector": {}}]},
                {"from": [_namespace(names.RAY_NAMESPACE)], "ports": _ports(ports_for(Peer.OPERATOR))},
                {"from": [{"namespaceSelector": _monitoring()}], "ports": _ports(ports_for(Peer.METRICS))},
            ],
        },
    )


def _ports(ports: tuple[Port, ...]) -> list[dict[str, Any]]:
    return [{"protocol": "TCP", "port": port.number} for port in ports]


def _namespace(name: str) -> dict[str, Any]:
    return {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}}


def _monitoring() -> dict[str, Any]:
    return {"matchLabels": {names.MONITORING_LABEL: "true"}}


def _rule() -> dict[str, Any]:
    return {
        "apiGroups": ["ray.io"],
        "apiVersions": ["*"],
        "operations": ["CREATE", "UPDATE"],
        "resources": ["rayclusters", "rayjobs", "rayservices"],
    }


def _variables() -> dict[str, str]:
    """Each check of the new object and, at an update, of the old one: work that is older than the policy may
    still be suspended and resumed, but a valid object cannot become invalid.
    """
    found: dict[str, str] = {}
    for when, root in (("now", "object"), ("before", "oldObject")):
        found[when] = _ray_cluster(root)
        cluster = f"variables.{when}"
        found[f"{when}Pods"] = _pod_specs(cluster)
        found[f"{when}IsRecent"] = f"!{_has(cluster)} || ({_version_holds(cluster)})"
        found[f"{when}RunsRecent"] = f"{cluster}Pods.all(pod, pod.containers.all(c, {_image_holds('c')}))"
        found[f"{when}IsGuarded"] = f"!{_has(cluster)} || ({_token_holds(cluster)})"
        found[f"{when}KeepsGuard"] = f"{cluster}Pods.all(pod, pod.containers.all(c, {_env_holds('c')}))"
    return found


def _validations(ray: Ray) -> list[dict[str, str]]:
    floor = f"{FLOOR.major}.{FLOOR.minor}"
    checks = {
        "IsRecent": f"rayVersion has to be {floor} or newer: older releases let a web page delete jobs "
        f"(CVE-2026-27482). Set rayVersion, and the image to match.",
        "RunsRecent": f"the image's tag is older than Ray {floor}: use the image of a newer release.",
    }
    if ray.auth is RayAuth.TOKEN:
        checks |= {
            "IsGuarded": "authOptions.mode has to be token: without it any client that reaches the "
            "cluster runs "
            "code in it (CVE-2023-48022). Add `authOptions: {mode: token}` next to rayVersion.",
            "KeepsGuard": "RAY_AUTH_MODE may not be set by hand: it would switch token authentication off. "
            "Remove it from the containers' env.",
        }
    return [
        _version_written(),
        *(
            {
                "expression": f"variables.now{name} || "
                f"(request.operation == 'UPDATE' && !variables.before{name})",
                "message": message,
            }
            for name, message in checks.items()
        ),
    ]


def _version_written() -> dict[str, str]:
    """An older version of the kinds has fewer fields. The API server drops the others, `authOptions` among
    them, from what is stored and from the old object that a policy sees: a write in that version would switch
    token authentication off unseen.
    """
    return {
        "expression": f"request.resource.version == '{_VERSION}'",
        "message": f"write Ray objects as apiVersion ray.io/{_VERSION}: an older version has no authOptions, "
        "and a write in it removes them.",
        "reason": "Forbidden",
    }


def _ray_cluster(root: str) -> str:
    """The cluster's description, an empty map where there is none."""
    job, service = _CLUSTER["RayJob"], _CLUSTER["RayService"]
    return (
        f"{root} == null ? {{}} : "
        f"object.kind == 'RayCluster' ? dyn({root}.spec) : "
        f"object.kind == 'RayJob' ? (has({root}.spec.{job}) ? dyn({root}.spec.{job}) : {{}}) : "
        f"(has({root}.spec.{service}) ? dyn({root}.spec.{service}) : {{}})"
    )


def _has(cluster: str) -> str:
    return f"has({cluster}.headGroupSpec)"


def _version_holds(cluster: str) -> str:
    return f"has({cluster}.rayVersion) && " + _at_least_floor(f"{cluster}.rayVersion")


def _at_least_floor(text: str) -> str:
    """`text` is a version of at least the floor; something that is no version is none."""
    major, minor = f"int({text}.split('.')[0])", f"int({text}.split('.')[1])"
    return (
        f"{text}.matches('^[0-9]+[.][0-9]+([.].*)?$') && "
        f"({major} > {FLOOR.major} || ({major} == {FLOOR.major} && {minor} >= {FLOOR.minor}))"
    )


def _pod_specs(cluster: str) -> str:
    """Of the head and of every worker group."""
    workers = f"{cluster}.workerGroupSpecs"
    return (
        f"!{_has(cluster)} ? [] : [{cluster}.headGroupSpec.template.spec] + "
        f"(has({workers}) ? {workers}.map(group, group.template.spec) : [])"
    )


def _image_holds(container: str) -> str:
    """A tag of a Ray release has to be at least the minimum version. Other tags are not checked."""
    tag = f"{container}.image.find('/ray(-ml|-llm)?:[0-9]+[.][0-9]+')"
    holds = _at_least_floor(f"{tag}.split(':')[1]")
    return f"!has({container}.image) || {tag} == '' || ({holds})"


def _token_holds(cluster: str) -> str:
    """KubeRay 1.6 reads `authOptions` without a mode as off, although it is documented as token."""
    options = f"{cluster}.authOptions"
    return f"has({options}) && has({options}.mode) && {options}.mode == 'token'"


def _env_holds(container: str) -> str:
    return f"!has({container}.env) || !{container}.env.exists(e, e.name == 'RAY_AUTH_MODE')"
