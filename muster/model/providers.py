"""Who makes a cluster and its nodes."""

from enum import StrEnum


class Provider(StrEnum):
    """`existing`: somebody else makes the cluster; Muster installs into it."""

    GKE = "gke"
    EKS = "eks"
    EXISTING = "existing"
