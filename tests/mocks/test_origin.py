"""Whatever is bought in a cloud says the line of the stack file that asked for it, and nothing else does."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from muster.components.context import path_of, place
from muster.config import load
from muster.config.document import Document
from muster.model.stack import Stack

ROOT = Path(__file__).parents[2]
GKE_CLUSTER, GKE_POOL = "gcp:container/cluster:Cluster", "gcp:container/nodePool:NodePool"
EKS_CLUSTER, EKS_POOL = "aws:eks/cluster:Cluster", "aws:eks/nodeGroup:NodeGroup"
EKS_TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
CLUSTER_TYPES = {"gke-prod": (GKE_CLUSTER,), "eks-prod": (EKS_CLUSTER,)}
POOL_TYPES = {"gke-prod": (GKE_POOL,), "eks-prod": (EKS_POOL, EKS_TEMPLATE)}


def stack(name: str) -> Stack:
    return load(ROOT / "stacks" / f"Pulumi.{name}.yaml")


@pytest.mark.parametrize("name", POOL_TYPES)
def test_each_pool_is_told_by_its_own_path(name: str) -> None:
    here = stack(name)
    assert here.pools
    for type_ in POOL_TYPES[name]:
        for pool in here.pools:
            made = f"{here.cluster.name}-{pool.name}"
            assert path_of(here, type_=type_, name=made) == f"muster:pools.{pool.name}"


def test_the_group_of_a_zone_is_told_by_its_pool() -> None:
    here = stack("eks-prod")
    named = f"{here.cluster.name}-l4-us-east-1b"
    assert path_of(here, type_=EKS_POOL, name=named) == "muster:pools.l4"


@pytest.mark.parametrize("name", POOL_TYPES)
def test_the_cluster_and_its_system_pool_are_told_by_the_cluster(name: str) -> None:
    here = stack(name)
    for type_ in CLUSTER_TYPES[name]:
        assert path_of(here, type_=type_, name=here.cluster.name) == "muster:cluster"
    for type_ in POOL_TYPES[name]:
        assert path_of(here, type_=type_, name=f"{here.cluster.name}-system") == "muster:cluster"


def test_what_costs_nothing_is_not_told() -> None:
    assert path_of(stack("gke-prod"), type_="gcp:compute/network:Network", name="ml-prod") is None


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ({"muster:pools.h100": 14, "muster:pools": 9}, "x.yaml:14: muster:pools.h100"),
        ({"muster:pools": 9}, "x.yaml:9: muster:pools.h100"),
        # From the engine's own settings: in no file.
        ({}, "x.yaml: muster:pools.h100"),
    ],
)
def test_the_line_is_the_nearest_that_the_file_has(lines: Mapping[str, int], told: str) -> None:
    assert place("muster:pools.h100", Document("x.yaml", lines=lines)) == told
