"""Clusters: addresses that fit and do not overlap, zones of the region, who may reach the control plane, and
what a stack's pools ask of the cluster.
"""

import ipaddress
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import Final

from muster.model.clusters import (
    Autoscaler,
    Cluster,
    EksCluster,
    ExistingCluster,
    GkeCluster,
    ReleaseChannel,
    SystemPool,
)
from muster.model.clusters.eks import LOG_DAYS, LOG_KINDS
from muster.model.clusters.gke import (
    END_OF_SUPPORT,
    NO_CHANNEL_ENDS,
    NO_CHANNEL_SOURCE,
    MaintenanceExclusion,
    MaintenanceWindow,
    is_day,
)
from muster.model.machines import ARM64
from muster.model.nearest import meant
from muster.model.pools import Pool
from muster.model.quantities import many
from muster.model.regions import REGIONS, Provider, first_zone, may_be_newer, region_of
from muster.model.stack import GangMode, Stack
from muster.model.versions import FIRST_UNKNOWN, MINIMUM_VERSIONS, out_of_range
from muster.model.violations import Violation, at, suggestion
from muster.model.waiting import NOT_PROMISED

# Regions and zones: that the provider has them, and that the zones are the region's.

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
        yield Violation(path, f"{text!r} is no range of addresses: {error}.", _cidr_fix(text))


def _cidr_fix(text: str) -> str:
    try:
        network = IPv4Network(text, strict=False)
    except ValueError:
        return "write it like 10.0.0.0/20."
    return f"write {network} for the whole range, or {text.partition('/')[0]}/32 for the one address."


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


# GKE: https://cloud.google.com/kubernetes-engine/docs/reference/rest/v1/projects.locations.clusters and
# https://cloud.google.com/kubernetes-engine/docs/reference/rest/v1/projects.locations.clusters.nodePools
GKE_NAME: Final = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?\Z")
# EKS: https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateCluster.html
_EKS_NAME: Final = re.compile(r"[0-9A-Za-z][A-Za-z0-9_-]{0,99}\Z")
# Of hours in 32 days, in which GKE may do what it has to.
_LEAST_MAINTENANCE: Final = 48
# https://cloud.google.com/kubernetes-engine/versioning#specifying_cluster_version
_ALIASES: Final = ("latest", "-")
_EKS_VERSION: Final = re.compile(r"1\.\d{2}\Z")
# Source: https://cloud.google.com/sdk/gcloud/reference/alpha/projects/create, read 2026-11-29. Old projects
# may have a domain in front, as in example.com:ml (general knowledge).
_PROJECT: Final = re.compile(r"([a-z0-9.-]+:)?[a-z][a-z0-9-]*\Z")
_KEY: Final = re.compile(r"projects/[^/]+/locations/[^/]+/keyRings/[^/]+/cryptoKeys/[^/]+\Z")
_PRINCIPAL: Final = re.compile(r"arn:aws[\w-]*:iam::\d{12}:(role|user)/.+\Z")


def cluster_rules(stack: Stack) -> list[Violation]:
    cluster = stack.cluster
    if isinstance(cluster, GkeCluster):
        return list(_gke(cluster, stack))
    if isinstance(cluster, EksCluster):
        return list(_eks(cluster))
    return list(_existing(cluster, stack))


def _gke(cluster: GkeCluster, stack: Stack) -> Iterator[Violation]:
    if not GKE_NAME.match(cluster.name):
        fix = "use at most 40 of a-z, 0-9 and -, beginning with a letter."
        yield Violation(f"{_PATH}.name", f"{cluster.name!r} cannot be the name of a GKE cluster.", fix)
    if cluster.project and not _PROJECT.match(cluster.project):
        fix = "write its ID, not its name: `gcloud projects list` prints both."
        yield Violation(f"{_PATH}.project", f"{cluster.project!r} cannot be the ID of a project.", fix)
    yield from _where(cluster)
    if cluster.version is not None and cluster.version not in _ALIASES:
        yield from _supported(cluster.version)
    yield from _system(cluster.system_pool)
    if cluster.system_pool.min_nodes == 0:
        # https://cloud.google.com/kubernetes-engine/docs/concepts/cluster-autoscaler, "Minimum and maximum
        # node pool size": a pool may go down to none, and GKE's autoscaler is not in the cluster.
        message = "is 0: nodes are kept only while system pods ask for them, and all replicas may share one."
        fix = "nothing, if that is accepted; otherwise write 2, so that one node's loss stops nothing."
        yield Violation(f"{_PATH}.systemPool.minNodes", message, fix, level="warning")
    yield from gke_address_rules(cluster, stack.pools)
    if cluster.kms_key is not None and not _KEY.match(cluster.kms_key):
        fix = "write projects/P/locations/L/keyRings/R/cryptoKeys/K."
        yield Violation(f"{_PATH}.kmsKey", f"{cluster.kms_key!r} is no full name of a key.", fix)
    if cluster.maintenance is not None:
        yield from _maintenance(cluster.maintenance)
    if cluster.release_channel is ReleaseChannel.NONE:
        message = (
            f"is none: GKE refuses it to new customers, and on {NO_CHANNEL_ENDS} moves every cluster without "
            f"a channel to `stable`. Source: {NO_CHANNEL_SOURCE}."
        )
        fix = "write `regular`; `maintenance.exclusions` keeps GKE from upgrading nodes under running work."
        yield Violation(f"{_PATH}.releaseChannel", message, fix, level="warning")
    if not (cluster.private_endpoint or cluster.authorized_networks or cluster.dns_endpoint):
        message = "is empty, so the control plane cannot be reached from outside, `pulumi up` included."
        fix = "name the addresses from which you deploy, {office: 198.51.100.0/24}, or write `dnsEndpoint`."
        yield Violation(f"{_PATH}.authorizedNetworks", message, fix, level="warning")


def _maintenance(window: MaintenanceWindow) -> Iterator[Violation]:
    """48 hours in any 32 days, in windows of four hours or more:
    https://cloud.google.com/kubernetes-engine/docs/concepts/maintenance-windows-and-exclusions
    """
    path = f"{_PATH}.maintenance"
    if not window.has_start:
        yield Violation(f"{path}.start", f"{window.start!r} is no time of a day.", 'write it like "02:00".')
    if window.hours_in_32_days < _LEAST_MAINTENANCE:
        hours = many(window.hours_in_32_days, "hour")
        message = f"is open for {hours} in 32 days, and GKE asks for {_LEAST_MAINTENANCE}."
        yield Violation(path, message, "write more `days` or `hours`, such as two days of 6 hours.")
    for name, exclusion in window.exclusions.items():
        yield from _exclusion(f"{path}.exclusions.{name}", exclusion)


def _exclusion(path: str, exclusion: MaintenanceExclusion) -> Iterator[Violation]:
    begin, until = exclusion.begin, exclusion.until
    has_end = until != END_OF_SUPPORT
    if has_end and not is_day(until):
        fix = f'write it like "2027-01-11", or {END_OF_SUPPORT}.'
        yield Violation(f"{path}.until", f"{until!r} is no day.", fix)
    if begin is not None and not is_day(begin):
        yield Violation(f"{path}.from", f"{begin!r} is no day.", 'write it like "2026-12-14".')
    elif has_end and begin is None:
        message = "is missing: GKE counts the days of an exclusion that ends on a day."
        yield Violation(f"{path}.from", message, "write the first day.")
    elif has_end and begin is not None and is_day(until) and until <= begin:
        yield Violation(f"{path}.until", f"is {until}, not after {begin}.", "write a later day.")


def _eks(cluster: EksCluster) -> Iterator[Violation]:
    if not _EKS_NAME.match(cluster.name):
        fix = "use at most 100 of letters, 0-9, - and _, beginning with a letter or a digit."
        yield Violation(f"{_PATH}.name", f"{cluster.name!r} cannot be the name of an EKS cluster.", fix)
    if not _EKS_VERSION.match(cluster.version):
        yield Violation(f"{_PATH}.version", f"{cluster.version!r} is no version.", 'write it like "1.36".')
    else:
        yield from _supported(cluster.version)
    yield from _where(cluster)
    if len(set(cluster.zones)) < 2:
        place = "network.existing.privateSubnets" if cluster.network.existing else "zones"
        has = f"has {len(set(cluster.zones))}" if cluster.zones else "is missing"
        message = f"{has}; the control plane of EKS needs at least two zones."
        fix = "write two or three zones of the region: [us-east-1a, us-east-1b]."
        yield Violation(f"{_PATH}.{place}", message, fix)
    yield from _system(cluster.system_pool)
    if cluster.system_pool.min_nodes == 0 and not cluster.is_auto:
        # github.com/kubernetes/autoscaler, cluster-autoscaler/cloudprovider/aws: it is a Deployment.
        message = "is 0; on EKS the autoscaler runs on these nodes, and without one it can make none."
        yield Violation(f"{_PATH}.systemPool.minNodes", message, "write 1 or more.")
    if cluster.network.existing is None:
        yield from vpc_rules(cluster)
    if not cluster.public_cidrs and cluster.network.existing is None:
        message = (
            "is missing, so only its VPC reaches the control plane; the first `pulumi up` makes that VPC, "
            "and cannot go on from outside of it."
        )
        fix = "name the addresses from which you deploy, or use a VPC that you are in (`network.existing`)."
        yield Violation(f"{_PATH}.publicCidrs", message, fix, level="warning")
    for index, block in enumerate(cluster.public_cidrs):
        yield from cidr(f"{_PATH}.publicCidrs[{index}]", block)
        yield from everywhere(f"{_PATH}.publicCidrs[{index}]", block)
    for index, kind in enumerate(cluster.logs):
        if kind not in LOG_KINDS:
            fix = suggestion(kind, LOG_KINDS, noun="kind of log")
            yield Violation(f"{_PATH}.logs[{index}]", f"{kind!r} is no log of EKS.", fix)
    if cluster.log_days not in LOG_DAYS:
        near = min(LOG_DAYS, key=lambda days: abs(days - cluster.log_days))
        message = f"CloudWatch keeps no log for exactly {cluster.log_days} days."
        yield Violation(f"{_PATH}.logDays", message, f"write {near}.")
    if cluster.storage.drivers and cluster.is_auto:
        message = "EKS waits until an add-on runs, and Auto Mode has no node before the cluster's objects."
        fix = "remove it, and install the add-on when the cluster stands: `aws eks create-addon`."
        yield Violation(f"{_PATH}.storage.drivers", message, fix)
    yield from _access(cluster)


def _access(cluster: EksCluster) -> Iterator[Violation]:
    for name, access in cluster.access.items():
        path = f"{_PATH}.access.{name}"
        if not _PRINCIPAL.match(access.principal):
            message = f"{access.principal!r} is no IAM role or user."
            yield Violation(path, message, "write its ARN: arn:aws:iam::123456789012:role/NAME.")
        if access.policy is None and not access.groups:
            yield Violation(path, "may do nothing.", "give it a `policy:`, `groups:`, or both.")
        for group in access.groups:
            if group.startswith("system:"):
                # https://docs.aws.amazon.com/eks/latest/userguide/creating-access-entries.html
                message = f"EKS takes no group that begins with system:, as {group} does."
                yield Violation(f"{path}.groups", message, "use `policy:` for rights over the cluster.")


def _existing(cluster: ExistingCluster, stack: Stack) -> Iterator[Violation]:
    if cluster.autoscaler is not Autoscaler.KARPENTER:
        return
    if stack.placeholder_pools:
        return
    if stack.gang_admission.mode is not GangMode.OFF:
        message = "Karpenter answers no ProvisioningRequest, so no gang would ever be admitted."
        fix = "write `muster:gangAdmission: off`, or use an autoscaler that answers them."
        yield Violation(f"{_PATH}.autoscaler", message, fix)
        return
    fix = "nothing, if that is accepted; otherwise use cluster-autoscaler with ProvisioningRequests."
    yield Violation(f"{_PATH}.autoscaler", NOT_PROMISED, fix, level="warning")


def _supported(version: str) -> Iterator[Violation]:
    oldest, unknown = MINIMUM_VERSIONS["kubernetes"].version, FIRST_UNKNOWN["kubernetes"]
    known = f'"{oldest.major}.{oldest.minor}" to "{unknown.major}.{unknown.minor - 1}"'
    try:
        problem = out_of_range("kubernetes", version)
    except ValueError:
        yield Violation(f"{_PATH}.version", f"{version!r} is no version.", f"write one of {known}.")
        return
    if problem is not None:
        fix = f"write one of {known}."
        yield Violation(f"{_PATH}.version", f"Kubernetes {problem.message}", fix)


def _where(cluster: GkeCluster | EksCluster) -> Iterator[Violation]:
    if cluster.zone is not None:
        yield from single_zone_rules(f"{_PATH}.zone", cluster.zone, cluster.region)
        return
    yield from region_rules(f"{_PATH}.region", cluster.region, cluster.provider)
    yield from zone_rules(f"{_PATH}.zones", cluster.zones, cluster.region, cluster.provider)


def _system(pool: SystemPool) -> Iterator[Violation]:
    if pool.machine.gpu_counts:
        message = f"machine {pool.machine.name} is for GPUs; the system pool has none."
        yield Violation(f"{_PATH}.systemPool.machine", message, "choose a machine without.")
    if pool.machine.provider is Provider.GKE and pool.machine.architecture == ARM64:
        # https://cloud.google.com/kubernetes-engine/docs/how-to/prepare-arm-workloads-for-deployment
        message = (
            f"GKE taints nodes with Arm processors, as {pool.machine.name} has, and charts tolerate none."
        )
        yield Violation(f"{_PATH}.systemPool.machine", message, "choose a machine with an x86 processor.")
    if pool.min_nodes > pool.max_nodes:
        message = f"is {pool.min_nodes}, more than maxNodes {pool.max_nodes}."
        yield Violation(f"{_PATH}.systemPool.minNodes", message, "lower minNodes or raise maxNodes.")


# Two stacks that describe the same cluster: each would create it and delete the other's.
#
# Responsible for when two descriptions mean the same cluster. Clusters of one name in two regions are two
# clusters, and no resource of one has the name of a resource of the other (muster/model/google_names).


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterIdentity:
    """What identifies a cluster in its stack file. EKS: no stack file names the AWS account."""

    provider: str
    region: str
    name: str
    project: str = ""


def identity_of(cluster: Cluster) -> ClusterIdentity | None:
    """None for an existing cluster, which several stacks may use one after another."""
    if not cluster.is_ours:
        return None
    return ClusterIdentity(
        provider=cluster.provider, region=cluster.region, name=cluster.name, project=cluster.project
    )


def duplicate_cluster_rules(cluster: Cluster, others: Mapping[str, ClusterIdentity]) -> Iterator[Violation]:
    """Report every other stack that describes the same cluster. `others` maps stack name to cluster."""
    own = identity_of(cluster)
    for stack in sorted(stack for stack, identity in others.items() if identity == own):
        what = f"{cluster.name!r} in {cluster.region}"
        if cluster.project:
            message = (
                f"{what} of project {cluster.project} is also described by stack {stack}: two stacks cannot "
                "create the same cluster."
            )
            fix = "give one of them another name, or another region or project."
            yield Violation(f"{_PATH}.name", message, fix)
        else:
            message = (
                f"{what} is also described by stack {stack}. That is correct only if the two stacks use "
                "different AWS accounts."
            )
            fix = "if both use the same account, give one of them another name or another region."
            yield Violation(f"{_PATH}.name", message, fix, "warning")


# Values of the examples that were never replaced: no cluster can be made with them.
#
# `muster validate` reports them. A preview and the policy pack also read stacks that are not filled in yet.


# What `muster new`, the shipped stacks and the clouds' own pages have in their place.
_PROJECTS: Final = ("my-project", "my-gcp-project", "project-id", "your-project")
_ACCOUNT: Final = "123456789012"
_RESERVATIONS: Final = ("cr-0123456789abcdef0", "cr-0fedcba9876543210", "cr-1234567890abcdef0")
# Of RFC 5737: they are on no network.
_NETWORKS: Final = tuple(map(ipaddress.IPv4Network, ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24")))
_CLUSTER: Final = "muster:cluster"
_PROJECT_FIX: Final = "write the ID of your project: `gcloud config get project` prints it."
_ACCOUNT_FIX: Final = "write an ARN of your account: `aws sts get-caller-identity` prints yours."
_NETWORK_FIX: Final = "write the addresses from which you deploy, such as your office's."
_RESERVATION_FIX: Final = "write the id of yours: `aws ec2 describe-capacity-reservations` prints them."


def placeholder_rules(stack: Stack) -> list[Violation]:
    """Every value that is still the example's."""
    cluster = stack.cluster
    found = list(_reservations(stack))
    if isinstance(cluster, GkeCluster):
        found += _gke_examples(cluster)
    elif isinstance(cluster, EksCluster):
        found += _eks_examples(cluster)
    return found


def _gke_examples(cluster: GkeCluster) -> Iterator[Violation]:
    if cluster.project.lower() in _PROJECTS:
        yield Violation(f"{_CLUSTER}.project", _example(cluster.project), _PROJECT_FIX)
    for name, block in cluster.authorized_networks.items():
        yield from _network(f"{_CLUSTER}.authorizedNetworks.{name}", block)


def _eks_examples(cluster: EksCluster) -> Iterator[Violation]:
    for index, block in enumerate(cluster.public_cidrs):
        yield from _network(f"{_CLUSTER}.publicCidrs[{index}]", block)
    for name, access in cluster.access.items():
        if f":{_ACCOUNT}:" in access.principal:
            yield Violation(f"{_CLUSTER}.access.{name}", _example(access.principal), _ACCOUNT_FIX)


def _reservations(stack: Stack) -> Iterator[Violation]:
    for pool in stack.pools:
        if pool.reservation is not None and pool.reservation.name in _RESERVATIONS:
            path = f"muster:pools.{pool.name}.reservation"
            yield Violation(path, _example(pool.reservation.name), _RESERVATION_FIX)


def _network(path: str, block: str) -> Iterator[Violation]:
    try:
        network = ipaddress.ip_network(block, strict=False)
    except ValueError:
        return  # another rule reports it
    if any(isinstance(network, ipaddress.IPv4Network) and network.subnet_of(each) for each in _NETWORKS):
        yield Violation(
            path, f"{block} is a network for documentation: no address of it is in use.", _NETWORK_FIX
        )


def _example(value: str) -> str:
    return f"{value} is the value of an example."
