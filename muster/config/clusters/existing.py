"""Reads an existing cluster."""

from muster.config.section import Section
from muster.model.clusters import Autoscaler, ExistingCluster, Provider


def parse_existing(section: Section) -> ExistingCluster | None:
    name = section.text("name", required=True)
    kubeconfig = section.text("kubeconfig")
    context = section.text("context", required=kubeconfig is None)
    # Every provider is allowed here. `existing` means the same as leaving the key out.
    cloud = section.choice("cloud", Provider, Provider.EXISTING)
    autoscaler = section.choice("autoscaler", Autoscaler, Autoscaler.PROVISIONING_REQUESTS)
    if name is None or autoscaler is None:
        return None
    return ExistingCluster(
        name=name,
        context=context,
        kubeconfig=kubeconfig,
        cloud=None if cloud is Provider.EXISTING else cloud,
        autoscaler=autoscaler,
    )
