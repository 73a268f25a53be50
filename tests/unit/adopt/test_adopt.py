"""A cluster that runs Kueue, read from manifests, becomes a stack that means the same."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from muster.adopt.adoption import Adoption, adopt, format_report, to_json
from muster.adopt.compare import Fate
from muster.adopt.nodes import described, shape_of
from muster.cli import main
from muster.config import load
from muster.config.document import parse_text
from muster.config.stack import examine
from muster.errors import MusterError
from muster.preview.compare.diff import LoadedSide, diff_stack
from muster.render.manifest import MANAGED_BY_LABEL
from tests.integration.adopt.shapes import PRIORITIES, RAY_GUIDE, SHAPES, TREE
from tests.unit.adopt.clusters import (
    CLUSTER,
    EXAMPLE,
    Object,
    cluster_of,
    example,
    example_objects,
    lost,
    stack_of,
)


def _with(objects: list[Object], kind: str, name: str, **spec: Any) -> list[Object]:
    """The objects with other fields in the spec of one."""
    found = copy.deepcopy(objects)
    (one,) = [each for each in found if (each["kind"], each["metadata"]["name"]) == (kind, name)]
    one.setdefault("spec", {}).update(spec)
    return found


def _adopted(objects: list[Object]) -> Adoption:
    return adopt(cluster_of(objects), CLUSTER)


def test_the_example_is_what_the_command_writes(tmp_path: Path) -> None:
    adopted = adopt(example(), CLUSTER)
    assert adopted.is_exact
    assert adopted.text == (EXAMPLE / "Pulumi.adopted.yaml").read_text()
    assert format_report(adopted) in (EXAMPLE / "README.md").read_text()


def test_a_change_of_an_adopted_stack_is_reported_in_gpus() -> None:
    before = load(EXAMPLE / "Pulumi.adopted.yaml")
    text = (EXAMPLE / "Pulumi.adopted.yaml").read_text()
    after, _ = examine(
        parse_text(text.replace("nominalQuota: 2, lending", "nominalQuota: 1, lending"), source="x")
    )
    changes = diff_stack("a", LoadedSide(True, before), LoadedSide(True, after)).changes
    assert changes is not None
    assert [(each.name, each.pool.name, each.difference) for each in changes.quotas if each.is_team] == [
        ("serving", "l4", -1)
    ]


@pytest.mark.parametrize("shape", SHAPES)
def test_the_shapes_of_guides_are_expressed_exactly(shape: str) -> None:
    objects = [each for each in SHAPES[shape] if each["kind"] != "ClusterQueue" or shape != "ray-guide"]
    if shape == "ray-guide":
        # As the API server converts it to the version of today.
        queue = copy.deepcopy(next(each for each in RAY_GUIDE if each["kind"] == "ClusterQueue"))
        checks = queue["spec"].pop("admissionChecks")
        queue["spec"]["admissionChecksStrategy"] = {"admissionChecks": [{"name": each} for each in checks]}
        objects.append(queue)
    adopted = _adopted(objects)
    assert adopted.mistakes == ()
    assert adopted.is_exact, format_report(adopted)


@pytest.mark.parametrize(
    ("kind", "name", "spec", "expected"),
    [
        (
            "ClusterQueue",
            "vision",
            {"fairSharing": {"weight": "500m"}},
            ("ClusterQueue vision", "spec.fairSharing.weight"),
        ),
        (
            "ClusterQueue",
            "vision",
            {"admissionChecksStrategy": {"admissionChecks": [{"name": "budget"}]}},
            ("ClusterQueue vision", "spec.admissionChecksStrategy"),
        ),
        (
            "ClusterQueue",
            "vision",
            {"preemption": {"withinClusterQueue": "Sometimes"}},
            ("ClusterQueue vision", "spec.preemption.withinClusterQueue"),
        ),
        ("Cohort", "company", {"parentName": "research"}, ("Cohort company", "spec.parentName")),
        ("LocalQueue", "night", {"clusterQueue": "gone"}, ("LocalQueue speech/night", "spec.clusterQueue")),
    ],
)
def test_what_a_stack_cannot_say_is_named_with_its_field(
    kind: str, name: str, spec: dict[str, Any], expected: tuple[str, str]
) -> None:
    adopted = _adopted(_with(TREE, kind, name, **spec))
    assert expected in lost(adopted)
    assert not adopted.is_exact
    assert expected[0] in format_report(adopted)
    assert expected in [(each["object"], each["field"]) for each in to_json(adopted, file="")["notExpressed"]]


def test_a_field_that_nothing_reads_is_found_by_the_comparison() -> None:
    adopted = _adopted(_with(PRIORITIES, "ClusterQueue", "cluster-queue", ofTomorrow={"mode": "on"}))
    assert not adopted.is_exact
    (changed,) = [each for each in adopted.objects if each.fate is Fate.DIFFERENT]
    assert [(each.path, each.written) for each in changed.fields] == [("spec.ofTomorrow", None)]
    assert "not in the stack; it stays" in format_report(adopted)


def test_a_stack_that_would_not_validate_says_so() -> None:
    adopted = _adopted(_with(PRIORITIES, "ClusterQueue", "cluster-queue", stopPolicy="Tomorrow"))
    assert not adopted.is_exact
    assert "stopPolicy" in adopted.mistakes[0]
    assert adopted.objects == ()


def test_names_that_a_stack_cannot_have_stay_the_objects() -> None:
    objects = _with(PRIORITIES, "LocalQueue", "user-queue", clusterQueue="cluster-queue")
    objects.append({"kind": "Cohort", "metadata": {"name": "cluster-queue"}, "spec": {}})
    adopted = _adopted(objects)
    assert adopted.is_exact
    departments = {each.name: each.kueue.name for _, each in stack_of(adopted).walk()}
    assert departments == {"cluster-queue-cohort": "cluster-queue", "independent": None}


def test_two_priorities_of_one_value_stay_as_they_are() -> None:
    (prod, *_) = [each for each in PRIORITIES if each["kind"] == "WorkloadPriorityClass"]
    assert _adopted([*PRIORITIES, {**prod, "metadata": {"name": "as-high"}}]).is_exact


def test_nodes_that_are_alike_are_a_pool_and_others_are_not() -> None:
    live = example()
    pools = {pool.name: pool for pool in stack_of(adopt(live, CLUSTER)).pools}
    assert (pools["l4"].machine.name, pools["l4"].max_nodes) == ("g2-standard-8", 4)
    h100 = pools["h100"]
    assert (h100.gpus_per_node, h100.max_nodes, h100.machine.cpu) == (8, 2, 190_000)
    reasons = {each.object: each.reason for each in adopt(live, CLUSTER).findings}
    assert reasons["ResourceFlavor anywhere"].startswith("selects 7 nodes of 3 kinds")


def test_flavors_of_the_same_nodes_are_one_pool_of_the_one_that_queues_use() -> None:
    objects = example_objects()
    flavor = next(each for each in objects if each["kind"] == "ResourceFlavor" and "l4" in str(each))
    second = {**flavor, "metadata": {"name": "a-second"}}
    adopted = _adopted([*objects, second])
    assert {pool.name: pool.max_nodes for pool in stack_of(adopted).pools} == {"l4": 4, "h100": 2}
    (why,) = (each.reason for each in adopted.findings if each.object == "ResourceFlavor a-second")
    assert why == "selects nodes that are in the pool of flavor l4."


def test_a_flavor_of_all_nodes_is_no_second_pool_of_them() -> None:
    objects = example_objects()
    machines = {"g2-standard-8"}
    of_l4 = [
        each
        for each in objects
        if each["kind"] != "Node"
        or each["metadata"]["labels"].get("node.kubernetes.io/instance-type") in machines
    ]
    assert [(pool.name, pool.max_nodes) for pool in stack_of(_adopted(of_l4)).pools] == [("l4", 4)]


def test_a_gpu_that_no_label_names_makes_no_pool() -> None:
    objects = example_objects()
    for each in objects:
        if each["kind"] == "Node":
            each["metadata"]["labels"].pop("nvidia.com/gpu.product", None)
            each["metadata"]["labels"].pop("nvidia.com/gpu.memory", None)
    adopted = _adopted(objects)
    assert [pool.name for pool in stack_of(adopted).pools] == ["l4"]
    assert adopted.is_exact


def test_a_kueue_that_the_program_refuses_is_named_before_it_does() -> None:
    old = {"metadata": {"namespace": "elsewhere", "labels": {"app.kubernetes.io/version": "v0.14.1"}}}
    adopted = adopt(cluster_of(PRIORITIES, kueue=old), CLUSTER)
    assert ("Kueue", "Deployment") in lost(adopted)


def test_a_cluster_without_queues_has_nothing_to_take_over() -> None:
    with pytest.raises(MusterError, match="no ClusterQueue"):
        _adopted([each for each in PRIORITIES if each["kind"] != "ClusterQueue"])


def test_texts_of_the_cluster_do_not_reach_the_terminal_or_the_file_as_they_are() -> None:
    objects = copy.deepcopy(PRIORITIES)
    for each in objects:
        if each["kind"] == "WorkloadPriorityClass":
            each["description"] = "\x1b[31mred\n  muster:cluster: {}"
    objects = _with(objects, "ClusterQueue", "cluster-queue", ofTomorrow="\x1b[31mred")
    adopted = _adopted(objects)
    assert "\x1b" not in format_report(adopted) + adopted.text
    assert all(each.description.startswith("\x1b[31mred\n") for each in stack_of(adopted).priorities)


def _labelled(objects: list[Object], value: str, *kinds: str) -> list[Object]:
    found = copy.deepcopy(objects)
    for each in found:
        if each["kind"] in kinds:
            each["metadata"].setdefault("labels", {})[MANAGED_BY_LABEL] = value
    return found


def test_a_label_that_another_client_holds_is_named_before_the_api_server_refuses_it() -> None:
    adopted = _adopted(_labelled(PRIORITIES, "Helm", "ClusterQueue", "LocalQueue"))
    assert not adopted.is_exact
    changed = [each for each in adopted.objects if each.fate is Fate.DIFFERENT]
    assert [(each.path, each.live, each.written) for one in changed for each in one.fields] == [
        (f"metadata.labels.{MANAGED_BY_LABEL}", "Helm", "muster")
    ] * len(changed)
    report = format_report(adopted)
    assert f"kubectl label clusterqueue cluster-queue {MANAGED_BY_LABEL}-" in report
    assert f"kubectl label localqueue user-queue -n default {MANAGED_BY_LABEL}-" in report


def test_a_first_update_that_stopped_half_way_can_be_adopted_again() -> None:
    adopted = _adopted(_labelled(PRIORITIES, "muster", "ClusterQueue"))
    assert adopted.is_exact
    assert "ClusterQueue cluster-queue: is a Muster stack's already." in format_report(adopted)


def test_a_cluster_whose_queues_are_all_a_stacks_is_refused() -> None:
    with pytest.raises(MusterError, match="a second stack would fight"):
        _adopted(_labelled(PRIORITIES, "muster", "ClusterQueue", "LocalQueue"))


@pytest.mark.parametrize(
    ("kind", "name", "weight"), [("ClusterQueue", "cluster-queue", "0"), ("LocalQueue", "user-queue", "2")]
)
def test_a_weight_that_stays_on_its_object_is_not_reported_as_changed(
    kind: str, name: str, weight: str
) -> None:
    adopted = _adopted(_with(PRIORITIES, kind, name, fairSharing={"weight": weight}))
    assert not adopted.is_exact
    changed = [each for one in adopted.objects for each in one.fields]
    assert [(each.path, each.live, each.written) for each in changed] == [
        ("spec.fairSharing.weight", weight, None)
    ]
    assert [field for _, field in lost(adopted)] == ["spec.fairSharing.weight"]


def test_objects_keep_names_with_dots() -> None:
    """Every reference to a name gets a dot as well; a namespace cannot have one."""
    text = json.dumps(TREE + [each for each in PRIORITIES if each["kind"] == "WorkloadPriorityClass"])
    kinds = ("ClusterQueue", "Cohort", "ResourceFlavor", "LocalQueue", "WorkloadPriorityClass")
    named = {each["metadata"]["name"] for each in json.loads(text) if each["kind"] in kinds}
    for name in named:
        text = text.replace(f'"{name}"', f'"x.{name}"')
    for key in ("namespace", "kubernetes.io/metadata.name"):
        text = text.replace(f'"{key}": "x.', f'"{key}": "')
    adopted = _adopted(json.loads(text))
    assert adopted.mistakes == ()
    assert adopted.is_exact, format_report(adopted)


def test_a_queue_in_a_namespace_of_the_cluster_is_taken_over() -> None:
    objects = copy.deepcopy(PRIORITIES)
    (door,) = [each for each in objects if each["kind"] == "LocalQueue"]
    door["metadata"]["namespace"] = "kube-system"
    assert _adopted(objects).is_exact


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        # These three as NVIDIA's feature discovery 0.18.0 wrote them on real GPUs (tests/gpu).
        ({"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}, "nvidia-h100-80gb"),
        ({"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-SHARED"}, "nvidia-h100-80gb-hbm3-shared"),
        ({"nvidia.com/gpu.product": "NVIDIA-H200"}, "nvidia-h200-141gb"),
        ({"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"}, "nvidia-a100-sxm4-40gb-mig-1g-5gb"),
        ({"nvidia.com/gpu.product": "Tesla-T4-SHARED"}, "nvidia-tesla-t4-shared"),
        (
            {
                "cloud.google.com/gke-accelerator": "nvidia-tesla-a100",
                "cloud.google.com/gke-gpu-partition-size": "1g.5gb",
            },
            "nvidia-tesla-a100-mig-1g-5gb",
        ),
    ],
)
def test_a_part_of_a_gpu_is_not_the_whole_card(labels: dict[str, str], expected: str) -> None:
    size = {"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": "7"}
    node = {"metadata": {"labels": labels}, "status": {"capacity": size, "allocatable": size}}
    assert shape_of(node).accelerator == expected


@pytest.mark.parametrize(
    ("product", "node"),
    [
        ("AMD_Instinct_MI300X_OAM", {"gpus": 8, "accelerator": "amd-mi300x"}),
        ("AMD_Instinct_MI250X", {"gpus": 8, "accelerator": "amd-instinct-mi250x", "gpuMemory": "196608Mi"}),
    ],
)
def test_amds_nodes_are_described_as_a_stack_does(product: str, node: dict[str, object]) -> None:
    size = {"cpu": "96", "memory": "1Ti", "amd.com/gpu": "8"}
    labels = {"amd.com/gpu.product-name": product, "amd.com/gpu.vram": "192G"}
    live = {"metadata": {"labels": labels}, "status": {"capacity": size, "allocatable": size}}
    assert described(shape_of(live), [live]) == {"node": {"cpu": 96, "memory": "1Ti", **node}}


@pytest.mark.parametrize("text", ["12e5", "0o7", "1.", "007", "1_000", "0x1f", "yes"])
def test_text_that_looks_like_a_number_is_quoted(text: str) -> None:
    objects = copy.deepcopy(PRIORITIES)
    for each in objects:
        if each["kind"] == "ResourceFlavor":
            each.setdefault("spec", {})["nodeLabels"] = {"rack": text}
    assert f"rack: '{text}'" in _adopted(objects).text


# Of files, in place of a cluster


def _files(folder: Path, kinds: set[str], **changed: Any) -> Path:
    """The example's objects of these kinds; the queue `vision` also has the changed fields."""
    objects = example_objects()
    chosen = _with([each for each in objects if each["kind"] in kinds], "ClusterQueue", "vision", **changed)
    folder.mkdir(exist_ok=True)
    (folder / "queues.yaml").write_text(yaml.safe_dump_all(chosen))
    return folder


_QUEUES = {"Cohort", "ClusterQueue", "LocalQueue", "ResourceFlavor", "WorkloadPriorityClass"}


def test_files_of_a_cluster_are_the_stack_of_the_cluster(tmp_path: Path) -> None:
    out = tmp_path / "Pulumi.prod.yaml"
    command = ["adopt", "--manifests", str(EXAMPLE / "cluster.yaml"), "--context", "prod", "--out", str(out)]
    assert main(command) == 0
    found, expected = (
        yaml.safe_load(each.read_text())["config"] for each in (out, EXAMPLE / "Pulumi.adopted.yaml")
    )
    # Files of queues do not show whether the cluster has KubeRay.
    del expected["muster:kuberay"]
    assert found == expected


def test_files_without_nodes_are_a_valid_stack_without_pools(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, folder = tmp_path / "Pulumi.prod.yaml", _files(tmp_path / "queues", _QUEUES)
    assert main(["adopt", "--manifests", str(folder), "--out", str(out)]) == 0
    assert "Nodes: are in no file. Effect: no pools" in capsys.readouterr().out
    assert main(["validate", str(out)]) == 0
    assert {team.name for _, team in load(out).teams()} == {"research", "serving", "vision"}


def test_a_field_of_a_file_that_the_api_lacks_is_no_exact_adoption(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = _files(tmp_path / "queues", _QUEUES, admissionChecks=["prov"])
    assert main(["adopt", "--manifests", str(folder), "--out", str(tmp_path / "stack.yaml")]) == 1
    assert "ClusterQueue vision: spec.admissionChecks: is no field of the API" in capsys.readouterr().out


def test_a_cluster_and_files_are_not_adopted_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["adopt", "--manifests", str(tmp_path), "--kubeconfig", "x"]) == 2
    assert "--manifests takes the place of a cluster" in capsys.readouterr().err


def test_a_file_without_a_namespace_is_refused_by_the_object(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = _files(tmp_path / "queues", _QUEUES)
    file = folder / "queues.yaml"
    objects = list(yaml.safe_load_all(file.read_text()))
    door = next(each for each in objects if each["kind"] == "LocalQueue")
    del door["metadata"]["namespace"]
    file.write_text(yaml.safe_dump_all(objects))
    assert main(["adopt", "--manifests", str(folder)]) == 2
    assert f"LocalQueue {door['metadata']['name']} has no metadata.namespace" in capsys.readouterr().err
