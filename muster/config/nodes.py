"""Reads the keys of a pool's nodes beyond machine and count: zones, lifetime, image, disks, networks.

Responsible for the defaults, which come from the provider and the machine table.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from muster.config import bounds
from muster.model.capacity import Reservation
from muster.model.clusters import Cluster, EksCluster, Provider
from muster.model.machines import Machine
from muster.model.nodes import (
    BOOT_DISK_GIB,
    IMAGES,
    Image,
    ImagePull,
    LocalDisks,
    NetworkProfile,
    NodeNetwork,
    Placement,
)
from muster.model.section import Section, describe_value
from muster.model.violations import at


@dataclass(frozen=True, slots=True, kw_only=True)
class Nodes:
    """The part of a pool that this module reads; the fields are the pool's."""

    zones: tuple[str, ...]
    max_run: int | None
    image: Image | None
    boot_disk_gib: int
    local_disks: LocalDisks
    image_pull: ImagePull
    placement: Placement
    placement_group: str | None
    efa: bool
    networks: tuple[NodeNetwork, ...]
    network_profile: NetworkProfile | None
    labels: Mapping[str, str]


def parse_nodes(section: Section, machine: Machine | None, cluster: Cluster | None) -> Nodes:
    is_ours = cluster is not None and cluster.provider is not Provider.EXISTING
    images = IMAGES[cluster.provider] if cluster is not None else ()
    image = section.choice("image", Image, images[0] if images else Image.COS)
    # Auto Mode chooses interfaces and disks by itself.
    is_chosen = is_ours and not (isinstance(cluster, EksCluster) and cluster.is_auto)
    disks = LocalDisks.EPHEMERAL if is_chosen and machine and machine.local_disks else LocalDisks.NONE
    placement, group = _placement(section)
    return Nodes(
        zones=section.words("zones"),
        max_run=section.duration("maxRunDuration", 0) or None,
        image=image if images or section.has("image") else None,
        boot_disk_gib=section.integer("bootDiskGiB", BOOT_DISK_GIB, **bounds.BOOT_DISK_GIB) or BOOT_DISK_GIB,
        local_disks=section.choice("localDisks", LocalDisks, disks) or disks,
        image_pull=section.choice("imagePull", ImagePull, ImagePull.STANDARD) or ImagePull.STANDARD,
        placement=placement,
        placement_group=group,
        efa=section.flag("efa", is_chosen and machine is not None and machine.efa_by_default),
        networks=_networks(section),
        network_profile=(
            section.choice("networkProfile", NetworkProfile) if section.has("networkProfile") else None
        ),
        labels=section.texts("labels"),
    )


def parse_reservation(section: Section) -> Reservation | None:
    """A name or id, or a mapping with `name` and the `project` that shares it."""
    value = section.get("reservation")
    if not isinstance(value, Mapping):
        name = section.text("reservation")
        return None if name is None else Reservation(name=name)
    inner = section.section("reservation")
    name = inner.text("name", required=True)
    project = inner.text("project")
    inner.close()
    return None if name is None else Reservation(name=name, project=project)


def _placement(section: Section) -> tuple[Placement, str | None]:
    """A word, or a mapping with the existing `group` in which the nodes are compact."""
    if not isinstance(section.get("placement"), Mapping):
        return section.choice("placement", Placement, Placement.ANY) or Placement.ANY, None
    inner = section.section("placement")
    group = inner.text("group", required=True)
    inner.close()
    return Placement.COMPACT, group


def _networks(section: Section) -> tuple[NodeNetwork, ...]:
    """A list of mappings, in the order of the node's network cards."""
    value = section.get("networks")
    if value is None:
        return ()
    if not isinstance(value, list | tuple):
        fix = "write a list: [{network: ..., subnetwork: ...}]."
        section.note("networks", f"must be a list, is {describe_value(value)}.", fix)
        return ()
    found = []
    for index, entry in enumerate(value):
        one = Section(entry, at(section.path, "networks", index), section.found)
        network, subnetwork = one.text("network", required=True), one.text("subnetwork", required=True)
        one.close()
        if network is not None and subnetwork is not None:
            found.append(NodeNetwork(network=network, subnetwork=subnetwork))
    return tuple(found)
