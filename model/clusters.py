"""The cluster that a stack describes.

Decides who makes the nodes (the provider) and how the cluster is found. Leaves its networks and node pools
to the components of each cloud.
"""

from dataclasses import dataclass
from enum import StrEnum


class Provider(StrEnum):
    """Who makes the cluster and its nodes. `existing`: somebody else does; Muster installs into it."""

    GKE = "gke"
    EKS = "eks"
    EXISTING = "existing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """`context` names a context of the user's kubeconfig (provider `existing`); `project` is GKE's,
    `region` both clouds'.
    """

    provider: Provider
    name: str
    region: str | None = None
    project: str | None = None
    context: str | None = None
