"""With KAI, work beside Ray clusters is admitted where its gang starts whole: behind the gate, and with all
of its pods at once.
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from muster.check.report import Result
from muster.model.names import GANG_GATE, KAI_BATCH_MINIMUM, KAI_SCHEDULER
from muster.model.work import Work
from tests.unit.check import test_deployment, test_statefulset
from tests.unit.check.stacks import job, judged, pod, refusals, warnings
from tests.unit.check.test_jobset import depending, in_order, job_set
from tests.unit.check.test_kubeflow import MPI, PYTORCH, training
from tests.unit.check.test_lws import after_leaders, groups
from tests.unit.check.test_trainjob import patch, train

Json = dict[str, Any]
WORK: Final = [str(each) for each in Work]
QUEUE: Final = "kai.scheduler/queue"


def judged_by_kai(body: Json, queue: str = "vision-h100") -> Result:
    body["metadata"] = {"name": "train", "labels": {QUEUE: queue}, **body["metadata"]}
    return judged(body, scheduler="kai", work=WORK)


def batch(gpus: int = 8, **spec: Any) -> Json:
    return job(pod(gpus, restartPolicy="Never"), **spec)


def deployment(**labels: str) -> Json:
    body = test_deployment.serving(gpus=1)
    body["metadata"]["labels"] = {QUEUE: "vision-l4", **labels}
    return body


def templates(body: Any) -> list[Json]:
    """Every pod template in an object."""
    if isinstance(body, list):
        return [found for each in body for found in templates(each)]
    if not isinstance(body, dict):
        return []
    inner = [found for each in body.values() for found in templates(each)]
    return [*([body] if "containers" in body.get("spec", {}) else []), *inner]


@pytest.mark.parametrize(
    "body",
    [
        batch(1, parallelism=2),
        job_set(l4=pod(1)),
        training(PYTORCH, gpus=1),
        training(MPI, gpus=1),
        groups(gpus=1, leader=pod()),
        test_statefulset.serving(gpus=1),
        deployment(priorityClassName="train"),
    ],
    ids=["job", "jobset", "pytorchjob", "mpijob", "lws", "statefulset", "deployment"],
)
def test_each_of_its_pods_waits_at_the_gate_for_kai_and_its_queue(body: Json) -> None:
    found = judged_by_kai(body, "vision-l4")
    assert found.answer.is_admitted, refusals(found)
    assert templates(found.answer.object["spec"])
    for each in templates(found.answer.object["spec"]):
        assert each["spec"]["schedulingGates"] == [{"name": GANG_GATE}]
        assert each["spec"]["schedulerName"] == KAI_SCHEDULER
        assert each["metadata"]["labels"][QUEUE] == "vision-l4"


def test_work_without_gpus_waits_at_no_gate() -> None:
    found = judged_by_kai(job(pod(restartPolicy="Never"), parallelism=4), "vision-cpu")
    assert found.answer.is_admitted, refusals(found)
    assert GANG_GATE not in str(found.answer.object)
    assert KAI_SCHEDULER not in str(found.answer.object)


@pytest.mark.parametrize(
    ("spec", "least"),
    [
        ({"parallelism": 4, "completions": 4}, "4"),
        ({"parallelism": 4}, "4"),
        ({"parallelism": 4, "completions": 2}, "2"),
        ({"parallelism": 2, "completions": 4}, None),
        ({}, None),
    ],
)
def test_kai_is_told_to_keep_a_job_whole_where_its_last_pods_are_not_fewer(
    spec: Json, least: str | None
) -> None:
    found = judged_by_kai(batch(**spec))
    assert found.answer.object["metadata"].get("annotations", {}).get(KAI_BATCH_MINIMUM) == least


def test_what_an_author_says_of_that_is_kept() -> None:
    body = batch(parallelism=4)
    body["metadata"]["annotations"] = {KAI_BATCH_MINIMUM: "1"}
    assert judged_by_kai(body).answer.object["metadata"]["annotations"][KAI_BATCH_MINIMUM] == "1"


def test_replicas_that_are_left_out_are_written_because_kai_reads_no_default() -> None:
    body = training(PYTORCH)
    del body["spec"]["pytorchReplicaSpecs"]["Master"]["replicas"]
    found = judged_by_kai(body)
    assert found.answer.object["spec"]["pytorchReplicaSpecs"]["Master"]["replicas"] == 1


def _exclusive() -> Json:
    body = job_set(h100=pod(8))
    body["metadata"]["annotations"] = {
        "alpha.jobset.sigs.k8s.io/exclusive-topology": "kubernetes.io/hostname"
    }
    return body


def _exclusive_groups() -> Json:
    body = groups()
    body["metadata"]["annotations"] = {"leaderworkerset.sigs.k8s.io/exclusive-topology": "zone"}
    return body


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (in_order(), "spec.startupPolicy"),
        (depending(), "dependsOn of spec.replicatedJobs"),
        (_exclusive(), "alpha.jobset.sigs.k8s.io/exclusive-topology"),
        (training(MPI, launcherCreationPolicy="WaitForWorkersReady"), "spec.launcherCreationPolicy"),
        (after_leaders(), "spec.startupPolicy"),
        (_exclusive_groups(), "leaderworkerset.sigs.k8s.io/exclusive-topology"),
        (train(initializer={"dataset": {"storageUri": "hf://a/b"}}), "spec.initializer"),
    ],
    ids=["in order", "depending", "exclusive", "launcher", "workers", "exclusive groups", "initializer"],
)
def test_a_gang_of_which_some_pods_are_made_when_others_run_would_wait_for_ever(
    body: Json, field: str
) -> None:
    found = judged_by_kai(body)
    assert "a gang starts when all of its pods wait at the gate" in refusals(found)
    assert f"remove {field}" in refusals(found).replace("annotation ", "")


def test_a_deadline_counts_while_it_waits_and_an_eviction_counts_as_failures() -> None:
    body = batch(1, parallelism=8, activeDeadlineSeconds=60)
    found = judged_by_kai(body, "vision-l4")
    assert found.answer.is_admitted, refusals(found)
    assert "activeDeadlineSeconds of Job train counts while its gang waits" in warnings(found)
    assert "each of its 8 pods counts against backoffLimit, which is 6" in warnings(found)
    assert not warnings(judged_by_kai(batch(1, parallelism=6), "vision-l4"))
    deadline = {"cleanPodPolicy": "Running", "activeDeadlineSeconds": 60}
    assert "of PyTorchJob train counts" in warnings(judged_by_kai(training(PYTORCH, runPolicy=deadline)))


def test_a_deployment_names_a_priority_that_kai_evicts_where_its_own_is_not_its_teams() -> None:
    team = {"quota": {"l4": 16}, "priorities": ["train"]}
    departments = {"research": {"teams": {"vision": team}}}
    cases: list[tuple[Json, bool]] = [({}, False), ({"priorityClassName": "train"}, True)]
    for labels, is_admitted in cases:
        found = judged(deployment(**labels), scheduler="kai", work=WORK, departments=departments)
        assert found.answer.is_admitted is is_admitted
        assert is_admitted or "names no priority as inference" in refusals(found)
    assert judged_by_kai(deployment()).answer.is_admitted, "the team may use it"


def test_the_set_of_a_train_job_gets_its_queue_and_no_member_writes_another_there() -> None:
    found = judged_by_kai(train())
    assert found.answer.is_admitted, refusals(found)
    (entry,) = found.answer.object["spec"]["runtimePatches"]
    assert entry["trainingRuntimeSpec"]["template"]["metadata"]["labels"][QUEUE] == "vision-h100"
    others: list[Json] = [
        {"metadata": {"labels": {QUEUE: "speech-h100"}}},
        {"metadata": {"labels": {"jobset.sigs.k8s.io/jobset-name": "a"}}},
        {"metadata": {"annotations": {"a": "b"}}},
        {"spec": {}},
    ]
    for template in others:
        own = [{"manager": entry["manager"], "trainingRuntimeSpec": {"template": template}}]
        assert "remove spec.runtimePatches" in refusals(judged_by_kai(train(runtimePatches=own)))
    assert "remove spec.runtimePatches" in refusals(judged_by_kai(train(runtimePatches=patch())))


def test_what_the_api_server_fills_in_is_no_choice_of_a_scheduler() -> None:
    found = judged_by_kai(job(pod(1, schedulerName="default-scheduler", restartPolicy="Never")), "vision-l4")
    assert found.answer.object["spec"]["template"]["spec"]["schedulerName"] == KAI_SCHEDULER


@pytest.mark.parametrize(
    ("least", "spec", "is_warned"),
    [
        ("2", {"parallelism": 6, "completions": 6}, True),
        ("2", {"parallelism": 6}, True),
        ("6", {"parallelism": 6, "completions": 6}, False),
        ("2", {"parallelism": 6, "completions": 2}, False),
        ("2", {"parallelism": 2, "completions": 6}, False),
    ],
)
def test_a_job_that_may_start_in_part_is_warned_of(least: str, spec: Json, is_warned: bool) -> None:
    body = batch(1, **spec)
    body["metadata"] = {"name": "train", "annotations": {KAI_BATCH_MINIMUM: least}}
    found = judged_by_kai(body)
    assert found.answer.is_admitted, refusals(found)
    warning = f"may start with {least} of its 6 pods, by annotation {KAI_BATCH_MINIMUM}; remove it"
    assert (warning in warnings(found)) is is_warned, warnings(found)


@pytest.mark.parametrize(("least", "is_warned"), [(1, True), (2, False)])
def test_elastic_training_that_may_start_in_part_is_warned_of(least: int, is_warned: bool) -> None:
    body = training(PYTORCH, gpus=1)
    replicas = [each.get("replicas", 1) for each in body["spec"]["pytorchReplicaSpecs"].values()]
    body["spec"]["elasticPolicy"] = {"minReplicas": sum(replicas) - (2 - least)}
    warning = f"of its {sum(replicas)} pods, by elasticPolicy.minReplicas; remove it"
    assert (warning in warnings(judged_by_kai(body))) is is_warned
