"""Who makes a cluster and its nodes."""

from enum import StrEnum
from typing import Final

PROTECT: Final = (
    "Whether the cluster, and pools that take from a reservation, are kept from being destroyed or replaced."
)
"""What the key of every provider says that guards a cluster."""


class Provider(StrEnum):
    """`existing`: Muster installs into a cluster that it does not make."""

    GKE = "gke"
    EKS = "eks"
    EXISTING = "existing"


class NodeCloud(StrEnum):
    """Where the nodes of a cluster run, which decides on their drivers. `existing`: not said. `other`: any
    other cloud, or a data centre.
    """

    GKE = "gke"
    EKS = "eks"
    EXISTING = "existing"
    AKS = "aks"
    OCI = "oci"
    OTHER = "other"
