"""Accounts that a tenant may get hold of, and those of the cluster that must go on."""

from __future__ import annotations

from tests.integration.tenancy.cluster import Caller, Object, account, apply, person
from tests.integration.tenancy.conftest import World
from tests.integration.tenancy.works import NAMESPACE
from tests.waiting import eventually

_RBAC = "rbac.authorization.k8s.io"
# What KubeRay 1.6 gives the account of an elastic cluster (controllers/ray/common/rbac.go).
_AUTOSCALER = [
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch", "patch"]},
    {"apiGroups": [""], "resources": ["pods/resize"], "verbs": ["patch"]},
    {"apiGroups": ["ray.io"], "resources": ["rayclusters"], "verbs": ["get", "patch"]},
]
# Of what the Node authorizer lets a kubelet do with the pods of its own node.
_KUBELET = [
    {"apiGroups": [""], "resources": ["pods/status"], "verbs": ["patch", "update"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "delete"]},
    {"apiGroups": [""], "resources": ["serviceaccounts/token"], "verbs": ["create"]},
]
_SCHEDULER = [
    {"apiGroups": [""], "resources": ["pods/binding", "bindings"], "verbs": ["create"]},
    {"apiGroups": [""], "resources": ["pods/status"], "verbs": ["patch", "update"]},
]


def autoscaler(world: World, cluster: str) -> Caller:
    """The account that KubeRay makes for an elastic cluster of team-a, with a token of it."""
    subject = {"kind": "ServiceAccount", "name": cluster, "namespace": NAMESPACE}
    made: Object = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _metadata(cluster)}
    role = {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "Role",
        "metadata": _metadata(cluster),
        "rules": _AUTOSCALER,
    }
    binding = {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": _metadata(cluster),
        "roleRef": {"apiGroup": _RBAC, "kind": "Role", "name": cluster},
        "subjects": [subject],
    }
    apply(world.server, [made, role, binding])
    return _with_right(account(world.server, NAMESPACE, cluster), "patch", "pods")


def kubelet(world: World) -> Caller:
    """With rights in this one namespace: the Node authorizer's end with the pods of the node."""
    _grant(world, "kubelet", _KUBELET, namespace=NAMESPACE, group="system:nodes")
    return _with_right(person(world.server, "system:node:cpu-0", "system:nodes"), "delete", "pods")


def scheduler(world: World) -> Caller:
    _grant(world, "scheduler", _SCHEDULER, namespace=None, group="system:schedulers")
    return _with_right(
        person(world.server, "system:kube-scheduler", "system:schedulers"), "create", "bindings"
    )


def _with_right(caller: Caller, verb: str, resource: str) -> Caller:
    """The caller, once the API server has read the binding."""
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"namespace": NAMESPACE, "verb": verb, "resource": resource}},
    }
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    eventually(
        f"{caller.name} may {verb} {resource}",
        lambda: caller.send("POST", path, review).body["status"]["allowed"],
    )
    return caller


def _grant(world: World, name: str, rules: list[Object], *, namespace: str | None, group: str) -> None:
    role = {"apiVersion": f"{_RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules}
    binding: Object = {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRoleBinding" if namespace is None else "RoleBinding",
        "metadata": {"name": name} if namespace is None else _metadata(name),
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "Group", "name": group, "apiGroup": _RBAC}],
    }
    apply(world.server, [role, binding])


def _metadata(name: str) -> Object:
    return {"name": name, "namespace": NAMESPACE}
