"""Builds the controllers of KAI gangs.

Responsible for what is cached, what is indexed and which change reconciles which key. The only module here
that knows the manager.
"""

from functools import partial
from typing import Final

from muster.controller.gangs.gang_state import GangObservation
from muster.controller.gangs.indexes import (
    BY_ENDING,
    BY_NODE,
    BY_POOL,
    BY_REQUEST,
    ending_of,
    node_of,
    pool_of,
    request_of,
)
from muster.controller.gangs.kinds import Kinds
from muster.controller.gangs.objects import NODE, POD_TEMPLATE, PROVISIONING_REQUEST, GangPolicyObject
from muster.controller.gangs.policies import Policies
from muster.controller.gangs.requests import Requests
from muster.controller.gangs.setup import gang_controller, policy_controller
from muster.controller.kai.executor import Executor
from muster.controller.kai.gang_state import observe
from muster.controller.kai.hooks import RayClusterHooks
from muster.controller.kai.indexes import (
    BY_CLUSTER,
    RELEASED,
    cluster_of,
    ray_cluster_of,
    released_cluster_of,
)
from muster.controller.kai.labels import CLUSTER_UID, is_gated
from muster.controller.kai.objects import GATED_POD, PRIORITY_CLASS, QUEUE, RAY_CLUSTER
from muster.controller.kai.shutdown import on_shutdown
from muster.controller.kai.view import View
from muster.controller.kube.client import Selection
from muster.controller.kube.resource import Key
from muster.controller.runtime.clock import utc_now
from muster.controller.runtime.informer import Informer
from muster.controller.runtime.manager import Manager
from muster.model import names

OURS: Final = Selection(labels=CLUSTER_UID)
LIVE: Final = Selection(fields="status.phase!=Succeeded,status.phase!=Failed")


def setup(manager: Manager, policy_objects: Informer[GangPolicyObject]) -> None:
    """Register the reconcilers of Ray clusters and GangPolicies with a manager."""
    policies = Policies(policy_objects)
    _gangs(manager, policies, policy_objects)
    policy_controller(manager, policy_objects, policies, Kinds(manager.unserved, manager.has_looked))


def _gangs(manager: Manager, policies: Policies, policy_objects: Informer[GangPolicyObject]) -> None:
    view = _view(manager, policies)
    requests = Requests(
        manager.client,
        caches={GATED_POD: view.pods, PROVISIONING_REQUEST: view.requests, POD_TEMPLATE: view.templates},
    )
    executor = Executor(manager.client, events=manager.events, requests=requests)
    hooks = RayClusterHooks(view, executor, requests)
    manager.on_uninstall(on_shutdown(manager.client, policy_objects, view, hooks, clock=utc_now))
    controller, gangs, _ = gang_controller(
        manager,
        "kai-gangs",
        hooks,
        about=view.clusters,
        requests=view.requests,
        policies=policies,
        observe=partial(_observe, view),
    )
    view.gathering.enqueue = controller.queue.add
    controller.watches(view.clusters, lambda cluster: [cluster.key])
    controller.watches(view.pods, ray_cluster_of)
    controller.watches(view.requests, cluster_of)
    controller.watches(view.templates, cluster_of)
    controller.watches_transitions(view.nodes, gangs.waiting_for_nodes)
    controller.reads(view.queues)
    controller.watches(view.priorities, partial(_waiting, view))
    controller.watches(policy_objects, partial(_waiting, view))


def _observe(view: View, key: Key) -> GangObservation | None:
    cluster = view.clusters.get(key)
    if cluster is None:
        return None
    pods = view.pods.store.by_index(BY_CLUSTER, key)
    return observe(cluster, pods, view.requests.store.by_index(BY_CLUSTER, key), now=utc_now())


def _waiting(view: View, _: object) -> list[Key]:
    """A policy or a priority decides for all gangs that wait; they change when a person changes them."""
    return list({key for pod in view.pods.store if is_gated(pod) for key in ray_cluster_of(pod)})


def _view(manager: Manager, policies: Policies) -> View:
    return View(
        clusters=manager.informer(RAY_CLUSTER),
        pods=manager.informer(
            GATED_POD,
            selection=LIVE,
            indexes={
                BY_CLUSTER: ray_cluster_of,
                BY_ENDING: ending_of,
                BY_NODE: node_of,
                BY_REQUEST: request_of,
                RELEASED: released_cluster_of,
            },
        ),
        requests=manager.informer(PROVISIONING_REQUEST, selection=OURS, indexes={BY_CLUSTER: cluster_of}),
        templates=manager.informer(POD_TEMPLATE, selection=OURS, indexes={BY_CLUSTER: cluster_of}),
        nodes=manager.informer(NODE, indexes={BY_POOL: pool_of}),
        queues=manager.informer(QUEUE),
        priorities=manager.informer(PRIORITY_CLASS),
        policy=lambda: policies.accepted(names.GANG_POLICY),
    )
