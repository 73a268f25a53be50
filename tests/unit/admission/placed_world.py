"""A cluster on paper whose pool l4 gets nodes for pods that wait, as from Karpenter, and whose pool h100
answers ProvisioningRequests. Rivals take any node that is not kept.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from muster.controller.gangs.actions import CreateSet, CreateTemplates, Delete, HoldNode
from muster.controller.gangs.identity import promised_by, request_of_template, template_name
from muster.controller.gangs.objects import Node, Placeholder, Pod, PodTemplate, Taint
from muster.controller.gangs.placeholder_sets import ASKED, PlaceholderSet, asked, held_for, sets_of
from muster.controller.gangs.placeholders import named
from muster.controller.gangs.templates import POOL
from muster.controller.kube.resource import ObjectMeta
from muster.controller.kueue.snapshot import WorkloadSnapshot
from muster.model.names import (
    HELD_TAINT_KEY,
    PLACED_ANNOTATION,
    PLACEHOLDER_CLASS,
    PLACEHOLDER_NAMESPACE,
    POOL_LABEL,
    WORKLOAD_UID_LABEL,
)
from tests.unit.admission.gang_world import NOTHING, POLICY, World, pod_spec
from tests.unit.gangs.paper import flavor_policy, node

replace = msgspec.structs.replace

PLACED = dataclasses.replace(
    POLICY,
    placeholder_image="pause",
    flavors=(
        flavor_policy(
            "l4",
            10,
            provisioning_class_name=PLACEHOLDER_CLASS,
            node_selector_from_details=(),
            one_pod_set_per_request=False,
        ),
        flavor_policy("h100", 100),
    ),
)


@dataclass
class PlacedWorld(World):
    pool_of_set: dict[str, str] = field(default_factory=dict)

    # The API server

    def write(self, name: str, action: object) -> None:
        match action:
            case CreateTemplates(request=request, spec=spec, labels=labels) if spec.flavor.by_placeholders:
                for number, demand in enumerate(spec.demands):
                    key = template_name(request, number)
                    notes = {ASKED: asked(demand.count, spec.count), POOL: spec.pool, "pool": spec.pool}
                    meta = replace(self.meta(key, labels), annotations=notes)
                    self.templates.setdefault(key, PodTemplate(metadata=meta))
            case CreateSet(name=request, spec=spec, labels=labels):
                self.pool_of_set[request] = spec.pool
                for key, _ in named(request, spec):
                    meta = replace(self.meta(key, labels), namespace=PLACEHOLDER_NAMESPACE)
                    self.placeholders.setdefault(key, Placeholder(metadata=meta, spec=pod_spec(1)))
            case HoldNode(node=where, name=request):
                if held := self.nodes.get(where):
                    self._taint(held, request)
            case Delete(kind="Pod", name=key) if key in self.placeholders:
                del self.placeholders[key]
            case _:
                super().write(name, action)

    def _taint(self, held: Node, request: str) -> None:
        others = [each for each in held.spec.taints if each.key != HELD_TAINT_KEY]
        own = [Taint(key=HELD_TAINT_KEY, effect="NoSchedule", value=request)] if request else []
        spec = replace(held.spec, taints=(*others, *own))
        self.nodes[held.metadata.name] = replace(held, spec=spec)

    def _plain(self, name: str) -> WorkloadSnapshot:
        plain = super()._plain(name)
        sets = sets_of(plain.templates, plain.placeholders, node=self.nodes.get)
        return dataclasses.replace(plain, requests=(*plain.requests, *sets))

    def sweep(self) -> None:
        """As held_nodes.py does it."""
        for held in list(self.nodes.values()):
            if (request := held_for(held)) and not self._is_held(request):
                self._taint(held, "")

    def _is_held(self, request: str) -> bool:
        own = [each for key, each in self.templates.items() if request_of_template(key) == request]
        if not own:
            return False
        uid = own[0].metadata.labels[WORKLOAD_UID_LABEL]
        owner = next((each for each in self.workloads.values() if each.metadata.uid == uid), None)
        if owner is None or owner.status.holds("Finished"):
            return False
        placed = sum(promised_by(pod.metadata.annotations) == request for pod in self.pods.values())
        wanted = sum(int(each.metadata.annotations[ASKED].split(" ")[0]) for each in own)
        return not owner.status.holds("Admitted") or placed < wanted

    # Oracles

    def check_ready(self, name: str) -> None:
        for request in self._plain(name).current.values():
            if not isinstance(request, PlaceholderSet):
                assert request.status.holds("Provisioned"), f"{name} is Ready before all is there"
                continue
            on = [self.nodes[pod.spec.node_name] for pod in request.pods]
            assert len({each.metadata.name for each in on}) == request.count, f"{name} is Ready in part"
            assert all(held_for(each) == request.metadata.name for each in on), "others may enter"
            assert all(each.status.holds("Ready") for each in on)

    def _pools(self, name: str) -> tuple[set[str], set[str]]:
        held, short = super()._pools(name)
        for request in self._plain(name).current.values():
            if isinstance(request, PlaceholderSet):
                pool = self.pool_of_set[request.metadata.name]
                (held.add if request.bound else held.discard)(pool)
                (short.discard if request.is_bound else short.add)(pool)
        return held, short

    def holds_half(self) -> list[str]:
        waiting = (name for name in self.workloads if self._plain(name).is_provisioning)
        return [name for name in waiting if all(self._pools(name))]

    # The cloud

    def cloud(self) -> None:
        super().cloud()
        taken = set(self._taken())
        for key, held in list(self.nodes.items()):
            if held.metadata.labels[POOL_LABEL] == "l4" and key not in taken:
                del self.nodes[key]
        # The first of each gang, then the second of each: every one of them gets a part.
        for key, waiting in sorted(self.placeholders.items(), key=lambda item: item[0].rpartition("-")[::-1]):
            if waiting.spec.node_name not in self.nodes:
                self._give(key, waiting)

    def _give(self, key: str, waiting: Placeholder) -> None:
        if (free := self._free("", "l4")) is not None:
            self.placeholders[key] = replace(waiting, spec=replace(waiting.spec, node_name=free))

    def _free(self, tolerated: str, pool: str) -> str | None:
        """A node that no pod has, or a new one."""
        taken = set(self._taken())
        for key, held in sorted(self.nodes.items()):
            fits = held.metadata.labels[POOL_LABEL] == pool and held.status.holds("Ready")
            if fits and key not in taken and held_for(held) in ("", tolerated):
                return key
        if self.free(pool) <= 0:
            return None
        key = f"{pool}-{next(self._numbers)}"
        self.nodes[key] = node(key, pool)
        return key

    def _taken(self) -> Iterator[str]:
        yield from (pod.spec.node_name for pod in (*self.pods.values(), *self.placeholders.values()))

    def take_away(self, node: str) -> None:
        """With what is on it, as the cluster's own controllers do it."""
        del self.nodes[node]
        for pods in (self.placeholders, self.pods):
            for key in [key for key, pod in pods.items() if pod.spec.node_name == node]:
                del pods[key]

    def rival(self) -> None:
        if (free := self._free("", "l4")) is not None:
            key = f"rival-{next(self._numbers)}"
            self.pods[key] = Pod(metadata=ObjectMeta(name=key), spec=replace(pod_spec(1), node_name=free))

    # Jobs

    def _bind(
        self, key: str, lease: str, annotations: Mapping[str, str], labels: Mapping[str, str] = NOTHING
    ) -> bool:
        request = annotations.get(PLACED_ANNOTATION)
        if request is None:
            return super()._bind(key, lease, annotations, labels)
        bound = self.pods.get(key)
        if bound is not None and bound.spec.node_name in self.nodes:
            return True
        self.pods.pop(key, None)
        free = self._free(request, self.pool_of_set[request])
        if free is None:
            return False
        meta = ObjectMeta(name=key, namespace="team-a", annotations=dict(annotations), labels=dict(labels))
        self.pods[key] = Pod(metadata=meta, spec=replace(pod_spec(1), node_name=free))
        return True
