"""Pools as objects of Karpenter and of EKS Auto Mode, and what neither can make."""

from dataclasses import replace
from typing import Any

import pytest
import yaml

from muster import config
from muster.artifacts.catalogue import catalogue
from muster.artifacts.resolved import installed
from muster.components.karpenter import chart_values
from muster.model import gpu_operator
from muster.model.capacity import Capacity, Gangs, Reservation
from muster.model.clusters import EksCluster, EksStorage, NodeProvisioner, SystemPool
from muster.model.machines import MACHINES
from muster.model.node_labels import node_labels
from muster.model.pools import GpuSharing, Image, ImagePull, LocalDisks, Placement, Pool, Sharing
from muster.model.stack import GangAdmission, GangMode, Scheduler, Stack
from muster.model.waiting import BY_PLACEHOLDERS, NOT_PROMISED, gang_promise
from muster.render import karpenter
from muster.validation import check
from tests.unit.model.model_stacks import EKS, pool, pool_of
from tests.unit.model.openapi_check import mistakes

ZONES = ("us-east-1a", "us-east-1b")
KARPENTER = replace(EKS, zones=ZONES, autoscaler=NodeProvisioner.KARPENTER, tags={"team": "platform"})
AUTO = replace(KARPENTER, autoscaler=NodeProvisioner.AUTO_MODE)
GROUPS = replace(KARPENTER, autoscaler=NodeProvisioner.CLUSTER_AUTOSCALER)
FOUND = karpenter.Found(
    role="ml-nodes",
    subnets={"us-east-1a": "subnet-a1", "us-east-1b": "subnet-b2"},
    shared="sg-1",
    fabric="sg-2",
    placement={"a100": "ml-a100"},
)


CPU = pool("cpu", "m6i.2xlarge", Capacity.ON_DEMAND, labels={"tier": "web"})
T4 = pool("t4", "g4dn.xlarge", Capacity.SPOT, local_disks=LocalDisks.EPHEMERAL)
A100 = pool(
    "a100",
    "p4d.24xlarge",
    Capacity.RESERVATION,
    reservation=Reservation(name="cr-1"),
    zones=ZONES[1:],
    placement=Placement.COMPACT,
    efa=True,
)
H100 = pool(
    "h100",
    "p5.48xlarge",
    Capacity.CAPACITY_BLOCK,
    reservation=Reservation(name="cr-2"),
    zones=ZONES[:1],
    efa=True,
)
POOLS = (CPU, T4, A100, H100)


def made(cluster: EksCluster, *pools: Pool) -> dict[tuple[str, str], dict[str, Any]]:
    return {
        (each["kind"], each["metadata"]["name"]): each for each in karpenter.objects(pools, cluster, FOUND)
    }


def required(node_pool: dict[str, Any]) -> dict[str, list[str]]:
    return {each["key"]: each["values"] for each in node_pool["spec"]["template"]["spec"]["requirements"]}


def test_every_object_of_karpenter_fits_its_definition() -> None:
    for name in ("nodepools", "ec2nodeclasses"):
        definition = yaml.safe_load(catalogue().files[name].read_text())["spec"]
        (version,) = definition["versions"]
        # Auto Mode has the same NodePools. For its class: tests/integration/node_kinds.
        auto = karpenter.objects((CPU, replace(H100, efa=False)), AUTO, FOUND)
        for item in [*karpenter.objects(POOLS, KARPENTER, FOUND), *auto]:
            if item["kind"] == definition["names"]["kind"]:
                assert item["apiVersion"] == f"{definition['group']}/{version['name']}"
                assert mistakes(item, version["schema"]["openAPIV3Schema"]) == []


@pytest.mark.parametrize(
    ("wanted", "capacity", "limits", "expires"),
    [
        (CPU, "on-demand", {"cpu": "32"}, "720h"),
        (T4, "spot", {"nvidia.com/gpu": "4"}, "Never"),
        (A100, "reserved", {"nvidia.com/gpu": "32"}, "Never"),
        (H100, "reserved", {"nvidia.com/gpu": "32"}, "Never"),
    ],
)
def test_a_node_pool_buys_its_one_machine_as_its_pool_says(
    wanted: Pool, capacity: str, limits: dict[str, str], expires: str
) -> None:
    """No more nodes than the pool has over all zones, and no GPU node that expires under a gang."""
    made = karpenter.node_pool(wanted, KARPENTER)
    assert made["spec"]["limits"] == limits
    assert made["spec"]["template"]["spec"]["expireAfter"] == expires
    found = required(made)
    assert found["karpenter.sh/capacity-type"] == [capacity]
    assert found["node.kubernetes.io/instance-type"] == [wanted.machine.name]
    assert found["topology.kubernetes.io/zone"] == list(wanted.zones or ZONES)


def test_a_reserved_pool_takes_from_its_own_reservation_and_others_select_none() -> None:
    found = made(KARPENTER, *POOLS)
    assert found["EC2NodeClass", "h100"]["spec"]["capacityReservationSelectorTerms"] == [{"id": "cr-2"}]
    kind = "karpenter.k8s.aws/capacity-reservation-type"
    assert required(found["NodePool", "h100"])[kind] == ["capacity-block"]
    assert required(found["NodePool", "a100"])[kind] == ["default"]
    for name in ("cpu", "t4"):
        assert "capacityReservationSelectorTerms" not in found["EC2NodeClass", name]["spec"]
        assert kind not in required(found["NodePool", name])


def test_nodes_are_labelled_and_tainted_as_those_of_node_groups_are() -> None:
    template = karpenter.node_pool(H100, KARPENTER)["spec"]["template"]
    assert template["metadata"]["labels"] == node_labels(H100, GROUPS)
    assert template["spec"]["taints"] == [
        {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
    ]
    assert "taints" not in karpenter.node_pool(CPU, KARPENTER)["spec"]["template"]["spec"]


@pytest.mark.parametrize("cluster", [KARPENTER, AUTO])
def test_no_running_pod_is_moved_to_save_money_and_a_whole_gang_is_given_back_at_once(
    cluster: EksCluster,
) -> None:
    for wanted in (CPU, T4):
        disruption = karpenter.node_pool(wanted, cluster)["spec"]["disruption"]
        assert disruption["consolidationPolicy"] == "WhenEmpty"
        assert disruption["consolidateAfter"] not in ("Never", "0s")
        allowed = {reason: each["nodes"] for each in disruption["budgets"] for reason in each["reasons"]}
        assert allowed == {"Empty": "100%", "Drifted": "1"}


def test_a_class_launches_as_the_launch_template_of_a_node_group_would() -> None:
    found = made(KARPENTER, *POOLS)
    cpu, h100 = found["EC2NodeClass", "cpu"]["spec"], found["EC2NodeClass", "h100"]["spec"]
    assert cpu["role"] == "ml-nodes"
    assert cpu["amiSelectorTerms"] == [{"alias": f"al2023@{KARPENTER.image_release}"}]
    assert cpu["metadataOptions"]["httpTokens"] == "required"
    assert cpu["metadataOptions"]["httpPutResponseHopLimit"] == 1
    assert cpu["blockDeviceMappings"][0]["ebs"]["encrypted"] is True
    assert cpu["subnetSelectorTerms"] == [{"id": "subnet-a1"}, {"id": "subnet-b2"}]
    assert h100["subnetSelectorTerms"] == [{"id": "subnet-a1"}]
    assert cpu["tags"] == {"team": "platform", "Name": "ml-cpu"}
    assert found["EC2NodeClass", "t4"]["spec"]["instanceStorePolicy"] == "RAID0"
    assert found["EC2NodeClass", "a100"]["spec"]["placementGroupSelector"] == {"name": "ml-a100"}


def test_efa_has_an_interface_a_card_and_the_group_that_lets_it_pass() -> None:
    found = made(KARPENTER, *POOLS)
    spec = found["EC2NodeClass", "h100"]["spec"]
    assert spec["securityGroupSelectorTerms"] == [{"id": "sg-1"}, {"id": "sg-2"}]
    kinds = [each["interfaceType"] for each in spec["networkInterfaces"]]
    assert kinds == ["interface", *["efa-only"] * 32]
    places = {(each["networkCardIndex"], each["deviceIndex"]) for each in spec["networkInterfaces"]}
    assert len(places) == 33
    assert "networkInterfaces" not in found["EC2NodeClass", "cpu"]["spec"]


def test_karpenter_s_nodes_pull_in_parallel_where_the_pool_says_so() -> None:
    found = made(KARPENTER, CPU, replace(T4, image_pull=ImagePull.PARALLEL))
    assert "userData" not in found["EC2NodeClass", "cpu"]["spec"]
    spec = found["EC2NodeClass", "t4"]["spec"]
    assert '"spec": {"featureGates": {"FastImagePull": true}}' in spec["userData"]
    assert spec["instanceStorePolicy"] == "RAID0"


def test_auto_mode_has_disks_for_volumes_that_name_no_class() -> None:
    found = made(AUTO, CPU)["StorageClass", "muster-ebs"]
    assert found["metadata"]["annotations"] == {"storageclass.kubernetes.io/is-default-class": "true"}
    assert (found["provisioner"], found["parameters"]["encrypted"]) == ("ebs.csi.eks.amazonaws.com", "true")
    own = replace(AUTO, storage=EksStorage(default_class=False))
    assert ("StorageClass", "muster-ebs") not in made(own, CPU)
    assert not [key for key in made(KARPENTER, CPU) if key[0] == "StorageClass"]


def test_auto_mode_gets_a_system_pool_and_enforces_network_policies() -> None:
    found = made(AUTO, CPU, replace(H100, efa=False))
    assert found["ConfigMap", "amazon-vpc-cni"]["data"] == {"enable-network-policy-controller": "true"}
    for name in ("system", "cpu", "h100"):
        spec = found["NodeClass", name]["spec"]
        assert spec["networkPolicy"] == "DefaultAllow"
        assert "tags" not in spec
        reference = found["NodePool", name]["spec"]["template"]["spec"]["nodeClassRef"]
        assert reference == {"group": "eks.amazonaws.com", "kind": "NodeClass", "name": name}
    labels = found["NodePool", "system"]["spec"]["template"]["metadata"]["labels"]
    assert labels == {"muster.dev/pool": "system"}
    assert found["NodeClass", "h100"]["spec"]["capacityReservationSelectorTerms"] == [{"id": "cr-2"}]


def stack(cluster: EksCluster, *pools: Pool) -> Stack:
    return Stack(cluster=cluster, pools=(CPU, *pools), departments=())


def test_auto_mode_gets_no_gpu_operator_and_only_karpenter_its_chart() -> None:
    assert gpu_operator.installation(stack(AUTO, T4)) is None
    assert gpu_operator.installation(stack(KARPENTER, T4)) is not None
    assert "karpenter" in installed(stack(KARPENTER, T4))
    assert "karpenter" not in installed(stack(GROUPS, T4)) + installed(stack(AUTO, T4))


def test_gangs_ask_by_placeholders_where_no_request_is_answered() -> None:
    off = GangAdmission(mode=GangMode.OFF)
    for cluster in (KARPENTER, AUTO):
        assert not cluster.answers_requests
        for scheduler in Scheduler:
            assert replace(stack(cluster, T4), scheduler=scheduler).placeholder_pools == (T4,)
        assert gang_promise(stack(cluster, T4)) == BY_PLACEHOLDERS
        assert gang_promise(replace(stack(cluster, T4), gang_admission=off)) == NOT_PROMISED
    assert GROUPS.answers_requests
    assert not stack(GROUPS, T4).placeholder_pools


def found(cluster: EksCluster, *pools: Pool) -> dict[str, str]:
    """path -> level."""
    return {each.path: each.level for each in check(stack(cluster, *pools), adjacent={})}


@pytest.mark.parametrize("cluster", [KARPENTER, AUTO])
@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"capacity": Capacity.QUEUED}, "capacity"),
        ({"min_nodes": 1}, "minNodes"),
        ({"image": Image.BOTTLEROCKET}, "image"),
        ({"sharing": GpuSharing(kind=Sharing.TIME_SLICING, shares=4)}, "sharing"),
        ({"labels": {"karpenter.sh/mine": "1"}}, "labels.karpenter.sh/mine"),
        (
            {
                "capacity": Capacity.RESERVATION,
                "reservation": Reservation(name="arn:aws:resource-groups:::group/g"),
            },
            "reservation",
        ),
    ],
)
def test_what_cannot_be_made_is_refused_at_its_key(
    cluster: EksCluster, change: dict[str, Any], path: str
) -> None:
    wanted = replace(T4, local_disks=LocalDisks.NONE, **change)
    refused = {each.path for each in check(stack(cluster, wanted), adjacent={}) if each.level == "error"}
    assert f"muster:pools.t4.{path}" in refused


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"efa": True}, "efa"),
        ({"placement": Placement.COMPACT}, "placement"),
        ({"local_disks": LocalDisks.EPHEMERAL}, "localDisks"),
        ({"image_pull": ImagePull.PARALLEL}, "imagePull"),
    ],
)
def test_what_auto_mode_chooses_by_itself_is_refused_there_alone(change: dict[str, Any], path: str) -> None:
    plain = replace(H100, efa=False)
    wanted = replace(plain, **change)
    assert found(AUTO, wanted).get(f"muster:pools.h100.{path}") == "error"
    assert found(KARPENTER, wanted).get(f"muster:pools.h100.{path}") != "error"
    assert found(AUTO, plain).get(f"muster:pools.h100.{path}") != "error"


def test_a_sound_stack_breaks_no_rule() -> None:
    assert found(KARPENTER, T4, replace(A100, placement_group="hpc"), H100) == {}
    assert found(AUTO) == {}
    assert found(replace(KARPENTER, image_release="latest")) == {"muster:cluster.imageRelease": "error"}


def test_a_pool_whose_gangs_are_promised_nothing_brings_a_warning() -> None:
    none = replace(T4, gangs=Gangs.NONE)
    assert found(KARPENTER, none, H100) == {"muster:pools.t4": "warning"}
    assert found(GROUPS, none) == {}


def test_auto_mode_reads_a_machine_without_its_interfaces_and_disks() -> None:
    text = """
    muster:cluster:
      {provider: eks, name: ml, region: us-east-1, zones: [us-east-1a, us-east-1b], autoscaler: auto-mode,
       publicCidrs: [198.51.100.0/24]}
    muster:pools:
      cpu: {machine: m6i.xlarge, maxNodes: 2}
      h100: {accelerator: nvidia-h100-80gb, machine: p5.48xlarge, maxNodes: 2}
    muster:departments: {research: {teams: {team-a: {quota: {h100: 8}}}}}
    """
    h100 = pool_of(config.parse(yaml.safe_load(text), source="x"), "h100")
    assert (h100.efa, h100.local_disks) == (False, LocalDisks.NONE)


def test_karpenters_chart_gets_its_own_image_and_as_many_replicas_as_there_are_nodes() -> None:
    values = chart_values(
        KARPENTER,
        queue="q",
        image=f"registry.test/karpenter@sha256:{'ab' * 32}",
        node_selector={"muster.dev/pool": "system"},
    )
    assert values["settings"] == {"clusterName": "ml", "interruptionQueue": "q"}
    assert values["controller"]["image"] == {
        "repository": "registry.test/karpenter",
        "tag": "",
        "digest": f"sha256:{'ab' * 32}",
    }
    assert values["replicas"] == 2
    small = replace(KARPENTER, system_pool=SystemPool(machine=MACHINES["m6i.xlarge"], min_nodes=1))
    tagged = chart_values(small, queue="q", image="localhost:5000/karpenter:1.14.1", node_selector={})
    assert tagged["replicas"] == 1
    assert tagged["controller"]["image"] == {
        "repository": "localhost:5000/karpenter",
        "tag": "1.14.1",
        "digest": "",
    }


SEVERAL = pool(
    "several",
    "p4d.24xlarge",
    Capacity.RESERVATION,
    fallback=(Capacity.SPOT, Capacity.ON_DEMAND),
    reservation=Reservation(name="cr-1"),
    zones=ZONES[:1],
    efa=True,
)


@pytest.mark.parametrize("cluster", [KARPENTER, AUTO])
def test_a_pool_of_several_ways_takes_its_reservation_and_may_take_others(cluster: EksCluster) -> None:
    objects = made(cluster, SEVERAL)
    values = required(objects["NodePool", "several"])
    assert values["karpenter.sh/capacity-type"] == ["reserved", "spot", "on-demand"]
    assert "karpenter.k8s.aws/capacity-reservation-type" not in values, "only reserved nodes have it"
    (nodes,) = (
        body for (kind, name), body in objects.items() if kind.endswith("Class") and name == "several"
    )
    assert nodes["spec"]["capacityReservationSelectorTerms"] == [{"id": "cr-1"}]


@pytest.mark.parametrize(
    ("cluster", "ways", "words"),
    [
        (KARPENTER, ("reservation", "on-demand", "spot"), "Karpenter tries [reservation, spot, on-demand]"),
        (KARPENTER, ("spot", "reservation"), "paid for and not used"),
        (KARPENTER, ("on-demand", "capacity-block"), "has capacity-block, which is no part of a list"),
        (GROUPS, ("reservation", "on-demand"), "buys the nodes of a pool in one way"),
    ],
)
def test_a_list_that_would_not_be_followed_is_refused(
    cluster: EksCluster, ways: tuple[str, ...], words: str
) -> None:
    first, *rest = map(Capacity, ways)
    one = replace(SEVERAL, capacity=first, fallback=tuple(rest))
    found = check(Stack(cluster=cluster, pools=(CPU, one), departments=()), adjacent={})
    said = [each.message for each in found if each.path == "muster:pools.several.capacity"]
    assert any(words in message for message in said), said
