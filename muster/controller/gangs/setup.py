"""What both schedulers register in the same way: the gang controller, its metrics, and the GangPolicies."""

from collections.abc import Callable, Sequence
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
from muster.controller.gangs.gang_state import GangObservation, GangObserver, RequestObserver
from muster.controller.gangs.kinds import Kinds
from muster.controller.gangs.metrics import GangMetrics
from muster.controller.gangs.objects import GangPolicyObject, ProvisioningRequest
from muster.controller.gangs.policies import Policies, PolicyReconciler
from muster.controller.gangs.reconciler import D, GangReconciler, Hooks, S, T
from muster.controller.kube.resource import Key
from muster.controller.runtime.clock import utc_now
from muster.controller.runtime.controller import Controller
from muster.controller.runtime.informer import Informer
from muster.controller.runtime.manager import Manager
from muster.controller.runtime.queue import WorkQueue
from muster.model.gangpolicy import GangPolicy

WORKERS: Final = 16
"""Concurrent reconciles: each waits for the API most of its time, and the API server is shared."""


def gang_controller(
    manager: Manager,
    name: str,
    hooks: Hooks[T, S, D],
    *,
    about: Informer[Any],
    requests: Informer[ProvisioningRequest],
    policies: Policies,
    observe: Callable[[Key], GangObservation | None],
) -> tuple[Controller[Key], GangReconciler[T, S, D], GangMetrics]:
    """`observe`: the state of the gang of a key, for metrics."""
    queue = WorkQueue[Key](name, metrics=manager.metrics)
    gangs = GangReconciler(hooks, enqueue=queue.add, clock=utc_now)
    metrics = GangMetrics(manager.metrics.registry)
    watcher = RequestObserver(
        metrics=metrics, counts=lambda: manager.leads() and requests.has_synced, flavor=policies.flavor
    )
    requests.store.listen(watcher.changed)
    observer = GangObserver(metrics, observe, clock=utc_now)
    reconcile = observer.around(gangs.reconcile, writes=lambda: gangs.applied)
    return manager.controller(name, reconcile, workers=WORKERS, about=about, queue=queue), gangs, metrics


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
