"""A cluster that somebody else made: how it is found, and who makes its nodes."""

from dataclasses import dataclass
from enum import StrEnum

from muster.model.providers import Provider


class Autoscaler(StrEnum):
    """Who makes nodes there.

    `provisioning-requests`: one that answers ProvisioningRequests (GKE's, or cluster-autoscaler with
    --enable-provisioning-requests). `karpenter`: makes nodes as pods ask and knows no ProvisioningRequest, so
    nobody can promise a gang all its nodes. `none`: nodes stand there.
    """

    PROVISIONING_REQUESTS = "provisioning-requests"
    KARPENTER = "karpenter"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingCluster:
    """`kubeconfig` is a file (empty: what kubectl would take), `context` one of its contexts (empty: its
    current one, which only a named file has).

    `cloud` says whose nodes they are, where that matters to what is installed (drivers, images); empty:
    nothing is assumed.
    """

    name: str
    context: str | None = None
    kubeconfig: str | None = None
    cloud: Provider | None = None
    autoscaler: Autoscaler = Autoscaler.PROVISIONING_REQUESTS

    @property
    def answers_requests(self) -> bool:
        """Whether a ProvisioningRequest is ever answered there."""
        return self.autoscaler is Autoscaler.PROVISIONING_REQUESTS

    @property
    def provider(self) -> Provider:
        return Provider.EXISTING
