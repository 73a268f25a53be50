"""Reads `muster:cluster`, with one reader for each provider."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from muster.config.clusters.eks import parse_eks
from muster.config.clusters.existing import parse_existing
from muster.config.clusters.gke import parse_gke
from muster.model.clusters import Cluster, Provider
from muster.model.section import Section

_READERS: Final[Mapping[Provider, Callable[[Section], Cluster | None]]] = MappingProxyType(
    {Provider.GKE: parse_gke, Provider.EKS: parse_eks, Provider.EXISTING: parse_existing}
)


def parse_cluster(section: Section) -> Cluster | None:
    """The cluster, or None if it is malformed and was reported."""
    provider = section.choice("provider", Provider)
    if provider is None:
        return None
    cluster = _READERS[provider](section)
    section.close()
    return cluster


__all__ = ["parse_cluster"]
