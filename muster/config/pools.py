"""Reads `muster:pools`.

Responsible for the defaults: accelerator, GPU count, disks and EFA come from the machine table or from `node`
(own_node.py), image and provisioning class from the provider. Not responsible for which values are legal
(muster/validation).
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from muster.config.own_node import EXAMPLE, parse_own_node
from muster.model.capacity import PROVISIONING_CLASSES, Capacity
from muster.model.clusters import Cluster, EksCluster, Provider
from muster.model.keys import read
from muster.model.machines import Machine, machines_of
from muster.model.nodes import IMAGES, Image, LocalDisks, Placement, PlacementGroup
from muster.model.pools import MOST_GPUS_PER_NODE, Pool
from muster.model.section import Section
from muster.model.sharing import MIG_PROFILES, GpuSharing, Sharing
from muster.model.violations import suggestion
from muster.validation.machines import OF_A_MACHINE, Choice, beside_node, gpus_of, made_of


def parse_pool(section: Section, name: str, cluster: Cluster | None) -> Pool | None:
    """One pool, or None if it is malformed and was reported."""
    machine, gpus = _machine(section, cluster.provider if cluster else Provider.EXISTING)
    capacity, *fallback = _capacity(section)
    placement, group = _placement(section)
    pool = read(
        Pool,
        section,
        name=name,
        machine=machine,
        gpus_per_node=gpus,
        capacity=capacity,
        fallback=tuple(fallback),
        placement=placement,
        placement_group=group,
        **_node_defaults(section, machine, cluster),
    )
    if pool is None or machine is None:
        return None
    provisioning_class = pool.provisioning_class
    if provisioning_class is None and capacity is Capacity.QUEUED and cluster is not None:
        provisioning_class = PROVISIONING_CLASSES[cluster.provider][0]
    return replace(
        pool,
        provisioning_class=provisioning_class,
        sharing=_sharing(section, pool.sharing, machine),
        topology=pool.topology or next(iter(machine.topologies), None),
    )


def _node_defaults(section: Section, machine: Machine | None, cluster: Cluster | None) -> dict[str, Any]:
    """What follows from the provider and the machine where it is not written."""
    is_ours = cluster is not None and cluster.provider is not Provider.EXISTING
    images = IMAGES[cluster.provider] if cluster is not None else ()
    image = section.choice("image", Image, images[0] if images else Image.COS)
    # Auto Mode chooses interfaces and disks by itself.
    is_chosen = is_ours and not (isinstance(cluster, EksCluster) and cluster.is_auto)
    disks = LocalDisks.EPHEMERAL if is_chosen and machine and machine.local_disks else LocalDisks.NONE
    return {
        "image": image if images or section.has("image") else None,
        "local_disks": section.choice("localDisks", LocalDisks, disks) or disks,
        "efa": section.flag("efa", is_chosen and machine is not None and machine.efa_by_default),
    }


def _placement(section: Section) -> tuple[Placement, str | None]:
    """A word, or a mapping with the existing `group` in which the nodes are compact."""
    if not isinstance(section.get("placement"), Mapping):
        return section.choice("placement", Placement, Placement.ANY) or Placement.ANY, None
    placement = read(PlacementGroup, section.section("placement"))
    return Placement.COMPACT, placement.group if placement else None


def _capacity(section: Section) -> tuple[Capacity, ...]:
    """One way to buy nodes, or several in the order in which they are tried."""
    if not isinstance(section.get("capacity"), list):
        return (section.choice("capacity", Capacity, Capacity.ON_DEMAND) or Capacity.ON_DEMAND,)
    words = section.words("capacity")
    allowed = [each.value for each in Capacity]
    unknown = [word for word in words if word not in allowed]
    for word in unknown:
        fix = suggestion(word, allowed, noun="capacity")
        section.note("capacity", f"has {word!r}, which is not allowed.", fix)
    if len(set(words)) < len(words):
        section.note("capacity", "names one way to buy nodes twice.", "write each once.")
    return tuple(Capacity(word) for word in words if word not in unknown) or (Capacity.ON_DEMAND,)


def _machine(section: Section, provider: Provider) -> tuple[Machine | None, int]:
    """The pool's machine, None if it is malformed and was reported, and the GPUs of one node."""
    described = section.section("node")
    if section.has("node"):
        name = section.text("machine", example="g2-standard-8") if section.has("machine") else None
        machine = parse_own_node(described, provider, name or "")
        found = beside_node(section.path, provider, name, {key for key in OF_A_MACHINE if section.has(key)})
        section.found.extend(found)
        for key in OF_A_MACHINE:
            section.get(key)
        return (None, 0) if machine is None or found else (machine, sum(machine.gpu_counts))
    choice = _choice(section, provider)
    wrong = made_of(choice, section.path) if choice.machine else []
    section.found.extend(wrong)
    if not choice.machine or wrong:
        return None, 0
    return machines_of(provider)[choice.machine], gpus_of(choice)


def _choice(section: Section, provider: Provider) -> Choice:
    """The machine, accelerator and GPU count that the pool names. `machine` is "" when it is missing."""
    gpus = section.integer("gpusPerNode", -1, most=MOST_GPUS_PER_NODE)
    example = min(name for name, each in machines_of(provider).items() if each.accelerator == "nvidia-l4")
    may_describe = provider is Provider.EXISTING and not section.has("machine")
    if may_describe:
        fix = f"describe the nodes, `{EXAMPLE}`, or write `machine:` and a cloud's machine type."
        section.note("machine", "is missing.", fix)
    return Choice(
        provider=provider,
        machine=section.text("machine", required=not may_describe, example=example) or "",
        accelerator=section.text("accelerator", example="nvidia-l4"),
        gpus=None if gpus == -1 else gpus,
    )


def _sharing(section: Section, sharing: GpuSharing, machine: Machine) -> GpuSharing:
    """How a GPU is shared; the number of MIG instances follows from the profile."""
    if sharing.kind is not Sharing.MIG:
        return sharing
    if section.has("shares"):
        section.note("shares", "follows from the MIG profile.", "remove it.")
    profiles = MIG_PROFILES.get(machine.accelerator or "", {})
    return replace(sharing, shares=profiles.get(sharing.profile or "", 1))
