"""A KAI cluster on paper whose pool l4 gets nodes for pods that wait, and whose pool h100 answers
ProvisioningRequests.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TypeVar, cast

from muster.controller.gangs.identity import ATTEMPT, request_of_placeholder, request_of_template
from muster.controller.gangs.objects import NODE, PLACEHOLDER, POD_TEMPLATE, PROVISIONING_REQUEST, Belonging
from muster.controller.gangs.placeholder_sets import held_for, is_asked_by_pods, sets_of, size_of_set
from muster.controller.gangs.taints import NodeTaints
from muster.controller.kai.actions import Decision
from muster.controller.kai.held_nodes import HeldNodes
from muster.controller.kai.indexes import OF_NODES, OF_PLACEHOLDERS, OF_PODS, OF_REQUESTS, OF_TEMPLATES
from muster.controller.kai.labels import CLUSTER_NAME, CLUSTER_UID, is_released
from muster.controller.kai.objects import GATED_POD, PRIORITY_CLASS, QUEUE, GatedPod
from muster.controller.kai.snapshot import ClusterSnapshot
from muster.controller.kai.view import View
from muster.controller.kube.resource import ObjectMeta, OwnerReference
from muster.model.gangpolicy import GangPolicy
from muster.model.names import (
    OWNER_NAMESPACE_ANNOTATION,
    PLACED_ANNOTATION,
    PLACEHOLDER_CLASS,
    PLACEHOLDER_NAMESPACE,
    POOL_LABEL,
)
from tests.unit.gangs.cached import cached
from tests.unit.gangs.paper import flavor_policy
from tests.unit.gangs.placed_paper import PlacedPaper
from tests.unit.kai.kai_world import POLICY, PRIORITIES, World, hosts_of, other_work, ray_clusters, replace

B = TypeVar("B", bound=Belonging)
_L4 = flavor_policy(
    "l4",
    10,
    max_nodes=16,
    gpu_memory=24_576,
    provisioning_class_name=PLACEHOLDER_CLASS,
    node_selector_from_details=(),
    one_pod_set_per_request=False,
)
PLACED = dataclasses.replace(POLICY, placeholder_image="pause", flavors=(_L4, *POLICY.flavors[1:]))


@dataclass
class PlacedWorld(PlacedPaper[Decision], World):
    policy: GangPolicy = PLACED
    stock: dict[str, int] = field(default_factory=lambda: {"l4": 4, "h100": 4})
    _held: HeldNodes = field(init=False)

    # The controller

    def _plain(self, name: str) -> ClusterSnapshot:
        plain = super()._plain(name)
        uid = plain.cluster.metadata.uid
        own = tuple(each for each in self.placeholders.values() if _made_for(each) == uid)
        sets = sets_of(plain.templates, own, node=self.judged_node)
        return dataclasses.replace(plain, requests=(*plain.requests, *sets), placeholders=own)

    def settle(self) -> None:
        super().settle()
        living = {each.metadata.uid for each in self.clusters.values()}
        for key in [key for key, each in self.placeholders.items() if _made_for(each) not in living]:
            del self.placeholders[key]
        self.sweep()

    def sweep(self) -> None:
        if any(map(held_for, self.nodes.values())):
            self._held = HeldNodes(view_of(self), cast(NodeTaints, None), clock=lambda: self.now)
            super().sweep()

    def is_held(self, held_as: str) -> bool:
        until = self._held.held_until(held_as)
        return until is not None and until > self.now

    def places(self) -> Iterator[str]:
        return (pod.spec.node_name for pod in self.pods.values())

    def lose_pods(self, node: str) -> None:
        for key in [key for key, pod in self.pods.items() if pod.spec.node_name == node]:
            del self.pods[key]

    # Oracles

    def check_standing(self, pod: GatedPod, notes: Mapping[str, str]) -> None:
        """No gate goes beside a placeholder, and none of an attempt before everything stands."""
        attempt, placed = notes[ATTEMPT], notes.get(PLACED_ANNOTATION)
        waiting = [each for each in self.placeholders.values() if each.metadata.labels[ATTEMPT] == attempt]
        assert not waiting, f"{pod.key} passes beside placeholders"
        if not placed:
            super().check_standing(pod, notes)
        if self.has_begun_to_pass(attempt):
            return
        for request in self.requests.values():
            is_own = request.metadata.labels[ATTEMPT] == attempt
            assert not is_own or request.status.holds("Provisioned"), f"{pod.key} passes too early"
        templates = [each for each in self.templates.values() if each.metadata.labels[ATTEMPT] == attempt]
        for name in {request_of_template(each.metadata.name) for each in filter(is_asked_by_pods, templates)}:
            own = [each for each in templates if request_of_template(each.metadata.name) == name]
            standing = [
                each for each in self.nodes.values() if held_for(each) == name and each.status.holds("Ready")
            ]
            assert len(standing) >= size_of_set(own[0]), f"{pod.key} passes with a part of its nodes"
            assert not any(map(self.signs.of, standing)), f"{pod.key} passes for a broken node"

    def promised(self, name: str) -> Fraction:
        total = super().promised(name)
        for key in {request_of_placeholder(each) for each in self.placeholders}:
            own = [each for key_of, each in self.templates.items() if request_of_template(key_of) == key]
            cluster = self.clusters.get(_made_for(own[0]).removeprefix("uid-")) if own else None
            queue = cluster.metadata.labels["kai.scheduler/queue"] if cluster else ""
            total += size_of_set(own[0]) if queue and name in self.path(queue) else 0
        return total

    # The cloud and KAI

    def cloud(self) -> None:
        """It makes nodes for pods that have passed, too."""
        super().cloud()
        waiting = [
            pod
            for pod in self.pods.values()
            if is_released(pod) and pod.spec.node_selector[POOL_LABEL] == "l4" and not hosts_of(pod)
        ]
        kept: list[str] = []
        for pod in waiting:
            if free := self.free_node(pod.metadata.annotations.get(PLACED_ANNOTATION, ""), "l4"):
                kept.append(free)
                self.rivals[f"for-{free}"] = free
        for free in kept:
            del self.rivals[f"for-{free}"]

    def room(self, key: str) -> Fraction:
        on = (*self.rivals.values(), *(each.spec.node_name for each in self.placeholders.values()))
        return Fraction(0) if key in on else super().room(key)


def view_of(here: PlacedWorld) -> View:
    """The world as the caches hold it."""
    by_uid = {each.metadata.uid: each.key.name for each in here.clusters.values()}

    def marked(item: Belonging) -> ObjectMeta:
        name = by_uid.get(_made_for(item), "gone")
        notes = {CLUSTER_NAME: name, OWNER_NAMESPACE_ANNOTATION: "ns"}
        owner = OwnerReference(kind="RayCluster", name=name, uid=_made_for(item))
        is_placeholder = item.metadata.namespace == PLACEHOLDER_NAMESPACE
        return replace(
            item.metadata,
            annotations={**item.metadata.annotations, **notes},
            owner_references=() if is_placeholder else (owner,),
        )

    def all_of(items: Mapping[str, B]) -> list[B]:
        return [replace(each, metadata=marked(each)) for each in items.values()]

    return View(
        clusters=ray_clusters(here),
        work=other_work(here),
        pods=cached(GATED_POD, here.pods.values(), **OF_PODS),
        requests=cached(PROVISIONING_REQUEST, all_of(here.requests), **OF_REQUESTS),
        templates=cached(POD_TEMPLATE, all_of(here.templates), **OF_TEMPLATES),
        placeholders=cached(PLACEHOLDER, all_of(here.placeholders), **OF_PLACEHOLDERS),
        nodes=cached(NODE, here.nodes.values(), **OF_NODES),
        queues=cached(QUEUE, here.queues.values()),
        priorities=cached(PRIORITY_CLASS, PRIORITIES.values()),
        policy=lambda: here.policy,
        signs=here.signs,
    )


def _made_for(item: Belonging) -> str:
    return item.metadata.labels[CLUSTER_UID]
