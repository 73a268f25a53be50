"""Who decides which nodes of a local cluster are bought."""

from __future__ import annotations

from enum import StrEnum


class Autoscaler(StrEnum):
    SIMULATED = "simulated"
    """The simulated cloud, which answers ProvisioningRequests."""
    KARPENTER = "karpenter"
    """The real Karpenter; the simulated cloud has the machines."""
