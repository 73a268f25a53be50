"""An existing cluster: how it is found, and who makes its nodes."""

from dataclasses import dataclass
from enum import StrEnum

from muster.model.providers import NodeCloud, Provider


class Autoscaler(StrEnum):
    """Who makes nodes there.

    `provisioning-requests`: one that answers ProvisioningRequests (GKE's, or cluster-autoscaler with
    --enable-provisioning-requests). `karpenter`: makes nodes for pending pods and does not support
    ProvisioningRequests, so a gang has no guarantee of all its nodes. `none`: the nodes exist already.
    """

    PROVISIONING_REQUESTS = "provisioning-requests"
    KARPENTER = "karpenter"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingCluster:
    """`kubeconfig` is a file (empty: kubectl's default), `context` one of its contexts (empty: the current
    one, which needs a named file).

    `cloud` is the cloud of the nodes, which decides on their drivers; None: nothing is installed on them.
    """

    name: str
    context: str | None = None
    kubeconfig: str | None = None
    cloud: NodeCloud | None = None
    autoscaler: Autoscaler = Autoscaler.PROVISIONING_REQUESTS

    @property
    def answers_requests(self) -> bool:
        """Whether a ProvisioningRequest is ever answered there."""
        return self.autoscaler is Autoscaler.PROVISIONING_REQUESTS

    @property
    def provider(self) -> Provider:
        return Provider.EXISTING
