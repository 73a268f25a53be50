"""CRDs that programs look for once, when they start: Kueue for ProvisioningRequests, the controller for its
GangPolicy, Karpenter for its own.
"""

from typing import Final

from muster.components.bundle import text
from muster.components.context import PlatformContext
from muster.model import queuetree
from muster.model.clusters import EksCluster, NodeProvisioner
from muster.model.gangpolicy import crd
from muster.model.gpu_operator import cloud_of
from muster.model.providers import NodeCloud

_KARPENTER: Final = ("ec2nodeclasses", "nodeclaims", "nodepools")


def crd_manifests(context: PlatformContext) -> dict[str, str]:
    """Manifests for one Bundle. GKE serves ProvisioningRequests itself.

    Set `retain_on_delete` for the Bundle: deleting a CRD deletes all of its objects.
    """
    manifests = {"gangpolicies": text([crd()]), "queuetrees": text([queuetree.crd()])}
    if cloud_of(context.stack.cluster) is not NodeCloud.GKE:
        manifests["provisioningrequests"] = context.artifacts.crd("provisioningrequests").read_text()
    cluster = context.stack.cluster
    if isinstance(cluster, EksCluster) and cluster.autoscaler is NodeProvisioner.KARPENTER:
        manifests |= {name: context.artifacts.crd(name).read_text() for name in _KARPENTER}
    return manifests
