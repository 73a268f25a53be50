"""A cluster on paper whose pool l4 gets nodes for pods that wait, and whose pool h100 answers
ProvisioningRequests.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import msgspec

from muster.controller.gangs.identity import promised_by, request_of_template
from muster.controller.gangs.objects import Pod
from muster.controller.gangs.placeholder_sets import ASKED, PlaceholderSet, held_for, sets_of
from muster.controller.kube.resource import ObjectMeta
from muster.controller.kueue.actions import Decision
from muster.controller.kueue.snapshot import WorkloadSnapshot
from muster.model.names import PLACED_ANNOTATION, PLACEHOLDER_CLASS, WORKLOAD_UID_LABEL
from tests.unit.admission.gang_world import NOTHING, POLICY, World, pod_spec
from tests.unit.gangs.paper import flavor_policy
from tests.unit.gangs.placed_paper import PlacedPaper

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
class PlacedWorld(PlacedPaper[Decision], World):
    words: str = ""
    """What the autoscaler says of placeholders without a node."""

    def _plain(self, name: str) -> WorkloadSnapshot:
        plain = super()._plain(name)
        sets = sets_of(
            plain.templates,
            plain.placeholders,
            node=self.judged_node,
            why=lambda waiting: self.words if any(waiting) else "",
        )
        return dataclasses.replace(plain, requests=(*plain.requests, *sets))

    def is_held(self, held_as: str) -> bool:
        """Each gang here has the taint of one set."""
        own = [each for key, each in self.templates.items() if request_of_template(key) == held_as]
        if not own:
            return False
        uid = own[0].metadata.labels[WORKLOAD_UID_LABEL]
        owner = next((each for each in self.workloads.values() if each.metadata.uid == uid), None)
        if owner is None or owner.status.holds("Finished"):
            return False
        placed = sum(promised_by(pod.metadata.annotations) == held_as for pod in self.pods.values())
        wanted = sum(int(each.metadata.annotations[ASKED].split(" ")[0]) for each in own)
        return not owner.status.holds("Admitted") or placed < wanted

    def places(self) -> Iterator[str]:
        return (pod.spec.node_name for pod in self.pods.values())

    def lose_pods(self, node: str) -> None:
        for key in [key for key, pod in self.pods.items() if pod.spec.node_name == node]:
            del self.pods[key]

    # Oracles

    def check_ready(self, name: str) -> None:
        for request in self._plain(name).current.values():
            if not isinstance(request, PlaceholderSet):
                assert request.status.holds("Provisioned"), f"{name} is Ready before all is there"
                continue
            on = [node for pod in request.pods if (node := self.nodes.get(pod.spec.node_name))]
            assert len({each.metadata.name for each in on}) == request.count, f"{name} is Ready in part"
            assert all(held_for(each) == request.held_as for each in on), "others may enter"
            assert all(each.status.holds("Ready") for each in on)
            assert not any(map(self.signs.of, on)), f"{name} starts on a broken node"

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
        free = self.free_node(request, self.pool_of_set[request])
        if free is None:
            return False
        meta = ObjectMeta(name=key, namespace="team-a", annotations=dict(annotations), labels=dict(labels))
        self.pods[key] = Pod(metadata=meta, spec=replace(pod_spec(1), node_name=free))
        return True
