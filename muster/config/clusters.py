"""Reads `muster:cluster`, whose keys depend on its provider."""

from collections.abc import Callable, Mapping
from typing import Final

from muster.model.clusters import Cluster, EksCluster, ExistingCluster, GkeCluster, Provider
from muster.model.keys import read
from muster.model.section import Section

CLASSES: Final[Mapping[Provider, Callable[..., Cluster]]] = {
    Provider.GKE: GkeCluster,
    Provider.EKS: EksCluster,
    Provider.EXISTING: ExistingCluster,
}


def parse_cluster(section: Section) -> Cluster | None:
    """The cluster, or None if it is malformed and was reported."""
    provider = section.choice("provider", Provider)
    return None if provider is None else read(CLASSES[provider], section)
