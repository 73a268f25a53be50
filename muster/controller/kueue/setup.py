"""How the parts of the gang-admission check are put together.

Decides what is cached, what is indexed and whose news wakes whom. The only module here that knows the
manager.
"""

from collections.abc import Sequence
from typing import Any, Final

from muster.controller.gangs.gang_state import GangObservation, GangObserver, RequestObserver
from muster.controller.gangs.indexes import (
    BY_LEASE,
    BY_NODE,
    BY_POOL,
    BY_REQUEST,
    lease_of,
    node_of,
    pool_of,
    request_of,
)
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
)
from muster.controller.gangs.policies import Policies, PolicyReconciler
from muster.controller.gangs.requests import Requests
from muster.controller.gangs.retry import RETRY_AT
from muster.controller.kube.client import Selection
from muster.controller.kube.resource import Key
from muster.controller.kueue.checks import CheckReconciler, Checks, policy_name
from muster.controller.kueue.defaults import Defaults
from muster.controller.kueue.executor import Executor
from muster.controller.kueue.gang_state import observe
from muster.controller.kueue.identity import WORKLOAD_UID
from muster.controller.kueue.idle_quota import IdleQuotaMonitor
from muster.controller.kueue.indexes import (
    BY_MINUTE,
    BY_REPLACED,
    BY_WORKLOAD,
    lease_given,
    minute_provisioned,
    pools_promised,
    pools_provisioning,
    workload_key,
)
from muster.controller.kueue.objects import (
    ADMISSION_CHECK,
    CLUSTER_QUEUE,
    RESOURCE_FLAVOR,
    WORKLOAD,
    AdmissionCheck,
    ResourceFlavor,
)
from muster.controller.kueue.pending_workloads import PendingWorkloads
from muster.controller.kueue.queue_tree_cache import QueueTreeCache
from muster.controller.kueue.reconciler import GangReconciler
from muster.controller.kueue.shutdown import on_shutdown
from muster.controller.kueue.slices import replaced
from muster.controller.kueue.view import View
from muster.controller.kueue.webhooks import Reviews
from muster.controller.runtime.clock import utc_now
from muster.controller.runtime.informer import Informer
from muster.controller.runtime.manager import Manager
from muster.controller.runtime.review import Webhook
from muster.model import names

WORKERS: Final = 16
"""Reconciles under way at a time: each waits for the API most of its time, and an API server is shared."""

OURS: Final = Selection(labels=WORKLOAD_UID)
RUNNING: Final = Selection(fields="spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed")


def setup(manager: Manager, policy_objects: Informer[GangPolicyObject]) -> None:
    """Register the reconcilers of Workloads, AdmissionChecks and GangPolicies with a manager."""
    checks = manager.informer(ADMISSION_CHECK)
    flavors = manager.informer(RESOURCE_FLAVOR)
    policies = Policies(policy_objects)
    _gangs(manager, Checks(checks, policies), flavors, checks, policy_objects, policies)
    _checks_and_policies(manager, policies, flavors, checks, policy_objects)


def webhooks(manager: Manager) -> Sequence[Webhook[Any]]:
    """The reviews of the webhook server, by the policy and the queue tree named `default`."""
    policy_objects = Policies(manager.informer(GANG_POLICY))
    queue_trees = QueueTreeCache(manager.informer(QUEUE_TREE))
    reviews = Reviews(lambda: policy_objects.accepted(names.GANG_POLICY), queue_trees.current)
    return (*reviews.listed(), *Defaults(queue_trees.current).listed())


def _gangs(
    manager: Manager,
    known: Checks,
    flavors: Informer[ResourceFlavor],
    checks: Informer[AdmissionCheck],
    policy_objects: Informer[GangPolicyObject],
    policies: Policies,
) -> None:
    pending = PendingWorkloads()
    view = _view(manager, known, flavors, pending)
    executor = _executor(manager, view, pending)
    manager.on_uninstall(on_shutdown(manager.client, checks, view, executor, clock=utc_now))
    gangs = GangReconciler(view, executor, enqueue=lambda key: queue.add(key))
    metrics = GangMetrics(manager.metrics.registry)
    watcher = RequestObserver(
        metrics=metrics,
        counts=lambda: manager.leads() and view.requests.has_synced,
        flavor=policies.flavor,
    )
    view.requests.store.listen(watcher.changed)

    def observe_key(key: Key) -> GangObservation | None:
        workload = view.workloads.get(key)
        return observe(workload, view.checks_of(workload)) if workload else None

    observer = GangObserver(metrics, observe_key, clock=utc_now)
    idle_quota = IdleQuotaMonitor(
        metrics,
        find=view.workloads.get,
        has_pod=lambda request: bool(view.pods.store.by_index(BY_REQUEST, request)),
        clock=utc_now,
    )
    manager.service("unused quota", idle_quota.run)
    controller = manager.controller(
        "gangs", observer.around(gangs.reconcile), workers=WORKERS, about=view.workloads
    )
    queue = controller.queue

    def all_waiting(_: object) -> list[Key]:
        """A policy decides for all that wait, outside the quota too; it changes when a person changes it."""
        return [
            workload.key
            for workload in view.workloads.store
            if workload.status.admission_checks or RETRY_AT in workload.metadata.annotations
        ]

    controller.watches(view.workloads, lambda workload: [workload.key, *view.earlier_slice_keys(workload)])
    controller.watches(view.requests, view.workloads_using)
    controller.watches(view.templates, lambda item: [workload_key(item)])
    controller.watches(view.placeholders, lambda item: [workload_key(item)])
    controller.watches_transitions(view.nodes, gangs.waiting_for_nodes)
    controller.watches_transitions(view.nodes, view.workloads_affected_by)
    controller.watches(
        flavors,
        lambda flavor: [held.key for held in view.workloads.store.by_index(BY_POOL, flavor.metadata.name)],
    )
    controller.watches(policy_objects, all_waiting)
    controller.watches(checks, all_waiting)


def _view(
    manager: Manager, known: Checks, flavors: Informer[ResourceFlavor], pending: PendingWorkloads
) -> View:
    return View(
        workloads=manager.informer(
            WORKLOAD, indexes={BY_POOL: pools_provisioning, BY_REPLACED: replaced}, on_event=pending.on_event
        ),
        requests=manager.informer(
            PROVISIONING_REQUEST,
            selection=OURS,
            indexes={
                BY_WORKLOAD: lambda item: [workload_key(item)],
                BY_POOL: pools_promised,
                BY_LEASE: lease_given,
                BY_MINUTE: minute_provisioned,
            },
        ),
        templates=manager.informer(
            POD_TEMPLATE, selection=OURS, indexes={BY_WORKLOAD: lambda item: [workload_key(item)]}
        ),
        placeholders=manager.informer(
            PLACEHOLDER, selection=OURS, indexes={BY_WORKLOAD: lambda item: [workload_key(item)]}
        ),
        nodes=manager.informer(NODE, indexes={BY_POOL: pool_of, BY_LEASE: lambda node: [lease_of(node)]}),
        pods=manager.informer(POD, selection=RUNNING, indexes={BY_NODE: node_of, BY_REQUEST: request_of}),
        flavors=flavors,
        queues=manager.informer(CLUSTER_QUEUE),
        checks=known,
    )


def _executor(manager: Manager, view: View, pending: PendingWorkloads) -> Executor:
    requests = Requests(
        manager.client,
        caches={
            WORKLOAD: view.workloads,
            PROVISIONING_REQUEST: view.requests,
            POD_TEMPLATE: view.templates,
            PLACEHOLDER: view.placeholders,
        },
    )
    return Executor(manager.client, events=manager.events, requests=requests, pending=pending, clock=utc_now)


def _checks_and_policies(
    manager: Manager,
    known: Policies,
    flavors: Informer[ResourceFlavor],
    checks: Informer[AdmissionCheck],
    policy_objects: Informer[GangPolicyObject],
) -> None:
    kinds = Kinds(manager.unserved, manager.has_looked)
    check = CheckReconciler(manager.client, checks, known, kinds, clock=utc_now)
    manager.controller("admissionchecks", check.reconcile).watches(checks, lambda item: [item.key]).watches(
        policy_objects,
        lambda policy: [item.key for item in checks.store if policy_name(item) == policy.metadata.name],
    )
    policy = PolicyReconciler(
        manager.client,
        policy_objects,
        known,
        kinds,
        missing=lambda found: [
            flavor.name for flavor in found.flavors if flavors.get(Key("", flavor.name)) is None
        ],
        clock=utc_now,
    )
    manager.controller("gangpolicies", policy.reconcile).watches(
        policy_objects, lambda item: [item.key]
    ).watches(flavors, lambda _: [item.key for item in policy_objects.store])
