"""What the gang-admission controller may do: the least that its two programs need, as RBAC rules.

The manager reads the whole cluster and writes ProvisioningRequests and PodTemplates; with Kueue its entry
in a Workload's status and a Workload's `active`, with KAI the gates of pods. Of Secrets it keeps the one of
the webhooks' certificates, whose authority it puts into their configuration, both by name. It
makes pods only where the policy says `onStaggered: hold`, or where placeholders bring the nodes; with Kueue
it asks by dry runs whether the pods of a gang could be made. The webhooks, which any connection reaches, read
the policy and that Secret, and write nothing.

RBAC cannot look into an object. What an account may patch, create or delete here is limited further by the
policies of muster/render/tenancy/policies (fences.py), so that a stolen token changes no image.

Nothing is given that nothing uses: tests/integration/test_rights.py compares the rules with what the programs
have asked for, and names the few that a run need not meet.
"""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from muster.model import names
from muster.model.stack import Scheduler
from muster.model.work import PARTS, WorkKind, by_group

PROGRAM = names.PROGRAM
MANAGER = names.MANAGER
WEBHOOKS = f"{PROGRAM}-webhooks"
CERTIFICATES = names.CERTIFICATES

Rule = dict[str, Any]

_FOLLOW = ["list", "watch"]
"""What a cache needs: to read one object live is another verb."""


def _rule(group: str, resources: list[str], verbs: list[str], *, only: list[str] | None = None) -> Rule:
    named = {"resourceNames": only} if only else {}
    return {"apiGroups": [group], "resources": resources, "verbs": verbs, **named}


def manager_cluster_rules(
    scheduler: Scheduler,
    *,
    holds: bool = False,
    deletes_without_quota: bool = False,
    makes_domains: bool = False,
    stops_idle: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
    gated: Iterable[WorkKind] = (),
) -> list[Rule]:
    """Across the cluster: gangs live in the teams' namespaces, and teams come and go. `holds`: with
    `onStaggered: hold` it makes pods that keep nodes. `deletes_without_quota`: it deletes a team's pods with
    devices whose work has no quota. A policy keeps it to those. `makes_domains`: it makes
    ComputeDomains, and garbage collection deletes them. `stops_idle`: the work, by API group, whose authors
    may ask by an annotation that it is not stopped while it is idle. `gated`: the work beside Ray's whose
    pods wait behind our gate, with KAI.
    """
    domains = _rule("resource.nvidia.com", ["computedomains"], ["get", *_FOLLOW, "create"])
    return [
        *(_backstop_rules() if deletes_without_quota else []),
        *([_rule("", ["pods"], ["get", "create"])] if holds else []),
        *([domains] if makes_domains else []),
        *(_rule(group, list(resources), ["get"]) for group, resources in stops_idle.items()),
        *_RULES[scheduler](gated),
        _rule(names.GROUP, [names.GANG_POLICY_PLURAL], ["get", *_FOLLOW]),
        _rule(names.GROUP, [f"{names.GANG_POLICY_PLURAL}/status"], ["patch"]),
        # No finalizers: no owner that we name blocks its own deletion (muster/controller/gangs/owner.py).
        _rule("autoscaling.x-k8s.io", ["provisioningrequests"], ["get", *_FOLLOW, "create", "delete"]),
        _rule("", ["podtemplates"], ["get", *_FOLLOW, "create", "delete"]),
        _rule("", ["nodes", "pods"], _FOLLOW),
        _rule("events.k8s.io", ["events"], ["create", "patch"]),
        _rule(
            "admissionregistration.k8s.io",
            ["validatingwebhookconfigurations", "mutatingwebhookconfigurations"],
            ["get", "patch"],
            only=[PROGRAM],
        ),
    ]


def _kueue_rules(_: Iterable[WorkKind]) -> list[Rule]:
    return [
        _rule("kueue.x-k8s.io", ["workloads"], ["get", *_FOLLOW, "patch"]),
        _rule("kueue.x-k8s.io", ["admissionchecks", "resourceflavors", "clusterqueues"], _FOLLOW),
        _rule("kueue.x-k8s.io", ["workloads/status", "admissionchecks/status"], ["patch"]),
        # The claims of an elastic gang come off the templates of its cluster.
        _rule("ray.io", ["rayclusters"], ["get", "patch"]),
        # A pod of one that was born with such a claim, behind Kueue's gate for ever, is created again; and
        # placeholders go. An admission policy keeps it to these.
        _rule("", ["pods"], ["delete"]),
        # Dry runs alone, which an admission policy sees to.
        _rule("", ["pods"], ["create"]),
    ]


def _backstop_rules() -> list[Rule]:
    """Which namespaces are teams', and whose a pod is: it is read again before it is deleted. `_kueue_rules`
    has the deletion.
    """
    return [
        _rule("", ["namespaces"], _FOLLOW),
        _rule("ray.io", ["rayclusters"], _FOLLOW),
        *(_rule(each.group, [each.resource], ["get"]) for each in PARTS if not each.is_ray),
        _rule("", ["pods"], ["get"]),
    ]


def _kai_rules(gated: Iterable[WorkKind]) -> list[Rule]:
    """A gate is lifted by a patch of the pod. A pod that has passed for capacity which is lost is deleted, so
    that its controller creates it again behind the gate, its history is kept on its object meanwhile; and
    placeholders go. Admission policies keep it to these, and to gangs on broken nodes where the
    policy says `running: requeue`.
    """
    return [
        _rule("ray.io", ["rayclusters"], ["get", *_FOLLOW, "patch"]),
        *(_rule(group, list(of), ["get", *_FOLLOW, "patch"]) for group, of in by_group(gated).items()),
        _rule("scheduling.run.ai", ["queues"], _FOLLOW),
        _rule("scheduling.k8s.io", ["priorityclasses"], _FOLLOW),
        _rule("", ["pods"], ["get", "patch", "delete"]),
    ]


_RULES: Final[Mapping[Scheduler, Callable[[Iterable[WorkKind]], list[Rule]]]] = {
    Scheduler.KUEUE: _kueue_rules,
    Scheduler.KAI: _kai_rules,
}


def manager_rules() -> list[Rule]:
    """In our own namespace: the lease, the Secret of the certificates, and, for its shutdown, whether its own
    Deployment is being deleted. Creating cannot be limited by name: a policy does that.
    """
    return [
        _rule("apps", ["deployments"], ["get"], only=[MANAGER]),
        _rule("coordination.k8s.io", ["leases"], ["create"]),
        _rule("coordination.k8s.io", ["leases"], ["get", "update"], only=[PROGRAM]),
        _rule("", ["secrets"], ["create"]),
        _rule("", ["secrets"], ["get", "patch"], only=[CERTIFICATES]),
    ]


def taint_rules() -> list[Rule]:
    """Where gangs ask by placeholders, or broken nodes are set aside: our taints, as a policy says."""
    return [_rule("", ["nodes"], ["get", "patch"])]


def broken_node_rules() -> list[Rule]:
    """To set broken nodes aside: beside our taint, the taints of their devices, which DRA's drivers write."""
    return [*taint_rules(), _rule("resource.k8s.io", ["resourceslices"], _FOLLOW)]


def placeholder_rules() -> list[Rule]:
    """In the namespace of placeholders. It may delete pods that a policy knows as its own."""
    return [_rule("", ["pods"], ["get", "create"]), *event_rules()]


def event_rules() -> list[Rule]:
    """What autoscalers say about placeholders, and Karpenter about its NodeClaims."""
    return [_rule("", ["events"], _FOLLOW)]


def webhook_cluster_rules() -> list[Rule]:
    """What reviews are judged by."""
    return [_rule(names.GROUP, [names.GANG_POLICY_PLURAL, names.QUEUE_TREE_PLURAL], _FOLLOW)]


def webhook_rules() -> list[Rule]:
    """In our own namespace: the Secret that keeps the certificates."""
    return [_rule("", ["secrets"], ["get"], only=[CERTIFICATES])]
