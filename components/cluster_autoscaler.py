"""cluster-autoscaler on EKS, where nothing else answers ProvisioningRequests.

Responsible for its flags, rights and pods. Its own manifests rather than its chart: they are fewer than the
values that would bend the chart, and every one of them is in the preview. What it may do in AWS is
clusters/eks/autoscaler.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pulumi

from muster.components.component import Component
from muster.components.context import KubernetesObject, PlatformContext, child
from muster.model import names
from muster.render.manifest import Manifest, manifest, restricted_container

# What cluster-autoscaler may do in the cluster, as RBAC rules.
# It simulates the scheduler, so it reads whatever decides where a pod fits; it evicts pods of nodes that it
# takes away, and answers ProvisioningRequests. Source: the example manifest and the FAQ of
# https://github.com/kubernetes/autoscaler/tree/master/cluster-autoscaler

Rule = dict[str, Any]

_READ: Final = ["get", "list", "watch"]
STATUS: Final = "cluster-autoscaler-status"


def _rule(group: str, resources: list[str], verbs: list[str], *, only: list[str] | None = None) -> Rule:
    named = {"resourceNames": only} if only else {}
    return {"apiGroups": [group], "resources": resources, "verbs": verbs, **named}


def cluster_rules() -> list[Rule]:
    return [
        _rule("", ["pods", "services", "replicationcontrollers", "namespaces", "podtemplates"], _READ),
        _rule("", ["persistentvolumes", "persistentvolumeclaims"], _READ),
        _rule("apps", ["daemonsets", "replicasets", "statefulsets"], _READ),
        _rule("batch", ["jobs"], _READ),
        _rule("policy", ["poddisruptionbudgets"], _READ),
        _rule(
            "storage.k8s.io",
            ["storageclasses", "csinodes", "csidrivers", "csistoragecapacities", "volumeattachments"],
            _READ,
        ),
        # Taints nodes that it is about to take away, and forgets those that are gone.
        _rule("", ["nodes"], [*_READ, "update", "patch", "delete"]),
        _rule("", ["pods/eviction"], ["create"]),
        _rule("", ["pods/status"], ["update"]),
        _rule("", ["events"], ["create", "patch"]),
        _rule("autoscaling.x-k8s.io", ["provisioningrequests"], _READ),
        _rule("autoscaling.x-k8s.io", ["provisioningrequests/status"], ["update", "patch"]),
    ]


def rules() -> list[Rule]:
    """In its own namespace: its lease, and the ConfigMap with its status. Creating cannot be limited by
    name.
    """
    return [
        _rule("coordination.k8s.io", ["leases"], ["create"]),
        _rule("coordination.k8s.io", ["leases"], ["get", "update"], only=[names.AUTOSCALER]),
        _rule("", ["configmaps"], [*_READ, "create"]),
        _rule("", ["configmaps"], ["update", "delete"], only=[STATUS]),
    ]


_RBAC: Final = "rbac.authorization.k8s.io"
_LABELS: Final = {"app.kubernetes.io/name": names.AUTOSCALER}
_PORT: Final = 8085


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAutoscalerArgs:
    """`context`: the cluster to install into.

    `cluster_name`, `region`: the EKS cluster whose node groups it resizes. It finds them by the tags that EKS
    puts on managed node groups; with another name it resizes nothing, and every gang waits until it times
    out.

    `image`: None takes the image of the context's artifacts. Its minor version should be the cluster's.

    Its ServiceAccount needs the rights of `clusters.eks.autoscaler` in AWS, by Pod Identity.
    """

    context: PlatformContext
    cluster_name: pulumi.Input[str]
    region: pulumi.Input[str]
    image: pulumi.Input[str] | None = None


class ClusterAutoscaler(Component):
    """`serving`: depend on it and ProvisioningRequests are answered."""

    def __init__(
        self, name: str, args: ClusterAutoscalerArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("muster:index:ClusterAutoscaler", name, opts, short_name="autoscaler")
        self._context = args.context
        account = self._object(_ours("v1", "ServiceAccount"))
        grants = [self._object(binding, after=[self._object(role), account]) for role, binding in _rights()]
        self._object(
            _ours(
                "policy/v1",
                "PodDisruptionBudget",
                spec={
                    "maxUnavailable": 1,
                    "unhealthyPodEvictionPolicy": "AlwaysAllow",  # A pod that is not ready keeps no node.
                    "selector": {"matchLabels": _LABELS},
                },
            )
        )
        spec = deployment(
            args.cluster_name,
            region=args.region,
            image=args.context.artifacts.image(names.AUTOSCALER) if args.image is None else args.image,
            node_selector=args.context.sizing.node_selector(),
        )
        self.serving = self._object(_ours("apps/v1", "Deployment", spec=spec), after=[account, *grants])
        self.register_outputs({})

    def _object(self, body: Manifest, *, after: Sequence[pulumi.Resource] | None = None) -> KubernetesObject:
        return child(self, body, provider=self._context.provider, after=after)


def flags(cluster_name: pulumi.Input[str]) -> list[pulumi.Input[str]]:
    """The flags of the lease and the log are those of its libraries.

    Sources: kubernetes/autoscaler at 01ea19e5, cluster-autoscaler/FAQ.md, cloudprovider/aws/README.md and
    config/flags/flags.go, read 2026-11-21
    """
    return [
        "--cloud-provider=aws",
        # EKS tags every managed node group so.
        _discovery(cluster_name),
        "--enable-provisioning-requests=true",
        # The two classes that Muster asks with; a node group is one pool, so a gang's nodes are of one kind.
        "--provisioning-request-initial-backoff-time=1m",
        "--provisioning-request-max-backoff-time=10m",
        "--max-nodes-per-scaleup=1000",
        # A pool has a node group for each zone, and a gang's nodes come from one of them.
        "--balance-similar-node-groups=false",
        "--expander=least-waste",
        # The controller's own booking ends after ten minutes; an unused node goes soon after.
        "--scale-down-unneeded-time=10m",
        "--skip-nodes-with-system-pods=false",
        "--leader-elect=true",
        f"--leader-elect-resource-name={names.AUTOSCALER}",
        f"--status-config-map-name={STATUS}",
        f"--namespace={names.AUTOSCALER_NAMESPACE}",
        "--logtostderr=true",
        "--v=2",
    ]


def _discovery(cluster_name: pulumi.Input[str]) -> pulumi.Input[str]:
    flag = "--node-group-auto-discovery=asg:tag=k8s.io/cluster-autoscaler/enabled,k8s.io/cluster-autoscaler/"
    if isinstance(cluster_name, str):
        return f"{flag}{cluster_name}"
    return pulumi.Output.concat(flag, cluster_name)


def deployment(
    cluster_name: pulumi.Input[str],
    *,
    region: pulumi.Input[str],
    image: pulumi.Input[str],
    node_selector: dict[str, str],
) -> dict[str, Any]:
    container = {
        "name": names.AUTOSCALER,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["./cluster-autoscaler", *flags(cluster_name)],
        "env": [{"name": "AWS_REGION", "value": region}],
        "ports": [{"name": "metrics", "containerPort": _PORT}],
        # It holds every pod and node of the cluster in memory.
        "resources": {
            "requests": {"cpu": "100m", "memory": "600Mi"},
            "limits": {"cpu": "2", "memory": "4Gi"},
        },
        "livenessProbe": {
            "httpGet": {"path": "/health-check", "port": "metrics"},
            "initialDelaySeconds": 60,
            "periodSeconds": 30,
            "timeoutSeconds": 5,
            "failureThreshold": 5,
        },
        "securityContext": restricted_container(),
    }
    pod = {
        "serviceAccountName": names.AUTOSCALER,
        "priorityClassName": "system-cluster-critical",
        "nodeSelector": node_selector,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65534,
            "runAsGroup": 65534,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
    }
    return {
        # One acts, by lease; the other takes over when its node goes.
        "replicas": 2,
        "selector": {"matchLabels": _LABELS},
        "template": {"metadata": {"labels": _LABELS}, "spec": pod},
    }


def _rights() -> list[tuple[Manifest, Manifest]]:
    """Roles and their bindings: across the cluster, and in its own namespace."""
    wide = f"muster-{names.AUTOSCALER}"
    return [
        (
            manifest(f"{_RBAC}/v1", "ClusterRole", wide, rules=cluster_rules()),
            {**manifest(f"{_RBAC}/v1", "ClusterRoleBinding", wide), **_binding("ClusterRole", wide)},
        ),
        (
            _ours(f"{_RBAC}/v1", "Role", rules=rules()),
            _ours(f"{_RBAC}/v1", "RoleBinding", **_binding("Role", names.AUTOSCALER)),
        ),
    ]


def _ours(api_version: str, kind: str, **body: object) -> Manifest:
    return {
        **manifest(api_version, kind, names.AUTOSCALER, namespace=names.AUTOSCALER_NAMESPACE),
        **body,
    }


def _binding(kind: str, role: str) -> dict[str, Any]:
    account = {
        "kind": "ServiceAccount",
        "name": names.AUTOSCALER,
        "namespace": names.AUTOSCALER_NAMESPACE,
    }
    return {"roleRef": {"apiGroup": _RBAC, "kind": kind, "name": role}, "subjects": [account]}
