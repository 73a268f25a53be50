"""The admission policy for Ray's kinds and the network policy for its pods.

They need no process of ours: the API server and the network enforce them.
"""

from collections.abc import Sequence
from typing import Any, Final

from muster.model import names
from muster.model.ray import NODE_LABEL, RELEASED_IMAGE, Peer, Port, Ray, ports_for
from muster.model.work import RAY
from muster.render.manifest import Manifest, manifest
from muster.render.tenancy.policies.policy import Policy, policy

POLICY: Final = "muster-ray"
ADVICE: Final = "muster-ray-advice"
NETWORK_POLICY: Final = "ray"
_VERSION: Final = "v1"
_ADMISSION: Final = "admissionregistration.k8s.io/v1"


def admission(ray: Ray) -> list[Manifest]:
    """The policies, each with its binding to the teams' namespaces. What a stack prefers is warned of."""
    found = judged(ray)
    (sound,) = (rule.validation() for rule in found.rules)
    if not ray.is_advice:
        return _policy(POLICY, [_version_written(), sound], ["Deny"], variables=found.words)
    return [
        *_policy(POLICY, [_version_written()], ["Deny"]),
        *_policy(ADVICE, [sound], ["Warn", "Audit"], variables=found.words),
    ]


def _policy(
    name: str,
    validations: list[dict[str, str]],
    actions: list[str],
    *,
    variables: Sequence[tuple[str, str]] = (),
) -> list[Manifest]:
    teams = {"matchExpressions": [{"key": names.TEAM_LABEL, "operator": "Exists"}]}
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [_rule()]},
        "variables": [{"name": each, "expression": text} for each, text in variables],
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


def judged(ray: Ray) -> Policy:
    """What holds of a cluster: the variables and the rule of muster-ray.yaml."""
    is_guarded = ray.is_guarded
    return policy(
        POLICY,
        values={
            "releasedImage": RELEASED_IMAGE,
            "major": ray.minimum.major,
            "minor": ray.minimum.minor,
            "oldest": f"{ray.minimum.major}.{ray.minimum.minor}",
            "minimum": str(ray.minimum),
            "isGuardKept": "variables.isGuarded && variables.isKept" if is_guarded else "true",
            "faultsOfGuard": "${guardFaults}" if is_guarded else "[]",
            "linesOfGuard": "${guardLines}" if is_guarded else "[]",
        },
        given={"guarded": is_guarded},
    )


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
