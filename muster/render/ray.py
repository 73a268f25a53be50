"""The admission policy for Ray's kinds and the network policy for its pods.

They need no process of ours: the API server and the network enforce them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from muster.model import names
from muster.model.ray import NODE_LABEL, RELEASED_IMAGE, Peer, Port, Ray, ports_for
from muster.model.work import RAY
from muster.render.manifest import Manifest, manifest
from muster.render.tenancy.policies import pod_templates
from muster.render.tenancy.policies.files import shared

POLICY: Final = "muster-ray"
ADVICE: Final = "muster-ray-advice"
PURPOSE: Final = (
    "A Ray cluster without a token, or of a version with a known vulnerability, runs the code of any "
    "client that "
    "reaches it."
)
NETWORK_POLICY: Final = "ray"
_VERSION: Final = "v1"
_ADMISSION: Final = "admissionregistration.k8s.io/v1"


def admission(ray: Ray) -> list[Manifest]:
    """The policies, each with its binding to the teams' namespaces. What a stack prefers is warned of."""
    if not ray.is_advice:
        return _policy(POLICY, [_version_written(), _sound(ray)], ["Deny"], variables=_variables(ray))
    return [
        *_policy(POLICY, [_version_written()], ["Deny"]),
        *_policy(ADVICE, [_sound(ray)], ["Warn", "Audit"], variables=_variables(ray)),
    ]


def _policy(
    name: str,
    validations: list[dict[str, str]],
    actions: list[str],
    *,
    variables: Mapping[str, str] = MappingProxyType({}),
) -> list[Manifest]:
    teams = {"matchExpressions": [{"key": names.TEAM_LABEL, "operator": "Exists"}]}
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [_rule()]},
        "variables": [{"name": each, "expression": text} for each, text in variables.items()],
        "validations": validations,
    }
    binding = {
        "policyName": name,
        "validationActions": actions,
        "matchResources": {"namespaceSelector": teams},
    }
    return [
        manifest(_ADMISSION, "ValidatingAdmissionPolicy", name, spec=spec),
        manifest(_ADMISSION, "ValidatingAdmissionPolicyBinding", name, spec=binding),
    ]


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
        "resources": [each.resource for each in RAY],
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Check:
    """What has to hold of a cluster, in CEL of its variable; why it does not, and the line to write."""

    name: str
    holds: str
    fault: str
    line: str


def _checks(ray: Ray, when: str) -> tuple[_Check, ...]:
    cluster, pods = f"variables.{when}", f"variables.{when}Pods"
    oldest = f"{ray.minimum.major}.{ray.minimum.minor}"
    old_image = f"{pods}.map(pod, pod.containers).filter(each, each.exists(c, !({_image_holds(ray, 'c')})))"
    repository = f"{old_image}[0].filter(c, !({_image_holds(ray, 'c')}))[0].image.find('^.+/ray(-ml|-llm)?')"
    aged = (
        _Check(
            name="IsRecent",
            holds=f"!{_has(cluster)} || ({_version_holds(ray, cluster)})",
            fault=f"'rayVersion has to be {oldest} or newer, because older releases let a web page delete "
            "jobs (CVE-2026-27482)'",
            line=f"'rayVersion: \"{ray.minimum}\"'",
        ),
        _Check(
            name="RunsRecent",
            holds=f"{pods}.all(pod, pod.containers.all(c, {_image_holds(ray, 'c')}))",
            fault=f"'the tag of an image is older than Ray {oldest}'",
            line=f"'image: ' + {repository} + ':{ray.minimum} (or newer) in its containers'",
        ),
    )
    guarded = (
        _Check(
            name="IsGuarded",
            holds=f"!{_has(cluster)} || ({_token_holds(cluster)})",
            fault="'authOptions.mode has to be token, because without it any client that reaches the cluster "
            "runs code in it (CVE-2023-48022)'",
            line="'authOptions: {mode: token}'",
        ),
        _Check(
            name="KeepsGuard",
            holds=f"{pods}.all(pod, pod.containers.all(c, {_env_holds('c')}))",
            fault="'RAY_AUTH_MODE may not be set by hand, because it would switch token authentication off'",
            line="'no RAY_AUTH_MODE in env of its containers'",
        ),
    )
    return (*aged, *(guarded if ray.is_guarded else ()))


def _variables(ray: Ray) -> dict[str, str]:
    """Each check of the new object and, at an update, of the old one: work that is older than the policy may
    still be suspended and resumed, but a valid object cannot become invalid.
    """
    found = {"clusterPath": pod_templates.MODEL["clusterPaths"]}
    for when, root in (("now", "object"), ("before", "oldObject")):
        found[when] = _ray_cluster(root)
        found[f"{when}Pods"] = _pod_specs(f"variables.{when}")
        for check in _checks(ray, when):
            found[f"{when}{check.name}"] = check.holds
    for check in _checks(ray, "now"):
        found[f"is{check.name}"] = (
            f"variables.now{check.name} || (request.operation == 'UPDATE' && !variables.before{check.name})"
        )
    return found


def _sound(ray: Ray) -> dict[str, str]:
    """All checks in one validation: of several the API server reports one alone."""
    checks = _checks(ray, "now")

    def listed(texts: list[str]) -> str:
        pairs = zip(checks, texts, strict=True)
        found = (f"(variables.is{check.name} ? [] : [{text}])" for check, text in pairs)
        return f"({' + '.join(found)})"

    faults, lines = listed([each.fault for each in checks]), listed([each.line for each in checks])
    return {
        "expression": " && ".join(f"variables.is{check.name}" for check in checks),
        "messageExpression": f"{faults}.join('; ') + '. Write in ' + variables.clusterPath + ': ' + "
        f"{lines}.join(', ')",
        "reason": "Forbidden",
    }


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
    """The cluster's description, an empty map where there is none: a RayJob that selects a cluster has none,
    and that cluster was checked when it was created.
    """
    return f"{root} == null ? {{}} : {shared('raySpec', {'of': root})}"


def _has(cluster: str) -> str:
    return f"has({cluster}.headGroupSpec)"


def _version_holds(ray: Ray, cluster: str) -> str:
    return f"has({cluster}.rayVersion) && " + _is_recent(ray, f"{cluster}.rayVersion")


def _is_recent(ray: Ray, text: str) -> str:
    """`text` is a version of at least the minimum; something that is no version is none."""
    least, (major, minor) = ray.minimum, (f"int({text}.split('.')[{index}])" for index in (0, 1))
    return (
        f"{text}.matches('^[0-9]+[.][0-9]+([.].*)?$') && "
        f"({major} > {least.major} || ({major} == {least.major} && {minor} >= {least.minor}))"
    )


def _pod_specs(cluster: str) -> str:
    """Of the head and of every worker group."""
    workers = f"{cluster}.workerGroupSpecs"
    return (
        f"!{_has(cluster)} ? [] : [{cluster}.headGroupSpec.template.spec] + "
        f"(has({workers}) ? {workers}.map(group, group.template.spec) : [])"
    )


def _image_holds(ray: Ray, container: str) -> str:
    """A tag of a Ray release has to be at least the minimum version. Other tags are not checked."""
    tag = f"{container}.image.find('{RELEASED_IMAGE}')"
    holds = _is_recent(ray, f"{tag}.split(':')[1]")
    return f"!has({container}.image) || {tag} == '' || ({holds})"


def _token_holds(cluster: str) -> str:
    """KubeRay 1.6 reads `authOptions` without a mode as off, although it is documented as token."""
    options = f"{cluster}.authOptions"
    return f"has({options}) && has({options}.mode) && {options}.mode == 'token'"


def _env_holds(container: str) -> str:
    return f"!has({container}.env) || !{container}.env.exists(e, e.name == 'RAY_AUTH_MODE')"
