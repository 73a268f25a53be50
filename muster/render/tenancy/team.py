"""The objects of a team besides its queue: its Namespace first, then the objects in it.

Responsible for their order. Each team has these objects in its own Bundle, and no policy of its own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from muster.model import names
from muster.model.clusters import GkeCluster
from muster.model.identities import AWS_PRINCIPAL, POD_ACCOUNT, USER, google_address, team_group
from muster.model.quantities import format_count
from muster.model.queues import Department, Team
from muster.model.regions import Provider
from muster.model.stack import Scheduler, Stack
from muster.model.tenancy import MOST_OBJECTS, Drain, Egress, Volume
from muster.model.work import by_group
from muster.render import ray
from muster.render.manifest import Manifest, manifest

# The accounts of a team's namespace: its pods, its pipelines, its members.
# The rights of a cloud identity are set in the cloud.

_RBAC: Final = "rbac.authorization.k8s.io"

# cloud.google.com, "Workload Identity Federation for GKE": which Google service account the pods act as. EKS
# binds the account from the other side, by a Pod Identity association.
GOOGLE_IDENTITY: Final = "iam.gke.io/gcp-service-account"


def accounts(stack: Stack, team: Team, labels: Mapping[str, str]) -> list[Manifest]:
    identity = google_address(stack.cluster, team) if isinstance(stack.cluster, GkeCluster) else None
    own = (
        team.access.accounts if isinstance(stack.cluster, GkeCluster) else dict.fromkeys(team.access.accounts)
    )
    return [
        _pods(team, labels, POD_ACCOUNT, identity),
        *(_pods(team, labels, name, own[name]) for name in sorted(own)),
        _pipelines(team, labels),
        _members(team, labels),
    ]


def _pods(team: Team, labels: Mapping[str, str], name: str, identity: str | None) -> Manifest:
    """An account of pods. Its token is not mounted: training code has no business with the cluster's API."""
    body = manifest(
        "v1",
        "ServiceAccount",
        name,
        namespace=team.namespace,
        labels=labels,
        automountServiceAccountToken=False,
    )
    if team.access.pull_secrets:
        body["imagePullSecrets"] = [{"name": name} for name in team.access.pull_secrets]
    if identity is not None:
        body["metadata"]["annotations"] = {GOOGLE_IDENTITY: identity}
    return body


def _pipelines(team: Team, labels: Mapping[str, str]) -> Manifest:
    """For automation that submits work. It requests a token; no Secret contains one."""
    return manifest(
        "v1",
        "ServiceAccount",
        names.MEMBER_ACCOUNT,
        namespace=team.namespace,
        labels=labels,
        automountServiceAccountToken=False,
    )


def _members(team: Team, labels: Mapping[str, str]) -> Manifest:
    subjects = [
        {"kind": "ServiceAccount", "name": names.MEMBER_ACCOUNT, "namespace": team.namespace},
        *(
            _subject(kind, name)
            for kind, name in sorted({_named(team, each) for each in team.access.members})
        ),
    ]
    return manifest(
        f"{_RBAC}/v1",
        "RoleBinding",
        "members",
        namespace=team.namespace,
        labels=labels,
        roleRef={"apiGroup": _RBAC, "kind": "ClusterRole", "name": names.MEMBER_ROLE},
        subjects=subjects,
    )


def _named(team: Team, member: str) -> tuple[str, str]:
    if member.startswith(USER):
        return "User", member.removeprefix(USER)
    return "Group", team_group(team.name) if member.startswith(AWS_PRINCIPAL) else member


def _subject(kind: str, name: str) -> dict[str, str]:
    return {"kind": kind, "name": name, "apiGroup": _RBAC}


# Network policies of a team's pods: only the traffic that Ray, jobs and buckets need.
# They have an effect where the cluster's network enforces NetworkPolicies (GKE Dataplane V2, the VPC CNI's
# network policy agent on EKS, the local cluster), and none elsewhere.

DNS_PORT: Final = 53

# Addresses that are the cluster's, the VPC's or the node's: not the internet. RFC 1918, 6598 and 3927.
_PRIVATE: Final = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "169.254.0.0/16")
_PRIVATE_V6: Final = ("fc00::/7", "fe80::/10")

# Where a pod gets the credentials of its cloud identity, on clusters that Muster makes. On others the same
# address may answer with those of the node, as without Workload Identity on GKE, so it is opened by
# `tenancy.reach` alone.
#   GKE: cloud.google.com, "Workload Identity Federation for GKE", ports 80 and 988 of the metadata server
#   EKS: docs.aws.amazon.com, "Pod Identity agent", 169.254.170.23 and fd00:ec2::23, port 80
_IDENTITY_SERVERS: Final[Mapping[Provider, tuple[tuple[str, int], ...]]] = {
    Provider.GKE: (("169.254.169.254/32", 80), ("169.254.169.252/32", 988)),
    Provider.EKS: (("169.254.170.23/32", 80), ("fd00:ec2::23/128", 80)),
    Provider.EXISTING: (),
}

Rule = dict[str, Any]


def networks(stack: Stack, team: Team, labels: Mapping[str, str]) -> list[Manifest]:
    return [
        _policy(team, labels, "incoming", {"policyTypes": ["Ingress"], "ingress": _incoming()}),
        ray.network_policy(team.namespace),
        _policy(team, labels, "outgoing", {"policyTypes": ["Egress"], "egress": _outgoing(stack)}),
    ]


def _policy(team: Team, labels: Mapping[str, str], name: str, spec: Rule) -> Manifest:
    return manifest(
        "networking.k8s.io/v1",
        "NetworkPolicy",
        name,
        namespace=team.namespace,
        labels=labels,
        spec={"podSelector": {}, **spec},
    )


def _incoming() -> list[Rule]:
    """The team's own pods. Who else reaches Ray is render/ray's; a person comes by `kubectl port-forward`,
    through the kubelet, past all of this.
    """
    return [{"from": [{"podSelector": {}}]}]


def _outgoing(stack: Stack) -> list[Rule]:
    rules: list[Rule] = [
        {"to": [{"podSelector": {}}]},
        # To any address: node-local DNS caches answer on the node's own.
        {"ports": [{"protocol": protocol, "port": DNS_PORT} for protocol in ("UDP", "TCP")]},
        *(
            {"to": [_block(address)], "ports": [{"protocol": "TCP", "port": port}]}
            for address, port in _IDENTITY_SERVERS[stack.cluster.provider]
        ),
    ]
    if stack.tenancy.reach:
        rules.append({"to": [_block(address) for address in stack.tenancy.reach]})
    if stack.tenancy.egress is Egress.INTERNET:
        rules.append({"to": [_block("0.0.0.0/0", _PRIVATE), _block("::/0", _PRIVATE_V6)]})
    if stack.tenancy.egress is Egress.ALL:
        rules.append({})
    return rules


def _block(address: str, without: tuple[str, ...] = ()) -> Rule:
    return {"ipBlock": {"cidr": address, **({"except": list(without)} if without else {})}}


# The rights of a team's members in its namespace.
# It has no right to admit work, to cluster-scoped objects, or to pods without a job.

_READ: Final = ["get", "list", "watch"]
_OWN: Final = [*_READ, "create", "update", "patch", "delete", "deletecollection"]


def member_role(stack: Stack) -> Manifest:
    return manifest(
        "rbac.authorization.k8s.io/v1",
        "ClusterRole",
        names.MEMBER_ROLE,
        rules=[*_work(stack), *_QUEUES[stack.scheduler], *_around()],
    )


def _rule(group: str, resources: list[str], verbs: list[str]) -> Rule:
    return {"apiGroups": [group], "resources": resources, "verbs": list(verbs)}


def _work(stack: Stack) -> list[Rule]:
    return [_rule(group, list(resources), _OWN) for group, resources in by_group(stack.work_kinds).items()]


_REQUESTS: Final = _rule("autoscaling.x-k8s.io", ["provisioningrequests"], _READ)
_QUEUES: Final[Mapping[Scheduler, Sequence[Rule]]] = {
    Scheduler.KUEUE: (
        _rule("kueue.x-k8s.io", ["localqueues", "workloads"], _READ),
        _rule("visibility.kueue.x-k8s.io", ["localqueues/pendingworkloads"], ["get"]),
        _REQUESTS,
    ),
    Scheduler.KAI: (_rule("scheduling.run.ai", ["podgroups"], _READ), _REQUESTS),
}


def _around() -> list[Rule]:
    """Rights that work needs in addition: reading and debugging pods, which gives no more than the work
    itself has. Code and tokens are mounted from ConfigMaps and Secrets, pods of a Job find each other by a
    Service without an address, and volumes come from the stack.
    """
    return [
        _rule("", ["pods", "endpoints", "events", "persistentvolumeclaims"], _READ),
        _rule("", ["resourcequotas", "limitranges"], _READ),
        _rule("events.k8s.io", ["events"], _READ),
        _rule("discovery.k8s.io", ["endpointslices"], _READ),
        _rule("", ["pods/log"], ["get"]),
        _rule("", ["pods/exec", "pods/portforward"], ["get", "create"]),
        _rule("", ["configmaps", "secrets", "services"], _OWN),
    ]


# The PodDisruptionBudget of a team's namespace: no drain of a node takes a pod of running work.
# `kubectl drain`, node upgrades of GKE and EKS, cluster-autoscaler and Karpenter evict pods, and an
# eviction waits for the budget. Kueue, KAI, KubeRay and the controller delete pods, which no budget stops.
# How long each of them waits is in docs/upgrades.md.

# More pods than a namespace has, so that none may be missing. Pods of Ray clusters and Jobs belong to no
# resource with a scale, for which a budget takes a whole number as `minAvailable` and nothing else:
# https://kubernetes.io/docs/tasks/run-application/configure-pdb/#arbitrary-workloads-and-arbitrary-selectors
_ALL: Final = 1_000_000


def disruption(stack: Stack, team: Team, labels: Mapping[str, str]) -> list[Manifest]:
    if stack.tenancy.drain is Drain.EVICTS:
        return []
    return [
        manifest(
            "policy/v1",
            "PodDisruptionBudget",
            "running-work",
            namespace=team.namespace,
            labels=labels,
            spec={"minAvailable": _ALL, "selector": {}},
        )
    ]


# A team's data volumes, as PersistentVolumeClaims that its pods mount by name.


def volumes(team: Team, labels: Mapping[str, str]) -> list[Manifest]:
    return [_claim(team, volume, labels) for volume in team.access.volumes]


def _claim(team: Team, volume: Volume, labels: Mapping[str, str]) -> Manifest:
    spec: Manifest = {
        "accessModes": ["ReadWriteMany" if volume.shared else "ReadWriteOnce"],
        "resources": {"requests": {"storage": volume.size}},
    }
    if volume.volume is not None:
        # The empty class keeps the default class from making a second, empty one.
        spec |= {"volumeName": volume.volume, "storageClassName": volume.storage_class or ""}
    elif volume.storage_class is not None:
        spec["storageClassName"] = volume.storage_class
    namespace = volume.namespace or team.namespace
    return manifest("v1", "PersistentVolumeClaim", volume.name, namespace=namespace, labels=labels, spec=spec)


# Limits of a namespace: the number of objects, and what a container requests by default and at least.
# Counts of objects protect the API server and the controllers from a single team. Without default
# and least requests a pod would count as nothing in every queue. The team's queue limits how much it may run.

# Kubernetes' names for the keys of the stack file.
_COUNTED: Final[Mapping[str, str]] = {
    "pods": "count/pods",
    "configMaps": "count/configmaps",
    "secrets": "count/secrets",
    "services": "count/services",
    "volumeClaims": "count/persistentvolumeclaims",
}
# A Ray dashboard behind one of these would run the code of any client that finds it.
_OPEN_DOORS: Final = ("services.loadbalancers", "services.nodeports")
DEFAULT_REQUEST: Final = {"cpu": "100m", "memory": "128Mi"}
# No more than controllers give to what they add to pods: a PyTorchJob's init container has the least of them.
# Source: https://github.com/kubeflow/training-operator at v1.9.3, pkg/controller.v1/pytorch/initcontainer.go,
# read 2026-11-29
LEAST_REQUEST: Final = {"cpu": "10m", "memory": "10Mi"}


def most_objects(stack: Stack) -> Mapping[str, int]:
    """How many objects of a kind a namespace holds, by the keys of `MOST_OBJECTS`."""
    return {**MOST_OBJECTS, **stack.tenancy.objects}


def limits(stack: Stack, team: Team, labels: Mapping[str, str]) -> list[Manifest]:
    most = most_objects(stack)
    counted = {kind.word: f"count/{kind.resource}.{kind.group}" for kind in stack.work_kinds}
    counted |= _COUNTED
    hard = {counted[word]: format_count(count) for word, count in most.items() if word in counted}
    hard |= dict.fromkeys(_OPEN_DOORS, "0")
    defaults = {"type": "Container", "defaultRequest": dict(DEFAULT_REQUEST), "min": dict(LEAST_REQUEST)}
    return [
        manifest(
            "v1", "ResourceQuota", "objects", namespace=team.namespace, labels=labels, spec={"hard": hard}
        ),
        manifest(
            "v1",
            "LimitRange",
            "defaults",
            namespace=team.namespace,
            labels=labels,
            spec={"limits": [defaults]},
        ),
    ]


# A team's Namespace, with the labels and annotations that admission reads.
# Users of the namespace may not change them (policies/muster-protected.yaml).

_POD_SECURITY: Final = "pod-security.kubernetes.io"


def namespace(stack: Stack, team: Team, labels: Mapping[str, str], *, queues: tuple[str, ...]) -> Manifest:
    # No standard allows the capabilities: a policy holds the rest of it (policies/muster-pod-security.yaml).
    level = "privileged" if stack.tenancy.capabilities else stack.tenancy.pod_security.value
    body = manifest(
        "v1",
        "Namespace",
        team.namespace,
        labels={**labels, f"{_POD_SECURITY}/enforce": level, f"{_POD_SECURITY}/enforce-version": "latest"},
    )
    body["metadata"]["annotations"] = {
        names.QUEUES_ANNOTATION: ",".join(queues),
        names.PRIORITIES_ANNOTATION: ",".join(priorities_of(stack, team)),
    }
    return body


def priorities_of(stack: Stack, team: Team) -> tuple[str, ...]:
    """The priorities that the team may use, the highest first; all of the stack's when it names none."""
    return tuple(
        each.name for each in stack.all_priorities if not team.priorities or each.name in team.priorities
    )


def team_objects(
    stack: Stack, department: Department, team: Team, *, queues: tuple[str, ...]
) -> list[Manifest]:
    """The objects of one team without its queue, in the order in which they can be created.

    `queues` are the names by which the team's work may name its queue: LocalQueues with Kueue, leaf Queues
    with KAI.
    """
    labels = {names.TEAM_LABEL: team.name, names.DEPARTMENT_LABEL: department.name}
    return [
        *(
            item
            for name in team.namespaces
            for item in _in_namespace(stack, replace(team, namespace=name), labels, queues)
        ),
        *volumes(team, labels),
    ]


def _in_namespace(
    stack: Stack, team: Team, labels: Mapping[str, str], queues: tuple[str, ...]
) -> list[Manifest]:
    return [
        namespace(stack, team, labels, queues=queues),
        *limits(stack, team, labels),
        *networks(stack, team, labels),
        *disruption(stack, team, labels),
        *accounts(stack, team, labels),
    ]
