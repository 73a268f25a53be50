"""One cluster with tenancy in force, for all tests of the folder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from muster.components import gang_authority
from muster.config import load
from muster.model import names
from muster.model.gangpolicy import IdleAction, IdlePolicy, OnStaggered, OnStockOut
from muster.model.ray import Ray
from muster.model.stack import Scheduler, Stack
from muster.model.work import GATED, Work
from muster.render import queues, tenancy
from tests import built, envtest
from tests.envtest import ControlPlane
from tests.envtest.process import CRDS, PROVISIONING_CRD
from tests.integration.tenancy import crds, works
from tests.integration.tenancy.cluster import (
    Caller,
    Object,
    account,
    administrator,
    apply,
    await_denied,
    person,
    warning_bindings,
)
from tests.integration.tenancy.works import labelled, named, owner, pod, ray_job, template

_LOCAL = Path(__file__).parents[3] / "stacks" / "Pulumi.local.yaml"
# Of no use without a scheduler.
_QUEUES = ("ClusterQueue", "Cohort", "Queue")
_RBAC = "rbac.authorization.k8s.io"
_GROUPS = ("ray.io", "batch", "kueue.x-k8s.io", "autoscaling.x-k8s.io", "resource.nvidia.com")
GROUP = "vision@example.com"
# The controllers whose work must go on, each with its account; what they may do is as wide as it is in a
# cluster where it matters here.
CONTROLLERS = {
    "kuberay": ("ray-system", "kuberay-operator"),
    "kueue": ("kueue-system", "kueue-controller-manager"),
    "jobs": ("kube-system", "job-controller"),
    "cronjobs": ("kube-system", "cronjob-controller"),
    "replicasets": ("kube-system", "replicaset-controller"),
    "lws": ("lws-system", "lws-controller-manager"),
    "trainer": ("kubeflow-system", "kubeflow-trainer-controller-manager"),
    "pytorch": ("kubeflow", "training-operator"),
    "mpi": ("mpi-operator", "mpi-operator"),
    "collector": ("kube-system", "generic-garbage-collector"),
    # In no namespace that the policies know: a cloud's autoscaler is whoever the cloud says.
    "autoscaler": ("somewhere", "autoscaler"),
    "ours": (names.SYSTEM_NAMESPACE, gang_authority.MANAGER),
    "webhooks": (names.SYSTEM_NAMESPACE, gang_authority.WEBHOOKS),
}


@dataclass(frozen=True)
class World:
    """`member` and `person` have what the stack gives a team; `trusted` was given far too much besides."""

    server: ControlPlane
    admin: Caller
    member: Caller
    person: Caller
    trusted: Caller
    stranger: Caller
    controllers: dict[str, Caller]
    scheduler: Scheduler

    @property
    def tenants(self) -> tuple[Caller, ...]:
        return self.member, self.person, self.trusted


def described() -> Stack:
    """Stack `local`, in which a group of the identity provider works as team-a, at priority dev alone, which
    refuses Ray without a token, and in which our controller may do all that a GangPolicy can ask of it. Idle
    gangs of team-b are stopped.
    """
    stack = replace(load(_LOCAL), ray=Ray())
    policy = replace(
        stack.gang_admission.policy, on_staggered=OnStaggered.HOLD, on_stock_out=OnStockOut.NEXT_FLAVOR
    )
    stack = replace(stack, gang_admission=replace(stack.gang_admission, policy=policy))
    departments = []
    for department in stack.departments:
        teams = []
        for team in department.teams:
            if team.name == "team-a":
                access = replace(team.access, members=(GROUP, "user:ada@example.com"))
                team = replace(team, access=access, priorities=("dev",))
            if team.name == "team-b":
                team = replace(team, idle=IdlePolicy(action=IdleAction.SUSPEND))
            teams.append(team)
        departments.append(replace(department, teams=tuple(teams)))
    return replace(stack, departments=tuple(departments))


@pytest.fixture(scope="package")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """On a server of its own: the policies would be in the way of others' tests."""
    programs = built.programs(("etcd", "kube-apiserver"), (CRDS, PROVISIONING_CRD))
    kinds = [*crds.kinds(programs), *crds.gateways(), crds.compute_domains()]
    with envtest.control_plane(tmp_path_factory.mktemp("tenancy"), programs, kinds=kinds) as server:
        yield world_of(server, described())


@pytest.fixture(scope="package")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The same stack with every kind of work, on a server of its own."""
    programs = built.programs(("etcd", "kube-apiserver"), (CRDS, PROVISIONING_CRD))
    kinds = [*crds.kinds(programs), *crds.gateways(), crds.compute_domains(), *crds.groups_of_pods()]
    with envtest.control_plane(tmp_path_factory.mktemp("served"), programs, kinds=kinds) as server:
        yield world_of(server, replace(described(), work=tuple(Work)))


@pytest.fixture(scope="package")
def kai(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The same stack with KAI, on a server of its own: Kueue's policies are on the other one."""
    programs = built.programs(("etcd", "kube-apiserver"), (CRDS, PROVISIONING_CRD))
    with envtest.control_plane(
        tmp_path_factory.mktemp("kai"), programs, kinds=crds.kinds(programs)
    ) as server:
        yield world_of(server, replace(described(), scheduler=Scheduler.KAI))


def world_of(server: ControlPlane, stack: Stack) -> World:
    """The tenants of a stack on a server that knows the kinds, with the policies in force."""
    role = tenancy.member_role(stack)
    policies = tenancy.admission_objects(stack)
    apply(server, [role])
    for teams in queues.by_department(stack).values():
        for objects in teams.values():
            apply(server, [each for each in objects if each["kind"] not in _QUEUES])
    apply(server, _accounts(stack.scheduler))
    apply(server, [*warning_bindings(policies), *policies])
    found = World(
        server=server,
        admin=administrator(server),
        member=account(server, "team-a", "member"),
        person=person(server, "grace@example.com", GROUP),
        trusted=account(server, "team-a", "trusted"),
        stranger=account(server, "team-b", "member"),
        controllers={name: account(server, *where) for name, where in CONTROLLERS.items()},
        scheduler=stack.scheduler,
    )
    for who, body in _refused(found):
        await_denied(who, body)
    return found


def _refused(world: World) -> Iterator[tuple[Caller, Object]]:
    """Something that each policy refuses alone: they come into force one after another."""
    yield world.member, labelled(ray_job(), "kueue.x-k8s.io/queue-name", "nobody-s")
    yield world.trusted, pod()
    placed = works.ray_cluster(headGroupSpec=works.head(template=template(nodeName="gpu-0")))
    kept = works.changed(works.ray_cluster(), "metadata", "finalizers", value=["example.com/early"])
    for body in (placed, kept):
        yield world.member, labelled(body, names.KAI_QUEUE_LABEL, "team-a-l4")
    metadata = {"name": "early", "namespace": "team-a"}
    yield (
        world.trusted,
        {"apiVersion": "v1", "kind": "PodTemplate", "metadata": metadata, "template": template(1)},
    )
    opened = works.ray_cluster(headGroupSpec=works.head(serviceType="NodePort"))
    yield world.member, labelled(opened, names.KAI_QUEUE_LABEL, "team-a-l4")
    yield world.controllers["kuberay"], works.service(externalIPs=["192.0.2.1"])
    yield world.trusted, works.INGRESS
    token = works.existing("v1", "Secret", "token", type="kubernetes.io/service-account-token")
    token["metadata"]["annotations"] = {"kubernetes.io/service-account.name": "member"}
    yield world.member, token
    yield world.admin, named(works.ray_job(), "x" * 48)
    yield world.member, works.existing("v1", "ConfigMap", "large", data={"text": "x" * 100_000})
    if world.scheduler is Scheduler.KUEUE:
        yield world.admin, works.cluster_queue("gang", concurrentAdmissionPolicy=works.CONCURRENT)
    if world.scheduler is Scheduler.KAI:
        yield world.controllers["kuberay"], pod(owner=owner("RayCluster", "ray.io/v1"), name="early")


def _accounts(scheduler: Scheduler) -> list[Object]:
    """The controllers, and a tenant with every right in its namespace, on Kueue's kinds and
    on the namespace itself.
    """
    spaces = sorted({namespace for namespace, _ in CONTROLLERS.values()} - {"kube-system"})
    objects = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in spaces]
    everything = [{"apiGroups": [group], "resources": ["*"], "verbs": ["*"]} for group in (*_GROUPS, "apps")]
    everything.append({"apiGroups": [""], "resources": ["pods", "pods/*", "podtemplates"], "verbs": ["*"]})
    networks = [
        {"apiGroups": [group], "resources": ["*"], "verbs": ["*"]}
        for group in ("networking.k8s.io", "gateway.networking.k8s.io", "discovery.k8s.io")
    ]
    # Of KubeRay's own role (config/rbac/role.yaml), and of the cluster's controllers of endpoints.
    doors = {"apiGroups": [""], "resources": ["services", "services/status", "endpoints"], "verbs": ["*"]}
    kept = {"apiGroups": [""], "resources": ["configmaps", "secrets", "serviceaccounts"], "verbs": ["*"]}
    objects += [_named("ClusterRole", "controllers", rules=[*everything, *networks, doors, kept])]
    is_kueue = scheduler is Scheduler.KUEUE
    ours = {
        "ours": gang_authority.manager_cluster_rules(
            scheduler,
            holds=is_kueue,
            deletes_without_quota=is_kueue,
            makes_domains=is_kueue,
            gated=() if is_kueue else GATED,
        ),
        "webhooks": gang_authority.webhook_cluster_rules(),
    }
    inside = {"ours": gang_authority.manager_rules(), "webhooks": gang_authority.webhook_rules()}
    objects += [_named("ClusterRole", name, rules=rules) for name, rules in ours.items()]
    objects += [_named("ClusterRole", f"{name}-inside", rules=rules) for name, rules in inside.items()]
    for name, (namespace, sa) in CONTROLLERS.items():
        objects.append(_account(namespace, sa))
        subject = {"kind": "ServiceAccount", "name": sa, "namespace": namespace}
        objects.append(_binding(f"test-{name}", name if name in ours else "controllers", subject))
        if name in inside:
            objects.append(_binding(f"test-{name}", f"{name}-inside", subject, namespace=namespace))
    # (Nobody gathers the rights of the built-in role `edit` here: that is a controller's work.)
    edit = {"apiGroups": [""], "resources": ["*"], "verbs": ["*"]}
    objects.append(_named("ClusterRole", "too-much", rules=[*everything, *networks, edit]))
    objects.append(_account("team-a", "trusted"))
    subject = {"kind": "ServiceAccount", "name": "trusted", "namespace": "team-a"}
    return [*objects, _binding("too-much", "too-much", subject, namespace="team-a")]


def _account(namespace: str, name: str) -> Object:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}}


def _named(kind: str, name: str, **body: Any) -> Object:
    return {"apiVersion": f"{_RBAC}/v1", "kind": kind, "metadata": {"name": name}, **body}


def _binding(name: str, role: str, subject: Object, *, namespace: str | None = None) -> Object:
    kind = "ClusterRoleBinding" if namespace is None else "RoleBinding"
    body = _named(kind, name, subjects=[subject])
    body["roleRef"] = {"apiGroup": _RBAC, "kind": "ClusterRole", "name": role}
    if namespace is not None:
        body["metadata"]["namespace"] = namespace
    return body
