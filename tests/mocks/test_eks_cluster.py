"""What an EKS stack asks Amazon for: every kind of pool, and a cluster that nobody reaches by accident."""

import base64
import ipaddress
import json
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from email import message_from_bytes
from functools import partial
from typing import Any

import pytest
import yaml

from muster.components.clusters.eks import EksGpuCluster, EksGpuClusterArgs, karpenter
from muster.components.clusters.eks.network import subnet_cidrs
from muster.components.clusters.eks.roles import autoscaler_policy
from muster.errors import MusterError
from muster.model.capacity import Capacity, Reservation
from muster.model.clusters import (
    Access,
    AccessPolicy,
    EksCluster,
    EksNetwork,
    EksStorage,
    ExistingVpc,
    NatGateways,
    NodeProvisioner,
    StorageDriver,
)
from muster.model.machines import MACHINES
from muster.model.pools import Image, ImagePull, LocalDisks, Placement, Pool
from tests.mocks.recorder import Program, run, secret
from tests.unit.model import model_stacks

ZONES = ("us-east-1a", "us-east-1b")
CLUSTER = EksCluster(
    name="ml",
    region="us-east-1",
    zones=ZONES,
    access={
        "ops": Access(principal="arn:aws:iam::1:role/ops", policy=AccessPolicy.CLUSTER_ADMIN),
        "team-a": Access(principal="arn:aws:iam::1:role/a", groups=("muster:team-a",)),
    },
)
GROUP = "aws:eks/nodeGroup:NodeGroup"
TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
CONTROL = "aws:eks/cluster:Cluster"


pool = partial(model_stacks.pool, max_nodes=8, image=Image.AL2023)
POOLS = (
    pool("cpu", "m6i.2xlarge", Capacity.ON_DEMAND, min_nodes=2),
    pool("l4", "g6.2xlarge", Capacity.QUEUED, local_disks=LocalDisks.EPHEMERAL),
    pool("a10g", "g5.2xlarge", Capacity.SPOT, image=Image.BOTTLEROCKET, local_disks=LocalDisks.EPHEMERAL),
    pool("a100", "p4d.24xlarge", Capacity.RESERVATION, reservation=Reservation(name="cr-1"), zones=ZONES[:1]),
    pool(
        "h200",
        "p5en.48xlarge",
        Capacity.CAPACITY_BLOCK,
        reservation=Reservation(name="cr-2"),
        zones=ZONES[:1],
        efa=True,
        placement=Placement.COMPACT,
        local_disks=LocalDisks.EPHEMERAL,
    ),
)


def made(cluster: EksCluster = CLUSTER, pools: tuple[Pool, ...] = POOLS) -> Program:
    return run(lambda: EksGpuCluster(cluster.name, EksGpuClusterArgs(cluster=cluster, pools=pools)))


@pytest.fixture(scope="module")
def program() -> Program:
    return made()


def group(program: Program, name: str) -> Mapping[str, Any]:
    """The first of a pool's groups, which differ in their zone alone."""
    return next(each.inputs for each in program.of(GROUP) if each.name.startswith(f"ml-{name}"))


def template(program: Program, name: str) -> Mapping[str, Any]:
    return program.one(TEMPLATE, f"ml-{name}").inputs


@pytest.mark.parametrize(
    ("name", "capacity", "ami"),
    [
        ("system", "ON_DEMAND", "AL2023_x86_64_STANDARD"),
        ("cpu", "ON_DEMAND", "AL2023_x86_64_STANDARD"),
        ("l4", "ON_DEMAND", "AL2023_x86_64_NVIDIA"),
        ("a10g", "SPOT", "BOTTLEROCKET_x86_64_NVIDIA"),
        ("a100", "ON_DEMAND", "AL2023_x86_64_NVIDIA"),
        ("h200", "CAPACITY_BLOCK", "AL2023_x86_64_NVIDIA"),
    ],
)
def test_a_group_is_bought_and_booted_as_its_pool_says(
    program: Program, name: str, capacity: str, ami: str
) -> None:
    assert group(program, name)["capacityType"] == capacity
    assert group(program, name)["amiType"] == ami


@pytest.mark.parametrize(
    ("machine", "image", "ami"),
    [
        ("m8g.2xlarge", Image.AL2023, "AL2023_ARM_64_STANDARD"),
        ("g5g.xlarge", Image.AL2023, "AL2023_ARM_64_NVIDIA"),
        ("m8g.2xlarge", Image.BOTTLEROCKET, "BOTTLEROCKET_ARM_64"),
        ("trn1.2xlarge", Image.AL2023, "AL2023_x86_64_NEURON"),
    ],
)
def test_an_image_follows_the_processor_and_the_accelerator(machine: str, image: Image, ami: str) -> None:
    program = made(pools=(pool("p", machine, Capacity.ON_DEMAND, image=image),))
    assert group(program, "p")["amiType"] == ami


def test_neuron_nodes_are_tainted_and_described_by_their_own_resource() -> None:
    program = made(pools=(pool("p", "trn1.2xlarge", Capacity.ON_DEMAND, max_nodes=2),))
    assert group(program, "p")["taints"][0]["key"] == "aws.amazon.com/neuron"
    made_tags = [each.inputs["tag"] for each in program.of("aws:autoscaling/tag:Tag")]
    tags = {tag["key"]: tag["value"] for tag in made_tags}
    assert tags["k8s.io/cluster-autoscaler/node-template/resources/aws.amazon.com/neuron"] == "1"
    assert "k8s.io/cluster-autoscaler/node-template/label/k8s.amazonaws.com/accelerator" not in tags


def test_a_capacity_block_is_said_in_the_launch_template_in_its_one_zone(program: Program) -> None:
    block, launch = group(program, "h200"), template(program, "h200")
    assert "instanceTypes" not in block
    assert launch["instanceType"] == "p5en.48xlarge"
    assert launch["instanceMarketOptions"] == {"marketType": "capacity-block"}
    assert launch["capacityReservationSpecification"]["capacityReservationTarget"] == {
        "capacityReservationId": "cr-2"
    }
    assert len(block["subnetIds"]) == 1
    assert block["scalingConfig"] == {"desiredSize": 0, "minSize": 0, "maxSize": 8}


def test_only_a_capacity_block_says_machine_and_market_in_its_template(program: Program) -> None:
    for name in ("cpu", "l4", "a10g", "a100"):
        assert not {"instanceType", "instanceMarketOptions"} & template(program, name).keys()
        assert len(group(program, name)["instanceTypes"]) == 1


def test_a_reserved_pool_takes_from_its_reservation_and_every_other_from_none(program: Program) -> None:
    assert template(program, "a100")["capacityReservationSpecification"] == {
        "capacityReservationPreference": "capacity-reservations-only",
        "capacityReservationTarget": {"capacityReservationId": "cr-1"},
    }
    for name in ("cpu", "l4", "a10g"):
        found = template(program, name)["capacityReservationSpecification"]
        assert found == {"capacityReservationPreference": "none"}


def groups(pool: Pool) -> dict[str, Mapping[str, Any]]:
    return {
        each.inputs["nodeGroupName"]: each.inputs
        for each in made(pools=(pool,)).of(GROUP)
        if each.name != "ml-system"
    }


def test_no_group_spans_zones_so_that_ec2_balances_none_of_them() -> None:
    found = groups(POOLS[1])
    assert found.keys() == {"l4-us-east-1a", "l4-us-east-1b"}
    subnets = [each["subnetIds"] for each in found.values()]
    assert all(len(each) == 1 for each in subnets)
    assert subnets[0] != subnets[1]


@pytest.mark.parametrize(
    ("least", "most", "sizes"),
    [
        (0, 8, [(0, 8), (0, 8)]),
        (3, 8, [(2, 8), (1, 8)]),
        # Of a fixed size: as many nodes in all as the pool has.
        (3, 3, [(2, 2), (1, 1)]),
        (1, 1, [(1, 1)]),
    ],
)
def test_the_least_nodes_are_spread_over_zones_and_any_zone_may_hold_the_rest(
    least: int, most: int, sizes: list[tuple[int, int]]
) -> None:
    scaling = [
        each["scalingConfig"] for each in groups(replace(POOLS[1], min_nodes=least, max_nodes=most)).values()
    ]
    assert [(each["minSize"], each["maxSize"]) for each in scaling] == sizes
    assert all(each["desiredSize"] == each["minSize"] for each in scaling)


def test_an_update_of_reserved_nodes_needs_no_node_beyond_the_reservation(program: Program) -> None:
    strategies = {
        name: group(program, name)["updateConfig"]["updateStrategy"] for name in ("l4", "a100", "h200")
    }
    assert strategies == {"l4": "DEFAULT", "a100": "MINIMAL", "h200": "MINIMAL"}


def test_network_policies_are_enforced(program: Program) -> None:
    addon = program.one("aws:eks/addon:Addon", "ml-vpc-cni").inputs
    assert json.loads(addon["configurationValues"]) == {"enableNetworkPolicy": "true"}


def test_a_volume_that_names_no_class_gets_a_disk(program: Program) -> None:
    addon = program.one("aws:eks/addon:Addon", "ml-aws-ebs-csi-driver").inputs
    assert json.loads(addon["configurationValues"]) == {"defaultStorageClass": {"enabled": True}}


def test_faults_of_gpus_are_seen_on_tainted_nodes(program: Program) -> None:
    addon = program.one("aws:eks/addon:Addon", "ml-eks-node-monitoring-agent").inputs
    assert json.loads(addon["configurationValues"]) == {
        "dcgmAgent": {"tolerations": [{"operator": "Exists"}]}
    }


def test_a_driver_has_the_rights_of_its_file_store_and_mountpoint_has_none() -> None:
    cluster = replace(CLUSTER, storage=EksStorage(drivers=tuple(StorageDriver)))
    program = made(cluster)
    for name, account, rights in (
        ("efs", "efs-csi-controller-sa", "service-role/AmazonEFSCSIDriverPolicy"),
        ("fsx", "fsx-csi-controller-sa", "AmazonFSxFullAccess"),
    ):
        addon = program.one("aws:eks/addon:Addon", f"ml-aws-{name}-csi-driver")
        assert [each["serviceAccount"] for each in addon.inputs["podIdentityAssociations"]] == [account]
        grant = program.one("aws:iam/rolePolicyAttachment:RolePolicyAttachment", f"ml-aws-{name}-csi-driver")
        assert grant.inputs["policyArn"] == f"arn:aws:iam::aws:policy/{rights}"
        assert program.comes_after(addon, grant)
    mountpoint = program.one("aws:eks/addon:Addon", "ml-aws-mountpoint-s3-csi-driver").inputs
    assert "podIdentityAssociations" not in mountpoint


def test_a_group_of_reservations_is_named_by_its_arn() -> None:
    arn = "arn:aws:resource-groups:us-east-1:1:group/r"
    program = made(pools=(replace(POOLS[3], reservation=Reservation(name=arn)),))
    target = template(program, "a100")["capacityReservationSpecification"]["capacityReservationTarget"]
    assert target == {"capacityReservationResourceGroupArn": arn}


def test_no_pod_reaches_the_node_s_credentials_and_every_disk_is_encrypted(program: Program) -> None:
    launches = program.of(TEMPLATE)
    assert len(launches) == len(POOLS) + 1
    for each in launches:
        found = each.inputs["metadataOptions"]
        assert (found["httpTokens"], found["httpPutResponseHopLimit"]) == ("required", 1)
        for mapping in each.inputs["blockDeviceMappings"]:
            assert mapping["ebs"]["encrypted"] == "true"


def test_efa_is_one_interface_for_the_node_and_one_for_each_card(program: Program) -> None:
    found = template(program, "h200")["networkInterfaces"]
    places = [(each["networkCardIndex"], each["deviceIndex"], each["interfaceType"]) for each in found]
    assert places[:3] == [(0, 0, "interface"), (0, 1, "efa-only"), (1, 0, "efa-only")]
    assert len(set(places)) == len(places) == 1 + MACHINES["p5en.48xlarge"].efa
    assert all(each["securityGroups"][0] == "sg-cluster" for each in found)
    # Groups stand on the interfaces, or on the template, never on both.
    assert "vpcSecurityGroupIds" not in template(program, "h200")
    assert template(program, "l4")["vpcSecurityGroupIds"] == ["sg-cluster"]


def test_efa_nodes_may_say_everything_to_each_other_and_nobody_else(program: Program) -> None:
    for kind in ("Ingress", "Egress"):
        (rule,) = program.of(f"aws:vpc/securityGroup{kind}Rule:SecurityGroup{kind}Rule")
        assert rule.inputs["referencedSecurityGroupId"] == rule.inputs["securityGroupId"]
        assert rule.inputs["ipProtocol"] == "-1"


def test_nodes_stand_close_together_where_the_pool_says_so(program: Program) -> None:
    (found,) = program.of("aws:ec2/placementGroup:PlacementGroup")
    assert found.inputs["strategy"] == "cluster"
    assert {each.name for each in program.of(TEMPLATE) if "placement" in each.inputs} == {"ml-h200"}


def test_a_pool_launches_into_the_existing_group_that_it_names() -> None:
    program = made(pools=(replace(POOLS[4], placement_group="hpc"),))
    assert template(program, "h200")["placement"] == {"groupName": "hpc"}
    assert not program.of("aws:ec2/placementGroup:PlacementGroup")


def test_local_disks_are_striped_in_the_words_of_each_image(program: Program) -> None:
    mime = base64.b64decode(template(program, "l4")["userData"]).decode()
    _, part = mime.split("Content-Type: application/node.eks.aws\n\n")
    document = yaml.safe_load(part.split("\n--MUSTER--")[0])
    assert document["kind"] == "NodeConfig"
    assert document["spec"] == {"instance": {"localStorage": {"strategy": "RAID0"}}}
    toml = base64.b64decode(template(program, "a10g")["userData"]).decode()
    assert '["apiclient", "ephemeral-storage", "init"]' in toml
    assert "userData" not in template(program, "cpu")


def test_no_container_takes_the_gpus_of_a_node_by_a_variable(program: Program) -> None:
    """A node on which the runtime still obeys one does not join. Bottlerocket's never does."""
    for name in ("l4", "h200"):
        mime = base64.b64decode(template(program, name)["userData"])
        (script,) = (
            str(part.get_payload())
            for part in message_from_bytes(mime).walk()
            if part.get_content_type() == "text/x-shellscript"
        )
        assert "accept-nvidia-visible-devices-envvar-when-unprivileged=false" in script
        assert script.rstrip().endswith("systemctl mask kubelet")


def test_nodes_obey_the_variable_by_which_kai_names_parts_of_gpus() -> None:
    program = made(pools=(replace(POOLS[1], by_variable=True),))
    mime = base64.b64decode(template(program, "l4")["userData"]).decode()
    assert "nvidia-ctk" not in mime


def test_images_are_pulled_in_parallel_in_the_words_of_each_image() -> None:
    parallel = [replace(each, image_pull=ImagePull.PARALLEL) for each in POOLS[:3]]
    program = made(pools=tuple(parallel))
    for name, disks in (("cpu", {}), ("l4", {"instance": {"localStorage": {"strategy": "RAID0"}}})):
        mime = base64.b64decode(template(program, name)["userData"]).decode()
        document = yaml.safe_load(mime.split("node.eks.aws\n\n")[1].split("\n--MUSTER--")[0])
        assert document["spec"] == {"featureGates": {"FastImagePull": True}, **disks}
    toml = tomllib.loads(base64.b64decode(template(program, "a10g")["userData"]).decode())["settings"]
    assert toml["container-runtime"] == {"snapshotter": "soci"}
    assert toml["container-runtime-plugins"]["soci-snapshotter"] == {"pull-mode": "parallel-pull-unpack"}
    assert "/var/lib/soci-snapshotter" in toml["bootstrap-commands"]["local-disks"]["commands"][1]


def test_counts_are_said_once_and_belong_to_the_autoscaler(program: Program) -> None:
    for each in program.of(GROUP):
        assert each.ignore_changes == {"scalingConfig.desiredSize"}


def test_gpu_pools_carry_label_and_taint_and_are_known_when_they_are_empty(program: Program) -> None:
    assert group(program, "l4")["taints"] == [
        {"key": "nvidia.com/gpu", "value": "present", "effect": "NO_SCHEDULE"}
    ]
    assert group(program, "l4")["labels"] == {
        "muster.dev/pool": "l4",
        "k8s.amazonaws.com/accelerator": "nvidia-l4",
    }
    assert "taints" not in group(program, "cpu")
    tags = {
        each.inputs["tag"]["key"].removeprefix("k8s.io/cluster-autoscaler/node-template/"): each.inputs["tag"]
        for each in program.of("aws:autoscaling/tag:Tag")
        if each.name.startswith("ml-h200-")
    }
    assert {key: tag["value"] for key, tag in tags.items()} == {
        "label/muster.dev/pool": "h200",
        "label/k8s.amazonaws.com/accelerator": "nvidia-h200-141gb",
        "taint/nvidia.com/gpu": "present:NoSchedule",
        "resources/nvidia.com/gpu": "8",
        "resources/ephemeral-storage": "200Gi",
        "resources/vpc.amazonaws.com/efa": "16",
    }
    assert all(tag["propagateAtLaunch"] is False for tag in tags.values())


def test_the_control_plane_is_private_encrypted_logged_and_opened_by_entries_alone(program: Program) -> None:
    found = program.one(CONTROL, "ml").inputs
    assert found["vpcConfig"]["endpointPrivateAccess"] is True
    assert found["vpcConfig"]["endpointPublicAccess"] is False
    assert found["accessConfig"]["authenticationMode"] == "API"
    assert found["encryptionConfig"]["resources"] == ["secrets"]
    assert set(found["enabledClusterLogTypes"]) == {
        "api",
        "audit",
        "authenticator",
        "controllerManager",
        "scheduler",
    }
    assert program.one("aws:cloudwatch/logGroup:LogGroup", "ml-logs").inputs["retentionInDays"] == 90


def test_the_internet_reaches_it_from_the_named_addresses_only() -> None:
    found = made(replace(CLUSTER, public_cidrs=("198.51.100.0/24",)), POOLS[:1]).one(CONTROL, "ml").inputs
    assert found["vpcConfig"]["endpointPublicAccess"] is True
    assert found["vpcConfig"]["publicAccessCidrs"] == ["198.51.100.0/24"]


def test_access_is_a_policy_of_eks_or_groups_of_the_cluster(program: Program) -> None:
    entries = {each.name: each.inputs for each in program.of("aws:eks/accessEntry:AccessEntry")}
    assert entries["ml-access-team-a"]["kubernetesGroups"] == ["muster:team-a"]
    (policy_,) = program.of("aws:eks/accessPolicyAssociation:AccessPolicyAssociation")
    assert policy_.name == "ml-access-ops"
    assert policy_.inputs["policyArn"].endswith("/AmazonEKSClusterAdminPolicy")


def test_nodes_come_after_the_network_and_the_way_in_after_nodes(program: Program) -> None:
    system = program.one(GROUP, "ml-system")
    for name in ("vpc-cni", "eks-pod-identity-agent"):
        assert program.comes_after(system, program.one("aws:eks/addon:Addon", f"ml-{name}"))
    provider = program.one("pulumi:providers:kubernetes", "ml-kubernetes")
    assert program.comes_after(provider, system)
    assert program.comes_after(provider, program.one("aws:eks/addon:Addon", "ml-coredns"))
    config = json.loads(secret(provider.inputs["kubeconfig"]))
    assert config["users"][0]["user"]["exec"]["args"][:2] == ["eks", "get-token"]


def test_the_autoscaler_resizes_the_groups_of_its_own_cluster_only(program: Program) -> None:
    looks, resizes = autoscaler_policy("ml")["Statement"]
    assert all(action.split(":")[1].startswith(("Describe", "Get")) for action in looks["Action"])
    assert resizes["Condition"] == {"StringEquals": {"aws:ResourceTag/k8s.io/cluster-autoscaler/ml": "owned"}}
    (found,) = (
        each
        for each in program.of("aws:eks/podIdentityAssociation:PodIdentityAssociation")
        if each.name == "ml-autoscaler"
    )
    assert (found.inputs["namespace"], found.inputs["serviceAccount"]) == (
        "kube-system",
        "cluster-autoscaler",
    )


def test_the_cluster_and_reserved_pools_are_protected_until_the_stack_says_no(program: Program) -> None:
    protected = {(each.type, each.name) for each in program.resources if each.protect}
    assert protected == {(CONTROL, "ml"), ("aws:kms/key:Key", "ml"), (GROUP, "ml-a100"), (GROUP, "ml-h200")}
    assert not [each for each in made(replace(CLUSTER, protect=False)).resources if each.protect]


def test_one_nat_gateway_or_one_a_zone() -> None:
    nat = "aws:ec2/natGateway:NatGateway"
    assert len(made(pools=POOLS[:1]).of(nat)) == 2
    frugal = replace(CLUSTER, network=EksNetwork(nat_gateways=NatGateways.ONE))
    assert len(made(frugal, POOLS[:1]).of(nat)) == 1


def test_a_vpc_that_is_there_is_used_as_it_is() -> None:
    there = ExistingVpc(vpc="vpc-9", private_subnets={"us-east-1a": "subnet-a", "us-east-1b": "subnet-b"})
    program = made(replace(CLUSTER, network=EksNetwork(existing=there)), POOLS)
    assert not program.of("aws:ec2/vpc:Vpc")
    assert program.one(CONTROL, "ml").inputs["vpcConfig"]["subnetIds"] == ["subnet-a", "subnet-b"]
    assert group(program, "h200")["subnetIds"] == ["subnet-a"]


def test_subnets_do_not_overlap_and_the_private_ones_take_nearly_all() -> None:
    private, public = subnet_cidrs("10.0.0.0/16", ("a", "b", "c"))
    every = [ipaddress.IPv4Network(each) for each in (*private.values(), *public.values())]
    assert not any(one.overlaps(other) for one in every for other in every if one is not other)
    assert all(each.subnet_of(ipaddress.IPv4Network("10.0.0.0/16")) for each in every)
    assert {ipaddress.IPv4Network(each).prefixlen for each in private.values()} == {18}


@pytest.mark.parametrize(
    ("running", "ignored"), [("", set()), ("1.34", set()), ("1.35", {"version"}), ("1.36", {"version"})]
)
def test_a_control_plane_that_aws_has_raised_is_left_as_it_is(running: str, ignored: set[str]) -> None:
    described = replace(CLUSTER, version="1.35")
    args = EksGpuClusterArgs(cluster=described, pools=POOLS[:1])
    program = run(lambda: EksGpuCluster("ml", args), kubernetes=running)
    assert program.one(CONTROL, "ml").ignore_changes == ignored
    assert {each.inputs["version"] for each in program.of(GROUP)} == {"1.35"}


def test_add_ons_take_the_version_that_fits_the_cluster(program: Program) -> None:
    assert all("addonVersion" not in each.inputs for each in program.of("aws:eks/addon:Addon"))


KARPENTER = replace(CLUSTER, autoscaler=NodeProvisioner.KARPENTER)
AUTO = replace(CLUSTER, autoscaler=NodeProvisioner.AUTO_MODE)
BOUGHT = tuple(replace(each, image=Image.AL2023) for each in POOLS if each.name != "l4")
ENTRY = "aws:eks/accessEntry:AccessEntry"
# https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html: all inline policies of a role.
LONGEST = 10_240


def test_karpenter_gets_a_role_a_queue_and_a_way_in_and_no_group_but_the_systems() -> None:
    found = made(KARPENTER, BOUGHT)
    assert [each.inputs["nodeGroupName"] for each in found.of(GROUP)] == ["system"]
    assert "ml-autoscaler" not in {each.name for each in found.resources}
    assert found.one(ENTRY, "ml-karpenter-nodes").inputs["type"] == "EC2_LINUX"
    association = found.one("aws:eks/podIdentityAssociation:PodIdentityAssociation", "ml-karpenter").inputs
    assert (association["namespace"], association["serviceAccount"]) == ("kube-system", "karpenter")
    rules = found.of("aws:cloudwatch/eventRule:EventRule")
    kinds = {json.loads(each.inputs["eventPattern"])["detail-type"][0] for each in rules}
    assert kinds == {kind for _, _, kind in karpenter.EVENTS}
    assert len(found.of("aws:cloudwatch/eventTarget:EventTarget")) == len(rules)


def test_a_queued_pool_is_refused_where_no_request_is_answered() -> None:
    with pytest.raises(MusterError, match="pool l4"):
        made(KARPENTER)


def test_everything_that_karpenter_needs_outlives_what_is_installed() -> None:
    found = made(KARPENTER, BOUGHT)
    provider = found.one("pulumi:providers:kubernetes", "ml-kubernetes")
    for kind, name in (
        (ENTRY, "ml-karpenter-nodes"),
        ("aws:eks/podIdentityAssociation:PodIdentityAssociation", "ml-karpenter"),
        ("aws:iam/rolePolicy:RolePolicy", "ml-karpenter-profiles"),
        ("aws:cloudwatch/eventTarget:EventTarget", "ml-karpenter-spot"),
    ):
        assert found.comes_after(provider, found.one(kind, name)), name


def test_karpenter_changes_only_what_carries_the_tag_of_its_cluster() -> None:
    documents = karpenter.policies(KARPENTER, nodes="arn:nodes", queue="arn:queue", cluster="arn:cluster")
    assert set(documents) == set(karpenter.PARTS)
    assert sum(map(len, documents.values())) < LONGEST
    statements = [each for text in documents.values() for each in json.loads(text)["Statement"]]
    for statement in statements:
        for action in statement["Action"]:
            assert "*" not in action
            reads = action.partition(":")[2].startswith(("Describe", "Get", "List", "Receive"))
            if not reads and action not in ("sqs:DeleteMessage", "iam:PassRole"):
                named = "kubernetes.io/cluster/ml" in json.dumps(statement.get("Condition", {}))
                # A launch names what it takes: images, subnets, groups, reservations.
                assert named or not {"ec2:RunInstances", "ec2:CreateFleet"}.isdisjoint({action}), action
    (passes,) = (each for each in statements if each["Action"] == ["iam:PassRole"])
    assert passes["Resource"] == ["arn:nodes"]


def test_auto_mode_has_neither_add_ons_nor_groups_and_lets_its_nodes_in() -> None:
    found = made(AUTO, tuple(replace(each, efa=False) for each in POOLS if each.name in ("cpu", "a100")))
    assert not found.of(GROUP)
    assert not found.of("aws:eks/addon:Addon")
    control = found.one(CONTROL, "ml").inputs
    assert control["computeConfig"] == {"enabled": True}
    assert control["kubernetesNetworkConfig"] == {"elasticLoadBalancing": {"enabled": True}}
    assert control["storageConfig"] == {"blockStorage": {"enabled": True}}
    assert control["bootstrapSelfManagedAddons"] is False
    assert found.one(ENTRY, "ml-auto-nodes").inputs["type"] == "EC2"
    association = found.one("aws:eks/accessPolicyAssociation:AccessPolicyAssociation", "ml-auto-nodes").inputs
    assert association["policyArn"].endswith("AmazonEKSAutoNodePolicy")
    provider = found.one("pulumi:providers:kubernetes", "ml-kubernetes")
    gateways = found.of("aws:ec2/route:Route")
    assert all(found.comes_after(provider, each) for each in gateways if "private" in each.name)
