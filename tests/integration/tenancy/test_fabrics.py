"""A job of several nodes that goes without their fast network is accepted with a warning that says so."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from muster.config import load
from muster.model.tenancy import TenancyMode
from muster.render.tenancy.policies.pods import FABRIC, fabrics
from tests.integration.tenancy import works
from tests.integration.tenancy.cluster import Object, allowed, apply
from tests.integration.tenancy.conftest import World
from tests.integration.tenancy.works import cluster_spec, owner, template
from tests.waiting import eventually

_STACK = Path(__file__).parents[3] / "stacks" / "Pulumi.eks-prod.yaml"
_POOL = "muster.dev/pool"
_EFA = "vpc.amazonaws.com/efa"


@pytest.fixture(scope="module")
def warned(world: World) -> Iterator[World]:
    """With the policy of `eks-prod`, whose pool h100 has EFA, beside those of stack `local`."""
    policy = fabrics(load(_STACK))
    assert policy is not None
    manifests = policy.manifests(TenancyMode.WARN)
    apply(world.server, manifests)
    eventually("it is in force", lambda: bool(world.member.create(_ray_job(2)).warnings))
    yield world
    for kind in ("validatingadmissionpolicybindings", "validatingadmissionpolicies"):
        world.server.call("DELETE", f"/apis/admissionregistration.k8s.io/v1/{kind}/{FABRIC}")


def _template(gpus: int, *, efa: int = 0, pool: str = "") -> Object:
    body = template(gpus)
    if efa:
        (container,) = body["spec"]["containers"]
        container["resources"]["limits"][_EFA] = container["resources"]["requests"][_EFA] = str(efa)
    if pool:
        body["spec"]["nodeSelector"] = {_POOL: pool}
    return body


def _ray_job(workers: int, gpus: int = 8, *, efa: int = 0, pool: str = "", hosts: int = 1) -> Object:
    spec = cluster_spec(workers=workers)
    (group,) = spec["workerGroupSpecs"]
    group |= {"template": _template(gpus, efa=efa, pool=pool), "numOfHosts": hosts}
    return works.ray_job(rayClusterSpec=spec)


def _batch_job(parallelism: int) -> Object:
    made = _template(8)
    made["spec"]["restartPolicy"] = "Never"
    body = works.ray_job()
    spec = {"parallelism": parallelism, "suspend": True, "template": made}
    return body | {"apiVersion": "batch/v1", "kind": "Job", "spec": spec}


SLOW = {
    "two nodes": _ray_job(2),
    "one worker of two hosts": _ray_job(1, hosts=2),
    "more pods than one node has GPUs for": _ray_job(9, 1, pool="h100"),
    "a batch Job": _batch_job(2),
}
FINE = {
    "one node": _ray_job(1),
    "all pods on one node": _ray_job(8, 1, pool="h100"),
    "the network is requested": _ray_job(2, efa=32),
    "a pool without such a network is named": _ray_job(2, 1, pool="l4"),
    "a pool without such a network has room": _ray_job(9, 1),
    "a batch Job of one pod": _batch_job(1),
}


@pytest.mark.parametrize("name", SLOW)
def test_a_job_without_the_fast_network_of_its_nodes_is_accepted_with_a_warning(
    warned: World, name: str
) -> None:
    answer = allowed(warned.member.create(SLOW[name]))
    (warning,) = answer.warnings
    for words in (FABRIC, "on pool h100", f"request no {_EFA}", "can request 32"):
        assert words in warning


@pytest.mark.parametrize("name", FINE)
def test_a_job_that_loses_nothing_is_not_warned_of(warned: World, name: str) -> None:
    answer = allowed(warned.member.create(FINE[name]))
    assert answer.warnings == ()


def test_the_cluster_that_kuberay_makes_is_not_warned_of_again(warned: World) -> None:
    made = works.ray_cluster(**_ray_job(2)["spec"]["rayClusterSpec"])
    made["metadata"]["ownerReferences"] = [owner("RayJob", "ray.io/v1", "train")]
    answer = allowed(warned.controllers["kuberay"].create(made))
    assert answer.warnings == ()


def test_a_stack_without_such_a_network_has_no_such_policy() -> None:
    stack = load(_STACK)
    plain = tuple(pool for pool in stack.pools if not pool.efa)
    assert fabrics(replace(stack, pools=plain)) is None
