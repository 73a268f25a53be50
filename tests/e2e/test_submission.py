"""How jobs may be submitted."""

import pytest

from muster.kubernetes.errors import ApiError
from muster.local.demo.events import holds
from tests.e2e import gangs, light
from tests.e2e.local_cluster import Muster


def test_a_rayjob_with_a_submitter_pod_is_one_gang_with_it(muster: Muster) -> None:
    (job,) = light.example("priority/prod-rayjob.yaml", image=muster.image("ray"))
    job["metadata"]["name"] = "submitted"
    job["spec"]["submissionMode"] = "K8sJobMode"
    # The submitter's own log shows what the job prints; nothing is mounted, so the program is in the line.
    job["spec"]["entrypoint"] = "python -c 'import ray; ray.init(); print(ray.cluster_resources())'"
    for volume in job["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"].pop("volumes"):
        assert volume["name"] == "program"
    del job["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["volumeMounts"]
    muster.cluster.apply(job)
    record = muster.recorder
    muster.wait("it is over", lambda: _is_over(muster, "submitted"))

    assert gangs.job(record, "RayJob", "submitted").last["status"]["jobStatus"] == "SUCCEEDED"
    pod_sets = gangs.workload(record, "submitted").last["spec"]["podSets"]
    assert [one["name"] for one in pod_sets] == ["head", "l4", "submitter"]
    gangs.assert_capacity_came_first(record, "submitted", pools=["l4"])


def test_a_rayjob_that_cannot_be_suspended_is_refused_with_the_reason(muster: Muster) -> None:
    (job,) = light.example("priority/prod-rayjob.yaml", image=muster.image("ray"))
    job["metadata"]["name"] = "interactive"
    job["spec"]["submissionMode"] = "InteractiveMode"
    del job["spec"]["entrypoint"]
    with pytest.raises(ApiError, match="InteractiveMode cannot be suspended"):
        muster.cluster.apply(job)


def test_a_batch_job_goes_through_the_same_queue_without_asking_for_nodes(muster: Muster) -> None:
    told = muster.story("batch")

    assert told[-1]["result"] == "succeeded"
    record = muster.recorder
    assert gangs.job(record, "Job", "primes").versions[0]["spec"]["suspend"] is True
    workload = gangs.workload(record, "primes")
    assert workload.since(lambda found: holds(found, "Admitted"))
    assert not gangs.requests(record, "primes")
    assert {pod.last["spec"]["nodeName"] for pod in gangs.pods(record, "primes")} == {"cpu-0"}


def test_pods_of_a_batch_job_find_each_other_by_name(muster: Muster) -> None:
    service, job = light.example("batch/several-nodes.yaml", image=muster.image("python"))
    for body in (service, job):
        muster.cluster.apply(body)
    record = muster.recorder
    muster.wait("it is over", lambda: holds({"status": gangs.status(record, "Job", "sum")}, "Complete"))

    assert len(gangs.pods(record, "sum")) == 3
    (first,) = [pod for pod in gangs.pods(record, "sum") if pod.last["metadata"]["name"].startswith("sum-0-")]
    log = muster.cluster.log(first.last["metadata"]["name"], namespace="team-c")
    assert "[sum] 3 of [1, 2]" in "".join(log)
    muster.cluster.delete("Service", "sum", namespace="team-c")


def _is_over(muster: Muster, name: str) -> bool:
    status = gangs.status(muster.recorder, "RayJob", name)
    return status.get("jobDeploymentStatus") in ("Complete", "Failed")
