"""The rules about clusters and nodes: each fires on what it is about, at its path, and on nothing else."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from muster.model.capacity import Capacity, Gangs, Reservation
from muster.model.clusters import (
    Access,
    Autoscaler,
    Cluster,
    Day,
    EksNetwork,
    ExistingCluster,
    ExistingNetwork,
    ExistingVpc,
    GkeCluster,
    GkeNetwork,
    MaintenanceWindow,
    ReleaseChannel,
    SystemPool,
)
from muster.model.keys import Seconds
from muster.model.machines import MACHINES
from muster.model.pools import Image, ImagePull, LocalDisks, NodeNetwork, Placement, Pool
from muster.model.stack import GangAdmission, GangMode, Scheduler, Stack
from muster.model.tenancy import Namespaces, Tenancy
from muster.model.violations import Violation
from muster.model.waiting import ALL_OR_NOTHING, BY_PLACEHOLDERS, NOT_PROMISED, gang_promise
from muster.validation import check
from muster.validation.provisioners import gang_word_rules
from tests.unit.model.model_stacks import CPU, EKS, GKE, H100, L4

EXISTING = ExistingCluster(name="ml", context="ml")
EC2 = replace(CPU, machine=MACHINES["m6i.xlarge"])
P5 = Pool(
    name="p5",
    machine=MACHINES["p5.48xlarge"],
    gpus_per_node=8,
    capacity=Capacity.CAPACITY_BLOCK,
    max_nodes=2,
    reservation=Reservation(name="cr-1"),
    zones=("us-east-1a",),
    efa=True,
)
ROLE = "arn:aws:iam::123456789012:role/a"
OFF = GangAdmission(mode=GangMode.OFF)


def found(cluster: Cluster, *pools: Pool, gangs: GangAdmission | None = None) -> dict[str, str]:
    """path -> level."""
    cpu = EC2 if cluster.provider == "eks" else CPU
    stack = Stack(
        cluster=cluster, pools=(cpu, *pools), departments=(), gang_admission=gangs or GangAdmission()
    )
    return {each.path: each.level for each in check(stack, adjacent={})}


def test_sound_clusters_and_pools_break_no_rule() -> None:
    assert found(GKE, L4, H100) == {}
    assert found(EKS, P5) == {}
    assert found(EXISTING, L4) == {}
    assert found(EKS, replace(P5, image_pull=ImagePull.PARALLEL, local_disks=LocalDisks.EPHEMERAL)) == {}


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"name": "Ml"}, "name"),
        ({"kms_key": "my-key"}, "kmsKey"),
        ({"authorized_networks": {"office": "198.51.100.7/24"}}, "authorizedNetworks.office"),
        ({"network": GkeNetwork(control_plane="172.16.0.0/24")}, "network.controlPlane"),
        ({"network": GkeNetwork(services="10.0.0.0/20")}, "network.services"),
        ({"network": GkeNetwork(nodes="10.0.0.0/29")}, "network.nodes"),
        ({"network": GkeNetwork(pods="10.4.0.0/20")}, "network.pods"),
        ({"network": GkeNetwork(pods="ten")}, "network.pods"),
        ({"system_pool": SystemPool(machine=MACHINES["g2-standard-4"])}, "systemPool.machine"),
        ({"system_pool": SystemPool(machine=MACHINES["c4a-standard-4"])}, "systemPool.machine"),
        ({"system_pool": SystemPool(machine=MACHINES["e2-standard-4"], min_nodes=9)}, "systemPool.minNodes"),
    ],
)
def test_a_gke_cluster_that_google_would_refuse_is_refused_here(change: Mapping[str, Any], path: str) -> None:
    assert found(replace(GKE, **change), L4, H100) == {f"muster:cluster.{path}": "error"}


def test_what_just_fits_is_refused_by_no_rule() -> None:
    # A /27 has 32 addresses, of which Google keeps four.
    cpu = replace(CPU, name="more", max_nodes=28 - GKE.system_pool.max_nodes - CPU.max_nodes)
    assert found(replace(GKE, network=GkeNetwork(nodes="10.0.0.0/27")), cpu) == {}
    assert found(GKE, replace(H100, capacity=Capacity.ON_DEMAND, provisioning_class=None, min_nodes=4)) == {}
    hour = {"maxRunDurationSeconds": "3600"}
    assert found(GKE, replace(L4, max_run=Seconds(3600), parameters=hour)) == {}


def test_authorized_networks_are_required_and_the_whole_internet_is_a_warning() -> None:
    nobody = replace(GKE, authorized_networks={})
    assert found(nobody, L4) == {"muster:cluster.authorizedNetworks": "warning"}
    assert found(replace(nobody, private_endpoint=True), L4) == {}
    assert found(replace(nobody, dns_endpoint=True), L4) == {}
    anybody = replace(GKE, authorized_networks={"all": "0.0.0.0/0"})
    assert found(anybody, L4) == {"muster:cluster.authorizedNetworks.all": "warning"}
    # The first `up` makes the VPC from which alone it could go on.
    assert found(replace(EKS, public_cidrs=())) == {"muster:cluster.publicCidrs": "warning"}
    assert found(replace(EKS, public_cidrs=("0.0.0.0/0",))) == {"muster:cluster.publicCidrs[0]": "warning"}


@pytest.mark.parametrize("channel", [each for each in ReleaseChannel if each is not ReleaseChannel.NONE])
def test_queued_pools_are_legal_in_every_channel(channel: ReleaseChannel) -> None:
    assert found(replace(GKE, release_channel=channel), L4, H100) == {}


def test_a_cluster_without_a_channel_is_told_the_day_on_which_google_moves_it() -> None:
    cluster = replace(GKE, release_channel=ReleaseChannel.NONE)
    stack = Stack(cluster=cluster, pools=(CPU, L4), departments=())
    (warning,) = check(stack, adjacent={})
    assert (warning.path, warning.level) == ("muster:cluster.releaseChannel", "warning")
    assert "2027-06-14" in warning.message
    assert "release-notes-nochannel" in warning.message


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"name": "-ml"}, "name"),
        ({"network": EksNetwork(cidr="10.0.0.0/28")}, "network.cidr"),
        (
            {
                "zones": ("us-east-1a",),
                "network": EksNetwork(existing=ExistingVpc(vpc="v", private_subnets={"us-east-1a": "s"})),
            },
            "network.existing.privateSubnets",
        ),
        ({"public_cidrs": ("here",)}, "publicCidrs[0]"),
        ({"logs": ("api", "audits")}, "logs[1]"),
        ({"access": {"a": Access(principal="role/a", groups=("g",))}}, "access.a"),
        ({"access": {"a": Access(principal=ROLE)}}, "access.a"),
        ({"access": {"a": Access(principal=ROLE, groups=("system:masters",))}}, "access.a.groups"),
    ],
)
def test_an_eks_cluster_that_amazon_would_refuse_is_refused_here(
    change: Mapping[str, Any], path: str
) -> None:
    assert found(replace(EKS, **change)) == {f"muster:cluster.{path}": "error"}


@pytest.mark.parametrize(
    ("pool", "path"),
    [
        (replace(L4, max_run=Seconds(60)), "maxRunDuration"),
        (replace(L4, parameters={"maxRunDurationSeconds": "604801"}), "parameters.maxRunDurationSeconds"),
        (replace(L4, parameters={"maxRunDurationSeconds": "1h"}), "parameters.maxRunDurationSeconds"),
        (replace(L4, parameters={"maxRunDurationSeconds": "60"}), "parameters.maxRunDurationSeconds"),
        (
            replace(L4, max_run=Seconds(3600), parameters={"maxRunDurationSeconds": "7200"}),
            "parameters.maxRunDurationSeconds",
        ),
        (replace(L4, placement=Placement.COMPACT, zones=("us-central1-a",)), "placement"),
        (replace(L4, zones=("us-central1-a", "us-central1-a")), "zones"),
        (replace(L4, image=Image.AL2023), "image"),
        (replace(L4, local_disks=LocalDisks.EPHEMERAL), "localDisks"),
        (replace(L4, labels={"muster.dev/pool": "x"}), "labels"),
    ],
)
def test_what_a_queued_gke_pool_cannot_have_is_refused(pool: Pool, path: str) -> None:
    assert found(GKE, pool) == {f"muster:pools.l4.{path}": "error"}


@pytest.mark.parametrize(
    ("pool", "path"),
    [
        (replace(P5, zones=()), "zones"),
        (replace(P5, zones=("us-east-1a", "us-east-1b")), "zones"),
        (replace(P5, min_nodes=1), "minNodes"),
        (replace(P5, reservation=Reservation(name="my-block")), "reservation"),
        (replace(P5, reservation=Reservation(name="cr-1", project="p")), "reservation.project"),
        (replace(P5, max_run=Seconds(3600)), "maxRunDuration"),
        (replace(P5, networks=(NodeNetwork(network="n", subnetwork="s"),)), "networks"),
        (replace(P5, machine=MACHINES["p5.4xlarge"], gpus_per_node=1, image=Image.COS), "image"),
    ],
)
def test_what_a_capacity_block_cannot_have_is_refused(pool: Pool, path: str) -> None:
    assert found(EKS, pool) == {f"muster:pools.p5.{path}": "error"}


def test_a_group_of_reservations_spans_zones_and_is_no_block() -> None:
    group = Reservation(name="arn:aws:resource-groups:us-east-1:1:group/r")
    pool = replace(P5, capacity=Capacity.RESERVATION, reservation=group, zones=())
    assert found(EKS, pool) == {}
    block = replace(P5, reservation=group)
    assert found(EKS, block) == {"muster:pools.p5.reservation": "error"}


def test_compact_nodes_stand_in_one_zone_on_machines_that_can() -> None:
    a100 = Pool(
        name="a100",
        machine=MACHINES["a2-highgpu-8g"],
        gpus_per_node=8,
        capacity=Capacity.ON_DEMAND,
        max_nodes=2,
        placement=Placement.COMPACT,
        zones=("us-central1-a",),
    )
    assert found(GKE, a100) == {}
    assert found(GKE, replace(a100, zones=())) == {"muster:pools.a100.zones": "error"}
    t4 = replace(a100, machine=MACHINES["n1-standard-8"], gpus_per_node=1)
    assert found(GKE, t4) == {"muster:pools.a100.placement": "error"}


def test_a_reservation_is_compact_in_a_group_that_exists() -> None:
    pool = replace(P5, capacity=Capacity.RESERVATION, placement=Placement.COMPACT)
    assert found(EKS, pool) == {"muster:pools.p5.placement": "warning"}
    assert found(EKS, replace(pool, placement_group="hpc")) == {}


def test_a_placement_group_is_for_ec2_alone() -> None:
    l4 = replace(
        L4,
        capacity=Capacity.ON_DEMAND,
        provisioning_class=None,
        placement=Placement.COMPACT,
        placement_group="hpc",
        zones=("us-central1-a",),
    )
    assert "muster:pools.l4.placement.group" in found(GKE, l4)


def test_a_name_that_a_node_pool_cannot_have_is_refused() -> None:
    assert found(GKE, replace(L4, name="4l")) == {"muster:pools.4l": "error"}
    assert found(EXISTING, replace(L4, name="4l")) == {}


def test_nodes_of_an_existing_cluster_have_no_settings() -> None:
    pool = replace(L4, zones=("a",), image=Image.COS, labels={"a": "b"})
    assert found(EXISTING, pool) == {
        "muster:pools.l4.zones": "error",
        "muster:pools.l4.image": "error",
        "muster:pools.l4.labels": "error",
    }


def test_karpenter_promises_a_gang_by_placeholders_or_not() -> None:
    karpenter = replace(EXISTING, autoscaler=Autoscaler.KARPENTER)
    pool = replace(L4, capacity=Capacity.ON_DEMAND, provisioning_class=None)
    assert found(karpenter, pool) == {}
    for scheduler in Scheduler:
        stack = Stack(cluster=karpenter, pools=(CPU, pool), departments=(), scheduler=scheduler)
        assert gang_promise(stack) == BY_PLACEHOLDERS
    without = replace(pool, gangs=Gangs.NONE)
    assert found(karpenter, without) == {"muster:cluster.autoscaler": "error"}
    assert found(karpenter, pool, gangs=OFF) == {"muster:cluster.autoscaler": "warning"}
    stack = Stack(cluster=karpenter, pools=(CPU, pool), departments=(), gang_admission=OFF)
    assert gang_promise(stack) == NOT_PROMISED
    assert gang_promise(Stack(cluster=GKE, pools=(CPU, L4), departments=())) == ALL_OR_NOTHING


@pytest.mark.parametrize(
    ("changes", "stack"), [({"capacity": Capacity.QUEUED}, {}), ({}, {"gang_admission": OFF})]
)
def test_placeholders_are_refused_where_nobody_makes_them(
    changes: dict[str, Any], stack: dict[str, Any]
) -> None:
    pool = replace(L4, **{"capacity": Capacity.ON_DEMAND, "gangs": Gangs.PLACEHOLDERS, **changes})
    plain = Stack(cluster=EXISTING, pools=(CPU, pool), departments=(), **stack)
    assert [each.path for each in gang_word_rules(plain)] == ["muster:pools.l4.gangs"]


@pytest.mark.parametrize("scheduler", Scheduler)
def test_placeholders_are_accepted_on_any_autoscaler_with_either_scheduler(scheduler: Scheduler) -> None:
    pool = replace(L4, capacity=Capacity.ON_DEMAND, provisioning_class=None, gangs=Gangs.PLACEHOLDERS)
    plain = Stack(cluster=EXISTING, pools=(CPU, pool), departments=(), scheduler=scheduler)
    assert gang_word_rules(plain) == []
    assert plain.placeholder_pools == (pool,)


@pytest.mark.parametrize("autoscaler", [Autoscaler.KARPENTER, Autoscaler.NONE])
def test_a_queued_pool_needs_an_autoscaler_for_provisioning_requests(autoscaler: Autoscaler) -> None:
    cluster = replace(EXISTING, autoscaler=autoscaler)
    assert found(cluster, L4, gangs=OFF)["muster:pools.l4.capacity"] == "error"


def test_an_existing_network_of_google_s_needs_no_ranges() -> None:
    there = ExistingNetwork(network="n", subnetwork="s", pods="p", services="v")
    cluster: GkeCluster = replace(GKE, network=GkeNetwork(pods="nonsense", existing=there))
    assert found(cluster, L4) == {}


@pytest.mark.parametrize(
    ("window", "path"),
    [
        (MaintenanceWindow(start="2:00"), "maintenance.start"),
        (MaintenanceWindow(start="24:00"), "maintenance.start"),
        (MaintenanceWindow(days=(Day.SAT,), hours=8), "maintenance"),
        (MaintenanceWindow(days=(Day.SAT, Day.SAT), hours=8), "maintenance"),
    ],
)
def test_a_maintenance_window_that_google_would_refuse_is_refused(
    window: MaintenanceWindow, path: str
) -> None:
    assert found(replace(GKE, maintenance=window), L4) == {f"muster:cluster.{path}": "error"}


def test_a_maintenance_window_begins_on_its_first_day_and_recurs_on_all() -> None:
    window = MaintenanceWindow(days=(Day.SUN, Day.SAT), start="22:30", hours=6)
    assert found(replace(GKE, maintenance=window), L4) == {}
    # 10 January 2026 is a Saturday.
    assert window.first == ("2026-01-10T22:30:00Z", "2026-01-11T04:30:00Z")
    assert window.recurrence == "FREQ=WEEKLY;BYDAY=SA,SU"


@pytest.mark.parametrize(
    ("machine", "networks", "words"),
    [
        ("a3-highgpu-8g", 0, "0 of its 4 further network cards"),
        ("a3-ultragpu-8g", 9, "does not bring the NCCL plugin"),
        ("a4-highgpu-8g", 0, "GPUDirect RDMA of a4-highgpu-8g"),
    ],
)
def test_a_pool_whose_network_between_gpus_is_not_set_up_is_warned_of(
    machine: str, networks: int, words: str
) -> None:
    further = tuple(NodeNetwork(network=f"n{each}", subnetwork="s") for each in range(networks))
    pool = replace(H100, machine=MACHINES[machine], networks=further)
    own = Tenancy(namespaces=Namespaces.EXISTING)
    (warning,) = about_networks(pool, own)
    assert warning.level == "warning"
    assert words in warning.message
    assert "https://cloud.google.com/" in warning.fix
    assert about_networks(replace(pool, max_nodes=1), own) == [], "jobs of one node need no other"


def about_networks(pool: Pool, tenancy: Tenancy) -> list[Violation]:
    stack = Stack(cluster=GKE, pools=(CPU, pool), departments=(), tenancy=tenancy)
    return [each for each in check(stack, adjacent={}) if each.path == f"muster:pools.{pool.name}.networks"]


@pytest.mark.parametrize(
    ("machine", "networks", "namespaces", "words"),
    [
        ("a3-megagpu-8g", 4, Namespaces.EXISTING, "takes 8 further networks, and 4 are named"),
        ("a3-highgpu-8g", 5, Namespaces.EXISTING, "takes 4 further networks, and 5 are named"),
        ("a3-ultragpu-8g", 9, Namespaces.MANAGED, "no pod of a team can use GPUDirect RDMA"),
        ("a4-highgpu-8g", 9, Namespaces.MANAGED, "which the Pod Security Standard baseline"),
    ],
)
def test_networks_that_no_job_could_use_are_refused(
    machine: str, networks: int, namespaces: Namespaces, words: str
) -> None:
    further = tuple(NodeNetwork(network=f"n{each}", subnetwork="s") for each in range(networks))
    pool = replace(H100, machine=MACHINES[machine], networks=further)
    violations = about_networks(pool, Tenancy(namespaces=namespaces))
    (refusal,) = [each for each in violations if each.level == "error"]
    assert words in refusal.message
    assert "remove `networks`" in refusal.fix


def test_networks_of_a_machine_without_gpudirect_are_not_judged() -> None:
    assert found(GKE, replace(L4, networks=(NodeNetwork(network="storage", subnetwork="s"),))) == {}


def test_a_pool_without_the_efa_of_its_machine_is_warned_of() -> None:
    assert found(EKS, replace(P5, efa=True)) == {}
    assert found(EKS, replace(P5, efa=False)) == {"muster:pools.p5.efa": "warning"}
    one = replace(P5, efa=False, machine=MACHINES["p5.4xlarge"], gpus_per_node=1)
    assert found(EKS, one) == {}, "one interface is no more than the first card"
