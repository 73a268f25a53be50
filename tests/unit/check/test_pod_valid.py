"""A template of which no pod can be made is refused before nodes are bought, in every group at once."""

import copy
from typing import Any

import pytest

from tests.unit.check.stacks import job, judged, pod, ray_job, refusals

Json = dict[str, Any]
GPU = "nvidia.com/gpu"


def worker(spec: Json | None = None, **container: Any) -> Json:
    """A worker that would run, but for what its spec and its container have instead."""
    found = copy.deepcopy(pod(1))
    found["spec"]["containers"][0] |= container
    found["spec"] |= spec or {}
    return found


def resources(limits: Json | None = None, requests: Json | None = None) -> Json:
    return {"limits": {"cpu": "2", "memory": "8Gi", **(limits or {})}, "requests": requests or {}}


TWO = [{"name": "same", "image": "i"}, {"name": "same", "image": "i"}]
BAD: dict[str, tuple[Json, str]] = {
    "GPUs in requests alone": (
        worker(resources=resources(requests={GPU: 1})),
        f"limits write as much as under requests of {GPU}",
    ),
    "fewer GPUs in requests": (worker(resources=resources({GPU: 2}, {GPU: 1})), GPU),
    "half a GPU": (worker(resources=resources({GPU: "500m"})), f"whole number, no part, of {GPU}"),
    "huge pages in requests alone": (
        worker(resources=resources({GPU: 1}, {"hugepages-2Mi": "1Gi"})),
        "hugepages-2Mi",
    ),
    "requests above limits": (
        worker(resources=resources({GPU: 1}, {"memory": "9Gi"})),
        "lower the request of memory",
    ),
    "a resource without a vendor": (worker(resources=resources({"gpu": 1})), f"write {GPU}"),
    "no container": (worker({"containers": []}), "add a container"),
    "two of a name": (worker({"containers": TWO}), "a name of its own"),
    "no name": (worker(name=""), "write a name"),
    "no image": (worker(image=""), "write its image"),
    "a mount without its volume": (
        worker(volumeMounts=[{"name": "data", "mountPath": "/data"}]),
        "add to volumes, or do not mount, data",
    ),
    "two mounts at a path": (
        worker(
            {"volumes": [{"name": "a", "emptyDir": {}}, {"name": "b", "emptyDir": {}}]},
            volumeMounts=[{"name": "a", "mountPath": "/x"}, {"name": "b", "mountPath": "/x"}],
        ),
        "one volume alone at /x",
    ),
    "two volumes of a name": (
        worker({"volumes": [{"name": "a", "emptyDir": {}}, {"name": "a", "emptyDir": {}}]}),
        "each volume a name of its own",
    ),
    "a volume of two kinds": (
        worker({"volumes": [{"name": "a", "emptyDir": {}, "configMap": {"name": "c"}}]}),
        "keep one of",
    ),
    "a claim that the pod lacks": (
        worker(resources={**resources({GPU: 1}), "claims": [{"name": "imex"}]}),
        "do not claim, imex",
    ),
    "a variable without a name": (worker(env=[{"value": "x"}]), "each entry of env a name"),
    "two values of a variable": (
        worker(env=[{"name": "A", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]),
        "not both, of A",
    ),
    "a port that is none": (worker(ports=[{"containerPort": 70000}]), "containerPort from 1 to 65535"),
    "a pull policy": (worker(imagePullPolicy="Sometimes"), "imagePullPolicy"),
    "a restart policy": (worker({"restartPolicy": "Sometimes"}), "restartPolicy"),
    "an operator of a toleration": (
        worker({"tolerations": [{"key": GPU, "operator": "Exist"}]}),
        "operator Equal or Exists",
    ),
    "a value of Exists": (
        worker({"tolerations": [{"key": GPU, "operator": "Exists", "value": "present"}]}),
        "remove its value",
    ),
    "no spec": ({"metadata": {"labels": {"a": "b"}}}, "add a container"),
}


@pytest.mark.parametrize("tenancy", ["enforce", "off"])
@pytest.mark.parametrize("what", BAD)
def test_what_the_api_server_takes_for_no_pod_is_refused_in_every_group(what: str, tenancy: str) -> None:
    template, told = BAD[what]
    found = judged(ray_job(template, template), tenancy={"mode": tenancy})
    assert not found.answer.is_admitted
    assert told in refusals(found)
    for group in ("group-0", "group-1"):
        assert f"In spec.rayClusterSpec.workerGroupSpecs of {group}: " in refusals(found)


def test_the_templates_of_a_job_have_the_same_rules_and_end() -> None:
    assert f"requests of {GPU}" in refusals(judged(job(worker(resources=resources(requests={GPU: 1})))))
    forever = job(worker({"restartPolicy": "Always"}))
    forever["spec"]["template"]["spec"]["restartPolicy"] = "Always"
    assert "set restartPolicy to Never or OnFailure" in refusals(judged(forever))


GOOD: dict[str, Json] = {
    "as much as it limits": worker(resources=resources({GPU: 2}, {GPU: "2", "cpu": "1", "memory": "8Gi"})),
    "a volume that KubeRay adds": worker(volumeMounts=[{"name": "shared-mem", "mountPath": "/dev/shm"}]),
    "a volume of its own": worker(
        {"volumes": [{"name": "data", "emptyDir": {"medium": "Memory"}}]},
        volumeMounts=[{"name": "data", "mountPath": "/data"}, {"name": "data", "mountPath": "/more"}],
    ),
    "an init container": worker({"initContainers": [{"name": "init", "image": "i"}]}),
    "a variable of the pod": worker(
        env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}, {"name": "B"}]
    ),
    "a GPU as a whole number of thousandths": worker(resources=resources({GPU: "1000m"})),
    "a taint with its value": worker(
        {"tolerations": [{"key": GPU, "operator": "Equal", "value": "present", "effect": "NoSchedule"}]}
    ),
}


@pytest.mark.parametrize("what", GOOD)
def test_what_makes_a_pod_is_admitted(what: str) -> None:
    found = judged(ray_job(GOOD[what]))
    assert found.answer.is_admitted, refusals(found)
