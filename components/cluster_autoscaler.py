"""cluster-autoscaler on EKS, where nobody else answers ProvisioningRequests.

Decides its flags, rights and pods. Its own manifests rather than its chart: they are fewer than the values
that would bend the chart, and every one of them is in the preview. What it may do in AWS is
clusters/eks/autoscaler.py.
"""

from collections.abc import Sequence
from typing import Any, Final

import pulumi

from muster.components import autoscaler_authority as authority
from muster.components.context import Ground
from muster.components.objects import KubernetesObject, child
from muster.model import names
from muster.model.clusters import EksCluster
from muster.render.manifest import Manifest, manifest

_RBAC: Final = "rbac.authorization.k8s.io"
_LABELS: Final = {"app.kubernetes.io/name": names.AUTOSCALER}
_PORT: Final = 8085


class ClusterAutoscaler(pulumi.ComponentResource):
    """`serving`: depend on it and requests for nodes are answered."""

    def __init__(
        self,
        name: str,
        *,
        cluster: EksCluster,
        ground: Ground,
        depends_on: list[pulumi.Resource],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("muster:index:ClusterAutoscaler", name, None, opts)
        self._ground = ground
        account = self._object(_ours("v1", "ServiceAccount"), after=depends_on)
        grants = [
            self._object(binding, after=[self._object(role, after=depends_on), account])
            for role, binding in _rights()
        ]
        self._object(
            _ours(
                "policy/v1",
                "PodDisruptionBudget",
                spec={
                    "maxUnavailable": 1,
                    "unhealthyPodEvictionPolicy": "AlwaysAllow",  # One that is not ready keeps no node.
                    "selector": {"matchLabels": _LABELS},
                },
            ),
            after=depends_on,
        )
        spec = deployment(
            cluster,
            image=ground.artifacts.image(names.AUTOSCALER),
            node_selector=ground.footprint.node_selector(),
        )
        self.serving = self._object(_ours("apps/v1", "Deployment", spec=spec), after=[account, *grants])
        self.register_outputs({})

    def _object(self, body: Manifest, *, after: Sequence[pulumi.Resource]) -> KubernetesObject:
        return child(self, body, provider=self._ground.provider, after=after)


def flags(cluster: EksCluster) -> list[str]:
    """Sources: the FAQ of cluster-autoscaler and cloudprovider/aws/README.md beside it. That each exists was
    read in config/flags/flags.go at 01ea19e5 (2026-11-21); those of the lease and the log are its libraries'.
    """
    tags = "k8s.io/cluster-autoscaler/enabled,k8s.io/cluster-autoscaler"
    return [
        "--cloud-provider=aws",
        # EKS tags every managed node group so.
        f"--node-group-auto-discovery=asg:tag={tags}/{cluster.name}",
        "--enable-provisioning-requests=true",
        # The two classes that Muster asks with; a node group is one pool, so a gang's nodes are of one kind.
        "--provisioning-request-initial-backoff-time=1m",
        "--provisioning-request-max-backoff-time=10m",
        "--max-nodes-per-scaleup=1000",
        "--expander=least-waste",
        # The controller's own booking ends after ten minutes; a node that nobody uses goes soon after.
        "--scale-down-unneeded-time=10m",
        "--skip-nodes-with-system-pods=false",
        "--leader-elect=true",
        f"--leader-elect-resource-name={names.AUTOSCALER}",
        f"--status-config-map-name={authority.STATUS}",
        f"--namespace={names.AUTOSCALER_NAMESPACE}",
        "--logtostderr=true",
        "--v=2",
    ]


def deployment(cluster: EksCluster, *, image: str, node_selector: dict[str, str]) -> dict[str, Any]:
    container = {
        "name": names.AUTOSCALER,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["./cluster-autoscaler", *flags(cluster)],
        "env": [{"name": "AWS_REGION", "value": cluster.region}],
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
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
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
        # One acts, by lease; the other is there when its node goes.
        "replicas": 2,
        "selector": {"matchLabels": _LABELS},
        "template": {"metadata": {"labels": _LABELS}, "spec": pod},
    }


def _rights() -> list[tuple[Manifest, Manifest]]:
    """Roles and their bindings: across the cluster, and in its own namespace."""
    wide = f"muster-{names.AUTOSCALER}"
    return [
        (
            manifest(f"{_RBAC}/v1", "ClusterRole", wide, rules=authority.cluster_rules()),
            {**manifest(f"{_RBAC}/v1", "ClusterRoleBinding", wide), **_binding("ClusterRole", wide)},
        ),
        (
            _ours(f"{_RBAC}/v1", "Role", rules=authority.rules()),
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
