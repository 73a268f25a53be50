"""Clusters: addresses that fit and do not overlap, zones of the region, who may reach the control plane, and
what a stack's pools ask of the cluster.
"""

import re
from collections.abc import Iterator
from typing import Final

from muster.model.clusters import (
    Autoscaler,
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
from muster.model.minimum_versions import FIRST_UNKNOWN, MINIMUM_VERSIONS, out_of_range
from muster.model.quantities import many
from muster.model.regions import Provider
from muster.model.stack import GangMode, Stack
from muster.model.violations import Violation, suggestion
from muster.model.waiting import NOT_PROMISED
from muster.validation.regions import (
    cidr,
    everywhere,
    gke_address_rules,
    region_rules,
    single_zone_rules,
    vpc_rules,
    zone_rules,
)

_PATH: Final = "muster:cluster"
# GKE: https://cloud.google.com/kubernetes-engine/docs/reference/rest/v1/projects.locations.clusters
_GKE_NAME: Final = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?\Z")
# EKS: https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateCluster.html
_EKS_NAME: Final = re.compile(r"[0-9A-Za-z][A-Za-z0-9_-]{0,99}\Z")
# https://cloud.google.com/kubernetes-engine/versioning#specifying_cluster_version
# Of hours in 32 days, in which GKE may do what it has to.
_LEAST_MAINTENANCE: Final = 48
_ALIASES: Final = ("latest", "-")
_EKS_VERSION: Final = re.compile(r"1\.\d{2}\Z")
_KEY: Final = re.compile(r"projects/[^/]+/locations/[^/]+/keyRings/[^/]+/cryptoKeys/[^/]+\Z")
_PRINCIPAL: Final = re.compile(r"arn:aws[\w-]*:iam::\d{12}:(role|user)/.+\Z")


def cluster_rules(stack: Stack) -> list[Violation]:
    """Every rule about the cluster that the stack describes."""
    cluster = stack.cluster
    if isinstance(cluster, GkeCluster):
        return list(_gke(cluster, stack))
    if isinstance(cluster, EksCluster):
        return list(_eks(cluster))
    return list(_existing(cluster, stack))


def _gke(cluster: GkeCluster, stack: Stack) -> Iterator[Violation]:
    if not _GKE_NAME.match(cluster.name):
        fix = "use at most 40 of a-z, 0-9 and -, beginning with a letter."
        yield Violation(f"{_PATH}.name", f"{cluster.name!r} cannot be the name of a GKE cluster.", fix)
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
    if isinstance(cluster, GkeCluster) and cluster.zone is not None:
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
