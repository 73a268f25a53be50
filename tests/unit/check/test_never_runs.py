"""Work that a scheduler would take, and that never runs: refused before nodes are bought, or warned of."""

import copy
from fractions import Fraction
from typing import Any

import pytest

from muster.model.quantities import parse_quantity
from tests.unit.check.stacks import (
    POOLS,
    fitting,
    fixed,
    in_racks,
    job,
    judged,
    pod,
    ray_job,
    refusals,
    warnings,
)
from tests.unit.check.test_jobset import depending, in_order, job_set
from tests.unit.check.test_kubeflow import MPI, training
from tests.unit.check.test_lws import after_leaders, groups
from tests.unit.check.test_trainjob import train

Json = dict[str, Any]
HOST = "kubernetes.io/hostname"
INDEX = "batch.kubernetes.io/job-completion-index"


def noted(template: Json, labels: Json | None = None, **annotations: str) -> Json:
    found = copy.deepcopy(template)
    notes = {key.replace("__", "/").replace("_", "-"): value for key, value in annotations.items()}
    return {**found, "metadata": {"annotations": notes, "labels": labels or {}}}


def apart(template: Json, app: str = "train") -> Json:
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": app}}}
    rules = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    found = noted(template, labels={"app": "train"})
    found["spec"]["affinity"] = rules
    return found


@pytest.mark.parametrize(
    ("app", "replicas", "fits"), [("train", 8, False), ("train", 4, True), ("other", 8, True)]
)
def test_pods_that_keep_apart_take_a_node_each(app: str, replicas: int, fits: bool) -> None:
    """Of pool h100, which has four nodes."""
    worker = apart(pod(1, nodeSelector={"muster.dev/pool": "h100"}), app)
    found = judged(ray_job(worker, replicas=replicas))
    assert found.answer.is_admitted is fits, refusals(found)
    assert ("podAntiAffinity" in refusals(found)) is not fits


@pytest.mark.parametrize(
    ("keys", "fits"),
    [
        ({"matchLabelKeys": ["app"]}, False),
        ({"matchLabelKeys": [INDEX]}, True),
        ({"mismatchLabelKeys": ["app"]}, True),
    ],
)
def test_pods_that_keep_apart_from_a_part_of_their_group_may_share_nodes(keys: Json, fits: bool) -> None:
    """A label that a controller writes may differ between any two of them."""
    worker = apart(pod(1, nodeSelector={"muster.dev/pool": "h100"}))
    rules = worker["spec"]["affinity"]["podAntiAffinity"]
    rules["requiredDuringSchedulingIgnoredDuringExecution"][0] |= keys
    found = judged(ray_job(worker, replicas=8))
    assert ("podAntiAffinity" in refusals(found)) is not fits, refusals(found)


@pytest.mark.parametrize(
    ("rule", "replicas", "fits"),
    [
        ({"topologyKey": HOST, "minDomains": 5}, 8, False),
        ({"topologyKey": HOST, "minDomains": 5}, 4, True),
        ({"topologyKey": HOST, "minDomains": 5, "maxSkew": 2}, 8, True),
        ({"topologyKey": HOST, "minDomains": 4}, 8, True),
        ({"topologyKey": HOST, "minDomains": 5, "whenUnsatisfiable": "ScheduleAnyway"}, 8, True),
        ({"topologyKey": HOST, "minDomains": 5, "labelSelector": {"matchLabels": {"app": "x"}}}, 8, True),
        ({"topologyKey": "muster.dev/pool", "minDomains": 2}, 4, False),
        ({"topologyKey": "muster.dev/pool", "minDomains": 2}, 1, True),
        ({"topologyKey": "example.com/rack", "minDomains": 2}, 4, True),
        ({"topologyKey": HOST, "minDomains": 5, "matchLabelKeys": ["app"]}, 8, False),
        ({"topologyKey": HOST, "minDomains": 5, "matchLabelKeys": ["app", INDEX]}, 8, True),
        ({"topologyKey": HOST, "minDomains": 5, "matchLabelKeys": ["pod-template-hash"]}, 8, True),
    ],
)
def test_pods_spread_over_the_domains_that_a_pool_has(rule: Json, replicas: int, fits: bool) -> None:
    """Pool h100 has four nodes."""
    worker = noted(pod(1, nodeSelector={"muster.dev/pool": "h100"}), labels={"app": "train"})
    base = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    own = {"labelSelector": {"matchLabels": {"app": "train"}}}
    worker["spec"]["topologySpreadConstraints"] = [base | own | rule]
    found = judged(ray_job(worker, replicas=replicas))
    assert ("lower minDomains" in refusals(found)) is not fits, refusals(found)


FUSE = {"gke_gcsfuse__volumes": "true"}


@pytest.mark.parametrize(
    ("cloud", "notes", "fits"),
    [
        ("gke", {}, True),
        ("gke", FUSE, False),
        ("gke", FUSE | {"gke_gcsfuse__cpu_request": "50m"}, True),
        ("gke", FUSE | {"gke_gcsfuse__cpu_limit": "50m"}, True),
        ("gke", FUSE | {"gke_gcsfuse__cpu_limit": "0"}, False),
        ("gke", FUSE | {"gke_gcsfuse__volumes": "false"}, True),
        ("eks", FUSE, True),
    ],
)
def test_the_sidecar_that_gke_adds_takes_room_on_a_node(cloud: str, notes: Json, fits: bool) -> None:
    """Kueue counts the templates, in which it is not."""
    template = pod(1, nodeSelector={"muster.dev/pool": "l4"})
    asked = {"gke": "23800m", "eks": "47700m"}[cloud]  # All that a node has, but for 70 or 110 thousandths.
    template["spec"]["containers"][0]["resources"]["limits"]["cpu"] = asked
    found = judged(job(noted(template, **notes)), cloud)
    assert found.answer.is_admitted is fits, refusals(found)
    assert found.demands[0].each["cpu"] == parse_quantity(asked)
    assert ("with GKE's gcsfuse sidecar asks for" in refusals(found)) is not fits
    assert (fitting(found, "main") == {"l4"}) is fits


_BY_PLACEHOLDERS = {**POOLS["gke"]["h100"], "maxNodes": 8, "capacity": "on-demand", "gangs": "placeholders"}


def test_placeholders_cannot_keep_apart_what_keeps_apart() -> None:
    worker = apart(pod(1, nodeSelector={"muster.dev/pool": "h100"}))
    found = judged(ray_job(worker), pools={"h100": _BY_PLACEHOLDERS})
    assert "placeholders, which do not copy that" in refusals(found)
    assert not fitting(found, "group-0")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (in_order(), "startupPolicy InOrder"),
        (depending(), "dependsOn"),
        (after_leaders(), "startupPolicy LeaderReady"),
        (train(initializer={"model": {"storageUri": "hf://a/b"}}), "an initializer"),
        (job_set(h100=pod(8)), ""),
        (groups(leader=pod()), ""),
        (train(), ""),
        (training(MPI, launcherCreationPolicy="WaitForWorkersReady"), ""),
    ],
)
def test_placeholders_keep_no_nodes_for_pods_that_are_made_once_others_run(body: Json, field: str) -> None:
    """Once the gang is admitted, the nodes of those that are still to come would go as empty ones."""
    work = ["ray", "jobset", "lws", "mpijob", "trainjob"]
    found = refusals(judged(body, pools={"h100": _BY_PLACEHOLDERS}, work=work))
    assert (f"has {field}, and pool h100 gets gangs by placeholders" in found) is bool(field), found
    if not field:
        assert "placeholders" not in found
    assert judged(body, work=work).answer.is_admitted, found


def test_rays_autoscaler_counts_in_the_head() -> None:
    head = pod()
    head["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "15890m", "memory": "8Gi"}}
    body = ray_job(pod(1), head=head)
    assert judged(body).answer.is_admitted
    cluster = {**body, "kind": "RayCluster", "spec": body["spec"]["rayClusterSpec"]}
    cluster["metadata"] = {"name": "c", "annotations": {"kueue.x-k8s.io/elastic-job": "true"}}
    cluster["spec"] |= {"enableInTreeAutoscaling": True, "autoscalerOptions": {"version": "v2"}}
    assert "cpu 16390m" in refusals(judged(cluster))


def test_a_suspended_group_would_be_waited_for() -> None:
    body = ray_job(pod(1))
    body["spec"]["rayClusterSpec"]["workerGroupSpecs"][0]["suspend"] = True
    assert "group-0 is suspended" in refusals(judged(body))
    body["spec"]["rayClusterSpec"]["workerGroupSpecs"][0] |= {"replicas": 0, "minReplicas": 0}
    assert "suspended" not in refusals(judged(body))


def test_every_group_that_is_too_large_is_named() -> None:
    found = judged(ray_job(pod(9), pod(10)))
    assert "one pod of group-0" in refusals(found)
    assert "one pod of group-1" in refusals(found)


@pytest.mark.parametrize("kind", ["required", "preferred", "unconstrained"])
def test_a_topology_of_kueue_that_no_pool_has_is_refused(kind: str) -> None:
    key = f"kueue.x-k8s.io/podset-{kind}-topology"
    template = {**pod(1), "metadata": {"annotations": {key: "example.com/rack"}}}
    assert "a topology that the stack does not have" in refusals(judged(job(template)))


def test_a_level_of_the_pools_topology_is_admitted_and_another_is_refused() -> None:
    key = "kueue.x-k8s.io/podset-required-topology"
    for level, is_known in (("example.com/rack", True), ("example.com/block", False)):
        template = {**pod(8), "metadata": {"annotations": {key: level}}}
        found = judged(job(template), **in_racks("example.com/rack", HOST))
        assert found.answer.is_admitted is is_known, refusals(found)
    assert "has example.com/rack" in refusals(found)


def of_queue(body: Json, queue: str, **annotations: str) -> Json:
    meta = {"name": "train", "labels": {"kai.scheduler/queue": queue}, "annotations": annotations}
    return {**body, "metadata": meta}


def test_kai_counts_parts_of_gpus_and_refuses_what_is_none() -> None:
    half = noted(pod(), gpu_fraction="0.5")
    sharing = {"kai": {"gpuSharing": True}}
    found = judged(of_queue(ray_job(half), "vision-l4"), "eks", "kai", **sharing)
    assert found.answer.is_admitted, refusals(found)
    assert fitting(found, "group-0") == {"l4"}
    (workers,) = [each for each in found.demands if each.name == "group-0"]
    assert workers.total["nvidia.com/gpu"] == 1
    whole = of_queue(ray_job(noted(pod(1), gpu_fraction="0.5")), "vision-l4")
    assert "asks for nvidia.com/gpu beside a part" in refusals(judged(whole, "eks", "kai", **sharing))
    for text in ("1.5", "1.0", "0", "half"):
        wrong = of_queue(ray_job(noted(pod(), gpu_fraction=text)), "vision-l4")
        assert "gpu-fraction" in refusals(judged(wrong, "eks", "kai", **sharing))
    off = judged(of_queue(ray_job(half), "vision-l4"), "eks", "kai")
    assert "gpuSharing is off" in refusals(off)


def test_memory_of_a_gpu_is_compared_with_the_gpus_on_which_its_pods_can_land() -> None:
    """An L4 has 24,576 MiB, an H100 81,559."""
    sharing: Json = {"scheduler": "kai", "kai": {"gpuSharing": True}}
    forty = job(noted(pod(), gpu_memory="40000"))
    found = judged(of_queue(forty, "vision-h100"), **sharing)
    assert found.answer.is_admitted, refusals(found)
    assert fitting(found, "main") == {"h100"}
    assert found.demands[0].total["nvidia.com/gpu"] == Fraction(40_000, 81_559)
    small = judged(of_queue(forty, "vision-l4"), **sharing)
    assert "gpu-memory asks for 40000 MiB" in refusals(small)
    free = judged(forty, **sharing)
    assert "gpu-memory" not in refusals(free)
    assert fitting(free, "main") == {"h100"}
    t4 = job(
        noted(pod(nodeSelector={"cloud.google.com/gke-accelerator": "nvidia-tesla-t4"}), gpu_memory="40000")
    )
    assert "select a pool by its name: muster.dev/pool: h100" in refusals(judged(t4, **sharing))


def test_a_gang_of_kai_uses_the_pool_of_its_queue_alone() -> None:
    big = pod(8, nodeSelector={"muster.dev/pool": "h100"})
    small = pod(1, nodeSelector={"muster.dev/pool": "l4"})
    assert "one GPU pool" in refusals(judged(of_queue(ray_job(small, big), "vision-l4"), "gke", "kai"))
    found = judged(of_queue(ray_job(big), "vision-l4"), "gke", "kai")
    assert "pool of queue vision-l4" in refusals(found)
    missing = pod(1, nodeSelector={"muster.dev/pool": "b200"})
    assert "muster.dev/pool=b200" in refusals(judged(of_queue(ray_job(missing), "vision-l4"), "gke", "kai"))


def test_a_topology_of_kai_that_the_stack_lacks_is_refused() -> None:
    asked = {"kai.scheduler/topology": "racks", "kai.scheduler/topology-required-placement": "rack"}
    body = of_queue(ray_job(pod(8)), "vision-h100", **asked)
    assert "kai.scheduler/topology: racks" in refusals(judged(body, "gke", "kai"))
    levels = [{"nodeLabel": "example.com/rack", "alias": "rack"}]
    known = judged(body, "gke", "kai", kai={"topologies": {"racks": {"levels": levels}}})
    assert "topology" not in refusals(known)


def test_deadlines_behind_the_gate_and_a_smaller_minimum_are_warned_of() -> None:
    body = of_queue(ray_job(pod(1), activeDeadlineSeconds=600), "vision-l4")
    body["spec"]["rayClusterSpec"]["workerGroupSpecs"][0]["minReplicas"] = 1
    found = judged(body, "gke", "kai")
    assert found.answer.is_admitted, refusals(found)
    assert "activeDeadlineSeconds" in warnings(found)
    assert "minReplicas of group-0" in warnings(found)
    assert not warnings(judged(of_queue(ray_job(pod(1)), "vision-l4"), "gke", "kai"))


def test_fix_writes_what_has_one_right_answer() -> None:
    template = pod(schedulerName="volcano", volumes=[{"name": "shm", "hostPath": {"path": "/dev/shm"}}])
    template["spec"]["containers"][0]["resources"]["requests"] = {"nvidia.com/gpu": 1}
    body = of_queue(ray_job(template, submissionMode="K8sJobMode"), "vision-l4")
    assert not judged(body, "gke", "kai").answer.is_admitted
    found = judged(fixed(body, "gke", "kai"), "gke", "kai")
    assert found.answer.is_admitted, refusals(found)
    head = ray_job(pod(1))["spec"]["rayClusterSpec"]
    head["headGroupSpec"]["headService"] = {"metadata": {"name": "own"}}
    service = {**body, "kind": "RayService", "metadata": {"name": "s"}, "spec": {"rayClusterConfig": head}}
    assert "headService.metadata.name" in refusals(judged(service))
    assert judged(fixed(service)).answer.is_admitted


def test_interfaces_and_huge_pages_are_asked_for_where_nodes_have_them() -> None:
    """No queue counts either."""
    for pool, is_there in (("h100", True), ("l4", False)):
        template = pod(4, nodeSelector={"muster.dev/pool": pool})
        limits = template["spec"]["containers"][0]["resources"]["limits"]
        limits |= {"vpc.amazonaws.com/efa": 4, "hugepages-2Mi": "5120Mi"}
        found = judged(job(template), "eks")
        assert found.answer.is_admitted is is_there, refusals(found)
    assert "vpc.amazonaws.com/efa" in refusals(found)
    assert "hugepages-2Mi" in refusals(found)


def test_an_accelerator_that_no_pool_of_its_queue_has_is_refused_with_kai() -> None:
    chips = pod()
    chips["spec"]["containers"][0]["resources"]["limits"]["google.com/tpu"] = 4
    found = judged(of_queue(ray_job(chips), "vision-h100"), "gke", "kai")
    assert "group-0 asks for google.com/tpu, and no pool of queue vision-h100 has any TPU" in refusals(found)


@pytest.mark.parametrize(
    ("volume", "pods", "told"),
    [
        ("disk", 4, "claim disk is mounted on one node at a time"),
        ("disk", 1, ""),
        ("files", 4, ""),
        ("others", 1, "claimName others, which Muster does not make"),
    ],
)
def test_a_volume_that_keeps_pods_waiting_on_their_nodes_is_warned_of(
    volume: str, pods: int, told: str
) -> None:
    volumes = {"disk": {"size": "1Ti", "shared": False}, "files": {"size": "1Ti", "storageClass": "files"}}
    team = {"vision": {"quota": {"l4": 16, "h100": 32, "cpu": 64}, "volumes": volumes}}
    template = pod(8, volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": volume}}])
    body = job(template, parallelism=pods, completions=pods)
    found = judged(body, departments={"research": {"teams": team}})
    assert found.answer.is_admitted, refusals(found)
    assert told in warnings(found)
    assert bool(told) is ("Muster does not make" in warnings(found) or "at a time" in warnings(found))


def test_fix_writes_the_queue_where_there_is_one_and_words_in_their_case() -> None:
    body = job(pod(1))
    body["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "user-queue"}
    body["spec"]["template"]["spec"]["restartPolicy"] = "never"
    body["spec"]["template"]["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "protocol": "tcp"}]
    assert "user-queue does not belong" in refusals(judged(body))
    assert judged(fixed(body)).answer.is_admitted


def test_a_driver_without_a_command_is_warned_of() -> None:
    body = ray_job(pod(1))
    assert "entrypoint" not in warnings(judged(body))
    body["spec"]["entrypoint"] = " "
    assert "spec.entrypoint is empty" in warnings(judged(body))


@pytest.mark.parametrize(("declared", "is_warned"), [("1", False), ("2", True), ("0", True)])
def test_num_gpus_that_disagrees_with_the_pod_is_warned_of(declared: str, is_warned: bool) -> None:
    body = ray_job(pod(1))
    body["spec"]["rayClusterSpec"]["workerGroupSpecs"][0]["rayStartParams"] = {"num-gpus": declared}
    body["spec"]["rayClusterSpec"]["headGroupSpec"]["rayStartParams"] = {"num-gpus": "0"}
    found = judged(body)
    assert found.answer.is_admitted, refusals(found)
    assert ("num-gpus" in warnings(found)) is is_warned


@pytest.mark.parametrize(
    ("image", "gpus", "words"),
    [("busybox", 0, "which has no GPU"), ("dcgm-exporter", 1, "first container of")],
)
def test_a_container_before_rays_is_warned_of(image: str, gpus: int, words: str) -> None:
    worker = pod(1)
    worker["spec"]["containers"].insert(
        0, {**pod(gpus)["spec"]["containers"][0], "name": "side", "image": image}
    )
    worker["spec"]["containers"][1] |= {"name": "ray-worker"}
    assert words in warnings(judged(ray_job(worker)))
    worker["spec"]["containers"].reverse()
    assert "first container" not in warnings(judged(ray_job(worker)))
