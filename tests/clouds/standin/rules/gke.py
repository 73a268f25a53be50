"""What GKE says of clusters beyond container.v1."""

import re
from collections.abc import Iterator
from datetime import datetime

from tests.clouds.standin.refusal import Refusal
from tests.clouds.standin.rules import alone
from tests.clouds.standin.tables.gke import CLUSTER_TYPE
from tests.clouds.standin.values import Inputs, each, get, settled

_NAME = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?")


def name_is_legal(inputs: Inputs) -> Iterator[Refusal]:
    """Lower case, digits and dashes, at most 40: the field's own description in container.v1."""
    name = get(inputs, "name")
    if isinstance(name, str) and not _NAME.fullmatch(name):
        yield Refusal(
            "name", f"{name!r}: lowercase letters, digits and -, beginning with a letter, at most 40"
        )


@alone(CLUSTER_TYPE)
def cluster_names_are_legal(inputs: Inputs) -> Iterator[Refusal]:
    """See name_is_legal."""
    yield from name_is_legal(inputs)


@alone(CLUSTER_TYPE)
def a_zonal_cluster_names_its_zone_once(inputs: Inputs) -> Iterator[Refusal]:
    """https://registry.terraform.io/providers/hashicorp/google/latest/docs/resources/container_cluster,
    node_locations: omit the cluster's own zone.
    """
    location = inputs.get("location")
    for index, zone in enumerate(inputs.get("nodeLocations") or ()):
        if zone == location:
            yield Refusal(f"nodeLocations[{index}]", f"{zone} is the zone of the cluster itself")


@alone(CLUSTER_TYPE)
def private_nodes_need_vpc_native(inputs: Inputs) -> Iterator[Refusal]:
    """https://cloud.google.com/kubernetes-engine/docs/how-to/legacy/network-isolation: a private cluster must
    be VPC-native.
    """
    if get(inputs, "privateClusterConfig.enablePrivateNodes") and not inputs.get("ipAllocationPolicy"):
        yield Refusal("ipAllocationPolicy", "a cluster with private nodes must be VPC-native")


@alone(CLUSTER_TYPE)
def a_private_endpoint_needs_private_nodes(inputs: Inputs) -> Iterator[Refusal]:
    """container.v1 PrivateClusterConfig; the API answers 400 otherwise."""
    config = "privateClusterConfig"
    private = get(inputs, f"{config}.enablePrivateEndpoint")
    if private and settled(inputs, config) and not get(inputs, f"{config}.enablePrivateNodes"):
        yield Refusal(f"{config}.enablePrivateEndpoint", "requires enablePrivateNodes")


@alone(CLUSTER_TYPE)
def the_control_plane_range_is_a_28(inputs: Inputs) -> Iterator[Refusal]:
    """https://cloud.google.com/kubernetes-engine/docs/how-to/legacy/network-isolation: masterIpv4CidrBlock is
    a /28.
    """
    block = get(inputs, "privateClusterConfig.masterIpv4CidrBlock")
    if block and not str(block).endswith("/28"):
        yield Refusal("privateClusterConfig.masterIpv4CidrBlock", f"{block} is no /28")


@alone(CLUSTER_TYPE)
def dataplane_v2_excludes_calico(inputs: Inputs) -> Iterator[Refusal]:
    """https://cloud.google.com/kubernetes-engine/docs/concepts/dataplane-v2: network policy enforcement is
    built in, and the addon cannot be enabled beside it.
    """
    if get(inputs, "datapathProvider") == "ADVANCED_DATAPATH" and get(inputs, "networkPolicy.enabled"):
        yield Refusal("networkPolicy.enabled", "Dataplane V2 has it built in; the addon is refused")


@alone(CLUSTER_TYPE)
def dataplane_v2_needs_vpc_native(inputs: Inputs) -> Iterator[Refusal]:
    """https://cloud.google.com/kubernetes-engine/docs/concepts/dataplane-v2, requirements."""
    wants = get(inputs, "datapathProvider") == "ADVANCED_DATAPATH"
    if wants and (get(inputs, "networkingMode") == "ROUTES" or not inputs.get("ipAllocationPolicy")):
        yield Refusal("datapathProvider", "ADVANCED_DATAPATH needs a VPC-native cluster (ipAllocationPolicy)")


@alone(CLUSTER_TYPE)
def the_workload_pool_is_the_projects(inputs: Inputs) -> Iterator[Refusal]:
    """https://cloud.google.com/kubernetes-engine/docs/how-to/workload-identity: PROJECT_ID.svc.id.goog."""
    pool, project = get(inputs, "workloadIdentityConfig.workloadPool"), get(inputs, "project")
    if pool and project and pool != f"{project}.svc.id.goog":
        yield Refusal("workloadIdentityConfig.workloadPool", f"is {project}.svc.id.goog, not {pool!r}")


@alone(CLUSTER_TYPE)
def a_removed_default_pool_had_a_node(inputs: Inputs) -> Iterator[Refusal]:
    """container.v1 answers 400 to a cluster without nodes: removing the default pool needs it to be made."""
    if get(inputs, "removeDefaultNodePool") and not get(inputs, "initialNodeCount"):
        yield Refusal("initialNodeCount", "is at least 1 with removeDefaultNodePool")


@alone(CLUSTER_TYPE)
def encryption_names_its_key(inputs: Inputs) -> Iterator[Refusal]:
    """https://cloud.google.com/kubernetes-engine/docs/how-to/encrypting-secrets"""
    wanted = get(inputs, "databaseEncryption.state") in ("ENCRYPTED", "ALL_OBJECTS_ENCRYPTION_ENABLED")
    if (
        wanted
        and settled(inputs, "databaseEncryption.keyName")
        and not get(inputs, "databaseEncryption.keyName")
    ):
        yield Refusal("databaseEncryption.keyName", "is required by this state")


@alone(CLUSTER_TYPE)
def maintenance_windows_are_long_enough(inputs: Inputs) -> Iterator[Refusal]:
    """https://cloud.google.com/kubernetes-engine/docs/concepts/maintenance-windows-and-exclusions: at least
    48 hours in 32 days, of which only stretches of four hours or more count.
    """
    window = "maintenancePolicy.recurringWindow"
    begin, end = get(inputs, f"{window}.startTime"), get(inputs, f"{window}.endTime")
    if not isinstance(begin, str) or not isinstance(end, str):
        return
    hours = (datetime.fromisoformat(end) - datetime.fromisoformat(begin)).total_seconds() / 3600
    recurrence = dict(part.split("=") for part in str(get(inputs, f"{window}.recurrence")).split(";"))
    days = len(recurrence["BYDAY"].split(",")) if "BYDAY" in recurrence else 7
    if hours < 4 or 4 * days * hours < 48:
        yield Refusal(window, f"{days} days a week of {hours:g} hours are less than 48 hours in 32 days")


@alone(CLUSTER_TYPE)
def exclusions_stand_beside_a_window_and_end_once(inputs: Inputs) -> Iterator[Refusal]:
    """resource_container_cluster.go: a policy has one window; an exclusion has `end_time` or
    `exclusion_options.end_time_behavior`.
    """
    policy = inputs.get("maintenancePolicy") or {}
    exclusions = each(policy, "maintenanceExclusions")
    if exclusions and not policy.get("recurringWindow") and not policy.get("dailyMaintenanceWindow"):
        yield Refusal("maintenancePolicy", "has no window beside its exclusions")
    for index, exclusion in enumerate(exclusions):
        ends = [exclusion.get("endTime"), get(exclusion, "exclusionOptions.endTimeBehavior")]
        if len([end for end in ends if end]) != 1:
            yield Refusal(f"maintenancePolicy.maintenanceExclusions[{index}]", "has one end, of two kinds")


@alone(CLUSTER_TYPE)
def authorised_networks_are_ranges(inputs: Inputs) -> Iterator[Refusal]:
    """container.v1 CidrBlock: "must be specified in CIDR notation"; at most 100 of them
    (https://cloud.google.com/kubernetes-engine/quotas).
    """
    blocks = each(inputs, "masterAuthorizedNetworksConfig.cidrBlocks")
    for index, block in enumerate(blocks):
        if not re.fullmatch(r"[0-9a-fA-F.:]+/\d+", str(block.get("cidrBlock"))):
            path = f"masterAuthorizedNetworksConfig.cidrBlocks[{index}].cidrBlock"
            yield Refusal(path, f"{block.get('cidrBlock')!r} is no range")
    if len(blocks) > 100:
        yield Refusal("masterAuthorizedNetworksConfig.cidrBlocks", "more than 100 are refused")
