"""The cluster that a stack describes: one typed description a provider.

    Cluster  = GkeCluster | EksCluster | ExistingCluster

Decides what can be said about a cluster and what holds where nothing is said. Leaves making it to the
components of each cloud, and judging it to rules/clusters.py.
"""

from muster.model.clusters.eks import Access, AccessPolicy, EksCluster, EksNetwork, ExistingVpc, NatGateways
from muster.model.clusters.existing import Autoscaler, ExistingCluster
from muster.model.clusters.gke import ExistingNetwork, GkeCluster, GkeNetwork, GpuDriver, ReleaseChannel
from muster.model.clusters.system import SystemPool
from muster.model.providers import Provider

Cluster = GkeCluster | EksCluster | ExistingCluster

__all__ = [
    "Access",
    "AccessPolicy",
    "Autoscaler",
    "Cluster",
    "EksCluster",
    "EksNetwork",
    "ExistingCluster",
    "ExistingNetwork",
    "ExistingVpc",
    "GkeCluster",
    "GkeNetwork",
    "GpuDriver",
    "NatGateways",
    "Provider",
    "ReleaseChannel",
    "SystemPool",
]
