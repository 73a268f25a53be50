"""The rights of a team's members in its namespace.

Responsible for the one ClusterRole that every team's RoleBinding names: create and delete Ray and batch
work, and read it and the objects that it waits for. It has no right to admit work, to cluster-scoped
objects, or to pods without a job.
"""

from typing import Any, Final

from muster.model import names
from muster.model.stack import Scheduler, Stack
from muster.model.work import by_group
from muster.render.manifest import Manifest, manifest

_READ: Final = ["get", "list", "watch"]
_OWN: Final = [*_READ, "create", "update", "patch", "delete", "deletecollection"]

Rule = dict[str, Any]


def member_role(stack: Stack) -> Manifest:
    queues = _kueue() if stack.scheduler is Scheduler.KUEUE else _kai()
    return manifest(
        "rbac.authorization.k8s.io/v1",
        "ClusterRole",
        names.MEMBER_ROLE,
        rules=[*_work(stack), *queues, *_around()],
    )


def _rule(group: str, resources: list[str], verbs: list[str]) -> Rule:
    return {"apiGroups": [group], "resources": resources, "verbs": list(verbs)}


def _work(stack: Stack) -> list[Rule]:
    return [_rule(group, list(resources), _OWN) for group, resources in by_group(stack.work_kinds).items()]


def _kueue() -> list[Rule]:
    return [
        _rule("kueue.x-k8s.io", ["localqueues", "workloads"], _READ),
        _rule("visibility.kueue.x-k8s.io", ["localqueues/pendingworkloads"], ["get"]),
        _rule("autoscaling.x-k8s.io", ["provisioningrequests"], _READ),
    ]


def _kai() -> list[Rule]:
    return [
        _rule("scheduling.run.ai", ["podgroups"], _READ),
        _rule("autoscaling.x-k8s.io", ["provisioningrequests"], _READ),
    ]


def _around() -> list[Rule]:
    """Rights that work needs in addition: reading and debugging pods, which gives no more than the work
    itself has. Code and tokens are mounted from ConfigMaps and Secrets, and volumes come from the stack.
    """
    return [
        _rule("", ["pods", "services", "endpoints", "events", "persistentvolumeclaims"], _READ),
        _rule("", ["resourcequotas", "limitranges"], _READ),
        _rule("events.k8s.io", ["events"], _READ),
        _rule("discovery.k8s.io", ["endpointslices"], _READ),
        _rule("", ["pods/log"], ["get"]),
        _rule("", ["pods/exec", "pods/portforward"], ["get", "create"]),
        _rule("", ["configmaps", "secrets"], _OWN),
    ]
