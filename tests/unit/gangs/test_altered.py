"""What webhooks of the cluster make of our requests: additions are theirs, changes end the attempt."""

import dataclasses
from collections.abc import Mapping

import msgspec
import pytest

from muster.controller.gangs.altered import alterations
from muster.controller.gangs.objects import Placeholder, ProvisioningRequest
from muster.controller.gangs.templates import PARAMETERS
from muster.model.gangpolicy import GangPolicy
from muster.model.names import GPU_RESOURCE, POOL_LABEL
from tests.unit.admission.gang_world import PLAIN, POLICY, World
from tests.unit.gangs.paper import flavor_policy

SENT = msgspec.convert(
    {
        "metadata": {"labels": {"muster.dev/attempt": "a"}, "annotations": {"muster.dev/workload": "w"}},
        "spec": {
            "provisioningClassName": "queued-provisioning.gke.io",
            "parameters": {"maxRunDurationSeconds": "3600"},
            "podSets": [{"podTemplateRef": {"name": "t"}, "count": 2}],
        },
    },
    ProvisioningRequest,
)
replace = msgspec.structs.replace


def test_what_a_webhook_adds_is_no_alteration() -> None:
    meta = replace(
        SENT.metadata,
        labels={**SENT.metadata.labels, "team": "x"},
        annotations={**SENT.metadata.annotations, "seen": "y"},
    )
    spec = replace(SENT.spec, parameters={**SENT.spec.parameters, "zone": "b"})
    assert alterations(SENT, replace(SENT, metadata=meta, spec=spec)) == []


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (
            replace(SENT, spec=replace(SENT.spec, provisioning_class_name="other")),
            "spec.provisioningClassName is other instead of queued-provisioning.gke.io",
        ),
        (
            replace(SENT, spec=replace(SENT.spec, parameters={"maxRunDurationSeconds": "60"})),
            "spec.parameters.maxRunDurationSeconds is 60 instead of 3600",
        ),
        (
            replace(SENT, spec=replace(SENT.spec, parameters={})),
            "spec.parameters.maxRunDurationSeconds is missing instead of 3600",
        ),
        (replace(SENT, spec=replace(SENT.spec, pod_sets=())), "spec.podSets are others"),
        (
            replace(SENT, metadata=replace(SENT.metadata, labels={})),
            "metadata.labels.muster.dev/attempt is missing instead of a",
        ),
        (
            replace(SENT, metadata=replace(SENT.metadata, annotations={"muster.dev/workload": ""})),
            "metadata.annotations.muster.dev/workload is empty instead of w",
        ),
    ],
)
def test_each_alteration_names_the_field_and_both_values(made: ProvisioningRequest, words: str) -> None:
    assert alterations(SENT, made) == [words]


def placeholder(pool: str = "l4", **requests: str) -> Placeholder:
    needs = {name.replace("gpu", GPU_RESOURCE): amount for name, amount in requests.items()}
    spec = {"nodeSelector": {POOL_LABEL: pool}, "containers": [{"resources": {"requests": needs}}]}
    return msgspec.convert({"metadata": {}, "spec": spec}, Placeholder)


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (placeholder(cpu="4000m", gpu="8", memory="1Gi"), []),
        (placeholder(cpu="500m", gpu="8"), ["its request of cpu is 500m instead of 4"]),
        (placeholder(cpu="5"), [f"its request of {GPU_RESOURCE} is missing instead of 8"]),
        (placeholder("h100", cpu="4", gpu="8"), [f"spec.nodeSelector.{POOL_LABEL} is h100 instead of l4"]),
    ],
)
def test_a_placeholder_keeps_what_it_asks_for_where_it_asks_for_it(
    made: Placeholder, words: list[str]
) -> None:
    assert alterations(placeholder(cpu="4", gpu="8"), made) == words


def in_zones(*zones: str, **further: str) -> Placeholder:
    """One that may stand in each of these zones, where `further` holds as well."""
    terms = [
        {"matchExpressions": [{"key": key, "operator": "In", "values": [value]} for key, value in rules]}
        for rules in ((("zone", zone), *further.items()) for zone in zones)
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    spec = {"containers": [], "affinity": {"nodeAffinity": required}} if zones else {"containers": []}
    return msgspec.convert({"metadata": {}, "spec": spec}, Placeholder)


@pytest.mark.parametrize(
    ("made", "is_other"),
    [
        (in_zones("a"), False),
        (in_zones("a", "b", arch="arm64"), False),
        (in_zones("a", "c"), True),
        (in_zones(), True),
    ],
)
def test_a_placeholder_stands_on_no_node_that_its_affinity_did_not_allow(
    made: Placeholder, is_other: bool
) -> None:
    words = ["the required terms of spec.affinity.nodeAffinity are others"]
    assert alterations(in_zones("a", "b"), made) == (words if is_other else [])
    assert alterations(in_zones(), made) == []


def with_parameters(**values: str) -> GangPolicy:
    return dataclasses.replace(POLICY, flavors=(flavor_policy("l4", 10, parameters=values),))


def add_parameter(world: World, **added: str) -> None:
    (name,) = world.requests
    request = world.requests[name]
    spec = replace(request.spec, parameters={**request.spec.parameters, **added})
    world.requests[name] = replace(request, spec=spec)


def asked(world: World) -> str:
    """The uid of a gang's request, to which a webhook has added a parameter."""
    world.begin("a", PLAIN)
    add_parameter(world, zone="b")
    world.settle()
    (name,) = world.requests
    return world.requests[name].metadata.uid


def test_a_request_with_a_parameter_of_a_webhook_is_kept() -> None:
    world = World(policy=with_parameters(duration="1"))
    uid = asked(world)
    world.ticks(6)
    assert "a" in world.started
    assert [request.metadata.uid for request in world.requests.values()] == [uid]


@pytest.mark.parametrize("after", [{}, {"duration": "2"}, {"duration": "1", "zone": "c"}])
def test_a_request_with_a_parameter_of_a_webhook_is_replaced_when_the_policy_changes(
    after: Mapping[str, str],
) -> None:
    world = World(policy=with_parameters(duration="1"))
    uid = asked(world)
    world.policy = with_parameters(**after)
    world.settle()
    (request,) = world.requests.values()
    assert request.metadata.uid != uid
    assert request.spec.parameters == after


def test_a_request_of_a_build_that_noted_no_parameters_is_kept_as_it_is() -> None:
    world = World(policy=with_parameters(duration="1"))
    world.begin("a", PLAIN)
    (name,) = world.requests
    request = world.requests[name]
    notes = {key: value for key, value in request.metadata.annotations.items() if key != PARAMETERS}
    world.requests[name] = replace(request, metadata=replace(request.metadata, annotations=notes))
    world.settle()
    assert world.requests[name].metadata.uid == request.metadata.uid
