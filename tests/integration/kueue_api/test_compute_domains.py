"""A gang that claims a channel gets a ComputeDomain of its own, before Kueue can count what it claims."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Final

import pytest

from muster.config import load
from muster.model import names
from muster.model.kueue import UNCOUNTED
from muster.model.names import compute_domain_template
from tests.integration.kueue_api.conftest import world_of
from tests.integration.kueue_api.objects import apply
from tests.integration.kueue_api.world import JOBS, STACK, TEAM, World, owners, pod
from tests.waiting import eventually

DOMAINS: Final = f"/apis/resource.nvidia.com/v1beta1/namespaces/{TEAM}/computedomains"


@pytest.fixture(scope="module")
def rack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A stack whose Kueue admits channels without quota, and our manager as that stack runs it."""
    stack = load(STACK)
    classes = {names.CHANNEL_DEVICE_CLASS: UNCOUNTED}
    stack = replace(stack, kueue=replace(stack.kueue, device_classes=classes))
    with world_of(stack, tmp_path_factory.mktemp("rack")) as made:
        made.begin()
        with made.manager("--compute-domains"):
            yield made


def submit(world: World, name: str, claimed: str) -> None:
    """A Job of one pod with a GPU and a channel."""
    spec: dict[str, Any] = {"restartPolicy": "Never", **pod("l4")}
    spec["resourceClaims"] = [{"name": "imex", "resourceClaimTemplateName": claimed}]
    spec["containers"][0]["resources"]["claims"] = [{"name": "imex"}]
    meta = {"name": name, "namespace": TEAM, "labels": {names.QUEUE_LABEL: "default"}}
    job = {"suspend": True, "template": {"spec": spec}}
    apply(world.plane, {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": job})


def domains(world: World, job: str) -> list[dict[str, Any]]:
    return [each for each in world.items(DOMAINS) if job in owners(each)]


def serve(world: World, domain: dict[str, Any]) -> None:
    """What NVIDIA's driver does with a domain: the template of its channels."""
    exactly = {"deviceClassName": names.CHANNEL_DEVICE_CLASS}
    channel = domain["spec"]["channel"]
    meta = {"name": channel["resourceClaimTemplate"]["name"], "namespace": TEAM}
    spec = {"spec": {"devices": {"requests": [{"name": "channel", "exactly": exactly}]}}}
    kind = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate"}
    apply(world.plane, {**kind, "metadata": meta, "spec": spec})


def test_a_gang_gets_its_domain_then_its_nodes_and_the_domain_goes_with_the_job(rack: World) -> None:
    submit(rack, "nccl", compute_domain_template("nccl"))
    (domain,) = eventually("the domain is made", lambda: domains(rack, "nccl"))
    assert domain["spec"]["channel"]["allocationMode"] == "Single"
    serve(rack, domain)
    rack.provision(eventually("the gang has asked for nodes", lambda: rack.asked("nccl"))[0])
    rack.wait_until_runs("nccl")
    rack.delete(f"{JOBS}/nccl")
    eventually("the domain is gone", lambda: not domains(rack, "nccl"))


def test_each_gang_has_its_own_domain_and_one_that_is_deleted_is_made_again(rack: World) -> None:
    for job in ("left", "right"):
        submit(rack, job, compute_domain_template(job))
    (left,), (right,) = (
        eventually(f"{job} has its domain", partial(domains, rack, job)) for job in ("left", "right")
    )
    assert left["metadata"]["uid"] != right["metadata"]["uid"]
    rack.delete(f"{DOMAINS}/{left['metadata']['name']}")

    def is_another() -> bool:
        return any(each["metadata"]["uid"] != left["metadata"]["uid"] for each in domains(rack, "left"))

    eventually("another is made", is_another)


def test_a_claim_of_another_template_makes_no_domain(rack: World) -> None:
    submit(rack, "guest", compute_domain_template("host"))
    submit(rack, "host", compute_domain_template("host"))
    eventually("the host has its domain", lambda: domains(rack, "host"))
    assert not domains(rack, "guest")
