"""Reads `muster:cluster`."""

from model.clusters import Cluster, Provider
from stackconfig.section import Section


def read_cluster(section: Section) -> Cluster | None:
    """The cluster, or None after noting why there is none."""
    provider = section.choice("provider", Provider)
    name = section.text("name", required=True)
    region = section.text("region", required=provider in (Provider.GKE, Provider.EKS))
    project = section.text("project", required=provider is Provider.GKE)
    context = section.text("context", required=provider is Provider.EXISTING)
    section.close()
    if provider is None or name is None:
        return None
    return Cluster(provider=provider, name=name, region=region, project=project, context=context)
