"""Reads an existing cluster."""

from muster.model.clusters import Autoscaler, ExistingCluster
from muster.model.providers import NodeCloud
from muster.model.section import Section


def parse_existing(section: Section) -> ExistingCluster | None:
    name = section.text("name", required=True)
    kubeconfig = section.text("kubeconfig")
    context = section.text("context", required=kubeconfig is None)
    cloud = section.choice("cloud", NodeCloud, NodeCloud.EXISTING)
    autoscaler = section.choice("autoscaler", Autoscaler, Autoscaler.PROVISIONING_REQUESTS)
    if name is None or autoscaler is None:
        return None
    return ExistingCluster(
        name=name,
        context=context,
        kubeconfig=kubeconfig,
        cloud=None if cloud is NodeCloud.EXISTING else cloud,
        autoscaler=autoscaler,
    )
