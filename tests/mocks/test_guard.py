"""The guard depends on everything, so that a protected stack's destroy stops at its first step."""

import re
from dataclasses import replace
from pathlib import Path

import pulumi
import pytest

from muster.components.program import deletion_guard
from muster.config import load
from muster.model.clusters import Cluster, ExistingCluster
from tests.mocks.recorder import Program, run

ROOT = Path(__file__).parents[2]
GUARD = "muster:index:Guard"


class Thing(pulumi.ComponentResource):
    """A component with one part, which is what the engine is told to wait for."""

    def __init__(self, name: str) -> None:
        super().__init__("test:index:Thing", name)
        pulumi.CustomResource("test:index:Part", name, {}, pulumi.ResourceOptions(parent=self))
        self.register_outputs({})


def guarded(cluster: Cluster) -> Program:
    return run(lambda: deletion_guard(cluster, Thing("platform"), None, Thing("repository")))


@pytest.mark.parametrize("name", ["gke-prod", "eks-prod"])
@pytest.mark.parametrize("protect", [True, False])
def test_it_is_protected_as_the_stack_says_and_goes_before_all_else(name: str, protect: bool) -> None:
    cluster = load(ROOT / "stacks" / f"Pulumi.{name}.yaml").cluster
    assert not isinstance(cluster, ExistingCluster)
    program = guarded(replace(cluster, protect=protect))
    (made,) = program.of(GUARD)
    assert made.protect is protect
    parts = program.of("test:index:Part")
    assert len(parts) == 2
    assert all(program.comes_after(made, part) for part in parts)


def test_its_name_is_the_step_that_undoes_it() -> None:
    """The engine prints the name when it refuses; the setting has to be one that the config knows."""
    (made,) = guarded(load(ROOT / "stacks" / "Pulumi.gke-prod.yaml").cluster).of(GUARD)
    path = re.search(r"set muster:(\w+)\.(\w+) to false and run pulumi up", made.name)
    assert path is not None
    assert path[1] == "cluster"
    assert hasattr(load(ROOT / "stacks" / "Pulumi.gke-prod.yaml").cluster, path[2])


def test_nothing_in_somebody_elses_cluster_is_protected() -> None:
    assert guarded(ExistingCluster(name="x")).of(GUARD) == []
