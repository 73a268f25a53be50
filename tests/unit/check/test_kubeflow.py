"""PyTorchJobs and MPIJobs are judged by their replicas: counted, filled in, refused with the field named."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.unit.check.stacks import fitting, judged, pod, refusals

Json = dict[str, Any]
SERVED: Final = ["ray", "job", "pytorchjob", "mpijob"]
PYTORCH: Final = ("kubeflow.org/v1", "PyTorchJob", "pytorchReplicaSpecs", "Master")
MPI: Final = ("kubeflow.org/v2beta1", "MPIJob", "mpiReplicaSpecs", "Launcher")
BOTH: Final = pytest.mark.parametrize("names", [PYTORCH, MPI], ids=["pytorch", "mpi"])


def training(names: tuple[str, str, str, str], *, gpus: int = 8, workers: int = 2, **spec: Any) -> Json:
    """One pod without a GPU, and workers with some."""
    version, kind, field, first = names
    replicas: Json = {
        first: {"replicas": 1, "template": pod()},
        "Worker": {"replicas": workers, "template": pod(gpus)},
    }
    for each in replicas.values():
        each["template"]["spec"]["containers"][0]["name"] = "pytorch"
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": "train"},
        "spec": {field: replicas, **spec},
    }


@BOTH
def test_each_replica_is_counted_and_gets_what_an_author_may_leave_out(
    names: tuple[str, str, str, str],
) -> None:
    found = judged(training(names), work=SERVED)
    assert found.answer.is_admitted, refusals(found)
    assert {each.name: each.pods for each in found.demands} == {names[3].lower(): 1, "worker": 2}
    assert fitting(found, "worker") == {"h100"}
    filled = dict(found.answer.filled)
    assert f"spec.{names[2]}.Worker.template.spec.tolerations" in filled
    assert filled["spec.runPolicy.cleanPodPolicy"] == "Running"


@BOTH
def test_what_never_fits_is_refused_with_its_replica(names: tuple[str, str, str, str]) -> None:
    found = judged(training(names, gpus=16), work=SERVED)
    assert "worker" in refusals(found)
    assert not fitting(found, "worker")


@BOTH
def test_a_variable_that_was_not_filled_in_is_named_with_its_path(names: tuple[str, str, str, str]) -> None:
    body = training(names)
    body["spec"][names[2]]["Worker"]["replicas"] = "$NODES"
    found = refusals(judged(body, work=SERVED))
    assert f"spec.{names[2]}.Worker.replicas is '$NODES', and has to be a whole number" in found


@BOTH
def test_a_fault_of_a_template_is_named_with_its_path(names: tuple[str, str, str, str]) -> None:
    body = training(names)
    body["spec"][names[2]]["Worker"]["template"]["spec"]["hostNetwork"] = True
    assert f"spec.{names[2]}.Worker.template" in refusals(judged(body, work=SERVED))


@BOTH
@pytest.mark.parametrize(
    ("spec", "fix"),
    [
        ({"cleanPodPolicy": "None"}, "set spec.runPolicy.cleanPodPolicy to Running"),
        ({"schedulingPolicy": {"priorityClass": "top"}}, "remove spec.runPolicy.schedulingPolicy"),
        ({"managedBy": "example.com/other"}, "no controller in this cluster starts work managed by"),
    ],
)
def test_what_would_pass_the_queue_is_refused(names: tuple[str, str, str, str], spec: Json, fix: str) -> None:
    assert fix in refusals(judged(training(names, runPolicy=spec), work=SERVED))


@BOTH
def test_replicas_that_no_queue_counts_are_refused(names: tuple[str, str, str, str]) -> None:
    """The operator reads their names in any case."""
    body = training(names)
    replicas = body["spec"][names[2]]
    replicas["worker"] = replicas.pop("Worker")
    fix = f"spec.{names[2]} has no worker; write {names[3]} and Worker"
    assert fix in refusals(judged(body, work=SERVED))


def test_no_autoscaler_changes_the_number_of_workers() -> None:
    body = training(PYTORCH, elasticPolicy={"maxReplicas": 4, "metrics": [{"type": "Resource"}]})
    assert "remove spec.elasticPolicy.metrics" in refusals(judged(body, work=SERVED))


def test_a_version_that_the_operator_does_not_serve_is_refused() -> None:
    body = {**training(MPI), "apiVersion": "kubeflow.org/v1"}
    assert "write apiVersion: kubeflow.org/v2beta1" in refusals(judged(body, work=SERVED))
