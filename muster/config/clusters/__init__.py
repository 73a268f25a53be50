"""Reads `muster:cluster`, with one reader for each provider."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from muster.config.clusters.eks import read_eks
from muster.config.clusters.existing import read_existing
from muster.config.clusters.gke import read_gke
from muster.config.section import Section
from muster.model.clusters import Cluster, Provider

_READERS: Final[Mapping[Provider, Callable[[Section], Cluster | None]]] = MappingProxyType(
    {Provider.GKE: read_gke, Provider.EKS: read_eks, Provider.EXISTING: read_existing}
)


def read_cluster(section: Section) -> Cluster | None:
    """The cluster, or None if it is malformed and was reported."""
    provider = section.choice("provider", Provider)
    if provider is None:
        return None
    cluster = _READERS[provider](section)
    section.close()
    return cluster


__all__ = ["read_cluster"]
