"""Regions and zones: that the provider has them, and that the zones are the region's."""

import itertools
from collections.abc import Iterator, Sequence
from ipaddress import IPv4Network
from typing import Final

from muster.model.clusters import EksCluster, GkeCluster
from muster.model.nearest import meant
from muster.model.pools import Pool
from muster.model.quantities import many
from muster.model.regions import REGIONS, Provider, first_zone, may_be_newer, region_of
from muster.model.violations import Violation, at

# Addresses: ranges that are ranges, that overlap nothing, and that hold what the pools may grow to.

_PATH: Final = "muster:cluster"
# Google keeps four addresses of each range: https://cloud.google.com/vpc/docs/subnets#unusable-ip-addresses
_KEPT: Final = 4
# A node takes a /24 of the pods' range, for at most 110 pods:
# https://cloud.google.com/kubernetes-engine/docs/concepts/alias-ips
_PODS_OF_A_NODE: Final = 24
# https://docs.aws.amazon.com/vpc/latest/userguide/vpc-cidr-blocks.html
_VPC_SIZES: Final = range(16, 25)


def gke_address_rules(cluster: GkeCluster, pools: tuple[Pool, ...]) -> Iterator[Violation]:
    for name, block in cluster.authorized_networks.items():
        yield from cidr(f"{_PATH}.authorizedNetworks.{name}", block)
        yield from everywhere(f"{_PATH}.authorizedNetworks.{name}", block)
    network = cluster.network
    written = {"controlPlane": network.control_plane}
    if network.existing is None:
        written |= {"nodes": network.nodes, "pods": network.pods, "services": network.services}
    broken = [violation for key, text in written.items() for violation in cidr(_at(key), text)]
    yield from broken
    if broken:
        return
    ranges = {key: IPv4Network(text) for key, text in written.items()}
    if ranges["controlPlane"].prefixlen != 28:
        yield Violation(_at("controlPlane"), "must be a /28.", "write one: 172.16.0.0/28.")
    yield from _apart(ranges)
    if network.existing is None:
        yield from _room(ranges, most=sum(pool.max_nodes for pool in pools) + cluster.system_pool.max_nodes)


def vpc_rules(cluster: EksCluster) -> Iterator[Violation]:
    path = f"{_PATH}.network.cidr"
    broken = list(cidr(path, cluster.network.cidr))
    yield from broken
    if not broken and IPv4Network(cluster.network.cidr).prefixlen not in _VPC_SIZES:
        message = f"{cluster.network.cidr} is too small to divide, or larger than a VPC can be."
        yield Violation(path, message, "write a /16 to a /24: 10.0.0.0/16.")


def cidr(path: str, text: str) -> Iterator[Violation]:
    """A range in canonical form."""
    try:
        IPv4Network(text)
    except ValueError as error:
        yield Violation(path, f"{text!r} is no range of addresses: {error}.", "write it like 10.0.0.0/20.")


def everywhere(path: str, text: str) -> Iterator[Violation]:
    if text.endswith("/0"):
        message = "the whole internet may try its luck at the control plane."
        yield Violation(path, message, "name the addresses from which you deploy.", level="warning")


def _apart(ranges: dict[str, IPv4Network]) -> Iterator[Violation]:
    for (one, first), (other, second) in itertools.combinations(sorted(ranges.items()), 2):
        if first.overlaps(second):
            message = f"{second} overlaps {one}, {first}."
            yield Violation(_at(other), message, "give each a range of its own.")


def _room(ranges: dict[str, IPv4Network], *, most: int) -> Iterator[Violation]:
    """Whether the ranges hold the pools at their largest: a range cannot be made smaller again, and a pods'
    range that is full stops every pool.
    """
    held = ranges["nodes"].num_addresses - _KEPT
    if held < most:
        message = f"{ranges['nodes']} holds {many(held, 'node')}, but the pools may have {most} together."
        yield Violation(_at("nodes"), message, "write a larger range: 10.0.0.0/18.")
    prefix = ranges["pods"].prefixlen
    pods = 2 ** (_PODS_OF_A_NODE - prefix) if prefix <= _PODS_OF_A_NODE else 0
    if pods < most:
        nodes = many(pods, "node")
        message = f"{ranges['pods']} holds the pods of {nodes}, but the pools may have {most} together."
        yield Violation(_at("pods"), message, "write a larger range: 10.4.0.0/14 is for 1,024 nodes.")


def _at(key: str) -> str:
    return f"{_PATH}.network.{key}"


_LISTED = {Provider.GKE: "gcloud compute regions list", Provider.EKS: "aws account list-regions"}
_EXAMPLES = {Provider.GKE: "us-central1", Provider.EKS: "us-east-1"}


def region_rules(path: str, region: str, provider: Provider) -> Iterator[Violation]:
    """`path` is the region's. One in the words of known ones may be newer than the table."""
    known = REGIONS[provider]
    if region in known:
        return
    if (inner := region_of(region, provider)) is not None:
        fix = f"write `region: {inner}` and `zones: [{region}]`"
        if provider is Provider.GKE:
            fix += f", or `zone: {region}` in place of it for a zonal cluster"
        yield Violation(path, f"{region!r} is a zone.", f"{fix}.")
        return
    close, _ = meant(region, known, noun="region")
    (other,) = REGIONS.keys() - {provider}
    if region in REGIONS[other]:
        near = f", such as {close}" if close else f", such as {_EXAMPLES[provider]}"
        message = f"{region!r} is a region of {other}, not of {provider}."
        yield Violation(path, message, f"write one of {provider}{near}.")
    elif may_be_newer(region, provider):
        yield from _newer(path, region, provider)
    elif close is not None:
        message = f"{region!r} is not a region of {provider}."
        yield Violation(path, message, f"did you mean {close!r}? `{_LISTED[provider]}` prints them all.")
    elif "-" in region:
        yield from _newer(path, region, provider)
    else:
        message = f"{region!r} is not a region of {provider}."
        fix = f"write its name, such as {_EXAMPLES[provider]}; `{_LISTED[provider]}` prints them all."
        yield Violation(path, message, fix)


def _newer(path: str, region: str, provider: Provider) -> Iterator[Violation]:
    message = f"{region!r} is not among the regions of {provider} that this version of Muster knows."
    fix = f"nothing, if `{_LISTED[provider]}` prints it."
    yield Violation(path, message, fix, level="warning")


def single_zone_rules(path: str, zone: str, region: str) -> Iterator[Violation]:
    """The zone of a zonal GKE cluster; `region` is the one that the stack has besides, or the zone's."""
    inner = region_of(zone, Provider.GKE)
    if inner is None:
        fix = f"write a zone, such as {first_zone(region or _EXAMPLES[Provider.GKE], Provider.GKE)}"
        if zone in REGIONS[Provider.GKE]:
            yield Violation(
                path, f"{zone} is a region.", f"{fix}, or `region: {zone}` for a regional cluster."
            )
        else:
            yield Violation(
                path, f"{zone!r} is not a zone of gke.", f"{fix}; `gcloud compute zones list` prints all."
            )
    elif region == inner:
        yield from region_rules(path, inner, Provider.GKE)
    else:
        yield Violation(
            path, f"{zone} is not in region {region}.", f"remove `region`, or write `region: {inner}`."
        )


def zone_rules(path: str, zones: Sequence[str], region: str, provider: Provider) -> Iterator[Violation]:
    """`path` is that of the list. The zones of a region that is none are not judged."""
    if any(each.level == "error" for each in region_rules(path, region, provider)):
        return
    fix = f"write zones of {region}, such as {first_zone(region, provider)}."
    for index, zone in enumerate(zones):
        if zone in REGIONS[provider] or zone == region:
            yield Violation(at(path, index), f"{zone} is a region.", fix)
        elif region_of(zone, provider) != region:
            yield Violation(at(path, index), f"{zone} is not in region {region}.", fix)
