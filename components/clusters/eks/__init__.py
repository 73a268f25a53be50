"""EKS: a cluster with a private endpoint, its network, roles and key, its system pool, and a managed node
group a pool of the stack.
"""

from muster.components.clusters.eks.component import EksGpuCluster, EksGpuClusterArgs
from muster.components.clusters.eks.network import ExistingVpcArgs

__all__ = ["EksGpuCluster", "EksGpuClusterArgs", "ExistingVpcArgs"]
