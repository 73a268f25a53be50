"""An EKS cluster: its settings and their defaults.

Not a choice, because only one way is safe: nodes in private subnets, IMDSv2 with a hop limit of 1, Secrets
encrypted under a KMS key, access only by access entries, Pod Identity instead of node rights.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any, ClassVar, Final

from muster.model import names
from muster.model.capacity import Capacity
from muster.model.clusters.common import AnyCluster, NameForm, SystemPool, declared_system_pool
from muster.model.keys import declared, read
from muster.model.pools import Pool
from muster.model.regions import PROTECT, NodeCloud, Provider
from muster.model.section import Section

KARPENTER_NODE_POOL_LABEL: Final = "karpenter.sh/nodepool"
EKS_NODE_GROUP_LABEL: Final = "eks.amazonaws.com/nodegroup"
EKS_CAPACITY_LABEL: Final = "eks.amazonaws.com/capacityType"
KARPENTER_CAPACITY_LABEL: Final = "karpenter.sh/capacity-type"
_GROUP_CAPACITY: Final[Mapping[Capacity, str]] = MappingProxyType(
    {Capacity.SPOT: "SPOT", Capacity.CAPACITY_BLOCK: "CAPACITY_BLOCK"}
)
KARPENTER_CAPACITY: Final[Mapping[Capacity, str]] = MappingProxyType(
    {
        Capacity.ON_DEMAND: "on-demand",
        Capacity.SPOT: "spot",
        Capacity.RESERVATION: "reserved",
        Capacity.CAPACITY_BLOCK: "reserved",
    }
)
# Source: https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateNodegroup.html, read 2026-11-23
LONGEST_GROUP: Final = 63


class NatGateways(StrEnum):
    """`one`: cheaper, and every node loses its way out with that zone. `per-zone`: one in each zone."""

    ONE = "one"
    PER_ZONE = "per-zone"


def _read_subnets(section: Section, key: str) -> Mapping[str, str]:
    subnets = section.texts(key)
    if not subnets:
        section.note(key, "names no subnet.", "write {us-east-1a: subnet-..., ...}.")
    return subnets


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingVpc:
    """Zone -> subnet. The subnets need a route out (NAT gateway or endpoints)."""

    vpc: str = declared("The id of the VPC.", example="vpc-0a1b2c3d4e5f67890")
    private_subnets: Mapping[str, str] = declared(
        "Zone: id of its private subnet; the zones become the cluster's.",
        example={"us-east-1a": "subnet-0a1b2c3d4e5f67890"},
        read=_read_subnets,
        schema={
            "type": "object",
            "minProperties": 1,
            "additionalProperties": {"type": "string", "minLength": 1},
        },
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class EksNetwork:
    """`cidr` is divided into a private and a small public subnet for each zone."""

    cidr: str = declared("Addresses of the VPC; every pod takes one.", "10.0.0.0/16")
    nat_gateways: NatGateways = declared(
        "One NAT gateway for all zones, or one per zone.", NatGateways.PER_ZONE
    )
    existing: ExistingVpc | None = declared(
        "An existing VPC; the other keys then have no effect.", None, default_text="Muster makes one"
    )


class NodeProvisioner(StrEnum):
    """What makes the nodes of the pools.

    `cluster-autoscaler`: resizes managed node groups and answers ProvisioningRequests. `karpenter`: launches
    machines for pending pods. `auto-mode`: EKS does the same by itself, and keeps the nodes' system software.
    Only the first has queued pools.
    """

    CLUSTER_AUTOSCALER = "cluster-autoscaler"
    KARPENTER = "karpenter"
    AUTO_MODE = "auto-mode"


class StorageDriver(StrEnum):
    """AWS's CSI drivers of stores that several nodes mount at once, each an add-on of EKS.
    Source: https://docs.aws.amazon.com/eks/latest/userguide/workloads-add-ons-available-eks.html,
    read 2026-11-27
    """

    EFS = "efs"
    FSX_LUSTRE = "fsx-lustre"
    MOUNTPOINT_S3 = "mountpoint-s3"


@dataclass(frozen=True, slots=True, kw_only=True)
class EksStorage:
    """Without `default_class` the cluster has the default class that its owner makes, or none."""

    default_class: bool = declared(
        "Whether a volume that names no StorageClass becomes a disk of EBS, which one node mounts.", True
    )
    drivers: tuple[StorageDriver, ...] = declared(
        "CSI drivers of stores that several nodes mount at once.",
        (),
        default_text="none",
        example=[StorageDriver.EFS.value],
        noun="driver that EKS has as an add-on",
    )


class AccessPolicy(StrEnum):
    """EKS's own access policies, for the whole cluster.
    https://docs.aws.amazon.com/eks/latest/userguide/access-policy-permissions.html
    """

    CLUSTER_ADMIN = "cluster-admin"
    ADMIN = "admin"
    EDIT = "edit"
    VIEW = "view"


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """One principal that may reach the API: with one of EKS's policies, with groups, or both."""

    SHORT: ClassVar = "principal"

    principal: str = declared("ARN of an IAM role or user.", example="arn:aws:iam::123456789012:role/viewer")
    policy: AccessPolicy | None = declared(
        "Its access policy of EKS, for the whole cluster.", None, default_text="none"
    )
    groups: tuple[str, ...] = declared(
        "Groups that the cluster's own RBAC knows.", (), default_text="none", example=["viewers"]
    )


def _read_access(cluster: Section, key: str) -> Mapping[str, Access]:
    """An ARN alone is that of an administrator of the cluster."""
    section = cluster.section(key)
    entries = {
        name: Access(principal=value, policy=AccessPolicy.CLUSTER_ADMIN)
        if isinstance(value, str)
        else read(Access, section.section(name))
        for name, value in section.items()
    }
    return MappingProxyType({name: entry for name, entry in entries.items() if entry is not None})


# It has images for Kubernetes 1.31 to 1.37.
# Source: https://github.com/awslabs/amazon-eks-ami/releases/tag/v20261023, read 2026-11-23
IMAGE_RELEASE: Final = "v20261023"

# The kinds that EKS has: https://docs.aws.amazon.com/eks/latest/userguide/control-plane-logs.html
LOG_KINDS: Final = ("api", "audit", "authenticator", "controllerManager", "scheduler")

# How long CloudWatch keeps a log: one of these numbers of days.
# https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutRetentionPolicy.html
LOG_DAYS: Final = (
    *(1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731),
    *(1096, 1827, 2192, 2557, 2922, 3288, 3653),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EksCluster(AnyCluster):
    """`image_release`: https://github.com/awslabs/amazon-eks-ami/releases. `access`: in addition to the
    principal that created the cluster. `protect` holds until it is `false` and `pulumi up` has run.
    """

    provider: ClassVar = Provider.EKS
    cloud = NodeCloud.EKS
    ANSWERS: ClassVar = NodeProvisioner.CLUSTER_AUTOSCALER
    IDENTITY: ClassVar = NameForm(
        re.compile(r"arn:aws[-a-z]*:iam::\d{12}:role/[\w+=,.@/-]+\Z", re.ASCII),
        "the ARN of an IAM role",
        "arn:aws:iam::123456789012:role/name",
    )
    # docs.aws.amazon.com, "General purpose bucket naming rules".
    BUCKET: ClassVar = NameForm(re.compile(r"[a-z0-9][-.a-z0-9]{1,61}[a-z0-9]\Z"), "S3")
    FOREIGN_LABELS: ClassVar = ("cloud.google.com/",)
    REFUSED: ClassVar = {
        "maintenance": (
            "EKS replaces the nodes of a group only when `pulumi up` changes it.",
            "remove it, and run `pulumi up` when nodes may be replaced.",
        )
    }

    name: str = declared("The name of the cluster in AWS.", example="ml-prod")
    region: str = declared("The region, such as us-east-1.", example="us-east-1")
    zones: tuple[str, ...] = declared(
        "At least two zones; left out with network.existing.",
        is_derived=True,
        example=["us-east-1a", "us-east-1b"],
    )
    protect: bool = declared(PROTECT, True)
    version: str = declared("The version of Kubernetes, in quotes.", "1.35", example="1.36")
    autoscaler: NodeProvisioner = declared(
        "What makes the nodes: cluster-autoscaler, which alone has queued pools; Karpenter; or EKS Auto "
        "Mode.",
        NodeProvisioner.CLUSTER_AUTOSCALER,
    )
    image_release: str = declared("The release of Amazon Linux 2023 that Karpenter launches.", IMAGE_RELEASE)
    network: EksNetwork = declared("The address range of the network, or an existing network.", EksNetwork())
    storage: EksStorage = declared("The default StorageClass and further CSI drivers.", EksStorage())
    public_cidrs: tuple[str, ...] = declared(
        "Addresses that can reach the control plane over the internet.",
        (),
        default_text="none, the VPC alone reaches it",
        example=["198.51.100.0/24"],
    )
    access: Mapping[str, Access] = declared(
        "Name: the ARN of an administrator of the cluster, or a principal with its rights.",
        {},
        default_text="only the principal that creates the cluster",
        example={"platform": "arn:aws:iam::123456789012:role/platform"},
        read=_read_access,
    )
    kms_key: str | None = declared(
        "ARN of the key that encrypts Secrets.",
        None,
        default_text="Muster makes one",
        example="arn:aws:kms:us-east-1:123456789012:key/00000000-0000-0000-0000-000000000000",
    )
    logs: tuple[str, ...] = declared(
        "Which logs of the control plane go to CloudWatch.",
        LOG_KINDS,
        items={"type": "string", "enum": list(LOG_KINDS)},
    )
    log_days: int = declared("How many days CloudWatch keeps them.", 90, minimum=1, maximum=3653)
    system_pool: SystemPool = declared_system_pool(Provider.EKS, "m6i.xlarge")
    tags: Mapping[str, str] = declared(
        "Tags of all resources in AWS.", {}, default_text="none", example={"cost-center": "ml"}
    )

    @staticmethod
    def complete(section: Section, values: dict[str, Any]) -> dict[str, Any]:
        """Zones are written for a VPC that Muster makes. An existing VPC has the zones of its subnets."""
        existing = values["network"].existing
        if existing is None:
            return values
        if section.has("zones"):
            section.note("zones", "come from network.existing.privateSubnets.", "remove it.")
        return {**values, "zones": tuple(sorted(existing.private_subnets))}

    @property
    def is_auto(self) -> bool:
        return self.autoscaler is NodeProvisioner.AUTO_MODE

    @property
    def takes_autoscaler(self) -> bool:
        return self.answers_requests

    @property
    def has_default_class(self) -> bool:
        return self.storage.default_class

    @property
    def traits(self) -> frozenset[str]:
        return frozenset({self.provider.value, self.autoscaler.value, *self.storage.drivers})

    @property
    def repository_id(self) -> str:
        """A repository of ECR has one image."""
        return f"{self.name}/{names.PROGRAM}"

    def image_address(self, account: Callable[[], str] = str) -> str:
        ending = "amazonaws.com.cn" if self.region.startswith("cn-") else "amazonaws.com"
        return f"{account()}.dkr.ecr.{self.region}.{ending}/{self.repository_id}"

    def zones_of(self, pool: Pool) -> tuple[str, ...]:
        return pool.zones or self.zones

    def group_name(self, pool: Pool, zone: str) -> str:
        """Of a managed node group. The pool's own name where it has one zone."""
        return pool.name if len(self.zones_of(pool)) == 1 else f"{pool.name}-{zone}"

    def group_names(self, pool: Pool) -> list[str]:
        return [self.group_name(pool, zone) for zone in self.group_sizes(pool)]

    def group_sizes(self, pool: Pool) -> dict[str, tuple[int, int]]:
        """Zone -> least and most nodes there; none where Karpenter or Auto Mode makes the nodes.

        `minNodes` are spread over the zones. Each zone may hold the whole pool, because any of them may be
        the one that has stock; what all of them hold together is bounded by quota. A pool of fixed size has
        its nodes where they are put, and no group where there are none.
        """
        zones = self.zones_of(pool)
        if not zones or not self.answers_requests:
            return {}
        whole, rest = divmod(pool.min_nodes, len(zones))
        least = {zone: whole + (index < rest) for index, zone in enumerate(zones)}
        if pool.min_nodes == pool.max_nodes:
            return {zone: (nodes, nodes) for zone, nodes in least.items() if nodes}
        return {zone: (nodes, pool.max_nodes) for zone, nodes in least.items()}

    def cloud_labels(self, pool: Pool) -> dict[str, str]:
        found = {names.INSTANCE_TYPE_LABEL: pool.machine.name}
        if pool.accelerator is not None and pool.has_whole_gpus:
            found[names.EKS_GPU_LABEL] = pool.accelerator.name
        if not self.answers_requests:
            found[KARPENTER_NODE_POOL_LABEL] = pool.name
            if not pool.fallback and pool.capacity in KARPENTER_CAPACITY:
                found[KARPENTER_CAPACITY_LABEL] = KARPENTER_CAPACITY[pool.capacity]
        return found

    @property
    def own_labels(self) -> tuple[str, ...]:
        karpenter = (
            ("karpenter.sh/", "karpenter.k8s.aws/")
            if self.answers_requests
            else (KARPENTER_NODE_POOL_LABEL, KARPENTER_CAPACITY_LABEL)
        )
        return (EKS_NODE_GROUP_LABEL, EKS_CAPACITY_LABEL, *karpenter)

    def known_labels(self, pool: Pool) -> dict[str, str]:
        """Source: docs.aws.amazon.com/eks/latest/userguide/managed-node-groups.html, read 2026-11-30."""
        if not self.answers_requests:
            return {}
        return {
            EKS_NODE_GROUP_LABEL: ",".join(self.group_names(pool)),
            EKS_CAPACITY_LABEL: _GROUP_CAPACITY.get(pool.capacity, "ON_DEMAND"),
        }
