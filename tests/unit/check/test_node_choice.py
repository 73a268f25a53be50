"""Work that names its nodes by the labels of a cloud goes to the pools that have them, and to no other."""

from typing import Any

import pytest

from muster.render import kueue
from tests.unit.check.stacks import (
    POOLS,
    fitting,
    in_racks,
    job,
    judged,
    pod,
    ray_job,
    refusals,
    stack_text,
    warnings,
)
from tests.unit.model.model_stacks import examined, parsed

GKE_GPU = "cloud.google.com/gke-accelerator"
TYPE = "node.kubernetes.io/instance-type"
ZONE = "topology.kubernetes.io/zone"
L4, H100 = {"l4"}, {"h100"}


def affinity(*expressions: dict[str, Any]) -> dict[str, Any]:
    terms = [{"matchExpressions": [each]} for each in expressions]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


def one_of(key: str, *values: str, operator: str = "In") -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


@pytest.mark.parametrize("scheduler", ["kueue", "kai"])
def test_an_empty_term_matches_no_node(scheduler: str) -> None:
    spec = affinity(one_of(GKE_GPU, "nvidia-l4"))
    terms = spec["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    terms.append({})
    assert fitting(judged(ray_job(pod(1, affinity=spec)), "gke", scheduler), "group-0") == L4
    del terms[0]
    found = judged(ray_job(pod(1, affinity=spec)), "gke", scheduler)
    assert "group-0 selects nodes with an empty nodeSelectorTerm" in refusals(found)


@pytest.mark.parametrize(("cloud", "named"), [("gke", ["nvidia", "kata"]), ("eks", ["kata"])])
def test_a_runtime_class_that_no_part_of_the_stack_makes_is_warned_of(cloud: str, named: list[str]) -> None:
    body = ray_job(pod(1, runtimeClassName="nvidia"), head=pod(runtimeClassName="kata"))
    listed = warnings(judged(body, cloud)).split(" || ")
    assert [each.split(",")[0] for each in listed] == [f"runtimeClassName {each}" for each in sorted(named)]
    assert "runtimeClassName" not in warnings(judged(ray_job(pod(1)), cloud))


@pytest.mark.parametrize(
    ("scheduler", "written", "meant"),
    [
        *(("kueue", name, "nvidia.com/gpu") for name in ("nvidia.com/gpus", "nvidia.com/GPU", "nvidia/gpu")),
        ("kueue", "amd.com/gpus", "amd.com/gpu"),
        ("kai", "nvidia.com/gpus", "nvidia.com/gpu"),
        ("kai", "amd.com/gpus", "amd.com/gpu"),
    ],
)
def test_a_resource_that_is_nearly_a_devices_gets_the_devices_name(
    scheduler: str, written: str, meant: str
) -> None:
    worker = pod(0)
    worker["spec"]["containers"][0]["resources"]["limits"] = {"cpu": "1", written: "1"}
    found = judged(ray_job(worker), "gke", scheduler)
    told = refusals(found) if scheduler == "kueue" else warnings(found)
    assert f"{written}" in told
    assert f"write {meant} in" in told
    assert "remove" not in told


@pytest.mark.parametrize("name", ["example.com/fpga", "rdma/ib", "vpc.amazonaws.com/efa"])
def test_the_name_of_another_resource_is_taken_for_none_of_a_device(name: str) -> None:
    worker = pod(0)
    worker["spec"]["containers"][0]["resources"]["limits"] = {"cpu": "1", name: "1"}
    assert f"remove {name}" in refusals(judged(ray_job(worker), "gke"))
    assert f"no pool is known to have {name}" in warnings(judged(ray_job(worker), "gke", "kai"))


@pytest.mark.parametrize("scheduler", ["kueue", "kai"])
@pytest.mark.parametrize(
    ("cloud", "spec", "pools"),
    [
        ("gke", {"nodeSelector": {GKE_GPU: "nvidia-l4"}}, L4),
        ("gke", {"nodeSelector": {GKE_GPU: "nvidia-h100-80gb"}}, H100),
        ("gke", {"nodeSelector": {TYPE: "g2-standard-24"}}, L4),
        ("gke", {"nodeSelector": {"cloud.google.com/gke-nodepool": "l4"}}, L4),
        ("gke", {"nodeSelector": {"cloud.google.com/gke-queued": "true"}}, L4 | H100),
        ("gke", {"nodeSelector": {"example.com/team": "any"}}, L4 | H100),
        ("gke", {"affinity": affinity(one_of(GKE_GPU, "nvidia-l4", "nvidia-b200"))}, L4),
        ("gke", {"affinity": affinity(one_of(GKE_GPU, "nvidia-l4", operator="NotIn"))}, H100),
        ("gke", {"affinity": affinity(one_of(GKE_GPU, "nvidia-b200"), one_of(TYPE, "a3-highgpu-8g"))}, H100),
        ("gke", {"nodeSelector": {ZONE: "us-central1-a"}}, L4 | H100),
        ("eks", {"nodeSelector": {TYPE: "p5.48xlarge"}}, H100),
        ("eks", {"nodeSelector": {"k8s.amazonaws.com/accelerator": "nvidia-l4"}}, L4),
    ],
)
def test_a_label_of_the_cloud_leaves_the_pools_that_have_it(
    scheduler: str, cloud: str, spec: dict[str, Any], pools: set[str]
) -> None:
    found = judged(ray_job(pod(1, **spec)), cloud, scheduler)
    assert fitting(found, "group-0") & (L4 | H100) == pools


@pytest.mark.parametrize(
    ("cloud", "selector", "told"),
    [
        ("gke", {GKE_GPU: "nvidia-b200"}, ["nvidia-b200", "l4: nvidia-l4", "h100: nvidia-h100-80gb"]),
        ("gke", {GKE_GPU: "nvidia-l4", TYPE: "a3-highgpu-8g"}, [GKE_GPU, TYPE]),
        ("gke", {"cloud.google.com/gke-spot": "true"}, ["gke-spot"]),
        ("gke", {"karpenter.sh/nodepool": "l4"}, ["karpenter.sh/nodepool", "muster.dev/pool"]),
        ("gke", {ZONE: "europe-west4-a"}, ["europe-west4-a", "us-central1-a"]),
        ("gke", {"cloud.google.com/gke-provisioning": "spot"}, ["l4: standard"]),
        (
            "gke",
            {"cloud.google.com/reservation-name": "h100-2026"},
            ["reservation-name=h100-2026", "l4: none"],
        ),
        ("gke", {"cloud.google.com/machine-family": "a4"}, ["l4: g2, h100: a3"]),
        ("eks", {"eks.amazonaws.com/nodegroup": "gpu"}, ["l4: l4-us-east-1a or l4-us-east-1b"]),
        ("eks", {"eks.amazonaws.com/capacityType": "SPOT"}, ["l4: ON_DEMAND"]),
        ("eks", {"karpenter.sh/capacity-type": "spot"}, ["karpenter.sh/capacity-type=spot"]),
        ("eks", {TYPE: "p4d.24xlarge"}, ["p4d.24xlarge", "h100: p5.48xlarge"]),
        ("eks", {GKE_GPU: "nvidia-l4"}, [GKE_GPU]),
        # No CPU machine of the stack is of this type, whatever else has GPUs.
        ("eks", {TYPE: "m5.xlarge"}, ["m5.xlarge", "m6i.4xlarge"]),
    ],
)
def test_what_no_pool_has_is_refused_with_what_the_pools_have(
    cloud: str, selector: dict[str, str], told: list[str]
) -> None:
    gpus = 0 if selector.get(TYPE) == "m5.xlarge" else 1
    found = judged(job(pod(gpus, nodeSelector=selector)), cloud)
    assert not found.answer.is_admitted
    assert all(word in refusals(found) for word in told)


def test_a_head_that_names_gpu_nodes_is_refused_for_their_taint() -> None:
    pinned = pod(nodeSelector={TYPE: "p5.48xlarge"})
    found = judged(ray_job(pod(8), head=pinned), "eks")
    assert "head does not tolerate the taint nvidia.com/gpu" in refusals(found)
    assert TYPE in refusals(found)


@pytest.mark.parametrize(
    ("cloud", "key", "is_warned"),
    [
        ("gke", "nvidia.com/gpu.product", True),
        ("gke", "cloud.google.com/gke-flex-start", True),
        ("gke", "example.com/rack", True),
        ("gke", "kubernetes.io/arch", False),
        ("gke", "kubernetes.io/hostname", True),
        ("gke", GKE_GPU, False),
        ("eks", "eks.amazonaws.com/nodegroup", True),
        ("eks", "eks.amazonaws.com/instance-family", True),
    ],
)
def test_a_label_that_no_queue_compares_is_warned_of(cloud: str, key: str, is_warned: bool) -> None:
    known = {GKE_GPU: "nvidia-l4", "kubernetes.io/arch": "amd64"}
    value = {**known, "eks.amazonaws.com/nodegroup": "l4-us-east-1b"}.get(key, "x")
    found = judged(job(pod(1, nodeSelector={key: value})), cloud)
    assert found.answer.is_admitted, refusals(found)
    assert (key in warnings(found)) is is_warned
    named = judged(job(pod(1, nodeSelector={key: value, "muster.dev/pool": "l4"})), cloud)
    assert key not in warnings(named)


@pytest.mark.parametrize(
    ("key", "value", "is_warned"),
    [("kubernetes.io/hostname", "x", True), ("eks.amazonaws.com/nodegroup", "l4-us-east-1b", False)],
)
def test_kai_which_compares_labels_with_those_of_nodes_is_not_said_to_compare_none(
    key: str, value: str, is_warned: bool
) -> None:
    """It finds the nodes of a group that the stack knows, and may wait for a host for ever."""
    found = warnings(judged(job(pod(1, nodeSelector={key: value})), "eks", "kai"))
    assert (f"by {key}, which the stack states of no pool" in found) is is_warned
    assert "no queue compares" not in found


MIG = {
    "accelerator": "nvidia-tesla-a100",
    "machine": "a2-highgpu-1g",
    "sharing": "mig",
    "migProfile": "1g.5gb",
    "maxNodes": 4,
}
A100 = {"accelerator": "nvidia-tesla-a100", "machine": "a2-highgpu-1g", "capacity": "queued", "maxNodes": 8}


def flavors(**more: Any) -> dict[str, dict[str, str]]:
    listed = kueue.flavors(parsed(stack_text("gke", **more)))
    return {each["metadata"]["name"]: each["spec"]["nodeLabels"] for each in listed}


def test_who_names_a_gpu_means_a_whole_one_and_no_slice() -> None:
    quota = {"research": {"teams": {"vision": {"quota": {"a100": 4, "mig": 7, "cpu": 64}}}}}
    more: dict[str, Any] = {"pools": {"a100": A100, "mig": MIG}, "departments": quota}
    assert flavors(**more)["a100"][GKE_GPU] == "nvidia-tesla-a100"
    found = judged(job(pod(1, nodeSelector={GKE_GPU: "nvidia-tesla-a100"})), **more)
    assert fitting(found, "main") == {"a100"}


def test_flavors_have_a_zone_only_where_each_pool_has_one() -> None:
    """Kueue would take a pool of several zones for one that is in none."""
    zoned = {"zones": ["us-central1-a"]}
    assert all(ZONE not in labels for labels in flavors().values())
    assert {labels[ZONE] for labels in flavors(cluster=zoned).values()} == {"us-central1-a"}


def test_a_label_that_one_flavor_has_no_room_for_is_on_none() -> None:
    full = {f"example.com/label-{index}": "x" for index in range(6)}
    found = flavors(pools={"l4": {**POOLS["gke"]["l4"], "kueue": {"nodeLabels": full}}})
    assert len(found["l4"]) == 8
    assert found["l4"][GKE_GPU] == "nvidia-l4"
    assert all(TYPE not in labels for labels in found.values())


def test_a_flavor_with_a_topology_keeps_its_labels_which_kueue_forbids_to_change() -> None:
    found = flavors(**in_racks("example.com/rack"))
    assert found["h100"] == {"muster.dev/pool": "h100"}
    assert all(GKE_GPU not in labels for labels in found.values())


def test_a_label_of_the_cloud_with_another_value_is_a_mistake() -> None:
    for value, is_right in (("nvidia-l4", True), ("nvidia-a100", False)):
        labelled = {**POOLS["gke"]["l4"], "kueue": {"nodeLabels": {GKE_GPU: value}}}
        _, errors = examined(stack_text("gke", pools={"l4": labelled}))
        assert (errors == []) is is_right
    assert f"muster:pools.l4.kueue.nodeLabels.{GKE_GPU}" in errors[0]


@pytest.mark.parametrize("autoscaler", ["karpenter", "auto-mode"])
def test_how_karpenters_nodes_are_bought_is_known_of_them(autoscaler: str) -> None:
    l4, h100 = (
        {**POOLS["eks"][name], "capacity": way} for name, way in (("l4", "spot"), ("h100", "on-demand"))
    )
    pools = {"cpu": {"machine": "m6i.4xlarge", "maxNodes": 20}, "l4": l4, "h100": h100}
    more: dict[str, Any] = {"cluster": {"autoscaler": autoscaler}, "pools": pools}
    for value, fits in (("spot", {"l4"}), ("on-demand", H100), ("reserved", set())):
        found = judged(job(pod(1, nodeSelector={"karpenter.sh/capacity-type": value})), "eks", **more)
        assert fitting(found, "main") == fits, value
        assert found.answer.is_admitted is bool(fits)
    found = judged(job(pod(1, nodeSelector={"eks.amazonaws.com/nodegroup": "gpu"})), "eks", **more)
    assert "eks.amazonaws.com/nodegroup=gpu" in refusals(found)


@pytest.mark.parametrize(("gpus", "pool"), [(1, "l4"), (8, "h100")])
def test_the_pool_to_select_is_one_that_holds_the_pod(gpus: int, pool: str) -> None:
    message = refusals(judged(job(pod(gpus, nodeSelector={GKE_GPU: "nvidia-b200"}))))
    assert f"or select a pool by its name: muster.dev/pool: {pool}" in message


def test_no_pool_is_named_where_none_holds_the_pod() -> None:
    large = pod(0, nodeSelector={"cloud.google.com/machine-family": "c3"})
    large["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "32"}}
    for template in (large, pod(16, nodeSelector={GKE_GPU: "nvidia-b200"})):
        message = refusals(judged(job(template)))
        assert "write what one has, and ask for less, as no node open to it holds one of its pods" in message


def test_a_pool_in_several_zones_is_in_one_region() -> None:
    found = judged(job(pod(1, nodeSelector={"topology.kubernetes.io/region": "ORD1"})))
    assert "l4: us-central1," in refusals(found)
    rule = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "minDomains": 2}
    own = {"topologyKey": "topology.kubernetes.io/region", "labelSelector": {"matchLabels": {"app": "x"}}}
    spread = pod(1, topologySpreadConstraints=[{**rule, **own}])
    spread["metadata"] = {"labels": {"app": "x"}}
    assert "lower minDomains to 1" in refusals(judged(job(spread, parallelism=2, completions=2)))
