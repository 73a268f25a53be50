"""What both schedulers register in the same way: the gang controller with its metrics, the nodes that are
held for gangs, those that are broken, and the GangPolicies.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from muster.controller.gangs.autoscaler_words import (
    BY_SUBJECT,
    CLAIM_EVENTS,
    EVENTS,
    OF_CLAIMS,
    OF_PLACEHOLDERS,
    AutoscalerWords,
    subject_of,
)
from muster.controller.gangs.broken_nodes import (
    FAILED,
    FAILED_POD,
    RESOURCE_SLICE,
    BrokenNodeReconciler,
    NodeSigns,
    node_that_rejected,
    nodes_with_tainted_devices,
)
from muster.controller.gangs.gang_state import GangObservation, GangObserver, RequestObserver
from muster.controller.gangs.indexes import BY_CLOSED, BY_NODE
from muster.controller.gangs.kinds import Kinds
from muster.controller.gangs.metrics import GangMetrics
from muster.controller.gangs.objects import (
    NODE,
    PLACEHOLDER,
    POD_TEMPLATE,
    PROVISIONING_REQUEST,
    GangPolicyObject,
    Placeholder,
    ProvisioningRequest,
)
from muster.controller.gangs.policies import Policies, PolicyReconciler
from muster.controller.gangs.reconciler import D, GangReconciler, Hooks, S, T
from muster.controller.gangs.requests import Requests
from muster.controller.gangs.taints import NodeTaints
from muster.controller.gangs.unused_nodes import HeldNodes, UnusedNodes
from muster.controller.gangs.view import GangView
from muster.controller.kube.resource import Key, Resource
from muster.controller.runtime.clock import utc_now
from muster.controller.runtime.controller import Controller
from muster.controller.runtime.informer import Informer
from muster.controller.runtime.manager import Manager
from muster.controller.runtime.queue import WorkQueue
from muster.model.gangpolicy import GangPolicy
from muster.model.names import GANG_POLICY as POLICY_NAME

WORKERS: Final = 16
"""Concurrent reconciles: each waits for the API most of its time, and the API server is shared."""


def requests_of(
    manager: Manager, view: GangView[Any], held: Mapping[Resource[Any], Informer[Any]]
) -> Requests:
    """`held`: the caches of the objects that the scheduler's own writes go to."""
    caches: dict[Resource[Any], Informer[Any]] = {
        **held,
        PROVISIONING_REQUEST: view.requests,
        POD_TEMPLATE: view.templates,
        PLACEHOLDER: view.placeholders,
        NODE: view.nodes,
    }
    return Requests(manager.client, caches=caches)


def gang_controller(
    manager: Manager,
    name: str,
    hooks: Hooks[T, S, D],
    view: GangView[Any],
    *,
    policies: Policies,
    observe: Callable[[Key], GangObservation | None],
    unused_cause: Callable[[Placeholder], str],
) -> tuple[Controller[Key], GangReconciler[T, S, D], GangMetrics]:
    """`observe`: the state of the gang of a key, for metrics; `unused_cause`: why no gang starts on the node
    of a placeholder that goes.
    """
    queue = WorkQueue[Key](name, metrics=manager.metrics)
    gangs = GangReconciler(hooks, enqueue=queue.add, clock=utc_now)
    metrics = GangMetrics(manager.metrics.registry)
    watcher = RequestObserver(
        metrics=metrics, counts=lambda: manager.leads() and view.requests.has_synced, flavor=policies.flavor
    )
    view.requests.store.listen(watcher.changed)
    unused = UnusedNodes(
        nodes=view.nodes, cause=unused_cause, metrics=metrics, counts=manager.leads, clock=utc_now
    )
    view.placeholders.store.listen(unused.changed)
    observer = GangObserver(metrics, observe, clock=utc_now)
    reconcile = observer.around(gangs.reconcile, writes=lambda: gangs.applied)
    controller = manager.controller(name, reconcile, workers=WORKERS, about=view.gangs, queue=queue)
    return controller, gangs, metrics


def watch_made(
    controller: Controller[Key],
    gangs: GangReconciler[T, S, D],
    view: GangView[Any],
    *,
    users_of: Callable[[ProvisioningRequest], list[Key]],
) -> None:
    """Reconcile a gang when something changes that was made for it. `users_of`: who uses a request."""
    controller.watches(view.requests, users_of)
    controller.watches(view.templates, view.owners.keys_of)
    controller.watches(view.placeholders, view.owners.keys_of)
    controller.watches_transitions(view.nodes, gangs.waiting_for_nodes)
    controller.watches_transitions(view.nodes, view.placed_on)
    if view.words:
        for said in (view.words.pods, view.words.claims):
            controller.hears(said, view.spoken_of)


def held_nodes_controller(manager: Manager, held: HeldNodes[Any], view: GangView[Any]) -> Controller[Key]:
    controller: Controller[Key] = manager.controller("heldnodes", held.reconcile, workers=WORKERS)
    controller.watches(view.nodes, held.of_node)
    return controller.watches(view.templates, held.of_template)


def node_signs(manager: Manager, policies: Policies) -> NodeSigns:
    """Pods that have failed and the devices of DRA are read where nodes may be closed. No start waits for
    them.
    """
    signs = NodeSigns(policy=lambda: policies.accepted(POLICY_NAME))
    if not manager.closes_nodes:
        return signs
    rejecting, tainted = {BY_NODE: node_that_rejected}, {BY_NODE: nodes_with_tainted_devices}
    return replace(
        signs,
        failed=manager.informer(FAILED_POD, selection=FAILED, indexes=rejecting, is_needed=False),
        slices=manager.informer(RESOURCE_SLICE, indexes=tainted, is_needed=False),
    )


def broken_nodes_controller(
    manager: Manager,
    view: GangView[Any],
    taints: NodeTaints,
    metrics: GangMetrics,
    policies: Informer[GangPolicyObject],
) -> None:
    """One worker: the nodes that are closed are counted before one more is."""
    if not manager.closes_nodes:
        return
    reconciler = BrokenNodeReconciler(
        manager.client, view.nodes, view.signs, taints.of_broken(), monotonic=time.monotonic
    )
    metrics.broken_nodes.labels("set_aside").set_function(
        lambda: sum(view.nodes.store.counts(BY_CLOSED).values())
    )
    metrics.broken_nodes.labels("beyond_bound").set_function(lambda: len(reconciler.beyond_bound))
    controller: Controller[Key] = manager.controller("brokennodes", reconciler.reconcile)
    controller.watches(view.nodes, lambda node: [node.key])
    controller.watches(policies, lambda _: [node.key for node in view.nodes.store])


def autoscaler_words(manager: Manager) -> AutoscalerWords | None:
    """None where the manager may not read Events. Those decide nothing: no start waits for them, and a
    cluster that refuses them stops no gang.
    """
    if not manager.reads_events:
        return None
    indexes = {BY_SUBJECT: subject_of}
    return AutoscalerWords(
        manager.informer(EVENTS, selection=OF_PLACEHOLDERS, indexes=indexes, is_needed=False),
        manager.informer(CLAIM_EVENTS, selection=OF_CLAIMS, indexes=indexes, is_needed=False),
    )


def policy_controller(
    manager: Manager,
    objects: Informer[GangPolicyObject],
    policies: Policies,
    kinds: Kinds,
    *,
    missing: Callable[[GangPolicy], Sequence[str]] = lambda _: (),
) -> Controller[Key]:
    """`missing`: the ResourceFlavors that a policy names and that do not exist."""
    reconciler = PolicyReconciler(manager.client, objects, policies, kinds, missing=missing, clock=utc_now)
    controller: Controller[Key] = manager.controller("gangpolicies", reconciler.reconcile)
    return controller.watches(objects, lambda item: [item.key])
