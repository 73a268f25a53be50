"""Which objects the API server shows to the controller before it stores them.

Responsible for what is reviewed. Only work in namespaces of teams is reviewed, when it is created and when
its spec is changed; what the cluster's own controllers change is not. Without an answer the object passes:
the policies, which need no process, refuse what could run beside its queue, and what is larger than its nodes
or its queue waits. So no webhook of Muster can block work or the cluster itself. The rules are the
controller's.
"""

from typing import Final

from muster.components import gang_authority as authority
from muster.model import names
from muster.model.work import FOR_MEMBERS, QUEUED, RAY, WorkKind
from muster.render.manifest import Manifest
from muster.render.tenancy.policies.who import MADE_FOR_WORK, SYSTEM

_TIMEOUT_SECONDS: Final = 5


def validating() -> list[Manifest]:
    """The webhooks of our ValidatingWebhookConfiguration; the controller adds its own caBundle to each."""
    return [*(_webhook(each) for each in FOR_MEMBERS), *(_changed(each) for each in FOR_MEMBERS)]


def _changed(work: WorkKind) -> Manifest:
    webhook = _webhook(work)
    webhook["rules"][0]["operations"] = ["UPDATE"]
    webhook["matchConditions"] = [
        {"name": "not-by-the-system", "expression": f"!({SYSTEM})"},
        {"name": "of-its-spec", "expression": "object.spec != oldObject.spec"},
    ]
    return webhook | {"name": f"{work.kind.lower()}-changed.{names.GROUP}"}


def mutating() -> list[Manifest]:
    """The webhooks of our MutatingWebhookConfiguration. Without an answer the object goes on as it is, and
    the policies refuse what then lacks a queue or a gate.
    """
    found = []
    for work, webhook in (
        *((each, _webhook(each)) for each in QUEUED),
        # Whose pod templates can change after they were created.
        *((each, _changed(each)) for each in RAY),
    ):
        webhook["clientConfig"]["service"]["path"] = f"/default-{work.kind.lower()}"
        # Kueue's webhooks may come after ours and before: what they add can be looked at again.
        found.append(webhook | {"name": f"default-{webhook['name']}", "reinvocationPolicy": "IfNeeded"})
    return found


def _webhook(work: WorkKind) -> Manifest:
    kind = work.kind.lower()
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
                "apiGroups": [work.group],
                "apiVersions": [work.version],
                "resources": [work.resource],
                "operations": ["CREATE"],
                "scope": "Namespaced",
            }
        ],
        "namespaceSelector": {"matchExpressions": [{"key": names.TEAM_LABEL, "operator": "Exists"}]},
        "objectSelector": {},
        # The object that this one was made for has been reviewed.
        "matchConditions": [{"name": "not-made-for-work", "expression": f"!({MADE_FOR_WORK})"}],
        "matchPolicy": "Equivalent",
        "failurePolicy": "Ignore",
        "sideEffects": "None",
        "timeoutSeconds": _TIMEOUT_SECONDS,
        "admissionReviewVersions": ["v1"],
    }
