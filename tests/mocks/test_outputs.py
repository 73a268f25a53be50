"""The declared outputs against what the program exports: others build on these names."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pulumi
import pytest

from muster.artifacts import resolved
from muster.components.program import make
from muster.config import load
from muster.model.clusters import ExistingCluster, Provider
from release.reference import outputs
from tests.mocks import shipped
from tests.mocks.recorder import run

ROOT = Path(__file__).parents[2]
STACKS = {Provider.GKE: "gke-prod", Provider.EKS: "eks-prod", Provider.EXISTING: "gke-prod"}


@pytest.fixture
def kubeconfig(tmp_path: Path) -> str:
    """A cluster that stands is reached as somebody reaches it already."""
    return str(shipped.kubeconfig(tmp_path))


def exported(provider: Provider, kubeconfig: str) -> Mapping[str, Any]:
    stack = shipped.shipped(STACKS[provider])
    if provider is Provider.EXISTING:
        stack = replace(stack, cluster=ExistingCluster(name="x", context="muster", kubeconfig=kubeconfig))
    found: dict[str, Any] = {}
    artifacts = resolved.resolve_artifacts(stack, name=STACKS[provider])
    run(lambda: found.update(make(stack, artifacts=artifacts, source=ROOT / "stacks" / "none.yaml")))
    return found


@pytest.mark.parametrize("provider", STACKS)
def test_the_program_exports_what_is_declared(provider: Provider, kubeconfig: str) -> None:
    found = exported(provider, kubeconfig)
    made_here = {} if provider is Provider.EXISTING else outputs.MADE_CLUSTER
    assert found.keys() == outputs.STACK.keys() | made_here.keys()
    fields = outputs.CLUSTER[provider]
    assert found["cluster"].keys() == fields.keys()
    for name, value in found["cluster"].items():
        assert _is_secret(value) == fields[name].is_secret, name


@pytest.mark.parametrize("provider", STACKS)
def test_a_job_finds_its_namespace_queue_labels_and_priorities(provider: Provider, kubeconfig: str) -> None:
    teams = asyncio.run(exported(provider, kubeconfig)["teams"].future())
    stack = load(ROOT / "stacks" / f"Pulumi.{STACKS[provider]}.yaml")
    assert teams.keys() == {team.name for _, team in stack.teams()}
    for team in teams.values():
        assert team.keys() == outputs.TEAM.keys()
        assert [queue["labels"] for queue in team["queues"]] == [
            {"kueue.x-k8s.io/queue-name": queue["name"]} for queue in team["queues"]
        ]


@pytest.mark.parametrize(
    ("provider", "command"),
    [
        (Provider.GKE, "gcloud container clusters get-credentials "),
        (Provider.EKS, "aws eks update-kubeconfig --name "),
        (Provider.EXISTING, "kubectl config use-context muster"),
    ],
)
def test_an_output_gives_the_command_for_a_kubeconfig(
    provider: Provider, command: str, kubeconfig: str
) -> None:
    found = exported(provider, kubeconfig)["cluster"]["kubeconfigCommand"]
    assert asyncio.run(found.future()).startswith(command)


def _is_secret(value: Any) -> bool:
    """The run is over, so nothing is waited for."""
    return isinstance(value, pulumi.Output) and asyncio.run(value.is_secret())


def test_pools_are_told_by_the_names_that_the_stack_gives_them(kubeconfig: str) -> None:
    stack = load(ROOT / "stacks" / "Pulumi.eks-prod.yaml")
    pools = exported(Provider.EKS, kubeconfig)["cluster"]["pools"]
    assert pools.keys() == {pool.name for pool in stack.pools}
