"""The cluster that a stack describes, with one type for each provider.

    Cluster  = GkeCluster | EksCluster | ExistingCluster

Responsible for the settings of a cluster and their defaults.
"""

from muster.model.clusters.common import SystemPool
from muster.model.clusters.eks import (
    Access,
    AccessPolicy,
    EksCluster,
    EksNetwork,
    EksStorage,
    ExistingVpc,
    NatGateways,
    NodeProvisioner,
    StorageDriver,
)
from muster.model.clusters.existing import Autoscaler, ExistingCluster
from muster.model.clusters.gke import (
    Day,
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
from muster.model.regions import Provider

Cluster = GkeCluster | EksCluster | ExistingCluster

__all__ = [
    "Access",
    "AccessPolicy",
    "Autoscaler",
    "Cluster",
    "Day",
    "EksCluster",
    "EksNetwork",
    "EksStorage",
    "ExistingCluster",
    "ExistingNetwork",
    "ExistingVpc",
    "GkeAddon",
    "GkeCluster",
    "GkeNetwork",
    "GkeProvisioner",
    "GpuDriver",
    "MaintenanceExclusion",
    "MaintenanceWindow",
    "NatGateways",
    "NodeProvisioner",
    "Provider",
    "ReleaseChannel",
    "StorageDriver",
    "SystemPool",
    "UpgradeScope",
]
