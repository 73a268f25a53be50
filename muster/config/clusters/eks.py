"""Reads an EKS cluster."""

from types import MappingProxyType

from muster.config import bounds
from muster.config.clusters.system import parse_system
from muster.model.clusters import (
    Access,
    AccessPolicy,
    EksCluster,
    EksNetwork,
    EksStorage,
    ExistingVpc,
    NatGateways,
    NodeProvisioner,
    Provider,
    StorageDriver,
)
from muster.model.section import Section
from muster.model.violations import at, suggestion


def parse_eks(section: Section) -> EksCluster | None:
    name = section.text("name", required=True)
    region = section.text("region", required=True)
    network = _network(section.section("network"))
    default = EksCluster(name=name or "", region=region or "", zones=())
    if section.has("maintenance"):
        section.get("maintenance")
        fix = "remove it, and run `pulumi up` when nodes may be replaced."
        section.note(
            "maintenance", "EKS replaces the nodes of a group only when `pulumi up` changes it.", fix
        )
    days = section.integer("logDays", default.log_days, **bounds.LOG_DAYS)
    cluster = EksCluster(
        name=default.name,
        region=default.region,
        zones=_zones(section, network),
        protect=section.flag("protect", default.protect),
        version=section.text("version") or default.version,
        autoscaler=section.choice("autoscaler", NodeProvisioner, default.autoscaler) or default.autoscaler,
        image_release=section.text("imageRelease") or default.image_release,
        network=network,
        storage=_storage(section.section("storage")),
        public_cidrs=section.words("publicCidrs"),
        access=_access(section.section("access")),
        kms_key=section.text("kmsKey"),
        logs=section.words("logs") if section.has("logs") else default.logs,
        log_days=days or default.log_days,
        system_pool=parse_system(section, Provider.EKS, default.system_pool),
        tags=section.texts("tags"),
    )
    return cluster if name and region else None


def _zones(section: Section, network: EksNetwork) -> tuple[str, ...]:
    """Zones are written for a VPC that Muster makes. An existing VPC has the zones of its subnets."""
    if network.existing is None:
        return section.words("zones")
    if section.has("zones"):
        section.get("zones")
        section.note("zones", "come from network.existing.privateSubnets.", "remove it.")
    return tuple(sorted(network.existing.private_subnets))


def _network(section: Section) -> EksNetwork:
    default = EksNetwork()
    network = EksNetwork(
        cidr=section.text("cidr") or default.cidr,
        nat_gateways=section.choice("natGateways", NatGateways, default.nat_gateways) or default.nat_gateways,
        existing=_existing(section.section("existing")) if section.has("existing") else None,
    )
    section.close()
    return network


def _existing(section: Section) -> ExistingVpc | None:
    vpc = section.text("vpc", required=True)
    subnets = section.texts("privateSubnets")
    if not subnets:
        section.note("privateSubnets", "names no subnet.", "write {us-east-1a: subnet-..., ...}.")
    section.close()
    return None if vpc is None else ExistingVpc(vpc=vpc, private_subnets=subnets)


def _storage(section: Section) -> EksStorage:
    allowed = [driver.value for driver in StorageDriver]
    written = section.words("drivers")
    for index, word in enumerate(written):
        if word not in allowed:
            fix = suggestion(word, allowed, noun="driver")
            section.note(f"drivers[{index}]", f"{word!r} is no driver that EKS has as an add-on.", fix)
    storage = EksStorage(
        default_class=section.flag("defaultClass", EksStorage().default_class),
        drivers=tuple(driver for driver in StorageDriver if driver.value in written),
    )
    section.close()
    return storage


def _access(section: Section) -> MappingProxyType[str, Access]:
    """A name -> the ARN of an administrator of the cluster, or a mapping with the principal and its
    rights.
    """
    found: dict[str, Access] = {}
    for name, value in section.items():
        if isinstance(value, str):
            found[name] = Access(principal=value, policy=AccessPolicy.CLUSTER_ADMIN)
            continue
        one = Section(value, at(section.path, name), section.found)
        principal = one.text("principal", required=True)
        policy = one.choice("policy", AccessPolicy, AccessPolicy.VIEW) if one.has("policy") else None
        groups = one.words("groups")
        one.close()
        if principal is not None:
            found[name] = Access(principal=principal, policy=policy, groups=groups)
    return MappingProxyType(found)
