"""Pools on paper whose nodes come for pods that wait, as from Karpenter; l4 is one. Rivals take any node of
it that is not kept, and one without a pod goes at once.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import msgspec

from muster.controller.gangs.actions import CreateSet, CreateTemplates, Delete, HoldNode
from muster.controller.gangs.broken_nodes import (
    Device,
    DevicesOfNode,
    DeviceTaint,
    FailedPod,
    Placed,
    Rejection,
    ResourceSlice,
)
from muster.controller.gangs.demand import Demand
from muster.controller.gangs.identity import request_of_placeholder, template_name
from muster.controller.gangs.objects import (
    Container,
    Node,
    Placeholder,
    PodSpec,
    PodTemplate,
    ResourceNeeds,
    Taint,
    Toleration,
)
from muster.controller.gangs.placeholder_sets import ASKED, asked, held_for
from muster.controller.gangs.placeholders import named, quantity
from muster.controller.gangs.taints import closed_for
from muster.controller.gangs.templates import POOL
from muster.controller.kube.resource import ObjectMeta, OwnerReference
from muster.model.names import (
    BROKEN_TAINT_KEY,
    GKE_LEASE_LABEL,
    GPU_RESOURCE,
    HELD_TAINT_KEY,
    PLACEHOLDER_NAMESPACE,
    POOL_LABEL,
    SET_LABEL,
)
from tests.unit.gangs.paper import D, Paper, node, with_condition

replace = msgspec.structs.replace


@dataclass
class PlacedPaper(Paper[D]):
    placeholders: dict[str, Placeholder] = field(default_factory=dict)
    pool_of_set: dict[str, str] = field(default_factory=dict)
    rivals: dict[str, str] = field(default_factory=dict)
    """Pods of others, and their nodes."""

    @abstractmethod
    def is_held(self, held_as: str) -> bool:
        """Whether nodes keep the taint of this value."""

    @abstractmethod
    def places(self) -> Iterator[str]:
        """The nodes of the gangs' pods."""

    @abstractmethod
    def lose_pods(self, node: str) -> None:
        """Those that are on this node."""

    # The API server

    def write(self, name: str, action: object) -> None:
        match action:
            case CreateTemplates(request=request, spec=spec, labels=labels) if spec.flavor.by_placeholders:
                self.pool_of_set[request] = spec.pool
                for number, demand in enumerate(spec.demands):
                    key = template_name(request, number)
                    notes = {ASKED: asked(demand.count, spec.count), POOL: spec.pool, "pool": spec.pool}
                    made = self.meta(key, labels)
                    meta = replace(made, annotations={**made.annotations, **notes})
                    self.templates.setdefault(key, PodTemplate(metadata=meta))
            case CreateSet(name=request, spec=spec, labels=labels):
                for key, index in named(request, spec):
                    meta = replace(self.meta(key, labels), namespace=PLACEHOLDER_NAMESPACE)
                    waiting = _pod_like(spec.demands[index], labels[SET_LABEL])
                    self.placeholders.setdefault(key, Placeholder(metadata=meta, spec=waiting))
            case HoldNode(node=where, held_as=held_as):
                if held := self.nodes.get(where):
                    self._taint(held, held_as)
            case Delete(kind="Pod", name=key) if key in self.placeholders:
                del self.placeholders[key]
            case _:
                super().write(name, action)

    def _taint(self, held: Node, held_as: str) -> None:
        others = [each for each in held.spec.taints if each.key != HELD_TAINT_KEY]
        own = [Taint(key=HELD_TAINT_KEY, effect="NoSchedule", value=held_as)] if held_as else []
        spec = replace(held.spec, taints=(*others, *own))
        self.nodes[held.metadata.name] = replace(held, spec=spec)

    def sweep(self) -> None:
        """As unused_nodes.py does it."""
        for held in list(self.nodes.values()):
            if (held_as := held_for(held)) and not self.is_held(held_as):
                self._taint(held, "")

    # The cloud

    def cloud(self) -> None:
        super().cloud()
        taken = set(self._taken())
        for key, held in list(self.nodes.items()):
            labels = held.metadata.labels
            is_empty = labels[POOL_LABEL] == "l4" and GKE_LEASE_LABEL not in labels and key not in taken
            if is_empty and self.goes(held):
                del self.nodes[key]
        # The first of each gang, then the second of each: every one of them gets a part.
        for key, waiting in sorted(self.placeholders.items(), key=lambda item: item[0].rpartition("-")[::-1]):
            if waiting.spec.node_name not in self.nodes:
                self._give(key, waiting)

    def goes(self, empty: Node) -> bool:
        """Whether the cloud takes this empty node away."""
        return True

    def _give(self, key: str, waiting: Placeholder) -> None:
        pool = self.pool_of_set[request_of_placeholder(key)]
        if (free := self.free_node(waiting.metadata.labels[SET_LABEL], pool)) is not None:
            self.placeholders[key] = replace(waiting, spec=replace(waiting.spec, node_name=free))

    def free_node(self, tolerated: str, pool: str) -> str | None:
        """A node that no pod has, or a new one."""
        taken = set(self._taken())
        for key, held in sorted(self.nodes.items()):
            fits = held.metadata.labels[POOL_LABEL] == pool and held.status.holds("Ready")
            if fits and key not in taken and _may_enter(held, tolerated):
                return key
        if self.free(pool) <= 0:
            return None
        key = f"{pool}-{next(self._numbers)}"
        self.nodes[key] = node(key, pool)
        return key

    def _taken(self) -> Iterator[str]:
        yield from self.places()
        yield from self.rivals.values()
        yield from (pod.spec.node_name for pod in self.placeholders.values())

    def take_away(self, node: str) -> None:
        """With what is on it, as the cluster's own controllers do it."""
        self.nodes.pop(node, None)
        for key in [key for key, pod in self.placeholders.items() if pod.spec.node_name == node]:
            del self.placeholders[key]
        for key in [key for key, where in self.rivals.items() if where == node]:
            del self.rivals[key]
        self.lose_pods(node)

    def taint(self, node: str, key: str, effect: str = "NoSchedule") -> None:
        held = self.nodes[node]
        taints = (*held.spec.taints, Taint(key=key, effect=effect))
        self.nodes[node] = replace(held, spec=replace(held.spec, taints=taints))

    def lose_gpu(self, node: str) -> None:
        held = self.nodes[node]
        size = {**held.status.allocatable, GPU_RESOURCE: "0"}
        self.nodes[node] = replace(held, status=replace(held.status, allocatable=size))

    def rival(self) -> None:
        if (free := self.free_node("", "l4")) is not None:
            self.rivals[f"rival-{next(self._numbers)}"] = free

    # Broken nodes

    def close_broken(self, seen: dict[str, datetime]) -> None:
        """As broken_nodes.py does it: a minute after the first sight in `seen`, one node of a pool."""
        for name, held in list(self.nodes.items()):
            if self.signs.of(held) is None:
                seen.pop(name, None)
                self._close(held, "")
            elif self.now - seen.setdefault(name, self.now) >= timedelta(minutes=1):
                pool = held.metadata.labels[POOL_LABEL]
                others = (each for each in self.nodes.values() if each.metadata.labels[POOL_LABEL] == pool)
                if not any(map(closed_for, others)):
                    self._close(held, "why")

    def _close(self, held: Node, why: str) -> None:
        others = tuple(each for each in held.spec.taints if each.key != BROKEN_TAINT_KEY)
        own = (Taint(key=BROKEN_TAINT_KEY, effect="NoSchedule", value=why),) if why else ()
        self.nodes[held.metadata.name] = replace(held, spec=replace(held.spec, taints=(*others, *own)))

    def condition(self, node: str, kind: str, status: str) -> None:
        held = self.nodes[node]
        conditions = with_condition(held.status.conditions, kind, status, self.now)
        self.nodes[node] = replace(held, status=replace(held.status, conditions=conditions))

    def label(self, node: str, key: str, value: str) -> None:
        held = self.nodes[node]
        labels = {**held.metadata.labels, key: value}
        self.nodes[node] = replace(held, metadata=replace(held.metadata, labels=labels))

    def reject(self, node: str) -> None:
        """Pods of three jobs and two teams."""
        assert self.signs.failed is not None
        for number in range(3):
            owner = OwnerReference(uid=f"job-{number}")
            meta = ObjectMeta(
                name=f"{node}-{number}-{self.now:%H%M}",
                namespace=f"team-{number % 2}",
                uid=f"uid-{node}-{number}-{self.now:%H%M}",
                creation_timestamp=self.now,
                owner_references=(owner,),
            )
            status = Rejection(reason="UnexpectedAdmissionError")
            self.signs.failed.store.put(FailedPod(metadata=meta, spec=Placed(node_name=node), status=status))

    def taint_device(self, node: str, key: str) -> None:
        """One of its two devices."""
        assert self.signs.slices is not None
        taint = DeviceTaint(key=key, effect="NoSchedule", time_added=self.now)
        devices = DevicesOfNode(node_name=node, devices=(Device(), Device(taints=(taint,))))
        version = f"{self.now:%d%H%M%S}"
        meta = ObjectMeta(name=f"{node}-gpu.nvidia.com", uid=f"uid-{node}", resource_version=version)
        self.signs.slices.store.put(ResourceSlice(metadata=meta, spec=devices))


Harm = Callable[[PlacedPaper[Any], str], None]
SIGNS: Mapping[str, Harm] = {
    "condition": lambda world, name: world.condition(name, "AcceleratedHardwareReady", "False"),
    "taint": lambda world, name: world.taint(name, "nvidia.com/gpu-xid-error"),
    "label": lambda world, name: world.label(name, "nvsentinel.dgxc.nvidia.com/nvcre-cert-failure", "true"),
    "black hole": lambda world, name: world.reject(name),
    "device taint": lambda world, name: world.taint_device(name, "gpu.nvidia.com/xid"),
}
"""By what a node is known to be broken."""
HARMS: Mapping[str, Harm] = {
    "disk pressure": lambda world, name: world.taint(name, "node.kubernetes.io/disk-pressure"),
    "spot interruption": lambda world, name: world.taint(name, "aws-node-termination-handler/spot-itn"),
    "a network agent that is not ready": lambda world, name: world.taint(
        name, "node.cilium.io/agent-not-ready", "NoExecute"
    ),
    "a GPU that is unhealthy": lambda world, name: world.lose_gpu(name),
}
"""What can happen to a node between its placeholder's binding and the answer."""


def _pod_like(demand: Demand, held_as: str) -> PodSpec:
    requests: dict[str, str | int | float] = {
        name: quantity(name, amount) for name, amount in demand.needs.amounts.items()
    }
    own = Toleration(key=HELD_TAINT_KEY, operator="Equal", value=held_as, effect="NoSchedule")
    return PodSpec(
        containers=(Container(resources=ResourceNeeds(requests=requests)),),
        tolerations=(*demand.needs.tolerations, own),
    )


def _may_enter(held: Node, tolerated: str) -> bool:
    foreign = {each.key for each in held.spec.taints} - {HELD_TAINT_KEY, GPU_RESOURCE}
    has_gpu = held.status.allocatable.get(GPU_RESOURCE) != "0"
    return not foreign and has_gpu and held_for(held) in ("", tolerated)
