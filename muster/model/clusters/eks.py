"""An EKS cluster: its settings and their defaults.

Not a choice, because only one way is safe: nodes in private subnets, IMDSv2 with a hop limit of 1, Secrets
encrypted under a KMS key, access only by access entries, Pod Identity instead of node rights.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from muster.model.clusters.system import SystemPool
from muster.model.machines import MACHINES
from muster.model.providers import Provider


class NatGateways(StrEnum):
    """`one`: cheaper, and every node loses its way out with that zone. `per-zone`: one in each zone."""

    ONE = "one"
    PER_ZONE = "per-zone"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingVpc:
    """An existing VPC. `private_subnets`: zone -> subnet id; its keys are the cluster's zones. The subnets
    need a route out (NAT gateway or endpoints).
    """

    vpc: str
    private_subnets: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class EksNetwork:
    """`cidr` is divided into a private and a small public subnet for each zone; each pod takes an address.
    With an existing VPC (`existing`) the other fields have no effect.
    """

    cidr: str = "10.0.0.0/16"
    nat_gateways: NatGateways = NatGateways.PER_ZONE
    existing: ExistingVpc | None = None


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
    """`default_class`: whether a volume that names no StorageClass becomes a disk of EBS; without it the
    cluster has the default class that its owner makes, or none. `drivers`: the further CSI drivers.
    """

    default_class: bool = True
    drivers: tuple[StorageDriver, ...] = ()


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
    """One principal (ARN of an IAM role or user) that may reach the API: with one of EKS's policies, with
    groups that the cluster's own RBAC knows, or both.
    """

    principal: str
    policy: AccessPolicy | None = None
    groups: tuple[str, ...] = ()


# It has images for Kubernetes 1.31 to 1.37.
# Source: https://github.com/awslabs/amazon-eks-ami/releases/tag/v20261023, read 2026-11-23
IMAGE_RELEASE: Final = "v20261023"

_SYSTEM: Final = SystemPool(machine=MACHINES["m6i.xlarge"])
# The kinds that EKS has: https://docs.aws.amazon.com/eks/latest/userguide/control-plane-logs.html
LOG_KINDS: Final = ("api", "audit", "authenticator", "controllerManager", "scheduler")

# How long CloudWatch keeps a log: one of these numbers of days.
# https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutRetentionPolicy.html
LOG_DAYS: Final = (
    *(1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731),
    *(1096, 1827, 2192, 2557, 2922, 3288, 3653),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EksCluster:
    """`zones`: at least two of the region, for the control plane and the nodes.

    `autoscaler`: what makes the nodes of the pools. `image_release`: the release of AL2023 that Karpenter
    launches (https://github.com/awslabs/amazon-eks-ami/releases).

    `public_cidrs`: addresses that may reach the control plane over the internet; empty: only the VPC.
    `access`: name -> a principal that may use the API, in addition to the one that created the cluster.

    `kms_key`: ARN of a key that encrypts Secrets; empty: Muster makes one.

    `protect`: neither the cluster nor a pool that takes from a reservation can be destroyed by `pulumi
    destroy` or by a change that replaces it, until this is `false` and `pulumi up` has run.
    """

    name: str
    region: str
    zones: tuple[str, ...]
    protect: bool = True
    version: str = "1.35"
    autoscaler: NodeProvisioner = NodeProvisioner.CLUSTER_AUTOSCALER
    image_release: str = IMAGE_RELEASE
    network: EksNetwork = EksNetwork()
    storage: EksStorage = EksStorage()
    public_cidrs: tuple[str, ...] = ()
    access: Mapping[str, Access] = field(default_factory=lambda: MappingProxyType({}))
    kms_key: str | None = None
    logs: tuple[str, ...] = LOG_KINDS
    log_days: int = 90
    system_pool: SystemPool = _SYSTEM
    tags: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def answers_requests(self) -> bool:
        """Whether a ProvisioningRequest is ever answered there."""
        return self.autoscaler is NodeProvisioner.CLUSTER_AUTOSCALER

    @property
    def is_auto(self) -> bool:
        """Whether EKS Auto Mode makes the nodes, those of the system pool included."""
        return self.autoscaler is NodeProvisioner.AUTO_MODE

    @property
    def provider(self) -> Provider:
        return Provider.EKS
