"""Who makes a cluster and its nodes."""

from enum import StrEnum


class Provider(StrEnum):
    """`existing`: Muster installs into a cluster that it does not make."""

    GKE = "gke"
    EKS = "eks"
    EXISTING = "existing"
