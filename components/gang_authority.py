"""What the gang-admission controller may do: the least that its two programs need, as RBAC rules.

The manager reads the whole cluster and writes ProvisioningRequests and PodTemplates; with Kueue its entry
in a Workload's status and a Workload's `active`, with KAI the gates of pods. It never touches Secrets, and
pods only where KAI schedules or the policy says `onStaggered: hold`. The webhooks read the policy and keep
one Secret and one webhook configuration, both by name.
"""

from typing import Any

from model import names
from model.stack import Scheduler

PROGRAM = "gang-admission"
MANAGER = f"{PROGRAM}-manager"
WEBHOOKS = f"{PROGRAM}-webhooks"
CERTIFICATES = f"{PROGRAM}-certificates"

Rule = dict[str, Any]

_READ = ["get", "list", "watch"]


def _rule(group: str, resources: list[str], verbs: list[str], *, only: list[str] | None = None) -> Rule:
    named = {"resourceNames": only} if only else {}
    return {"apiGroups": [group], "resources": resources, "verbs": verbs, **named}


def manager_cluster_rules(scheduler: Scheduler, *, holds: bool = False) -> list[Rule]:
    """Across the cluster: gangs live in the teams' namespaces, and teams come and go. `holds`: with
    `onStaggered: hold` it makes pods that keep nodes; a policy keeps them to what they are for.
    """
    return [
        *([_rule("", ["pods"], ["create", "delete"])] if holds else []),
        *(_kai_rules() if scheduler is Scheduler.KAI else _kueue_rules()),
        _rule(names.GROUP, [names.GANG_POLICY_PLURAL], _READ),
        _rule(names.GROUP, [f"{names.GANG_POLICY_PLURAL}/status"], ["patch"]),
        _rule("autoscaling.x-k8s.io", ["provisioningrequests"], [*_READ, "create", "delete"]),
        _rule("", ["podtemplates"], [*_READ, "create", "delete"]),
        _rule("", ["podtemplates/finalizers"], ["update"]),
        _rule("", ["nodes", "pods"], _READ),
        _rule("events.k8s.io", ["events"], ["create", "patch"]),
    ]


def _kueue_rules() -> list[Rule]:
    return [
        _rule("kueue.x-k8s.io", ["workloads", "admissionchecks", "resourceflavors", "clusterqueues"], _READ),
        _rule("kueue.x-k8s.io", ["workloads", "workloads/status", "admissionchecks/status"], ["patch"]),
        # The claims of an elastic gang come off the templates of its cluster.
        _rule("ray.io", ["rayclusters"], ["get", "patch"]),
        # Owning with blockOwnerDeletion needs this where OwnerReferencesPermissionEnforcement is on.
        _rule("kueue.x-k8s.io", ["workloads/finalizers"], ["update"]),
    ]


def _kai_rules() -> list[Rule]:
    """A gate is lifted by a patch of the pod. A pod that has passed for capacity which is lost is deleted, so
    that KubeRay makes it anew behind the gate.
    """
    return [
        _rule("ray.io", ["rayclusters"], _READ),
        _rule("scheduling.run.ai", ["queues"], _READ),
        _rule("scheduling.k8s.io", ["priorityclasses"], _READ),
        _rule("", ["pods"], ["patch", "delete"]),
    ]


def manager_rules() -> list[Rule]:
    """In our own namespace: the lease, and whether our own Deployment is there to stay. Creating cannot be
    limited by name.
    """
    return [
        _rule("apps", ["deployments"], ["get"], only=[MANAGER]),
        _rule("coordination.k8s.io", ["leases"], ["create"]),
        _rule("coordination.k8s.io", ["leases"], ["get", "update"], only=[PROGRAM]),
    ]


def webhook_cluster_rules() -> list[Rule]:
    """What reviews are judged by, and the one configuration that gets our certificate authority."""
    return [
        _rule(names.GROUP, [names.GANG_POLICY_PLURAL, names.QUEUE_TREE_PLURAL], _READ),
        _rule(
            "admissionregistration.k8s.io",
            ["validatingwebhookconfigurations", "mutatingwebhookconfigurations"],
            ["get", "patch"],
            only=[PROGRAM],
        ),
    ]


def webhook_rules() -> list[Rule]:
    """In our own namespace: the Secret that keeps the certificates."""
    return [
        _rule("", ["secrets"], ["create"]),
        _rule("", ["secrets"], ["get", "patch"], only=[CERTIFICATES]),
    ]
