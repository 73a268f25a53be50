"""Builds the controllers of KAI gangs.

Responsible for what is cached, what is indexed and which change reconciles which key. The only module here
that knows the manager.
"""

from functools import partial
from typing import Any, Final

from muster.controller.gangs.gang_state import GangObservation
from muster.controller.gangs.kinds import Kinds
from muster.controller.gangs.objects import (
    NODE,
    PLACEHOLDER,
    POD_TEMPLATE,
    PROVISIONING_REQUEST,
    GangPolicyObject,
)
from muster.controller.gangs.policies import Policies
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
from muster.controller.kai.executor import Executor
from muster.controller.kai.gang_state import observe
from muster.controller.kai.held_nodes import HeldNodes, unused_cause
from muster.controller.kai.hooks import RayClusterHooks
from muster.controller.kai.indexes import (
    BY_CLUSTER,
    OF_NODES,
    OF_PLACEHOLDERS,
    OF_PODS,
    OF_REQUESTS,
    OF_TEMPLATES,
)
from muster.controller.kai.labels import CLUSTER_UID, CLUSTERS, gang_of, is_gated
from muster.controller.kai.objects import COUNTED_WORK, GATED_POD, PRIORITY_CLASS, QUEUE, RAY_CLUSTER
from muster.controller.kai.shutdown import on_shutdown
from muster.controller.kai.view import View
from muster.controller.kube.client import Selection
from muster.controller.kube.resource import Key, Resource
from muster.controller.runtime.clock import utc_now
from muster.controller.runtime.informer import Informer
from muster.controller.runtime.manager import Manager
from muster.model import names

OURS: Final = Selection(labels=CLUSTER_UID)
QUEUED: Final = Selection(labels=names.KAI_QUEUE_LABEL)
LIVE: Final = Selection(fields="status.phase!=Succeeded,status.phase!=Failed")


def setup(manager: Manager, policy_objects: Informer[GangPolicyObject]) -> None:
    """Register the reconcilers of gangs and GangPolicies with a manager."""
    policies = Policies(policy_objects)
    _gangs(manager, policies, policy_objects)
    policy_controller(manager, policy_objects, policies, Kinds(manager.unserved, manager.has_looked))


def _gangs(manager: Manager, policies: Policies, policy_objects: Informer[GangPolicyObject]) -> None:
    view = _view(manager, policies)
    work: dict[Resource[Any], Informer[Any]] = {each.resource: each for each in view.work}
    requests = requests_of(manager, view, {GATED_POD: view.pods, RAY_CLUSTER: view.clusters, **work})
    executor = Executor(manager.client, events=manager.events, requests=requests)
    hooks = RayClusterHooks(view, executor, requests)
    taints = NodeTaints(manager.client, remember=view.nodes.store.remember)
    manager.on_uninstall(
        on_shutdown(manager.client, policy_objects, view, hooks, taints=taints, clock=utc_now)
    )
    controller, gangs, metrics = gang_controller(
        manager,
        "kai-gangs",
        hooks,
        view,
        policies=policies,
        observe=partial(_observe, view),
        unused_cause=partial(unused_cause, view),
    )
    view.gathering.enqueue = controller.queue.add
    controller.watches(view.clusters, lambda cluster: [cluster.key])
    for each in view.work:
        controller.watches(each, lambda work: [work.key], may_be_unserved=True)
    controller.watches(view.pods, gang_of)
    watch_made(controller, gangs, view, users_of=CLUSTERS.keys_of)
    controller.watches_transitions(view.nodes, view.running_on)
    controller.reads(view.queues)
    controller.watches(view.priorities, partial(_waiting, view))
    controller.watches(policy_objects, partial(_waiting, view))
    held = HeldNodes(view, taints, clock=utc_now)
    held_nodes_controller(manager, held, view).watches_transitions(view.pods, held.of_pod)
    broken_nodes_controller(manager, view, taints, metrics, policy_objects)


def _observe(view: View, key: Key) -> GangObservation | None:
    cluster = view.gangs.get(key)
    if cluster is None:
        return None
    pods = view.pods.store.by_index(BY_CLUSTER, key)
    return observe(cluster, pods, view.asks_of(key), now=utc_now())


def _waiting(view: View, _: object) -> list[Key]:
    """A policy or a priority decides for all gangs that wait; they change when a person changes them."""
    return list({key for pod in view.pods.store if is_gated(pod) for key in gang_of(pod)})


def _view(manager: Manager, policies: Policies) -> View:
    return View(
        clusters=manager.informer(RAY_CLUSTER),
        work=tuple(
            # Where a cluster brings the kind, it may come later than this program.
            manager.informer(resource, selection=QUEUED, is_needed=resource.group in ("apps", "batch"))
            for kind, resource in COUNTED_WORK.items()
            if kind in manager.gated_kinds
        ),
        pods=manager.informer(GATED_POD, selection=LIVE, indexes=OF_PODS),
        requests=manager.informer(PROVISIONING_REQUEST, selection=OURS, indexes=OF_REQUESTS),
        templates=manager.informer(POD_TEMPLATE, selection=OURS, indexes=OF_TEMPLATES),
        placeholders=manager.informer(PLACEHOLDER, selection=OURS, indexes=OF_PLACEHOLDERS),
        nodes=manager.informer(NODE, indexes=OF_NODES),
        queues=manager.informer(QUEUE),
        priorities=manager.informer(PRIORITY_CLASS),
        policy=lambda: policies.accepted(names.GANG_POLICY),
        words=autoscaler_words(manager),
        signs=node_signs(manager, policies),
    )
