"""Gangs on TPUs: whole slices, with the toleration of their nodes, within what the queue has."""

from dataclasses import replace as changed
from fractions import Fraction
from typing import Any

import msgspec
import pytest

from muster.controller.gangs.limits import subject_of, unsatisfiable_reason
from muster.controller.gangs.objects import (
    Container,
    PodSpec,
    PodTemplateSpec,
    ResourceNeeds,
    Taint,
    Toleration,
)
from muster.controller.gangs.split import Gang
from muster.controller.gangs.usage import used_by
from muster.controller.gangs.verify import PodDemand, verify
from muster.controller.kueue.objects import Admission, PodSetAssignment, Workload
from muster.controller.kueue.podsets import gang
from muster.controller.runtime.review import Allow
from muster.model.names import GPU_RESOURCE
from muster.render.gang import gang_policy
from tests.unit.admission.gang_world import workload
from tests.unit.admission.test_fits import described, ray, refusal, review
from tests.unit.gangs.paper import node
from tests.unit.model.test_tpus import tpu_stack

replace = msgspec.structs.replace
Json = dict[str, Any]
_TOLERATED: Json = {"key": "google.com/tpu", "operator": "Exists"}


def _pod(chips: int = 4, *, tolerations: tuple[Json, ...] = (_TOLERATED,), topology: str = "4x4") -> Json:
    container = {"name": "c", "resources": {"limits": {"google.com/tpu": str(chips), "cpu": "8"}}}
    selector = {"cloud.google.com/gke-tpu-topology": topology, "muster.dev/pool": "slice"}
    return {"spec": {"containers": [container], "nodeSelector": selector, "tolerations": list(tolerations)}}


def _gang(replicas: int, template: Json, *, hosts: int = 4) -> Json:
    spec = ray((replicas, template))
    spec["workerGroupSpecs"][0]["numOfHosts"] = hosts
    return spec


@pytest.mark.parametrize("kind", ["rayjob", "raycluster", "rayservice"])
def test_a_whole_slice_is_a_gang(kind: str) -> None:
    assert review(kind, described(kind, _gang(1, _pod())), tpu_stack()) == Allow()
    assert review(kind, described(kind, _gang(4, _pod(), hosts=1)), tpu_stack()) == Allow()


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (
            _gang(2, _pod(), hosts=1),
            ["uses part of a TPU slice", "slice: 4 pods of 4 chips", "numOfHosts"],
        ),
        (_gang(4, _pod(2), hosts=1), ["uses part of a TPU slice"]),
        (_gang(2, _pod()), ["32 TPU chips", "16 TPU chips"]),
        (_gang(1, _pod(8)), ["asks for 8 TPU chips", "slice: 4"]),
    ],
    ids=["a part of a slice", "a part of a node", "more than the pool has", "more than a node has"],
)
def test_what_slices_cannot_serve_is_refused_with_their_size(spec: Json, words: list[str]) -> None:
    message = refusal(review("raycluster", spec, tpu_stack()))
    assert [each for each in words if each not in message] == []


def test_a_pod_without_the_toleration_is_told_to_add_it() -> None:
    gpu_alone: Json = {"key": "nvidia.com/gpu", "operator": "Exists"}
    for tolerations in ((), (gpu_alone,)):
        message = refusal(review("raycluster", _gang(1, _pod(tolerations=tolerations)), tpu_stack()))
        assert "{key: google.com/tpu, operator: Exists}" in message


def test_a_gpu_pod_is_not_sent_to_tpus() -> None:
    container = {"name": "c", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    tolerations = [_TOLERATED, {"key": "nvidia.com/gpu", "operator": "Exists"}]
    template = {"spec": {"containers": [container], "tolerations": tolerations}}
    assert review("raycluster", ray((2, template)), tpu_stack()) == Allow()
    message = refusal(review("raycluster", ray((3, template)), tpu_stack()))
    assert "asks for 3 GPUs" in message


def _held(pods: int, *, chips: int = 4) -> Workload:
    requests: dict[str, str | int | float] = {"google.com/tpu": str(chips)}
    spec = PodSpec(containers=(Container(resources=ResourceNeeds(requests=requests)),))
    held = workload("a", {"x": ("slice", pods)})
    pod_set = replace(held.spec.pod_sets[0], template=PodTemplateSpec(spec=spec))
    assigned = PodSetAssignment(name="x", count=pods, flavors={"google.com/tpu": "slice"})
    return replace(
        held,
        spec=replace(held.spec, pod_sets=(pod_set,)),
        status=replace(
            held.status, admission=Admission(cluster_queue="team-a", pod_set_assignments=(assigned,))
        ),
    )


def _gang_of(pods: int, *, chips: int = 4, nodes: int = 4) -> Gang:
    """`nodes`: of a slice."""
    policy = gang_policy(tpu_stack())
    flavors = tuple(changed(each, slice_nodes=nodes) for each in policy.flavors)
    return gang(_held(pods, chips=chips), changed(policy, flavors=flavors), {})


def test_chips_are_requested_as_gpus_are() -> None:
    (spec,) = _gang_of(4).request_specs
    assert spec.flavor.provisioning_class_name == "queued-provisioning.gke.io"
    (demand,) = spec.demands
    assert (demand.count, demand.managed, demand.shares_nodes) == (4, True, False)
    assert unsatisfiable_reason(_gang_of(4)) is None


def test_a_gang_that_takes_a_part_of_a_slice_is_refused_once_it_has_quota() -> None:
    """Where the webhooks were not asked."""
    assert "uses part of a TPU slice" in (unsatisfiable_reason(_gang_of(3)) or "")
    assert "uses part of a TPU slice" in (unsatisfiable_reason(_gang_of(4, chips=2)) or "")
    assert "uses part of a TPU slice" in (unsatisfiable_reason(_gang_of(3, nodes=2)) or "")
    assert "more than any node has" in (unsatisfiable_reason(_gang_of(4, chips=8)) or "")


def test_a_refusal_of_an_earlier_release_ends_when_its_pool_changes() -> None:
    policy = gang_policy(tpu_stack())
    on_hosts, in_pairs, in_fours = (subject_of(_gang_of(4, nodes=nodes), policy) for nodes in (1, 2, 4))
    assert on_hosts == "ce1d6cff6bfa5dc0a5b53749", "as all releases have it, where no pool has slices"
    assert len({on_hosts, in_pairs, in_fours}) == 3


@pytest.mark.parametrize("device", ["google.com/tpu", GPU_RESOURCE])
@pytest.mark.parametrize(("count", "shares"), [(0, False), (1, True), (2, True), (3, False), (4, False)])
def test_nodes_are_counted_as_pods_where_two_of_them_fit_on_one(
    device: str, count: int, shares: bool
) -> None:
    (demand,) = _gang_of(4).request_specs[0].demands
    needs = changed(demand.needs, amounts={device: Fraction(count)})
    flavor = changed(demand.flavor, gpus_per_node=4)
    assert changed(demand, needs=needs, flavor=flavor).shares_nodes is shares


@pytest.mark.parametrize(("advertised", "room"), [("4", 4), ("0", 0), (None, 0)])
def test_nodes_are_there_when_they_advertise_their_chips(advertised: str | None, room: int) -> None:
    """A node that is Ready and whose TPU is not there yet holds no pod of the gang."""
    (demand,) = _gang_of(4).request_specs[0].demands
    nodes = []
    for number in range(4):
        bare = node(f"n{number}", "slice", taints=(Taint(key="google.com/tpu", effect="NoSchedule"),))
        chips = {} if advertised is None else {"google.com/tpu": advertised}
        nodes.append(replace(bare, status=replace(bare.status, allocatable=bare.status.allocatable | chips)))
    tolerating = changed(demand.needs, tolerations=(Toleration(key="google.com/tpu", operator="Exists"),))
    wanted = PodDemand(name="x", pool="slice", count=4, needs=tolerating)
    (found,) = verify([wanted], nodes=nodes, used=used_by([]), claims=[])
    assert found.placed == room
