"""An elastic gang on paper in a pool whose nodes come for pods that wait.

A pod tolerates what the template of its cluster did when KubeRay made it: Kueue writes there once, when the
job starts, and gives a pod that it lets go the claim of the newest growth alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, cast

import msgspec

from muster.controller.gangs.capacity_claims import PodClaim
from muster.controller.gangs.identity import request_of_template
from muster.controller.gangs.objects import Node, Placeholder, Pod
from muster.controller.gangs.placeholder_sets import held_for
from muster.controller.kube.resource import ObjectMeta, OwnerReference
from muster.controller.kueue.held_nodes import HeldNodes
from muster.controller.kueue.identity import OWNING_WORKLOAD
from muster.controller.kueue.snapshot import WorkloadSnapshot
from muster.model.gangpolicy import GangPolicy
from muster.model.names import CONSUME_ANNOTATION, HELD_TAINT_KEY, POD_SET_LABEL, WORKLOAD_UID_LABEL
from tests.unit.admission.elastic_world import Elastic
from tests.unit.admission.gang_world import pod_spec
from tests.unit.admission.placed_world import PLACED, PlacedWorld
from tests.unit.admission.views import view_of
from tests.unit.gangs.paper import among

replace = msgspec.structs.replace

LONG = timedelta(minutes=31)
"""Longer than an attempt may take, and than nodes are held for a gang that may start."""


@dataclass
class ElasticPlaced(PlacedWorld, Elastic):
    policy: GangPolicy = PLACED
    stock: dict[str, int] = field(default_factory=dict)
    tolerated: str = ""
    """By the templates of the cluster."""
    tolerates: dict[str, str] = field(default_factory=dict)
    """By each worker."""

    # The controller

    def meta(self, name: str, labels: object) -> ObjectMeta:
        made = super().meta(name, labels)
        uid = made.labels[WORKLOAD_UID_LABEL]
        owner = OwnerReference(kind="Workload", name=uid.removeprefix("uid-"), uid=uid)
        notes = {OWNING_WORKLOAD: uid.removeprefix("uid-")}
        return replace(made, owner_references=(owner,), annotations=notes)

    def snapshot(self, name: str) -> WorkloadSnapshot:
        seen = super().snapshot(name)
        held = {held_for(each) for each in self.nodes.values()}
        placed = [spec for spec in seen.gang.request_specs if spec.flavor.by_placeholders]
        is_placing = seen.surroundings.lacks_pods and any(seen.held_as(spec) in held for spec in placed)
        return cast(WorkloadSnapshot, among(seen, is_placing=is_placing))

    def is_held(self, held_as: str) -> bool:
        """By the controller's own rule."""
        view = view_of(
            self.policy,
            workloads=self.workloads.values(),
            templates=self.templates.values(),
            pods=self.pods.values(),
        )
        until = HeldNodes(view, cast(Any, None), clock=lambda: self.now).held_until(held_as)
        return until is not None and until > self.now

    def _used_slices(self) -> Iterator[str]:
        owners = {request_of_template(key): each for key, each in self.templates.items()}
        for birth in self.births.values():
            if not birth.is_gated and birth.claim is not None:
                labels = owners[birth.claim.request].metadata.labels
                yield labels[WORKLOAD_UID_LABEL].removeprefix("uid-")

    # Kueue, KubeRay, the scheduler

    def start(self) -> None:
        was_started = self.is_started
        super().start()
        if self.is_started and not was_started and self.template is not None:
            self.tolerated = _toleration(self.template)

    def kuberay(self) -> None:
        super().kuberay()
        for key in self.births:
            self.tolerates.setdefault(key, self.tolerated)

    def jobs(self) -> None:
        for key in self.births:
            self._run_one(key)

    def one(self) -> None:
        """The scheduler has come to one pod only."""
        next((key for key in self.births if self._run_one(key)), None)

    def _run_one(self, key: str) -> bool:
        birth = self.births[key]
        if birth.is_gated or birth.claim is None or key in self.pods:
            return False
        if (where := self._empty_node(self.tolerates[key])) is None:
            return False
        notes = {CONSUME_ANNOTATION: birth.claim.annotations[CONSUME_ANNOTATION]}
        labels = {POD_SET_LABEL: "main"}
        meta = ObjectMeta(name=key, namespace=self.namespace, annotations=notes, labels=labels)
        self.pods[key] = Pod(metadata=meta, spec=replace(pod_spec(1), node_name=where))
        return True

    def _empty_node(self, tolerated: str) -> str | None:
        """A node that is there: one that is bought for this pod would be bought for a part of the gang."""
        taken = set(self._taken())
        free = (key for key, each in sorted(self.nodes.items()) if key not in taken)
        return next((key for key in free if held_for(self.nodes[key]) in ("", tolerated)), None)

    def goes(self, empty: Node) -> bool:
        """Pods have the time that they need to get to nodes that are held for them."""
        return not held_for(empty)

    def late(self) -> None:
        """What may run has its nodes, and then a long time goes by."""
        for step in (self.kuberay, self.ungate, self.settle, self.jobs):
            step()
        self.now += LONG
        self.settle()

    # Oracles

    def check(self) -> None:
        """For every worker that may run and has no node, one is held."""
        waiting = [key for key, each in self.births.items() if not each.is_gated and key not in self.pods]
        assert all(self.births[key].claim for key in waiting), "a pod was let go without a claim"
        held = {self.tolerates[key] for key in waiting}
        assert len(waiting) <= len(list(self._kept(held))), f"no nodes are held for all of {waiting}"
        for pod in self.pods.values():
            assert pod.spec.node_name in self.nodes
        assert not [each for each in self.workloads.values() if each.status.holds("Evicted")]

    def _kept(self, held: set[str]) -> Iterator[Node]:
        """Placeholders of a slice that may start are about to go."""
        stay = (each for each in self.placeholders.values() if not self._may_start(each))
        taken = {pod.spec.node_name for pod in (*stay, *self.pods.values())} | set(self.rivals.values())
        for key, each in self.nodes.items():
            if held_for(each) and held_for(each) in held and key not in taken:
                yield each

    def _may_start(self, pod: Placeholder) -> bool:
        owner = pod.metadata.labels[WORKLOAD_UID_LABEL].removeprefix("uid-")
        return self.workloads[owner].status.holds("Admitted")


def _toleration(claim: PodClaim) -> str:
    return next((each.value for each in claim.tolerations if each.key == HELD_TAINT_KEY), "")
