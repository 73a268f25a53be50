"""Which objects the API server shows to the controller before it stores them.

Responsible for what is reviewed and for the failure policy. Only work in namespaces of teams is reviewed,
when it is created and when its spec is changed. What the cluster's own controllers change is not, so no
webhook of Muster can block the cluster itself. The rules are the controller's.
"""

from typing import Final

from muster.components import gang_authority as authority
from muster.model import names
from muster.render.manifest import Manifest
from muster.render.tenancy.policies.who import MADE_BY_KUBERAY, SYSTEM

_TIMEOUT_SECONDS: Final = 5

# (kind, group, version, resource, failure policy). A RayJob that Kueue cannot suspend would run outside its
# queue, so it is refused while the webhook is down. The others would only wait, and their status shows it.
_REVIEWED: Final = (
    ("rayjob", "ray.io", "v1", "rayjobs", "Fail"),
    ("raycluster", "ray.io", "v1", "rayclusters", "Ignore"),
    ("rayservice", "ray.io", "v1", "rayservices", "Ignore"),
    ("job", "batch", "v1", "jobs", "Ignore"),
    ("cronjob", "batch", "v1", "cronjobs", "Ignore"),
)
_DEFAULTED: Final = _REVIEWED[:4]


def validating() -> list[Manifest]:
    """The webhooks of our ValidatingWebhookConfiguration; the controller adds its own caBundle to each."""
    return [*(_webhook(*each) for each in _REVIEWED), *(_changed(*each) for each in _REVIEWED)]


def _changed(kind: str, group: str, version: str, resource: str, _: str) -> Manifest:
    """Without an answer a change passes: what was created has been reviewed."""
    webhook = _webhook(kind, group, version, resource, "Ignore")
    webhook["rules"][0]["operations"] = ["UPDATE"]
    webhook["matchConditions"] = [
        {"name": "not-by-the-system", "expression": f"!({SYSTEM})"},
        {"name": "of-its-spec", "expression": "object.spec != oldObject.spec"},
    ]
    return webhook | {"name": f"{kind}-changed.{names.GROUP}"}


def mutating() -> list[Manifest]:
    """The webhooks of our MutatingWebhookConfiguration. Without an answer the object goes on as it is, and
    the policies of tenancy, which need no process, refuse what then lacks a queue or a gate.
    """
    found = []
    for kind, group, version, resource, _ in _DEFAULTED:
        webhook = _webhook(kind, group, version, resource, "Ignore")
        webhook["clientConfig"]["service"]["path"] = f"/default-{kind}"
        # Kueue's webhooks may come after ours and before: what they add can be looked at again.
        found.append(webhook | {"name": f"default-{kind}.{names.GROUP}", "reinvocationPolicy": "IfNeeded"})
    return found


def _webhook(kind: str, group: str, version: str, resource: str, failure_policy: str) -> Manifest:
    service = {
        "name": authority.WEBHOOKS,
        "namespace": names.SYSTEM_NAMESPACE,
        "path": f"/validate-{kind}",
        "port": 443,
    }
    return {
        "name": f"{kind}.{names.GROUP}",
        "clientConfig": {"service": service},
        "rules": [
            {
                "apiGroups": [group],
                "apiVersions": [version],
                "resources": [resource],
                "operations": ["CREATE"],
                "scope": "Namespaced",
            }
        ],
        "namespaceSelector": {"matchExpressions": [{"key": names.TEAM_LABEL, "operator": "Exists"}]},
        "objectSelector": {},
        # The object that KubeRay made this one from has been reviewed.
        "matchConditions": [{"name": "not-made-by-kuberay", "expression": f"!({MADE_BY_KUBERAY})"}],
        "matchPolicy": "Equivalent",
        "failurePolicy": failure_policy,
        "sideEffects": "None",
        "timeoutSeconds": _TIMEOUT_SECONDS,
        "admissionReviewVersions": ["v1"],
    }
