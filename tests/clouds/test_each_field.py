"""Each field that a user can edit, one by one: changed in place, or announced as a replacement."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final

import pytest

from muster.components.gang_admission import NAME as IMAGES
from muster.model.clusters import EksCluster, GkeCluster, SystemPool
from muster.model.pools import Pool
from tests.clouds.planned import Fate, Place, fates, pool_of, registered
from tests.clouds.stack_files import OWN, edited
from tests.clouds.standin.tables import TABLES

UPDATE, REPLACE, DELETE, CREATE = Fate.UPDATE, Fate.REPLACE, Fate.DELETE, Fate.CREATE
CLUSTERS: Final = ("gcp:container/cluster:Cluster", "aws:eks/cluster:Cluster")
POOLS: Final = ("gcp:container/nodePool:NodePool", "aws:eks/nodeGroup:NodeGroup")
GKE_POOLS: Final = ("system", "cpu", "l4", "t4", "a100", "h100", "v6e")
GKE_GPUS: Final = ("l4", "t4", "a100", "h100")
EKS_POOLS: Final = ("system", "cpu", "a10g", "t4", "a100", "h100")
KEY: Final = "arn:aws:kms:us-east-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"
GOOGLE_KEY: Final = "projects/acme/locations/us-central1/keyRings/r/cryptoKeys/k"
PLATFORM: Final = "arn:aws:iam::123456789012:role/platform"


@dataclass(frozen=True, slots=True)
class Edit:
    """Values at paths of the stack file. `cluster` and `pools`: what becomes of them. `others`: what else is
    more than updated, type -> the weightiest of it. The first path names the field.
    """

    values: dict[str, Any]
    cluster: Fate | None = None
    pools: Mapping[str, Fate] = field(default_factory=dict)
    others: Mapping[str, Fate] = field(default_factory=dict)

    def __str__(self) -> str:
        path, value = next(iter(self.values.items()))
        inner = f".{next(iter(value))}" if path.endswith(("network", "systemPool")) else ""
        return f"{path.removeprefix('muster:')}{inner}"


def _all(pools: tuple[str, ...], fate: Fate) -> dict[str, Fate]:
    return dict.fromkeys(pools, fate)


def _cluster(key: str, value: Any, **told: Any) -> Edit:
    return Edit({f"muster:cluster.{key}": value}, **told)


def _pool(pool: str, key: str, value: Any, fate: Fate | None, **more: Any) -> Edit:
    told = {} if fate is None else {pool: fate}
    return Edit({f"muster:pools.{pool}.{key}": value}, pools=told, **more)


_REPOSITORY: Final = {"Repository": REPLACE}
_NETWORK: Final = dict.fromkeys(("Network", "Subnetwork", "Router", "RouterNat", "Firewall"), REPLACE)
_GRANTS: Final = dict.fromkeys(("Account", "IAMMember", "BucketIAMMember"), REPLACE)
GKE: Final = [
    _cluster(
        "project",
        "other",
        cluster=REPLACE,
        pools=_all(GKE_POOLS, REPLACE),
        others={**_NETWORK, **_REPOSITORY, **_GRANTS},
    ),
    # A project has its networks and service accounts once, whatever the region: their names have it in them.
    Edit(
        {
            "muster:cluster.region": "us-east1",
            "muster:cluster.zones": None,
            "muster:pools.h100.zones": ["us-east1-b"],
            "muster:pools.v6e.zones": ["us-east1-b"],
        },
        cluster=REPLACE,
        pools=_all(GKE_POOLS, REPLACE),
        others={**_NETWORK, **_REPOSITORY, **_GRANTS},
    ),
    # Pools that name no zones follow the cluster's.
    _cluster(
        "zones", ["us-central1-a"], cluster=UPDATE, pools=_all(("system", "cpu", "l4", "t4", "a100"), UPDATE)
    ),
    # A zonal cluster is another cluster; its network and its images are the region's.
    Edit(
        {"muster:cluster.zone": "us-central1-a", "muster:cluster.zones": None},
        cluster=REPLACE,
        pools=_all(GKE_POOLS, REPLACE),
    ),
    _cluster("protect", False, cluster=UPDATE),
    _cluster("maintenance", {"days": ["fri", "sat"], "hours": 6}, cluster=UPDATE),
    _cluster("maintenance", {"exclusions": {"gangs": {"scope": "noUpgrades"}}}, cluster=UPDATE),
    _cluster("maintenance", None, cluster=UPDATE),
    _cluster("version", "1.34", cluster=UPDATE),
    _cluster("releaseChannel", "stable", cluster=UPDATE),
    # In a channel the auto-upgrade of queued pools is on.
    _cluster("releaseChannel", "none", cluster=UPDATE, pools={"l4": UPDATE, "v6e": UPDATE}),
    # Grown in place; anything else is a new subnetwork, and pods and Services never move.
    _cluster("network", {"nodes": "10.0.0.0/19"}),
    _cluster("network", {"nodes": "10.20.0.0/20"}, others={"Subnetwork": REPLACE}),
    _cluster("network", {"pods": "10.32.0.0/14"}, others={"Subnetwork": REPLACE}),
    _cluster("network", {"services": "10.9.0.0/20"}, others={"Subnetwork": REPLACE}),
    _cluster("network", {"controlPlane": "172.16.1.0/28"}, cluster=REPLACE),
    _cluster(
        "network",
        {"existing": {"network": "n", "subnetwork": "s", "pods": "p", "services": "v"}},
        cluster=REPLACE,
        others=dict.fromkeys(_NETWORK, DELETE),
    ),
    _cluster("authorizedNetworks", {"home": "198.51.100.0/24"}, cluster=UPDATE),
    _cluster("privateEndpoint", True, cluster=UPDATE),
    _cluster("dnsEndpoint", True, cluster=UPDATE),
    _cluster("addons", ["gcsFuse", "lustre"], cluster=UPDATE),
    _cluster("imageStreaming", True, pools=_all(GKE_POOLS, UPDATE)),
    # etcd is encrypted in place, disks are not.
    _cluster("kmsKey", GOOGLE_KEY, cluster=UPDATE, pools=_all(GKE_POOLS, REPLACE)),
    _cluster(
        "nodeServiceAccount",
        "nodes@acme.iam.gserviceaccount.com",
        pools=_all(GKE_POOLS, REPLACE),
        others={"Account": DELETE, "IAMMember": DELETE},
    ),
    _cluster("gpuDriver", "latest", pools=_all(GKE_GPUS, REPLACE)),
    _cluster("systemPool", {"machine": "e2-standard-8"}, pools={"system": UPDATE}),
    _cluster("systemPool", {"minNodes": 3}, pools={"system": UPDATE}),
    _cluster("systemPool", {"maxNodes": 9}, pools={"system": UPDATE}),
    _cluster("labels", {"team": "infra"}, cluster=UPDATE, pools=_all(GKE_POOLS, UPDATE)),
    _pool("l4", "machine", "g2-standard-8", UPDATE),
    _pool("t4", "gpusPerNode", 2, REPLACE),
    _pool("t4", "capacity", "on-demand", REPLACE),
    _pool("l4", "capacity", "flex-start", REPLACE),
    _pool("l4", "maxNodes", 12, UPDATE),
    _pool("cpu", "minNodes", 1, UPDATE),
    _pool("h100", "reservation", "theirs", REPLACE),
    _pool("h100", "zones", ["us-central1-b"], UPDATE),
    _pool("l4", "maxRunDuration", "48h", REPLACE),
    _pool("cpu", "bootDiskGiB", 300, UPDATE),
    _pool("h100", "localDisks", "none", REPLACE),
    Edit(
        {"muster:pools.a100.placement": "compact", "muster:pools.a100.zones": ["us-central1-a"]},
        pools={"a100": REPLACE},
    ),
    Edit({"muster:pools.v6e.topology": "2x4", "muster:pools.v6e.maxNodes": 2}, pools={"v6e": REPLACE}),
    # With a machine of GPUDirect, networks take namespaces of one's own: validation/gpudirect.py.
    _pool("a100", "networks", [{"network": "n", "subnetwork": "s"}], REPLACE, cluster=UPDATE),
    _pool("h100", "networkProfile", "auto", REPLACE),
    _pool("cpu", "labels", {"tier": "web"}, UPDATE),
    Edit(
        {"muster:pools.a100.sharing": "time-slicing", "muster:pools.a100.shares": 4}, pools={"a100": REPLACE}
    ),
    # Requests carry these; no cloud is told.
    _pool("l4", "parameters", {"maxRunDurationSeconds": "3600"}, None),
]
_TAGS: Final = {"Tag": DELETE}
EKS: Final = [
    Edit(
        {
            "muster:cluster.region": "us-west-2",
            "muster:cluster.zones": ["us-west-2a", "us-west-2b"],
            "muster:pools.a100.zones": ["us-west-2b"],
            "muster:pools.h100.zones": ["us-west-2a"],
        },
        cluster=REPLACE,
        # Groups of several zones are named after them.
        pools={**_all(EKS_POOLS, REPLACE), **_all(("cpu", "a10g", "t4"), DELETE)},
        others={
            "Tag": DELETE,
            **dict.fromkeys(("Eip", "NatGateway", "Route", "RouteTable", "RouteTableAssociation"), DELETE),
            "Subnet": DELETE,
            "VpcEndpoint": REPLACE,
            **_REPOSITORY,
        },
    ),
    # Pools that name no zones get a group in the new one. AWS does not change a group's subnets in place.
    _cluster(
        "zones",
        ["us-east-1a", "us-east-1b", "us-east-1c"],
        cluster=UPDATE,
        pools={"system": REPLACE, **_all(("cpu", "a10g", "t4"), CREATE)},
        others=dict.fromkeys(
            ("Tag", "Eip", "NatGateway", "Route", "RouteTable", "RouteTableAssociation", "Subnet"), CREATE
        ),
    ),
    _cluster("protect", False, cluster=UPDATE),
    _cluster("version", "1.36", cluster=UPDATE, pools=_all(EKS_POOLS, UPDATE)),
    _cluster(
        "network", {"cidr": "10.64.0.0/16"}, cluster=REPLACE, others={"Vpc": REPLACE, "Subnet": REPLACE}
    ),
    _cluster("network", {"natGateways": "one"}, others={"Eip": DELETE, "NatGateway": DELETE}),
    _cluster("publicCidrs", ["198.51.100.0/24"], cluster=UPDATE),
    _cluster(
        "access",
        {"platform": {"principal": PLATFORM, "policy": "view"}},
        others={"AccessPolicyAssociation": REPLACE},
    ),
    _cluster("access", {"platform": {"principal": PLATFORM, "policy": "cluster-admin", "groups": ["ops"]}}),
    _cluster("storage", {"drivers": ["fsx-lustre"]}, others={"Addon": DELETE}),
    _cluster("kmsKey", KEY, cluster=REPLACE, others={"Key": DELETE}),
    _cluster("logs", ["audit"], cluster=UPDATE),
    _cluster("logDays", 30),
    _cluster("systemPool", {"machine": "m6i.2xlarge"}, pools={"system": REPLACE}),
    _cluster("systemPool", {"minNodes": 3}, pools={"system": UPDATE}),
    _cluster("systemPool", {"maxNodes": 9}, pools={"system": UPDATE}),
    _cluster("tags", {"team": "infra"}, cluster=UPDATE, pools=_all(EKS_POOLS, UPDATE)),
    _pool("a10g", "machine", "g5.2xlarge", REPLACE),
    _pool("t4", "capacity", "on-demand", REPLACE),
    _pool("a10g", "maxNodes", 12, UPDATE),
    _pool("cpu", "minNodes", 1, UPDATE),
    # In the launch template: the group rolls to its newest version.
    _pool("h100", "reservation", "cr-0123456789abcdef9", None),
    _pool("t4", "bootDiskGiB", 300, None),
    _pool("a100", "localDisks", "none", None),
    _pool("a100", "imagePull", "parallel", None),
    _pool("a100", "placement", "any", None, others={"PlacementGroup": DELETE}),
    _pool("a100", "placement", {"group": "hpc"}, None, others={"PlacementGroup": DELETE}),
    _pool("a100", "efa", False, None, others=_TAGS),
    _pool("cpu", "zones", ["us-east-1a"], DELETE, others=_TAGS),
    _pool("t4", "image", "al2023", REPLACE, others=_TAGS),
    _pool("cpu", "labels", {"tier": "web"}, UPDATE, others={"Tag": CREATE}),
    Edit(
        {"muster:pools.a10g.sharing": "time-slicing", "muster:pools.a10g.shares": 4},
        pools={"a10g": UPDATE},
        others={"Tag": CREATE},
    ),
    _pool("a10g", "provisioningClass", "check-capacity.autoscaling.x-k8s.io", None),
]
EDITS: Final = {"gke": GKE, "eks": EKS}
CASES: Final = [
    pytest.param(name, edit, id=f"{name}-{edit}") for name, edits in EDITS.items() for edit in edits
]

# Fields that this table leaves out, and why.
LEFT_OUT: Final = {
    "by_variable": "not a key: muster:kai.gpuSharing sets it",
    "name": "the name of everything: test_another_name_is_another_cluster; of a pool: another pool",
    "kueue": "queues, not the cloud",
    "preference": "the order in queues, not the cloud",
    "resources": "quotas, not the cloud",
    "fallback": "of ComputeClasses and NodePools, which are objects of the cluster",
    "placement_group": "`placement` has it",
    "image_pull": "GKE has none",
    "image": "GKE: one image that runs GPUs",
    "efa": "GKE has none",
    "networks": "EKS has none",
    "network_profile": "EKS has none",
    "topology": "EKS has none",
    "parameters": "EKS: of requests",
    "provisioning_class": "GKE has one",
    "max_run": "EKS has none",
    "gpus_per_node": "EKS: follows from the machine",
    "gangs": "how gangs ask for nodes, not the cloud",
    "autoscaler": "test_cluster_lifecycle: a cluster goes over to Karpenter in place",
    "image_release": "of Karpenter's node classes, which are objects of the cluster",
}


@pytest.fixture(scope="module")
def before() -> dict[str, Mapping[Place, Any]]:
    return {name: registered(OWN[name]) for name in EDITS}


@pytest.mark.parametrize(("name", "edit"), CASES)
def test_a_field_is_changed_in_place_where_the_cloud_allows_it_and_else_a_replacement_is_announced(
    name: str, edit: Edit, before: dict[str, Mapping[Place, Any]], tmp_path: Path
) -> None:
    after = registered(edited(OWN[name], tmp_path / "edited.yaml", edit.values))
    found = fates(before[name], after)
    cluster, pools, others = _told(found)
    assert (cluster, pools, others) == (edit.cluster, dict(edit.pools), dict(edit.others))
    assert fates(after, before[name]).keys() == found.keys(), "taking it back says nothing to some of them"


@pytest.mark.parametrize("name", EDITS)
def test_another_name_is_another_cluster_and_nothing_of_the_old_one_is_touched_in_place(
    name: str, before: dict[str, Mapping[Place, Any]], tmp_path: Path
) -> None:
    values = {"muster:cluster.name": "other"}
    found = fates(before[name], registered(edited(OWN[name], tmp_path / "edited.yaml", values)))
    of_images = {place: fate for place, fate in found.items() if place[1] == IMAGES}
    assert set(of_images.values()) == {REPLACE}
    assert {fate for place, fate in found.items() if place not in of_images} == {CREATE, DELETE}


def test_clusters_of_one_name_in_two_regions_of_a_project_share_no_name_that_the_project_has_once(
    before: dict[str, Mapping[Place, Any]], tmp_path: Path
) -> None:
    elsewhere = next(edit for edit in GKE if "muster:cluster.region" in edit.values)
    there = registered(edited(OWN["gke"], tmp_path / "edited.yaml", elsewhere.values))
    assert not _claims(before["gke"]) & _claims(there)


@pytest.mark.parametrize(("name", "kind"), [("gke", GkeCluster), ("eks", EksCluster)])
def test_every_field_is_edited_or_left_out_for_a_reason(
    name: str, kind: type[GkeCluster] | type[EksCluster]
) -> None:
    paths = [path.removeprefix("muster:") for edit in EDITS[name] for path in edit.values]
    of_cluster = {path.split(".")[1] for path in paths if path.startswith("cluster.")}
    of_pools = {path.split(".")[2] for path in paths if path.startswith("pools.")}
    nested = [
        value for edit in EDITS[name] for path, value in edit.values.items() if path.endswith("systemPool")
    ]
    of_system = {key for value in nested for key in value}
    for owner, edits in ((kind, of_cluster), (Pool, of_pools), (SystemPool, of_system)):
        expected = {each.name for each in fields(owner)} - LEFT_OUT.keys()
        assert {_key(each) for each in expected} <= edits, owner.__name__


def _claims(resources: Mapping[Place, Any]) -> set[tuple[str, ...]]:
    """What the cloud gives to one resource alone: its type, and the inputs that no other may have."""
    found = set()
    for each in resources.values():
        values = [each.inputs.get(key) for key in TABLES[each.type].unique]
        if values and None not in values:
            found.add((each.type, *map(str, values)))
    return found


def _key(name: str) -> str:
    """The stack file's word for a field of the model."""
    first, *rest = name.replace("max_run", "max_run_duration").split("_")
    return first + "".join(part.capitalize() if part != "gib" else "GiB" for part in rest)


def _told(found: Mapping[Place, Fate]) -> tuple[Fate | None, dict[str, Fate], dict[str, Fate]]:
    """Of the cluster, of its pools, and of other types what is more than an update."""
    weight = list(Fate).index
    cluster: Fate | None = None
    pools: dict[str, Fate] = {}
    others: dict[str, Fate] = {}
    for (type_, name), fate in found.items():
        if type_ in CLUSTERS:
            cluster = fate
        elif type_ in POOLS:
            pool = pool_of(name.removeprefix("every-"))
            pools[pool] = max(fate, pools.get(pool, fate), key=weight)
        elif fate is not UPDATE:
            short = type_.rpartition(":")[2]
            others[short] = max(fate, others.get(short, fate), key=weight)
    return cluster, pools, others
