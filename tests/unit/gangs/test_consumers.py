"""PodSets of different sizes that share one request: whose pod lost its node, and whose room is kept."""

from collections.abc import Iterable

import msgspec
import pytest

from muster.controller.gangs.capacity_claims import PodClaim, unused_claims
from muster.controller.gangs.demand import Demand, PodNeeds, pod_amounts
from muster.controller.gangs.missing import Claims, is_settled, missing
from muster.controller.gangs.objects import (
    Condition,
    Container,
    Node,
    Pod,
    PodSpec,
    ProvisioningRequest,
    ProvisioningRequestStatus,
    ResourceNeeds,
)
from muster.controller.gangs.split import Gang, split
from muster.controller.gangs.usage import used_by
from muster.controller.kube.resource import ObjectMeta
from muster.model.gangpolicy import FlavorPolicy
from muster.model.names import CONSUME_ANNOTATION, GPU_RESOURCE, POD_SET_LABEL, POOL_LABEL
from tests.unit.gangs.paper import flavor_policy, node

REQUEST = "a-request"
GPUS = {"large": 8, "small": 1}
COUNTS = {"large": 1, "small": 2}

replace = msgspec.structs.replace


def shared_flavor() -> FlavorPolicy:
    return flavor_policy(
        "h100",
        100,
        provisioning_class_name="check-capacity.autoscaling.x-k8s.io",
        node_selector_from_details=(),
        one_pod_set_per_request=False,
        gpus_per_node=8,
    )


def spec(gpus: int, on: str = "") -> PodSpec:
    needs = ResourceNeeds(requests={"cpu": "1", GPU_RESOURCE: gpus})
    return PodSpec(node_name=on, containers=(Container(resources=needs),))


def demand(pod_set: str) -> Demand:
    needs = PodNeeds(
        amounts=pod_amounts(spec(GPUS[pod_set])), node_selector={POOL_LABEL: "h100"}, tolerations=()
    )
    return Demand(pod_set=pod_set, count=COUNTS[pod_set], needs=needs, flavor=shared_flavor(), managed=True)


def gang() -> Gang:
    made = split([demand("large"), demand("small")], annotations={})
    assert len(made.request_specs) == 1, "both PodSets share one request"
    return made


def claims() -> Claims:
    return {
        name: (PodClaim(pod_set=name, annotations={CONSUME_ANNOTATION: REQUEST}, node_selector={}),)
        for name in GPUS
    }


def big(name: str) -> Node:
    made = node(name, "h100", cpus=64, taints=())
    return replace(
        made, status=replace(made.status, allocatable={**made.status.allocatable, GPU_RESOURCE: 8})
    )


def pod(name: str, pod_set: str, on: str, *, label: str | None = None) -> Pod:
    labels = {POD_SET_LABEL: pod_set if label is None else label}
    meta = ObjectMeta(name=name, annotations={CONSUME_ANNOTATION: REQUEST}, labels=labels)
    return Pod(metadata=meta, spec=spec(GPUS[pod_set], on))


def smalls(*, label: str | None = None) -> tuple[Pod, ...]:
    return tuple(pod(f"small-{number}", "small", "n1", label=label) for number in range(2))


def short(pods: Iterable[Pod], nodes: Iterable[Node]) -> list[tuple[str, int]]:
    own = tuple(pods)
    rooms = missing(gang(), claims(), nodes=tuple(nodes), pods=own, used=used_by(own), ended={})
    return [(room.demand.name, room.demand.count) for room in rooms]


def test_small_pods_that_stand_do_not_pass_for_a_large_one_that_lost_its_node() -> None:
    nodes = (big("n1"),)  # Six of its GPUs are free: room for small ones, and none for the large one.
    assert not is_settled(gang(), claims(), nodes=nodes, pods=smalls(), ended={})
    assert short(smalls(), nodes) == [("large", 1)]


def test_a_large_pod_that_finds_a_node_again_misses_nothing() -> None:
    assert short(smalls(), (big("n1"), big("n2"))) == []


def test_more_small_pods_than_are_needed_do_not_make_up_for_a_large_one() -> None:
    """One that ends and the one that takes its place, for a moment."""
    pods = (*smalls(), pod("small-2", "small", "n1"))
    assert short(pods, (big("n1"),)) == [("large", 1)]


@pytest.mark.parametrize("label", ["", "renamed"])
def test_pods_without_a_pod_set_of_the_gang_count_for_the_first_that_asks(label: str) -> None:
    whole = (*smalls(label=label), pod("large", "large", "n2", label=label))
    assert is_settled(gang(), claims(), nodes=(big("n1"), big("n2")), pods=whole, ended={})


def test_the_room_of_a_large_pod_is_kept_while_small_ones_start_before_it() -> None:
    status = ProvisioningRequestStatus(conditions=(Condition(type="Provisioned", status="True"),))
    request = ProvisioningRequest(metadata=ObjectMeta(name=REQUEST), status=status)
    (spec,) = gang().request_specs
    kept = unused_claims(gang(), {spec.shape: request}, smalls(), ended={})
    assert [(each.name, each.count) for each in kept] == [("large", 1)]
