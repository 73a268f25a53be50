"""What the autoscaler needs in the cluster: namespace, ServiceAccount, rights, and its ConfigMaps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from muster.local import karpenter
from muster.local.karpenter import CLOUD, Autoscaler
from muster.local.simulated_cloud import names, offering
from muster.paths import LOCAL_POOLS

Manifest = dict[str, Any]

_READ = ["get", "list", "watch"]


def manifests(
    pools_file: Path = LOCAL_POOLS, *, autoscaler: Autoscaler = Autoscaler.SIMULATED
) -> list[Manifest]:
    """The objects in the order in which to apply them. Raises OfferingError for a wrong pools file."""
    offered = offering.read(pools_file)
    by_karpenter = karpenter.manifests(offered) if autoscaler is Autoscaler.KARPENTER else []
    return [
        namespace(),
        service_account(),
        *rights(),
        pools(pools_file, autoscaler=autoscaler),
        faults(),
        *by_karpenter,
    ]


def namespace() -> Manifest:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": names.NAMESPACE}}


def service_account() -> Manifest:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _meta(names.SERVICE_ACCOUNT)}


def rights() -> list[Manifest]:
    """No more than is used: nothing is created but nodes and one ConfigMap, and no Secret is ever read."""
    name = "localplane-autoscaler"
    group = "rbac.authorization.k8s.io"
    cluster_rules = [
        _rule("autoscaling.x-k8s.io", ["provisioningrequests"], [*_READ, "delete"]),
        _rule("autoscaling.x-k8s.io", ["provisioningrequests/status"], ["patch"]),
        _rule("", ["pods", "podtemplates"], _READ),
        _rule("", ["nodes"], [*_READ, "create", "patch", "delete"]),
        _rule("", ["nodes/status"], ["patch"]),
    ]
    own = [names.POOLS_CONFIG, names.FAULTS_CONFIG, names.STATUS_CONFIG, CLOUD]
    local_rules = [
        _rule("", ["configmaps"], ["list", "watch", "create"]),
        {**_rule("", ["configmaps"], ["get", "patch"]), "resourceNames": own},
    ]
    subject = {"kind": "ServiceAccount", "name": names.SERVICE_ACCOUNT, "namespace": names.NAMESPACE}
    version = f"{group}/v1"
    return [
        {"apiVersion": version, "kind": "ClusterRole", "metadata": {"name": name}, "rules": cluster_rules},
        {
            "apiVersion": version,
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
            "subjects": [subject],
        },
        {
            "apiVersion": version,
            "kind": "Role",
            "metadata": _meta(names.SERVICE_ACCOUNT),
            "rules": local_rules,
        },
        {
            "apiVersion": version,
            "kind": "RoleBinding",
            "metadata": _meta(names.SERVICE_ACCOUNT),
            "roleRef": {"apiGroup": group, "kind": "Role", "name": names.SERVICE_ACCOUNT},
            "subjects": [subject],
        },
    ]


def pools(pools_file: Path = LOCAL_POOLS, *, autoscaler: Autoscaler = Autoscaler.SIMULATED) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _meta(names.POOLS_CONFIG),
        "data": {
            names.POOLS_KEY: pools_file.read_text(encoding="utf-8"),
            names.AUTOSCALER_KEY: str(autoscaler),
        },
    }


def faults() -> Manifest:
    """Without `data`: applying it again leaves a running script of faults alone."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": _meta(names.FAULTS_CONFIG)}


def _meta(name: str) -> Manifest:
    return {"name": name, "namespace": names.NAMESPACE}


def _rule(group: str, resources: list[str], verbs: list[str]) -> Manifest:
    return {"apiGroups": [group], "resources": resources, "verbs": verbs}
