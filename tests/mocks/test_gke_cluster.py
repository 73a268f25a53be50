"""What a GKE stack asks Google for: every kind of pool, and a cluster that nobody reaches by accident."""

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from muster.components.clusters.gke import GkeGpuCluster, GkeGpuClusterArgs
from muster.model.capacity import Capacity, Reservation
from muster.model.clusters import (
    ExistingNetwork,
    GkeAddon,
    GkeCluster,
    GkeNetwork,
    GkeProvisioner,
    GpuDriver,
    MaintenanceExclusion,
    MaintenanceWindow,
    ReleaseChannel,
    UpgradeScope,
)
from muster.model.pools import Image, LocalDisks, NetworkProfile, NodeNetwork, Placement, Pool
from tests.mocks.recorder import Program, Registered, run, secret
from tests.unit.model import model_stacks

CLUSTER = GkeCluster(
    name="ml", project="p", region="us-central1", authorized_networks={"office": "198.51.100.0/24"}
)
POOL = "gcp:container/nodePool:NodePool"
CONTROL = "gcp:container/cluster:Cluster"


pool = partial(model_stacks.pool, max_nodes=8, image=Image.COS)
POOLS = (
    pool("cpu", "e2-standard-8", Capacity.ON_DEMAND, min_nodes=4),
    pool("l4", "g2-standard-8", Capacity.QUEUED, max_run=86_400),
    pool("t4", "n1-standard-8", Capacity.SPOT, gpus_per_node=2),
    pool("a100", "a2-highgpu-8g", Capacity.ON_DEMAND, placement=Placement.COMPACT, zones=("us-central1-a",)),
    pool(
        "h100",
        "a3-highgpu-8g",
        Capacity.RESERVATION,
        reservation=Reservation(name="r1", project="owner"),
        zones=("us-central1-a",),
        local_disks=LocalDisks.EPHEMERAL,
        networks=(NodeNetwork(network="gpu-net", subnetwork="gpu-sub"),),
    ),
    pool("h200", "a3-ultragpu-8g", Capacity.RESERVATION, reservation=Reservation(name="r2")),
)


def made(cluster: GkeCluster = CLUSTER, pools: tuple[Pool, ...] = POOLS) -> Program:
    return run(lambda: GkeGpuCluster(cluster.name, GkeGpuClusterArgs(cluster=cluster, pools=pools)))


@pytest.fixture(scope="module")
def program() -> Program:
    return made()


def inputs(program: Program, name: str) -> Mapping[str, Any]:
    return program.one(POOL, f"ml-{name}").inputs


def test_the_control_plane_reaches_webhooks_on_every_port_and_nobody_else_does(program: Program) -> None:
    (rule,) = program.of("gcp:compute/firewall:Firewall")
    control = program.one(CONTROL, "ml")
    private = control.inputs["privateClusterConfig"]
    assert rule.inputs["sourceRanges"] == [private["masterIpv4CidrBlock"]]
    assert rule.inputs["allows"] == [{"protocol": "tcp"}]
    assert rule.inputs["direction"] == "INGRESS"
    assert program.comes_after(control, rule)


def test_a_queued_pool_is_what_flex_start_with_queued_provisioning_takes(program: Program) -> None:
    found = inputs(program, "l4")
    assert found["queuedProvisioning"] == {"enabled": True}
    assert found["autoscaling"] == {"totalMinNodeCount": 0, "totalMaxNodeCount": 8, "locationPolicy": "ANY"}
    assert found["management"] == {"autoRepair": False, "autoUpgrade": True}
    # GKE sets the strategy SHORT_LIVED itself, and the provider refuses the word.
    assert not {"nodeCount", "initialNodeCount", "placementPolicy", "upgradeSettings"} & found.keys()
    node = found["nodeConfig"]
    assert node["flexStart"] is True
    assert node["maxRunDuration"] == "86400s"
    assert node["reservationAffinity"] == {"consumeReservationType": "NO_RESERVATION"}
    assert node["labels"] == {"muster.dev/pool": "l4", "cloud.google.com/gke-queued": "true"}
    assert "spot" not in node


def test_a_queued_pool_lets_a_gang_ask_for_all_the_time_that_flex_start_has() -> None:
    program = made(pools=(pool("l4", "g2-standard-8", Capacity.QUEUED),))
    assert inputs(program, "l4")["nodeConfig"]["maxRunDuration"] == "604800s"


def test_a_flex_start_pool_is_not_queued_for() -> None:
    found = inputs(made(pools=(pool("l4", "g2-standard-8", Capacity.FLEX_START),)), "l4")
    assert not {"queuedProvisioning", "upgradeSettings", "initialNodeCount"} & found.keys()
    assert found["management"] == {"autoRepair": False, "autoUpgrade": True}
    node = found["nodeConfig"]
    assert (node["flexStart"], node["maxRunDuration"]) == (True, "604800s")
    assert node["reservationAffinity"] == {"consumeReservationType": "NO_RESERVATION"}
    assert "cloud.google.com/gke-queued" not in node["labels"]


def test_a_network_profile_brings_gkes_driver_for_the_cards() -> None:
    asked = pool("h100", "a3-highgpu-8g", Capacity.SPOT, network_profile=NetworkProfile.AUTO)
    program = made(pools=(asked,))
    found = inputs(program, "h100")
    assert found["networkConfig"] == {"enablePrivateNodes": True, "acceleratorNetworkProfile": "auto"}
    assert found["nodeConfig"]["labels"]["cloud.google.com/gke-networking-dra-driver"] == "true"
    assert "enableMultiNetworking" not in program.one(CONTROL, "ml").inputs


@pytest.mark.parametrize(
    ("machine", "topology", "has_policy"),
    [
        ("tpu7x-standard-4t", "2x2x2", True),
        ("tpu7x-standard-4t", "2x2x1", False),
        ("ct6e-standard-4t", "4x4", False),
    ],
)
def test_a_slice_of_several_nodes_of_tpu7x_is_placed_by_a_workload_policy(
    machine: str, topology: str, has_policy: bool
) -> None:
    found = made(pools=(pool("tpu", machine, Capacity.ON_DEMAND, topology=topology),))
    policies = found.of("gcp:compute/resourcePolicy:ResourcePolicy")
    assert len(policies) == has_policy
    for policy in policies:
        assert policy.inputs["workloadPolicy"] == {"type": "HIGH_THROUGHPUT", "acceleratorTopology": topology}
        assert inputs(found, "tpu")["placementPolicy"]["tpuTopology"] == topology
        (slice_pool,) = (each for each in found.of(POOL) if each.inputs["name"] == "tpu")
        assert found.comes_after(slice_pool, policy)


def test_without_a_channel_a_queued_pool_is_not_upgraded() -> None:
    program = made(replace(CLUSTER, release_channel=ReleaseChannel.NONE))
    assert program.one(CONTROL, "ml").inputs["releaseChannel"] == {"channel": "UNSPECIFIED"}
    assert inputs(program, "l4")["management"] == {"autoRepair": False, "autoUpgrade": False}
    assert inputs(program, "h100")["management"] == {"autoRepair": True, "autoUpgrade": True}


def test_only_a_queued_pool_is_flex_start(program: Program) -> None:
    for name in ("cpu", "t4", "a100", "h100", "h200"):
        found = inputs(program, name)
        assert "queuedProvisioning" not in found
        assert not {"flexStart", "maxRunDuration"} & found["nodeConfig"].keys()
        assert found["management"] == {"autoRepair": True, "autoUpgrade": True}


def test_a_spot_pool_is_spot_and_no_other_is(program: Program) -> None:
    spots = {each.name for each in program.of(POOL) if each.inputs["nodeConfig"].get("spot")}
    assert spots == {"ml-t4"}


def test_a_reserved_pool_takes_from_its_own_reservation_shared_or_not(program: Program) -> None:
    affinity = inputs(program, "h100")["nodeConfig"]["reservationAffinity"]
    assert affinity["consumeReservationType"] == "SPECIFIC_RESERVATION"
    assert affinity["key"] == "compute.googleapis.com/reservation-name"
    assert affinity["values"] == ["projects/owner/reservations/r1"]
    assert inputs(program, "h200")["nodeConfig"]["reservationAffinity"]["values"] == ["r2"]


def test_every_other_pool_leaves_reservations_alone(program: Program) -> None:
    for name in ("cpu", "l4", "t4", "a100"):
        affinity = inputs(program, name)["nodeConfig"]["reservationAffinity"]
        assert affinity == {"consumeReservationType": "NO_RESERVATION"}


def test_gpu_pools_carry_their_gpus_driver_label_and_taint(program: Program) -> None:
    node = inputs(program, "t4")["nodeConfig"]
    assert node["guestAccelerators"] == [
        {
            "type": "nvidia-tesla-t4",
            "count": 2,
            "gpuDriverInstallationConfig": {"gpuDriverVersion": "DEFAULT"},
        }
    ]
    assert node["taints"] == [{"key": "nvidia.com/gpu", "value": "present", "effect": "NO_SCHEDULE"}]
    assert node["gvnic"] == {"enabled": True}
    cpu = inputs(program, "cpu")["nodeConfig"]
    assert not {"guestAccelerators", "taints"} & cpu.keys()


@pytest.mark.parametrize(
    ("driver", "version", "label"),
    [
        (GpuDriver.DEFAULT, "DEFAULT", False),
        (GpuDriver.LATEST, "LATEST", False),
        (GpuDriver.INSTALLER, "INSTALLATION_DISABLED", True),
    ],
)
def test_who_installs_the_driver_and_who_advertises_go_together(
    driver: GpuDriver, version: str, label: bool
) -> None:
    program = made(replace(CLUSTER, gpu_driver=driver), POOLS[:2])
    node = inputs(program, "l4")["nodeConfig"]
    installation = node["guestAccelerators"][0]["gpuDriverInstallationConfig"]
    assert installation == {"gpuDriverVersion": version}
    assert (node["labels"].get("gke-no-default-nvidia-gpu-device-plugin") == "true") is label


def test_disks_placement_and_networks_are_the_machine_s(program: Program) -> None:
    h100 = inputs(program, "h100")
    assert h100["nodeConfig"]["ephemeralStorageLocalSsdConfig"] == {"localSsdCount": 16}
    assert h100["nodeConfig"]["diskType"] == "pd-balanced"
    assert inputs(program, "h200")["nodeConfig"]["diskType"] == "hyperdisk-balanced"
    assert h100["networkConfig"]["additionalNodeNetworkConfigs"] == [
        {"network": "gpu-net", "subnetwork": "gpu-sub"}
    ]
    assert inputs(program, "a100")["placementPolicy"] == {"type": "COMPACT"}
    assert inputs(program, "a100")["nodeLocations"] == ["us-central1-a"]


def test_a_pool_with_standing_nodes_begins_with_them_and_no_pool_has_a_static_count(program: Program) -> None:
    # Four nodes over three zones: two a zone, and the autoscaler takes what is too many.
    assert inputs(program, "cpu")["initialNodeCount"] == 2
    for each in program.of(POOL):
        assert "nodeCount" not in each.inputs
        assert each.ignore_changes >= {"initialNodeCount", "nodeCount"}


def test_the_system_pool_is_apart_from_all_work(program: Program) -> None:
    found = inputs(program, "system")
    assert found["nodeConfig"]["labels"] == {"muster.dev/pool": "system"}
    assert "guestAccelerators" not in found["nodeConfig"]
    assert found["autoscaling"]["totalMinNodeCount"] == 2


def test_a_zonal_cluster_and_all_its_pools_are_in_its_zone() -> None:
    program = made(replace(CLUSTER, zone="us-central1-a", zones=("us-central1-a",)), POOLS[:2])
    found = program.one(CONTROL, "ml").inputs
    assert found["location"] == "us-central1-a"
    assert "nodeLocations" not in found
    for each in program.of(POOL):
        assert each.inputs["location"] == "us-central1-a"
        assert each.inputs["nodeLocations"] == ["us-central1-a"]


def test_a_system_pool_without_permanent_nodes_begins_with_one_a_zone() -> None:
    program = made(replace(CLUSTER, system_pool=replace(CLUSTER.system_pool, min_nodes=0)), POOLS[:1])
    found = inputs(program, "system")
    assert found["autoscaling"]["totalMinNodeCount"] == 0
    assert found["initialNodeCount"] == 1


def test_the_cluster_is_private_and_its_control_plane_answers_those_who_are_named(program: Program) -> None:
    found = program.one(CONTROL, "ml").inputs
    assert found["privateClusterConfig"]["enablePrivateNodes"] is True
    assert found["masterAuthorizedNetworksConfig"]["cidrBlocks"] == [
        {"cidrBlock": "198.51.100.0/24", "displayName": "office"}
    ]
    assert found["masterAuthorizedNetworksConfig"]["gcpPublicCidrsAccessEnabled"] is False
    assert found["networkingMode"] == "VPC_NATIVE"
    assert found["datapathProvider"] == "ADVANCED_DATAPATH"
    assert found["workloadIdentityConfig"] == {"workloadPool": "p.svc.id.goog"}
    assert found["enableShieldedNodes"] is True
    assert found["releaseChannel"] == {"channel": "REGULAR"}
    assert found["enableMultiNetworking"] is True
    assert found["databaseEncryption"] == {"state": "DECRYPTED"}


def test_nobody_is_authorised_unless_it_is_said() -> None:
    found = made(replace(CLUSTER, authorized_networks={}), POOLS[:1]).one(CONTROL, "ml").inputs
    assert found["masterAuthorizedNetworksConfig"]["cidrBlocks"] == []


def test_a_key_encrypts_secrets_and_every_disk() -> None:
    key = "projects/p/locations/l/keyRings/r/cryptoKeys/k"
    program = made(replace(CLUSTER, kms_key=key))
    found = program.one(CONTROL, "ml").inputs["databaseEncryption"]
    assert (found["state"], found["keyName"]) == ("ENCRYPTED", key)
    for each in program.of(POOL):
        assert each.inputs["nodeConfig"]["bootDiskKmsKey"] == key


def test_nodes_are_an_account_of_their_own_with_the_least_roles(program: Program) -> None:
    grants = program.of("gcp:projects/iAMMember:IAMMember")
    assert {each.inputs["role"] for each in grants} == {
        "roles/container.defaultNodeServiceAccount",
        "roles/artifactregistry.reader",
    }
    for each in program.of(POOL):
        node = each.inputs["nodeConfig"]
        assert node["serviceAccount"] == "nodes@p.iam.gserviceaccount.com"
        assert node["workloadMetadataConfig"] == {"mode": "GKE_METADATA"}
        assert all(program.comes_after(each, grant) for grant in grants)


def test_an_account_and_a_network_that_are_there_are_used_as_they_are() -> None:
    there = ExistingNetwork(network="projects/host/global/networks/n", subnetwork="s", pods="a", services="b")
    program = made(
        replace(CLUSTER, network=GkeNetwork(existing=there), node_service_account="a@p"), POOLS[:1]
    )
    assert not program.of("gcp:serviceaccount/account:Account")
    assert not program.of("gcp:compute/network:Network")
    found = program.one(CONTROL, "ml").inputs
    assert found["network"] == there.network
    ranges = found["ipAllocationPolicy"]
    assert (ranges["clusterSecondaryRangeName"], ranges["servicesSecondaryRangeName"]) == ("a", "b")


def protected(program: Program) -> set[str]:
    return {each.name for each in program.resources if each.protect}


def test_the_cluster_and_reserved_pools_are_protected_until_the_stack_says_no(program: Program) -> None:
    assert protected(program) == {"ml", "ml-h100", "ml-h200"}
    assert program.one(CONTROL, "ml").inputs["deletionProtection"] is True
    open_one = made(replace(CLUSTER, protect=False))
    assert protected(open_one) == set()
    assert open_one.one(CONTROL, "ml").inputs["deletionProtection"] is False


def test_a_release_channel_reaches_the_cluster() -> None:
    cluster = replace(CLUSTER, release_channel=ReleaseChannel.STABLE)
    assert made(cluster, POOLS[:1]).one(CONTROL, "ml").inputs["releaseChannel"] == {"channel": "STABLE"}


def test_exclusions_end_on_their_day_or_with_the_support_of_the_version() -> None:
    window = MaintenanceWindow(
        exclusions={
            "gangs": MaintenanceExclusion(scope=UpgradeScope.NO_MINOR_OR_NODE_UPGRADES),
            "freeze": MaintenanceExclusion(
                scope=UpgradeScope.NO_UPGRADES, begin="2026-12-14", until="2027-01-11"
            ),
        }
    )
    found = made(replace(CLUSTER, maintenance=window), POOLS[:1]).one(CONTROL, "ml").inputs
    assert found["maintenancePolicy"]["maintenanceExclusions"] == [
        {
            "exclusionName": "freeze",
            "startTime": "2026-12-14T00:00:00Z",
            "endTime": "2027-01-11T00:00:00Z",
            "exclusionOptions": {"scope": "NO_UPGRADES"},
        },
        {
            "exclusionName": "gangs",
            "startTime": "2026-01-05T00:00:00Z",
            "exclusionOptions": {
                "scope": "NO_MINOR_OR_NODE_UPGRADES",
                "endTimeBehavior": "UNTIL_END_OF_SUPPORT",
            },
        },
    ]


def test_the_way_in_holds_no_credential_and_opens_when_system_nodes_stand(program: Program) -> None:
    provider: Registered = program.one("pulumi:providers:kubernetes", "ml-kubernetes")
    config = json.loads(secret(provider.inputs["kubeconfig"]))
    assert config["clusters"][0]["cluster"] == {
        "server": "https://192.0.2.1",
        "certificate-authority-data": "Q0E=",
    }
    assert config["users"][0]["user"].keys() == {"exec"}
    assert config["users"][0]["user"]["exec"]["command"] == "gke-gcloud-auth-plugin"
    assert program.comes_after(provider, program.one(POOL, "ml-system"))


def test_by_the_dns_endpoint_the_way_in_trusts_a_public_authority() -> None:
    program = made(replace(CLUSTER, dns_endpoint=True), POOLS[:1])
    config = json.loads(
        secret(program.one("pulumi:providers:kubernetes", "ml-kubernetes").inputs["kubeconfig"])
    )
    assert config["clusters"][0]["cluster"] == {"server": "https://gke-1.us-central1.gke.goog"}
    endpoints = program.one(CONTROL, "ml").inputs["controlPlaneEndpointsConfig"]
    assert endpoints == {"dnsEndpointConfig": {"allowExternalTraffic": True}}


def test_another_way_in_is_no_other_cluster() -> None:
    """The provider would replace what is installed: provider.go of pulumi-kubernetes, DiffConfig."""
    known = [
        made(replace(CLUSTER, dns_endpoint=by_dns), POOLS[:1])
        .one("pulumi:providers:kubernetes", "ml-kubernetes")
        .inputs["clusterIdentifier"]
        for by_dns in (False, True)
    ]
    assert known[0] == known[1]


def test_add_ons_are_all_written_or_none() -> None:
    assert "addonsConfig" not in made(pools=POOLS[:1]).one(CONTROL, "ml").inputs
    some = made(replace(CLUSTER, addons=(GkeAddon.LUSTRE,)), POOLS[:1]).one(CONTROL, "ml").inputs
    assert some["addonsConfig"] == {
        "gcsFuseCsiDriverConfig": {"enabled": False},
        "gcpFilestoreCsiDriverConfig": {"enabled": False},
        "lustreCsiDriverConfig": {"enabled": True},
    }


@pytest.mark.parametrize("asked", [None, True, False])
def test_image_streaming_is_of_all_pools(asked: bool | None) -> None:
    pools = made(replace(CLUSTER, image_streaming=asked)).of(POOL)
    found = [each.inputs["nodeConfig"].get("gcfsConfig") for each in pools]
    assert found == [None if asked is None else {"enabled": asked}] * len(pools)


def test_with_compute_classes_gke_makes_the_node_pools_but_that_of_the_system() -> None:
    cluster = replace(CLUSTER, autoscaler=GkeProvisioner.COMPUTE_CLASSES)
    pools = tuple(each for each in POOLS if each.name in ("t4", "h200"))
    program = made(cluster, pools)
    assert [each.inputs["name"] for each in program.of(POOL)] == ["system"]


def test_queued_pools_with_compute_classes_are_refused_by_the_component() -> None:
    cluster = replace(CLUSTER, autoscaler=GkeProvisioner.COMPUTE_CLASSES)
    with pytest.raises(Exception, match="l4: nodes of a ComputeClass answer no ProvisioningRequest"):
        made(cluster, tuple(each for each in POOLS if each.name == "l4"))
