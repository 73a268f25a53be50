"""Reads a GKE cluster."""

from types import MappingProxyType

from muster.config import bounds
from muster.config.clusters.system import parse_system
from muster.model.clusters import (
    Day,
    ExistingNetwork,
    GkeAddon,
    GkeCluster,
    GkeNetwork,
    GkeProvisioner,
    GpuDriver,
    MaintenanceExclusion,
    MaintenanceWindow,
    Provider,
    ReleaseChannel,
    UpgradeScope,
)
from muster.model.clusters.maintenance import END_OF_SUPPORT
from muster.model.regions import region_of
from muster.model.section import Section, Word
from muster.model.violations import suggestion


def parse_gke(section: Section) -> GkeCluster | None:
    name = section.text("name", required=True)
    zone = section.text("zone")
    region = section.text("region", required=not section.has("zone"))
    project = section.text("project", required=True)
    default = GkeCluster(
        name=name or "", project=project or "", region=region or region_of(zone or "", Provider.GKE) or ""
    )
    cluster = GkeCluster(
        name=default.name,
        project=default.project,
        region=default.region,
        zones=_zones(section, zone),
        zone=zone,
        protect=section.flag("protect", default.protect),
        release_channel=section.choice("releaseChannel", ReleaseChannel, default.release_channel)
        or default.release_channel,
        version=section.text("version"),
        network=_network(section.section("network")),
        authorized_networks=section.texts("authorizedNetworks"),
        private_endpoint=section.flag("privateEndpoint", default.private_endpoint),
        dns_endpoint=section.flag("dnsEndpoint", default.dns_endpoint),
        kms_key=section.text("kmsKey"),
        node_service_account=section.text("nodeServiceAccount"),
        gpu_driver=section.choice("gpuDriver", GpuDriver, default.gpu_driver) or default.gpu_driver,
        system_pool=parse_system(section, Provider.GKE, default.system_pool),
        labels=section.texts("labels"),
        autoscaler=section.choice("autoscaler", GkeProvisioner, default.autoscaler) or default.autoscaler,
        maintenance=_maintenance(section.section("maintenance")) if section.has("maintenance") else None,
        addons=_choices(section, "addons", GkeAddon, noun="add-on") if section.has("addons") else None,
        image_streaming=section.flag("imageStreaming", False) if section.has("imageStreaming") else None,
    )
    return cluster if name and project and (region or zone) else None


def _zones(section: Section, zone: str | None) -> tuple[str, ...]:
    """All nodes of a zonal cluster are in its zone."""
    zones = section.words("zones")
    if zone is None:
        return zones
    if section.has("zones"):
        fix = "remove it; for nodes in several zones write `region:` in place of `zone:`."
        section.note("zones", f"a zonal cluster has all its nodes in {zone}.", fix)
    return (zone,)


def _maintenance(section: Section) -> MaintenanceWindow:
    default = MaintenanceWindow()
    found = MaintenanceWindow(
        days=_choices(section, "days", Day, noun="day") or default.days,
        start=section.text("start") or default.start,
        hours=section.integer("hours", default.hours, **bounds.MAINTENANCE_HOURS) or default.hours,
        exclusions=MappingProxyType(dict(section.each("exclusions", _exclusion))),
    )
    section.close()
    return found


def _choices(section: Section, key: str, words: type[Word], *, noun: str) -> tuple[Word, ...]:
    known = {word.value: word for word in words}
    found = []
    for name in section.words(key):
        if name in known:
            found.append(known[name])
        else:
            section.note(key, f"{name!r} is no {noun}.", suggestion(name, known, noun=noun))
    return tuple(found)


def _exclusion(section: Section, name: str) -> tuple[str, MaintenanceExclusion] | None:
    scope = section.choice("scope", UpgradeScope)
    begin, until = section.text("from"), section.text("until") or END_OF_SUPPORT
    section.close()
    return None if scope is None else (name, MaintenanceExclusion(scope=scope, begin=begin, until=until))


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
