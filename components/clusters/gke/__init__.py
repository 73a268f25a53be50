"""GKE: a private cluster, its network and identity, its system pool, and a node pool a pool of the stack."""

from muster.components.clusters.gke.component import GkeGpuCluster, GkeGpuClusterArgs
from muster.components.clusters.gke.control_plane import ExistingNetworkArgs

__all__ = ["ExistingNetworkArgs", "GkeGpuCluster", "GkeGpuClusterArgs"]
