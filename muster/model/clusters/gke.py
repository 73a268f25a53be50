"""A GKE cluster: its settings and their defaults, and the names of its resources.

Not a choice, because only one way is safe: nodes without public addresses, VPC-native, Dataplane V2, Workload
Identity, shielded nodes, a node service account of its own with the least roles.

Some names are unique in a Google project, not only in a region. Clusters of the same name in two regions of a
project share none of them, because the name or its hash contains the region. Regional resources (cluster,
subnetwork, router, image repository) have the cluster's name. cloud.google.com, "Resource naming convention":
networks and firewall rules, 63 characters; "Create service accounts": 6 to 30.
"""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from hashlib import sha256
from types import MappingProxyType
from typing import Any, ClassVar, Final

from muster.model import names
from muster.model.capacity import Capacity
from muster.model.clusters.common import AnyCluster, NameForm, SystemPool, declared_system_pool
from muster.model.keys import declared
from muster.model.machines import tpu_zones, zones_selling
from muster.model.pools import Pool
from muster.model.regions import PROTECT, NodeCloud, Provider, region_of
from muster.model.section import Section

GKE_ACCELERATOR_LABEL: Final = "cloud.google.com/gke-accelerator"
GKE_NODE_POOL_LABEL: Final = "cloud.google.com/gke-nodepool"
# https://cloud.google.com/kubernetes-engine/docs/concepts/spot-vms
GKE_SPOT_LABEL: Final = "cloud.google.com/gke-spot"
# As nodes that users publish have them (`kubectl describe node` in public repositories, read 2026-11-30), and
# as xpk and JobSet's samples select nodes of a reservation.
_PROVISIONING_LABEL: Final = "cloud.google.com/gke-provisioning"
# What queued nodes have is not written down; they are not Spot VMs.
_PROVISIONING: Final[Mapping[Capacity, str]] = MappingProxyType(
    {
        Capacity.SPOT: "spot",
        Capacity.QUEUED: "standard,flex-start",
        Capacity.FLEX_START: "standard,flex-start",
    }
)
_FAMILY_LABEL: Final = "cloud.google.com/machine-family"
_RESERVATION_LABELS: Final = tuple(
    f"cloud.google.com/reservation-{each}" for each in ("name", "project", "affinity")
)
# Of a service account in a project: its name, and the project as a domain.
GOOGLE_ACCOUNT: Final = re.compile(r"[a-z0-9][-a-z0-9]*@(?P<home>[-.a-z0-9]+)\.gserviceaccount\.com\Z")

_LONGEST_NETWORK: Final = 63
_LONGEST_ACCOUNT: Final = 30


# When a cloud may upgrade a cluster's control plane and nodes by itself.

# A Monday in the past: a window that recurs has to begin somewhere, and the same at each `up`.
_MONDAY: Final = date(2026, 1, 5)
_START: Final = re.compile(r"([01]\d|2[0-3]):[0-5]\d\Z")


class Day(StrEnum):
    MON = "mon"
    TUE = "tue"
    WED = "wed"
    THU = "thu"
    FRI = "fri"
    SAT = "sat"
    SUN = "sun"


class UpgradeScope(StrEnum):
    """Which upgrades an exclusion holds back; the members have the API's names.

    Control planes get their patches with all but `noUpgrades`. A critical vulnerability is patched in spite
    of any exclusion.

    Source: container.v1 MaintenanceExclusionOptions at revision 20261027 and
    https://cloud.google.com/kubernetes-engine/docs/concepts/maintenance-windows-and-exclusions, read
    2026-11-27
    """

    NO_UPGRADES = "noUpgrades"
    NO_MINOR_UPGRADES = "noMinorUpgrades"
    NO_MINOR_OR_NODE_UPGRADES = "noMinorOrNodeUpgrades"


END_OF_SUPPORT: Final = "endOfSupport"
"""Of the cluster's minor version: after that day GKE upgrades it all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceExclusion:
    """From the day `begin` until the day `until`, both like 2026-11-27 and in UTC. `begin` may be left out
    with END_OF_SUPPORT alone.
    """

    scope: UpgradeScope = declared(
        "Which upgrades: all; of the minor version; of the minor version and of all nodes.",
        example=UpgradeScope.NO_MINOR_OR_NODE_UPGRADES.value,
    )
    begin: str | None = declared(
        "The first day, in UTC and in quotes; required with a day in `until`.",
        None,
        key="from",
        example="2026-12-14",
    )
    until: str = declared(
        "The day on which it ends, in UTC and in quotes; or endOfSupport, of the minor version.",
        END_OF_SUPPORT,
    )

    @property
    def first(self) -> str:
        """Its begin, as RFC 3339 in UTC. Without a day of its own one in the past, the same at each `up`."""
        day = _MONDAY if self.begin is None else date.fromisoformat(self.begin)
        return _format_moment(datetime.combine(day, time(), UTC))

    @property
    def last(self) -> str | None:
        """Its end, as RFC 3339 in UTC; None at the end of support."""
        if self.until == END_OF_SUPPORT:
            return None
        return _format_moment(datetime.combine(date.fromisoformat(self.until), time(), UTC))


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceWindow:
    """A window of `hours` that begins on each of `days` at `start`, HH:MM in UTC."""

    days: tuple[Day, ...] = declared(
        "The days on which a window begins.",
        tuple(Day),
        read=lambda section, key: section.choices(key, Day, noun="day", is_of_list=True),
        default_text="every day",
        example=["sat", "sun"],
    )
    start: str = declared("When it begins, as HH:MM in UTC, in quotes.", "02:00")
    hours: int = declared("How many hours it lasts.", 8, minimum=4, maximum=24)
    exclusions: Mapping[str, MaintenanceExclusion] = declared(
        "Name: upgrades that GKE does not make by itself.",
        {},
        default_text="none",
        example={"gangs": {"scope": UpgradeScope.NO_MINOR_OR_NODE_UPGRADES.value}},
    )

    @staticmethod
    def complete(_section: Section, values: dict[str, Any]) -> dict[str, Any]:
        return {**values, "days": values["days"] or tuple(Day)}

    @property
    def has_start(self) -> bool:
        return bool(_START.match(self.start))

    @property
    def hours_in_32_days(self) -> int:
        """What it has at least in any 32 days, in which each day of the week comes four times."""
        return 4 * len(set(self.days)) * self.hours

    @property
    def first(self) -> tuple[str, str]:
        """Begin and end of the first one, as RFC 3339 in UTC."""
        order = list(Day)
        day = _MONDAY + timedelta(days=min(order.index(each) for each in self.days))
        begin = datetime.combine(day, time.fromisoformat(self.start), UTC)
        return _format_moment(begin), _format_moment(begin + timedelta(hours=self.hours))

    @property
    def recurrence(self) -> str:
        """As RFC 5545 has it."""
        days = ",".join(each.value[:2].upper() for each in Day if each in self.days)
        return f"FREQ=WEEKLY;BYDAY={days}"


def is_day(text: str) -> bool:
    with suppress(ValueError):
        return bool(date.fromisoformat(text).isoformat() == text)
    return False


def _format_moment(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


class ReleaseChannel(StrEnum):
    """Which versions GKE moves the cluster to, and when.
    https://cloud.google.com/kubernetes-engine/docs/concepts/release-channels

    In a channel the auto-upgrade of every pool is on ("Auto_upgrade must be true when release_channel REGULAR
    is set"). For queued and flex-start pools GKE then uses its strategy SHORT_LIVED, which replaces no node
    that runs; for the others see MaintenanceWindow.exclusions. `none` is for clusters that have it: GKE
    makes no new one for new customers, and moves all of them to `stable` on NO_CHANNEL_ENDS.

    Source: https://docs.cloud.google.com/kubernetes-engine/docs/concepts/node-pool-upgrade-strategies and
    github.com/GoogleCloudPlatform/cluster-toolkit examples/gke-consumption-options at 1.95.0, read 2026-11-27
    """

    NONE = "none"
    RAPID = "rapid"
    REGULAR = "regular"
    STABLE = "stable"
    EXTENDED = "extended"


NO_CHANNEL_ENDS: Final = date(2027, 6, 14)
NO_CHANNEL_SOURCE: Final = (
    "https://docs.cloud.google.com/kubernetes-engine/docs/release-notes-nochannel, read 2026-11-27"
)


class GpuDriver(StrEnum):
    """Which component installs the GPU driver on Container-Optimized OS and advertises the GPUs.

    `default` and `latest`: GKE does both, with its default or newest driver for the node version; the GPU
    Operator's device plugin is off. `installer`: GKE does neither (the label
    gke-no-default-nvidia-gpu-device-plugin and a disabled driver); Google's installer DaemonSet installs the
    driver and the operator's device plugin advertises. There is no third state: a mixture has no driver, or
    two advertisers (github.com/NVIDIA/aicr, pull requests 1998, 2044 and 2047).
    """

    DEFAULT = "default"
    LATEST = "latest"
    INSTALLER = "installer"

    @property
    def is_managed(self) -> bool:
        return self is not GpuDriver.INSTALLER


class GkeProvisioner(StrEnum):
    """What makes the nodes of the pools.

    `node-pools`: Muster makes a node pool each, which GKE's autoscaler resizes; it answers
    ProvisioningRequests. `compute-classes`: GKE makes node pools by itself, as ComputeClasses say, for pods
    that wait. Only the first has queued pools.
    """

    NODE_POOLS = "node-pools"
    COMPUTE_CLASSES = "compute-classes"


class GkeAddon(StrEnum):
    """Drivers that GKE runs: volumes from buckets, and file systems that many nodes write at once."""

    GCS_FUSE = "gcsFuse"
    FILESTORE = "filestore"
    LUSTRE = "lustre"


def _read_addons(section: Section, key: str) -> tuple[GkeAddon, ...] | None:
    if not section.has(key):
        return None
    return section.choices(key, GkeAddon, noun="add-on", is_of_list=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingNetwork:
    """An existing VPC. `pods` and `services` name secondary ranges of the subnetwork."""

    network: str = declared("The VPC; in a shared VPC projects/PROJECT/global/networks/NAME.", example="ml")
    subnetwork: str = declared("The subnetwork of the nodes.", example="nodes")
    pods: str = declared("The secondary range of the pods.", example="pods")
    services: str = declared("The secondary range of the services.", example="services")


@dataclass(frozen=True, slots=True, kw_only=True)
class GkeNetwork:
    """A node takes one address of `nodes` and a /24 of `pods`, so the defaults are for 1,024 nodes."""

    nodes: str = declared("Addresses of the nodes.", "10.0.0.0/20")
    pods: str = declared("Addresses of the pods; each node takes a /24.", "10.4.0.0/14")
    services: str = declared("Addresses of the services.", "10.8.0.0/20")
    control_plane: str = declared("A separate /28 for the control plane.", "172.16.0.0/28")
    existing: ExistingNetwork | None = declared(
        "An existing VPC; the other ranges then have no effect.", None, default_text="Muster makes one"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GkeCluster(AnyCluster):
    """`zones`: that of a zonal cluster alone, where `zone` is written.

    With `private_endpoint`, `authorized_networks` are private addresses.

    `dns_endpoint`: for those whom IAM gives `container.clusters.connect`; `pulumi up` comes in by it. For CI
    without fixed addresses.
    Source: https://cloud.google.com/kubernetes-engine/docs/concepts/network-isolation#dns-based_endpoint,
    read 2026-11-27

    `protect` holds until it is `false` and `pulumi up` has run. `addons`: those of GkeAddon that are not
    listed are off.

    `image_streaming` is for images in Artifact Registry, and needs the API
    containerfilesystem.googleapis.com.
    Source: https://cloud.google.com/kubernetes-engine/docs/how-to/image-streaming, read 2026-11-27
    """

    provider: ClassVar = Provider.GKE
    cloud = NodeCloud.GKE
    ANSWERS: ClassVar = GkeProvisioner.NODE_POOLS
    IDENTITY: ClassVar = NameForm(
        GOOGLE_ACCOUNT, "the address of a Google service account", "name@project.iam.gserviceaccount.com"
    )
    # cloud.google.com, "Buckets: naming": with dots longer, but each part has 63 characters at most.
    BUCKET: ClassVar = NameForm(
        re.compile(r"(?=.{3,222}\Z)[a-z0-9][-_a-z0-9]{0,62}(\.[a-z0-9][-_a-z0-9]{0,62})*\Z"), "Cloud Storage"
    )
    FOREIGN_LABELS: ClassVar = (
        "karpenter.sh/",
        "karpenter.k8s.aws/",
        "eks.amazonaws.com/",
        "k8s.amazonaws.com/",
    )

    name: str = declared("The name of the cluster in Google Cloud.", example="ml-prod")
    region: str = declared(
        "The region of a regional cluster, such as us-central1.",
        is_derived=True,
        default_text="required, unless `zone` is written",
        example="us-central1",
    )
    zone: str | None = declared(
        "The zone of a zonal cluster, in place of `region`: it has one control plane, which is away while it "
        "is upgraded, and all nodes.",
        None,
        default_text="none, a regional cluster",
        example="us-central1-a",
    )
    project: str = declared("The id of the Google Cloud project.", example="my-project")
    zones: tuple[str, ...] = declared(
        "Zones of the nodes.",
        (),
        default_text="GKE chooses them in the region",
        example=["us-central1-a", "us-central1-b"],
    )
    protect: bool = declared(PROTECT, True)
    release_channel: ReleaseChannel = declared(
        "Which versions GKE moves the cluster to; `none` is for clusters that have it already.",
        ReleaseChannel.REGULAR,
    )
    maintenance: MaintenanceWindow | None = declared(
        "When GKE may upgrade control plane and nodes by itself, and what it may not.",
        None,
        default_text="at any time",
        example={"days": ["sat", "sun"], "start": "02:00", "hours": 8},
    )
    version: str | None = declared("The version of Kubernetes, in quotes.", None, example="1.36")
    autoscaler: GkeProvisioner = declared(
        "What makes the nodes: node pools of Muster's, which alone can be queued; or GKE by itself, from "
        "ComputeClasses.",
        GkeProvisioner.NODE_POOLS,
    )
    network: GkeNetwork = declared("The address ranges of the network, or an existing network.", GkeNetwork())
    authorized_networks: Mapping[str, str] = declared(
        "Name: addresses that can reach the control plane.",
        {},
        default_text="none",
        example={"office": "198.51.100.0/24"},
    )
    private_endpoint: bool = declared("Whether the control plane has no public address.", False)
    dns_endpoint: bool = declared(
        "Whether the control plane's DNS name answers from anywhere, to whom IAM lets in.", False
    )
    kms_key: str | None = declared(
        "Full name of the key that encrypts Secrets and the disks of nodes.",
        None,
        default_text="Google's own keys",
        example="projects/my-project/locations/us-central1/keyRings/ml/cryptoKeys/gke",
    )
    node_service_account: str | None = declared(
        "Email of an existing service account for the nodes.",
        None,
        default_text="Muster makes one",
        example="nodes@my-project.iam.gserviceaccount.com",
    )
    gpu_driver: GpuDriver = declared(
        "Which GPU driver is installed: GKE's default or latest, or that of Google's installer.",
        GpuDriver.DEFAULT,
    )
    addons: tuple[GkeAddon, ...] | None = declared(
        "Which of GKE's drivers for volumes are on: buckets, Filestore, Managed Lustre.",
        None,
        read=_read_addons,
        default_text="as they are",
        example=[GkeAddon.GCS_FUSE.value],
    )
    image_streaming: bool | None = declared(
        "Whether containers start before their image is there whole; a change makes all nodes anew.",
        None,
        default_text="as it is",
        example=True,
    )
    system_pool: SystemPool = declared_system_pool(Provider.GKE, "e2-standard-4")
    labels: Mapping[str, str] = declared(
        "Labels of the cluster in Google Cloud.", {}, default_text="none", example={"cost-center": "ml"}
    )

    @staticmethod
    def complete(section: Section, values: dict[str, Any]) -> dict[str, Any] | None:
        """All nodes of a zonal cluster are in its zone."""
        region, zone, zones = values["region"], values["zone"], values["zones"]
        if not section.has("zone"):
            section.require("region")
        if zone is not None:
            if section.has("zones"):
                fix = "remove it; for nodes in several zones write `region:` in place of `zone:`."
                section.note("zones", f"a zonal cluster has all its nodes in {zone}.", fix)
            zones = (zone,)
        if not (region or zone):
            return None
        return {**values, "region": region or region_of(zone or "", Provider.GKE) or "", "zones": zones}

    @property
    def has_compute_classes(self) -> bool:
        return self.autoscaler is GkeProvisioner.COMPUTE_CLASSES

    @property
    def has_driver_installer(self) -> bool:
        return not self.gpu_driver.is_managed

    @property
    def has_extended_support(self) -> bool:
        return self.release_channel is ReleaseChannel.EXTENDED

    @property
    def traits(self) -> frozenset[str]:
        channel = f"channel-{self.release_channel}"
        return frozenset({self.provider.value, self.autoscaler.value, channel})

    @property
    def repository_id(self) -> str:
        """A repository of Artifact Registry has several images."""
        return f"{self.name}-images"

    def image_address(self, account: Callable[[], str] = str) -> str:
        return f"{self.region}-docker.pkg.dev/{self.project}/{self.repository_id}/{names.PROGRAM}"

    def zones_of(self, pool: Pool) -> tuple[str, ...]:
        """The pool's own zones; without them those of the cluster, or of its region, that sell the machine.

        Without zones GKE takes any of the region, and the pool fails with "Accelerator type does not exist in
        zone". Empty where neither names zones and the table does not know the machine in the region: then GKE
        chooses. A slice of TPUs has to be in one.
        """
        if pool.zones or self.zone:
            return pool.zones or self.zones
        selling = zones_selling(pool.machine.name)
        if pool.slice_nodes > 1:
            selling = tpu_zones(pool.machine.name)
        if not self.zones:
            return tuple(sorted(zone for zone in selling if zone.rpartition("-")[0] == self.region))
        return tuple(zone for zone in self.zones if zone in selling) or self.zones

    def cloud_labels(self, pool: Pool) -> dict[str, str]:
        """None where GKE makes nodes for a ComputeClass: pods that select one are to have no other selector
        of hardware. Source: https://github.com/google/skills, skills/cloud/gke-compute-classes, read
        2026-11-27.
        """
        if self.has_compute_classes:
            return {}
        gpu = {GKE_ACCELERATOR_LABEL: str(pool.machine.accelerator)} if pool.has_whole_gpus else {}
        found = {**gpu, names.INSTANCE_TYPE_LABEL: pool.machine.name, GKE_NODE_POOL_LABEL: pool.name}
        return found | ({GKE_SPOT_LABEL: "true"} if pool.capacity is Capacity.SPOT else {})

    @property
    def own_labels(self) -> tuple[str, ...]:
        if self.has_compute_classes:
            return ()
        return (
            *(GKE_ACCELERATOR_LABEL, GKE_NODE_POOL_LABEL, GKE_SPOT_LABEL, names.COMPUTE_CLASS_LABEL),
            *(names.TPU_ACCELERATOR_LABEL, names.TPU_TOPOLOGY_LABEL),
            *(_PROVISIONING_LABEL, _FAMILY_LABEL, names.GKE_QUEUED_LABEL, *_RESERVATION_LABELS),
        )

    def known_labels(self, pool: Pool) -> dict[str, str]:
        if self.has_compute_classes:
            return {}
        found = {
            _FAMILY_LABEL: pool.machine.name.partition("-")[0],
            _PROVISIONING_LABEL: _PROVISIONING.get(pool.capacity, "standard"),
        }
        if pool.capacity is Capacity.QUEUED:
            found[names.GKE_QUEUED_LABEL] = "true"
        if taken := pool.reservation:
            values = (taken.name, taken.project or self.project, "specific")
            found |= zip(_RESERVATION_LABELS, values, strict=True)
        return found

    @property
    def location(self) -> str:
        """Where Google keeps the cluster: a region, or the zone of a zonal cluster."""
        return self.zone or self.region


def network(cluster: GkeCluster) -> str:
    """The VPC that is made for the cluster, and the firewall rule in it."""
    name = f"{cluster.name}-{cluster.region}"
    return name if len(name) <= _LONGEST_NETWORK else _marked(name, _LONGEST_NETWORK, of=name)


def node_account(cluster: GkeCluster) -> str:
    """The service account that is made for its nodes."""
    return _marked(f"{cluster.name}-nodes", _LONGEST_ACCOUNT, of=f"{cluster.region}/{cluster.name}")


def team_account(cluster: GkeCluster, team: str) -> str:
    """The service account of a team's pods. The hash distinguishes team c of stack a-b from team b-c of
    stack a.
    """
    of = f"{cluster.region}/{cluster.name}/{team}"
    return _marked(f"muster-{cluster.name}-{team}", _LONGEST_ACCOUNT, of=of)


def _marked(name: str, longest: int, *, of: str) -> str:
    """The name, shortened, and a part of the hash of what it identifies."""
    return f"{name[: longest - 9].rstrip('-')}-{sha256(of.encode()).hexdigest()[:8]}"
