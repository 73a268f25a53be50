"""Builds the controllers of the gang-admission check: one function each.

Responsible for what is cached, what is indexed and which change reconciles which key. The only module here
that knows the manager.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from muster.controller.gangs.gang_state import GangObservation
from muster.controller.gangs.indexes import BY_POOL, BY_REQUEST
from muster.controller.gangs.kinds import Kinds
from muster.controller.gangs.metrics import GangMetrics
from muster.controller.gangs.objects import (
    GANG_POLICY,
    NODE,
    PLACEHOLDER,
    POD,
    POD_TEMPLATE,
    PROVISIONING_REQUEST,
    QUEUE_TREE,
    GangPolicyObject,
    QueueTreeObject,
)
from muster.controller.gangs.policies import Policies
from muster.controller.gangs.reconciler import GangReconciler
from muster.controller.gangs.retry import RETRY_AT
from muster.controller.gangs.setup import (
    autoscaler_words,
    broken_nodes_controller,
    gang_controller,
    held_nodes_controller,
    node_signs,
    policy_controller,
    requests_of,
    watch_made,
)
from muster.controller.gangs.taints import NodeTaints
from muster.controller.kube.client import Selection
from muster.controller.kube.resource import Key
from muster.controller.kueue.backstop import (
    BY_KUBERAY,
    MADE_CLUSTER,
    OF_TEAMS,
    TEAM_NAMESPACE,
    Backstop,
    Caches,
)
from muster.controller.kueue.checks import CheckReconciler, Checks, policy_name
from muster.controller.kueue.compute_domains import COMPUTE_DOMAIN, ComputeDomains, domains_claimed
from muster.controller.kueue.defaults import Defaults
from muster.controller.kueue.executor import Executor
from muster.controller.kueue.gang_state import observe
from muster.controller.kueue.held_nodes import HeldNodes, unused_cause
from muster.controller.kueue.hooks import WorkloadHooks
from muster.controller.kueue.identity import WORKLOAD_UID
from muster.controller.kueue.idle_gangs import IdleGangs
from muster.controller.kueue.idle_quota import IdleQuotaMonitor
from muster.controller.kueue.indexes import (
    OF_NODES,
    OF_PLACEHOLDERS,
    OF_PODS,
    OF_REQUESTS,
    OF_TEMPLATES,
    OF_WORKLOADS,
)
from muster.controller.kueue.objects import (
    ADMISSION_CHECK,
    CLUSTER_QUEUE,
    RESOURCE_FLAVOR,
    WORKLOAD,
    AdmissionCheck,
    ResourceFlavor,
    Workload,
)
from muster.controller.kueue.pending_workloads import PendingWorkloads
from muster.controller.kueue.shutdown import on_shutdown
from muster.controller.kueue.view import View
from muster.controller.kueue.webhooks import Reviews
from muster.controller.runtime.clock import utc_now
from muster.controller.runtime.controller import Controller
from muster.controller.runtime.informer import Informer
from muster.controller.runtime.manager import Manager
from muster.controller.runtime.review import Webhook
from muster.model import names
from muster.model.gangpolicy import GangPolicy, IdlePolicy
from muster.model.queuetree import QueueTree, from_spec

OURS: Final = Selection(labels=WORKLOAD_UID)
RUNNING: Final = Selection(fields="spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed")


def setup(manager: Manager, policy_objects: Informer[GangPolicyObject]) -> None:
    """Register the reconcilers of Workloads, AdmissionChecks and GangPolicies with a manager."""
    inputs = _Inputs(
        checks=manager.informer(ADMISSION_CHECK),
        flavors=manager.informer(RESOURCE_FLAVOR),
        policy_objects=policy_objects,
        policies=Policies(policy_objects),
        kinds=Kinds(manager.unserved, manager.has_looked),
    )
    _gangs(manager, inputs)
    _checks(manager, inputs)
    _policies(manager, inputs)


def webhooks(manager: Manager) -> Sequence[Webhook[Any]]:
    """The reviews of the webhook server, by the policy and the queue tree named `default`."""
    policies = Policies(manager.informer(GANG_POLICY))
    queue_trees = QueueTreeCache(manager.informer(QUEUE_TREE))
    policy = partial(policies.accepted, names.GANG_POLICY)
    reviews, defaults = Reviews(policy, queue_trees.current), Defaults(queue_trees.current, policy)
    return (*reviews.listed(), *defaults.listed())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Inputs:
    """What the controllers share."""

    checks: Informer[AdmissionCheck]
    flavors: Informer[ResourceFlavor]
    policy_objects: Informer[GangPolicyObject]
    policies: Policies
    kinds: Kinds


def _gangs(manager: Manager, inputs: _Inputs) -> None:
    pending = PendingWorkloads()
    view = _view(manager, inputs, pending)
    hooks = WorkloadHooks(view, _executor(manager, view, pending))
    taints = NodeTaints(manager.client, remember=view.nodes.store.remember)
    manager.on_uninstall(
        on_shutdown(manager.client, inputs.checks, view, hooks, taints=taints, clock=utc_now)
    )
    controller, gangs, metrics = gang_controller(
        manager,
        "gangs",
        hooks,
        view,
        policies=inputs.policies,
        observe=partial(observed, view),
        unused_cause=partial(unused_cause, view),
    )
    view.split_gangs.enqueue = controller.queue.add
    _monitor_idle_quota(manager, view, metrics)
    _delete_without_quota(manager, view, metrics)
    _look_for_idle_gangs(manager, view, metrics, inputs.policies)
    if manager.makes_compute_domains:
        _compute_domains(manager, view.workloads)
    watch(controller, gangs, view)
    waiting = partial(_waiting, view)
    controller.watches(inputs.flavors, partial(_provisioning_in, view))
    controller.watches(inputs.policy_objects, waiting)
    controller.watches(inputs.checks, waiting)
    held = HeldNodes(view, taints, clock=utc_now)
    nodes = held_nodes_controller(manager, held, view)
    nodes.watches_transitions(view.workloads, held.of_workload)
    nodes.watches_transitions(view.pods, held.of_pod)
    broken_nodes_controller(manager, view, taints, metrics, inputs.policy_objects)


def _compute_domains(manager: Manager, workloads: Informer[Workload]) -> None:
    domains = manager.informer(COMPUTE_DOMAIN, is_needed=False)
    reconciler = ComputeDomains(manager.client, workloads, domains, events=manager.events)
    controller: Controller[Key] = manager.controller("computedomains", reconciler.reconcile)
    controller.watches(workloads, lambda item: [item.key] if domains_claimed(item) else [])
    controller.hears(domains, reconciler.claimants)


def watch(controller: Controller[Key], gangs: GangReconciler[Any, Any, Any], view: View) -> None:
    """Reconcile a gang when its Workload, something that was made for it or a node of it changes."""
    controller.watches(view.workloads, view.keys_concerned)
    controller.watches_transitions(view.workloads, view.slices_affected_by)
    watch_made(controller, gangs, view, users_of=view.workloads_using)
    controller.watches_transitions(view.nodes, view.workloads_affected_by)
    controller.reads(view.pods, view.queues)


def observed(view: View, key: Key) -> GangObservation | None:
    workload = view.workloads.get(key)
    return observe(workload, view.checks_of(workload)) if workload else None


def _waiting(view: View, _: object) -> list[Key]:
    """A policy decides for all gangs that wait, without quota too; it changes when a person changes it."""
    return [
        workload.key
        for workload in view.workloads.store
        if workload.status.admission_checks or RETRY_AT in workload.metadata.annotations
    ]


def _provisioning_in(view: View, flavor: ResourceFlavor) -> list[Key]:
    return [workload.key for workload in view.workloads.store.by_index(BY_POOL, flavor.metadata.name)]


def _monitor_idle_quota(manager: Manager, view: View, metrics: GangMetrics) -> None:
    monitor = IdleQuotaMonitor(
        metrics,
        find=view.workloads.get,
        has_pod=lambda request: bool(view.pods.store.by_index(BY_REQUEST, request)),
        clock=utc_now,
    )
    manager.service("idle quota", monitor.run)


def _look_for_idle_gangs(manager: Manager, view: View, metrics: GangMetrics, policies: Policies) -> None:
    def rules() -> Mapping[str, IdlePolicy]:
        policy = policies.accepted(names.GANG_POLICY)
        return policy.idle if policy else {}

    idle = IdleGangs(
        manager.client,
        workloads=view.workloads,
        pods=view.pods,
        rules=rules,
        has_check=lambda workload: bool(view.checks_of(workload)),
        events=manager.events,
        metrics=metrics,
        leads=manager.leads,
    )
    policies.listen(idle.hear)
    manager.service("idle gangs", idle.run)


def _delete_without_quota(manager: Manager, view: View, metrics: GangMetrics) -> None:
    """No start waits for its caches: gangs start without them."""
    if manager.deletes_without_quota is None:
        return
    caches = Caches(
        pods=view.pods,
        workloads=view.workloads,
        namespaces=manager.informer(TEAM_NAMESPACE, selection=OF_TEAMS, is_needed=False),
        clusters=manager.informer(MADE_CLUSTER, selection=BY_KUBERAY, is_needed=False),
    )
    backstop = Backstop(
        manager.client,
        caches,
        kept=manager.deletes_without_quota,
        events=manager.events,
        metrics=metrics,
        leads=manager.leads,
    )
    manager.service("backstop", backstop.run)


def _checks(manager: Manager, inputs: _Inputs) -> None:
    def following(policy: GangPolicyObject) -> list[Key]:
        return [check.key for check in inputs.checks.store if policy_name(check) == policy.metadata.name]

    reconciler = CheckReconciler(
        manager.client,
        inputs.checks,
        inputs.policies,
        inputs.kinds,
        metrics=manager.metrics,
        clock=utc_now,
    )
    controller: Controller[Key] = manager.controller("admissionchecks", reconciler.reconcile)
    controller.watches(inputs.checks, lambda item: [item.key]).watches(inputs.policy_objects, following)


def _policies(manager: Manager, inputs: _Inputs) -> None:
    def missing(policy: GangPolicy) -> list[str]:
        return [each.name for each in policy.flavors if inputs.flavors.get(Key("", each.name)) is None]

    controller = policy_controller(
        manager, inputs.policy_objects, inputs.policies, inputs.kinds, missing=missing
    )
    controller.watches(inputs.flavors, lambda _: [item.key for item in inputs.policy_objects.store])


def _view(manager: Manager, inputs: _Inputs, pending: PendingWorkloads) -> View:
    return View(
        workloads=manager.informer(WORKLOAD, indexes=OF_WORKLOADS, on_event=pending.on_event),
        requests=manager.informer(PROVISIONING_REQUEST, selection=OURS, indexes=OF_REQUESTS),
        templates=manager.informer(POD_TEMPLATE, selection=OURS, indexes=OF_TEMPLATES),
        placeholders=manager.informer(PLACEHOLDER, selection=OURS, indexes=OF_PLACEHOLDERS),
        nodes=manager.informer(NODE, indexes=OF_NODES),
        pods=manager.informer(POD, selection=RUNNING, indexes=OF_PODS),
        flavors=inputs.flavors,
        queues=manager.informer(CLUSTER_QUEUE),
        words=autoscaler_words(manager),
        signs=node_signs(manager, inputs.policies),
        checks=Checks(inputs.checks, inputs.policies),
    )


def _executor(manager: Manager, view: View, pending: PendingWorkloads) -> Executor:
    return Executor(
        manager.client,
        events=manager.events,
        requests=requests_of(manager, view, {WORKLOAD: view.workloads}),
        pending=pending,
        slice_of=view.slice_of,
        is_current=manager.compare_writes(view.workloads),
        clock=utc_now,
    )


# The queue tree: what a namespace's jobs may name, parsed once for each version of the object.


_KEY: Final = Key("", names.QUEUE_TREE)


class QueueTreeCache:
    """The one QueueTree; an empty one while there is none, which judges nothing."""

    def __init__(self, trees: Informer[QueueTreeObject]) -> None:
        self._trees = trees
        self._version = ""
        self._read = QueueTree()

    def current(self) -> QueueTree:
        found = self._trees.get(_KEY)
        version = found.metadata.resource_version if found else ""
        if version != self._version:
            self._read = from_spec(found.spec) if found else QueueTree()
            self._version = version
        return self._read
