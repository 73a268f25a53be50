"""What holds of every kind of work that a stack may serve beside Ray clusters and Jobs."""

import copy
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from muster.model.work import Work
from tests.unit.check import test_deployment, test_statefulset
from tests.unit.check.stacks import judged, pod, refusals
from tests.unit.check.test_jobset import job_set
from tests.unit.check.test_kubeflow import MPI, PYTORCH, training
from tests.unit.check.test_lws import groups
from tests.unit.check.test_trainjob import train

Json = dict[str, Any]
ALL = [each.value for each in Work]
DOCS = Path(__file__).parents[3] / "docs"


@pytest.mark.parametrize(
    ("body", "word"),
    [
        (job_set(l4=pod(1)), "jobset"),
        (training(PYTORCH), "pytorchjob"),
        (training(MPI), "mpijob"),
        (train(), "trainjob"),
        (groups(), "lws"),
        (test_statefulset.serving(), "statefulset"),
        (test_deployment.serving(), "deployment"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_a_stack_that_serves_none_names_the_key_that_would(body: Json, word: str) -> None:
    assert f"ask the platform team for `muster:work: [ray, job, {word}]`" in refusals(judged(body))


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (training(PYTORCH, workers=100_000), "replicas in spec.pytorchReplicaSpecs"),
        (training(MPI, workers=100_000), "replicas in spec.mpiReplicaSpecs"),
        (train(nodes=100_000, amounts=None), "numNodes in spec"),
        (groups(size=100, replicas=1000), "size and replicas in spec"),
        (test_statefulset.serving(replicas=100_000), "replicas in spec"),
        (test_deployment.serving(replicas=100_000), "replicas in spec"),
    ],
)
def test_more_pods_than_the_namespace_holds_are_refused(body: Json, field: str) -> None:
    assert f"lower {field}" in refusals(judged(body, work=ALL))


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (train(), "trainer"),
        (groups(), "leaderWorkerTemplate"),
        (test_statefulset.serving(), "podManagementPolicy"),
    ],
)
def test_a_field_that_it_does_not_have_is_named_with_the_nearest(body: Json, field: str) -> None:
    misspelt = copy.deepcopy(body)
    misspelt["spec"][f"{field}s"] = misspelt["spec"].pop(field)
    assert f"write {field}" in refusals(judged(misspelt, work=ALL))


@pytest.mark.parametrize(
    ("page", "start", "pods"),
    [
        ("submission", "apiVersion: trainer.kubeflow", {"node": 2}),
        ("submission", "apiVersion: leaderworkerset", {"worker": 3}),
        ("submit", "apiVersion: apps/v1\nkind: StatefulSet", {"main": 1}),
        ("submit", "apiVersion: apps/v1\nkind: Deployment", {"main": 1}),
    ],
)
def test_the_examples_of_the_documentation_are_admitted(page: str, start: str, pods: dict[str, int]) -> None:
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    (example,) = re.findall(rf"```yaml\n({start}.*?)```", text, re.S)
    found = judged(yaml.safe_load(example), work=ALL)
    assert found.answer.is_admitted, refusals(found)
    assert {each.name: each.pods for each in found.demands} == pods
    # A TrainJob's pods are its runtime's.
    assert ("spec.template.spec.tolerations" in dict(found.answer.filled)) is (page == "submit")
