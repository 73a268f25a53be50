"""Reads a GKE cluster."""

from muster.config.clusters.system import parse_system
from muster.config.section import Section
from muster.model.clusters import ExistingNetwork, GkeCluster, GkeNetwork, GpuDriver, Provider, ReleaseChannel


def parse_gke(section: Section) -> GkeCluster | None:
    name = section.text("name", required=True)
    region = section.text("region", required=True)
    project = section.text("project", required=True)
    default = GkeCluster(name=name or "", project=project or "", region=region or "")
    cluster = GkeCluster(
        name=default.name,
        project=default.project,
        region=default.region,
        zones=section.words("zones"),
        protect=section.flag("protect", default.protect),
        release_channel=section.choice("releaseChannel", ReleaseChannel, default.release_channel)
        or default.release_channel,
        version=section.text("version"),
        network=_network(section.section("network")),
        authorized_networks=section.texts("authorizedNetworks"),
        private_endpoint=section.flag("privateEndpoint", default.private_endpoint),
        kms_key=section.text("kmsKey"),
        node_service_account=section.text("nodeServiceAccount"),
        gpu_driver=section.choice("gpuDriver", GpuDriver, default.gpu_driver) or default.gpu_driver,
        system_pool=parse_system(section, Provider.GKE, default.system_pool),
        labels=section.texts("labels"),
    )
    return cluster if name and region and project else None


def _network(section: Section) -> GkeNetwork:
    default = GkeNetwork()
    network = GkeNetwork(
        nodes=section.text("nodes") or default.nodes,
        pods=section.text("pods") or default.pods,
        services=section.text("services") or default.services,
        control_plane=section.text("controlPlane") or default.control_plane,
        existing=_existing(section.section("existing")) if section.has("existing") else None,
    )
    section.close()
    return network


def _existing(section: Section) -> ExistingNetwork | None:
    """An existing network. All of its parts are required."""
    network = section.text("network", required=True)
    subnetwork = section.text("subnetwork", required=True)
    pods = section.text("pods", required=True)
    services = section.text("services", required=True)
    section.close()
    if network is None or subnetwork is None or pods is None or services is None:
        return None
    return ExistingNetwork(network=network, subnetwork=subnetwork, pods=pods, services=services)
